"""Moving a base to another encoder: complete, resumable, and served by the old one meanwhile."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

import ku_rag
from ku_rag import BadInput, KnowledgeBase, Mismatch, Relation, Unit
from tests.conftest import everywhere, lists, picture, write_records

LIMIT = 8


class Small:
    """An encoder of eight tokens a text and four numbers a vector, which records its input."""

    dim, max_tokens, cross_modal, fingerprint = 4, LIMIT, False, "small:4"

    def __init__(self, fail_after=10**9):
        self.encoded = []
        self.fail_after = fail_after

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        assert all(self.count_tokens(text) <= LIMIT for text in texts)
        if len(self.encoded) + len(texts) > self.fail_after:
            raise KeyboardInterrupt
        self.encoded += texts
        return self._vectors([text.encode() for text in texts])

    def encode_images(self, images):
        self.encoded += images
        return self._vectors([image.tobytes() for image in images])

    def encode_regions(self, image, boxes):
        return self.encode_images([image.crop(box) for box in boxes])

    def _vectors(self, contents):
        rows = [np.frombuffer(hashlib.sha256(c).digest()[:16], np.uint8) for c in contents]
        vectors = np.array(rows, np.float32).reshape(len(contents), 16)[:, :4] + 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fill(kb, folder, units=70):
    records = [
        {
            "id": f"u{n}",
            "name": f"Thing{n}",
            "text": f"Thing{n} stands near Thing{(n + 1) % units}. It was made long ago by people "
            f"who are not known any more. Its number is {n}.",
            "images": [picture(folder / f"{n}.png", n).name],
        }
        for n in range(units)
    ]
    return kb.ingest(write_records(folder / "units.jsonl", records))


def test_a_base_brought_over_is_what_a_new_one_would_be(tmp_path):
    with KnowledgeBase.open(tmp_path / "old", create=True) as kb:
        fill(kb, tmp_path / "data")
        report = kb.reindex(Small()).to_dict()
        assert (report["encoder"], report["images"]) == ("small:4", 70)
        assert report["chunks"] == kb.stats().counts["chunks"] > 140
        assert kb.verify().problems == ()
        brought = lists(kb)
    with KnowledgeBase.open(tmp_path / "new", create=True, encoder=Small()) as kb:
        kb.ingest(tmp_path / "data" / "units.jsonl")
        assert lists(kb) == brought
    with KnowledgeBase.open(tmp_path / "old", encoder=Small()) as kb:
        again = kb.ingest(tmp_path / "data" / "units.jsonl")
        assert (again.units_unchanged, again.chunks_added) == (70, 0)
        assert kb.search(image=tmp_path / "data" / "7.png").units[0].id == "u7"
    with pytest.raises(Mismatch, match="was made with encoder small:4"):
        KnowledgeBase.open(tmp_path / "old")


def test_a_base_goes_there_and_back_again(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data", 5)
        before, rows = lists(kb), dict(everywhere(kb))
        kb.reindex(Small())
        kb.reindex("embedded")
        assert lists(kb) == before
        assert kb.verify().ok
        assert rows.keys() == dict(everywhere(kb)).keys()
        assert kb.query(tmp_path / "data" / "3.png", "What is its number?").units[0].id == "u3"


def test_a_run_that_was_stopped_goes_on_and_the_old_encoder_serves_meanwhile(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data", 130)
        every = Small()
        with pytest.raises(KeyboardInterrupt):
            kb.reindex(Small(fail_after=200))
        assert kb.stats().encoder.startswith("embedded")
        assert kb.search(text="Thing3").units[0].id == "u3"
        assert kb.verify().ok
        rest = Small()
        report = kb.reindex(rest).to_dict()
        texts = {text for text in rest.encoded if isinstance(text, str)}
        with KnowledgeBase.open(tmp_path / "all", create=True, encoder=every) as expected:
            expected.ingest(tmp_path / "data" / "units.jsonl")
        assert 0 < len(texts) < sum(isinstance(text, str) for text in every.encoded)
        assert report["images"] == 130
        assert kb.verify().ok


def test_what_is_written_and_deleted_during_a_stop_is_heeded(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data", 130)
        with pytest.raises(KeyboardInterrupt):
            kb.reindex(Small(fail_after=200))
        kb.update("u1", texts=["Entirely new words about it."])
        kb.add(Unit("Late", id="late", texts=("It came late.",), relations=(Relation("a", "u1"),)))
        kb.delete(["u2"])
        assert not kb._database.connection.execute(
            "SELECT 1 FROM shadows h LEFT JOIN sources s ON s.row = h.source WHERE s.row IS NULL"
        ).fetchall()
        kb.reindex(Small())
        assert kb.verify().problems == ()
        assert {text for text, owned in lists(kb)["u1"] if owned} == {
            "Entirely new words about it."
        }
        assert "late" in lists(kb)
        assert "u2" not in lists(kb)


def test_another_goal_forgets_the_first(tmp_path):
    class Other(Small):
        fingerprint = "other:4"

    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data", 130)
        with pytest.raises(KeyboardInterrupt):
            kb.reindex(Small(fail_after=200))
        kb.reindex(Other())
        assert kb.verify().ok
        assert not [value for _, value in everywhere(kb) if value == "small:4"]


def test_pictures_that_are_gone_keep_the_old_encoder(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True, images="link") as kb:
        fill(kb, tmp_path / "data", 5)
        (tmp_path / "data" / "2.png").unlink()
        with pytest.raises(BadInput, match=r"cannot be read any more, the first: .*2\.png"):
            kb.reindex(Small())
        assert kb.stats().encoder.startswith("embedded")
        assert kb.search(text="Thing3").units[0].id == "u3"


def test_an_object_that_was_open_meanwhile_says_so(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data", 5)
        with KnowledgeBase.open(tmp_path / "kb") as stale:
            kb.reindex(Small())
            with pytest.raises(Mismatch, match="small:4"):
                stale.search(text="Thing3")
            with pytest.raises(Mismatch, match="small:4"):
                stale.add(Unit("New"))


def test_regions_are_proposed_as_suits_the_new_encoder(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data", 5)
        assert kb.segmenter.name == "windows"
        kb.reindex(Small())
        assert kb.segmenter.name == "whole"
        assert kb.query(tmp_path / "data" / "3.png", "What is its number?").units[0].id == "u3"


def test_only_the_side_that_changes_is_encoded(tmp_path):
    from ku_rag.encoders.pair import Paired

    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data", 5)
        small = Small()
        report = kb.reindex(Paired(small, ku_rag.load_encoder("embedded"))).to_dict()
        assert (report["images"], all(isinstance(item, str) for item in small.encoded)) == (0, True)
        assert kb.verify().ok
        assert kb.query(tmp_path / "data" / "3.png", "What is its number?").units[0].id == "u3"


def test_the_command_mends_a_base_of_another_version(tmp_path):
    """The encoder of a base may no longer exist; only its fingerprint is known."""
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data", 5)
        fingerprint = kb.encoder.fingerprint
        with kb._database.change() as connection:
            connection.execute("UPDATE encoders SET fingerprint = 'embedded:0:512'")
            meta = kb._database.meta("encoder")
            meta["fingerprint"] = "embedded:0:512"
            meta["sides"] = {kind: ["embedded:0:512", 512] for kind in ("chunk", "image")}
            connection.execute(
                "UPDATE meta SET value = ? WHERE key = 'encoder'", (json.dumps(meta),)
            )

    def ku(*arguments):
        command = [sys.executable, "-m", "ku_rag", *arguments, "--kb", str(tmp_path / "kb")]
        return subprocess.run(command, capture_output=True, text=True)

    stats = ku("stats")
    assert stats.returncode == 4
    assert "ku reindex --encoder" in stats.stderr
    process = ku("reindex", "--encoder", "embedded", "--json")
    assert (process.returncode, process.stderr) == (0, "")
    assert json.loads(process.stdout)["encoder"] == fingerprint
    assert json.loads(ku("verify", "--json").stdout)["ok"]
    assert ku("stats").returncode == 0
