"""Videos in a graph: their keyframes are pictures of the entity."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase
from ku_rag.graph import keyframes
from tests.conftest import picture, write_records
from tests.graph.test_keyframes import noisy, video

pytest.importorskip("av", reason="PyAV is not installed")


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "data").mkdir()
    video(tmp_path / "data" / "rush.mp4", draw=noisy)
    return write_records(
        tmp_path / "data" / "graph.jsonl",
        [
            {"entity": "Triple Rush", "kind": "attack", "videos": ["rush.mp4"]},
            {"head": "Triple Rush", "relation": "continues", "tail": "Bite"},
        ],
    )


@pytest.mark.parametrize("images", ["copy", "link"])
def test_frames_of_a_video_are_pictures_of_the_entity(tmp_path, graph, images):
    with KnowledgeBase.open(tmp_path / "kb", create=True, images=images) as kb:
        report = kb.graph.import_file(graph)
        assert (report.images_added, report.quarantined) == (6, [])
        details = kb.graph.show("Triple Rush").to_dict()
        assert len(details["images"]) == 6
        assert details["videos"] == [str(tmp_path / "data" / "rush.mp4")]
        again = kb.graph.import_file(graph)
        assert (again.units_unchanged, again.images_added) == (1, 0)
        assert kb.verify().problems == ()
        result = kb.search(image=details["images"][0]).to_dict()
        assert result["units"][0]["name"] == "Triple Rush"


def test_a_video_that_is_none_is_said_and_the_entity_kept(tmp_path, graph):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.graph.import_file(graph)
        (tmp_path / "data" / "rush.mp4").write_bytes(b"no video")
        report = kb.graph.import_file(graph)
        assert "rush.mp4" in report.quarantined[0].reason
        assert len(kb.graph.show("Triple Rush").to_dict()["images"]) == 6


def test_given_keyframes_go_before_those_that_are_taken(tmp_path, graph):
    picture(tmp_path / "data" / "frame.png", 3)
    write_records(
        graph,
        [
            {"entity": "Triple Rush", "videos": ["rush.mp4"], "keyframes": ["frame.png"]},
            {"head": "Triple Rush", "relation": "continues", "tail": "Bite"},
        ],
    )
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        assert kb.graph.import_file(graph).images_added == 1


def test_without_the_extra_the_rest_is_taken_in(tmp_path, graph, monkeypatch):
    def missing(name, *_):
        from ku_rag.errors import MissingExtra

        raise MissingExtra(f"the extra {name} is not installed")

    monkeypatch.setattr(keyframes, "extra", missing)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        report = kb.graph.import_file(graph)
        assert "video" in report.quarantined[0].reason
        assert (report.units_added, report.relations_added) == (1, 1)
