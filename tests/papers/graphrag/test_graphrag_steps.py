"""The published method end to end, and an independent check of its equations."""

from __future__ import annotations

from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import NotFound
from ku_rag.papers.graphrag.clue_selection import edit_distance
from tests.conftest import picture
from tests.endpoint import says, serving
from tests.papers.graphrag.test_construction import (
    DIXON,
    Cast,
    base,
    build,
    dixon_cast,
    role_of,
    songs,
)
from tests.papers.transcripts import check_transcript

__all__ = ["songs"]
ANSWER = {"reason": "The picture shows it.", "answer": "He is smiling.", "items": []}


def ask(folder, cast, question=DIXON, **options):
    with KnowledgeBase.open(folder, read_only=True, mllm=cast.model) as kb:
        return kb.query(None, question, strict="graphrag", **options)


def levenshtein(first, second):
    """Edit distance by the recurrence of its definition."""
    row = list(range(len(second) + 1))
    for n, letter in enumerate(first, 1):
        above, row[0] = row[:], n
        for m, with_letter in enumerate(second, 1):
            cost = above[m - 1] + (letter != with_letter)
            row[m] = min(above[m] + 1, row[m - 1] + 1, cost)
    return row[-1]


def test_the_answer_rests_on_the_question_and_the_graph(songs, request):
    cast = dixon_cast(correction=ANSWER)
    answer = ask(songs, cast)
    assert (answer.answer, answer.outcome, answer.chunks) == ("He is smiling.", "answered", ())
    graph = answer.evidence_graph.graph
    assert {path.entities[0] for path in answer.paths} <= {n.name for n in graph.nodes.values()}
    last = cast.model.requests[-1].messages
    assert (len(last), last[0].pictures) == (1, ())
    assert answer.models["prompts"] == "evidence_answer 1"
    check_transcript(cast.model, Path(__file__).with_name("transcript.txt"), request)


@pytest.mark.usefixtures("own_surroundings")
def test_another_model_takes_the_roles_that_see_pictures(songs, tmp_path):
    cast = dixon_cast(correction=ANSWER)
    with serving(by=lambda _: says("Billy Joel is smiling.")) as vision:
        eyes = {"vision_mllm": "v-1", "vision_mllm_url": vision.url}
        with KnowledgeBase.open(songs, read_only=True, mllm=cast.model, **eyes) as kb:
            answer = kb.query(picture(tmp_path / "q.png", 5), DIXON, strict="graphrag")
    assert all(message.pictures == () for r in cast.model.requests for message in r.messages)
    assert "What does he do?" in vision.texts(0)[0]
    assert [len(vision.pictures(n)) for n in range(len(vision.bodies))] == [1, 1]
    assert '{"shown": "Billy Joel is smiling."}' in cast.model.requests[-1].messages[-1].text
    assert answer.correction.caption == "Billy Joel is smiling."
    assert answer.correction.notes == ("the model was sent no pictures",)


def test_lists_are_answers_with_items(songs):
    cast = dixon_cast(correction={**ANSWER, "answer": "a, b", "items": ["a", " b ", ""]})
    assert ask(songs, cast).reading.items == ("a", "b")


def test_it_needs_a_model(songs):
    with (
        KnowledgeBase.open(songs, read_only=True) as kb,
        pytest.raises(NotFound, match="name one with --mllm"),
    ):
        kb.query(None, DIXON, strict="graphrag")


@pytest.mark.parametrize(
    ("name", "title"), [("Colton Dixon", "Colton Dixon performances"), ("Nightwing", "nightwing")]
)
def test_edit_distance_of_names(name, title):
    expected = levenshtein(name.lower(), title.lower()) / max(len(name), len(title))
    assert edit_distance(name, title) == pytest.approx(expected)


def test_a_title_below_the_threshold_anchors_a_table(songs):
    graph = ask(songs, dixon_cast(correction=ANSWER)).evidence_graph.graph
    related = {(e.source.partition(":")[0], e.target) for e in graph.edges if "relat" in e.relation}
    assert ("table", "text:colton dixon") in related  # the paper's own example


def test_rounds_end_as_in_algorithm_1(songs):
    """Judged at most t_max times, each followed by augmentation and expansion, changed or not."""
    cast = dixon_cast(correction=ANSWER, sufficiency={"reason": "More.", "enough": False})
    search = ask(songs, cast).evidence_graph
    assert (search.enough, cast.roles().count("sufficiency")) == (False, 3)
    ours = dixon_cast(sufficiency={"reason": "More.", "enough": False})
    assert build(songs, ours).stopped.startswith("nothing was left to add")


def test_the_pattern_is_updated_with_what_is_missing(tmp_path):
    folder = base(tmp_path / "kb", [Unit("Ann", texts=("Ann plays the harp in Oslo.",))])
    types = iter((["person"], ["person", "instrument"]))

    def facts(lines):
        names = {"person": "Ann", "instrument": "harp"}
        kinds = lines[0]["entity_types"]
        rows = [{"name": names[kind], "type": kind, "description": ""} for kind in kinds]
        return {"entities": rows, "relations": []}

    class UpdatingCast(Cast):
        def reply(self, request):
            if role_of(request) != "pattern":
                return super().reply(request)
            return {"entity_types": next(types), "relations": [], "keywords": []}

    cast = UpdatingCast(
        extraction=facts,
        sufficiency=lambda lines: {"reason": "No instrument.", "enough": "harp" in str(lines)},
        correction=ANSWER,
    )
    search = ask(folder, cast, "What does Ann play?").evidence_graph
    assert search.pattern.types == ("person", "instrument")
    update = [r for r in cast.model.requests if role_of(r) == "pattern"][1].messages[-1].text
    assert '"missing": "No instrument."' in update
