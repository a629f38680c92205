from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.answering.calibration import choose_threshold, fit_intercept
from ku_rag.errors import BadInput

QUESTION = "Where does it come from?"


def blocks(seed: int) -> Image.Image:
    grid = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(grid).resize((120, 90), Image.Resampling.NEAREST)


def scene(seed: int) -> Image.Image:
    """Blocks on plain ground, a little darker than they are stored."""
    image = Image.new("RGB", (320, 240), (90, 110, 130))
    image.paste(blocks(seed), (100 + seed, 60 + seed))
    return image.point(lambda value: value * 0.9)


@pytest.fixture
def kb(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for seed in range(8):
            blocks(seed).save(tmp_path / f"{seed}.png")
            kb.add(
                Unit(
                    f"Lamp {seed}",
                    id=str(seed),
                    texts=(f"Lamp {seed}\nOrigin: Land {seed}",),
                    images=(tmp_path / f"{seed}.png",),
                )
            )
        yield kb


def labelled(folder, known, unknown):
    records = []
    for seed in (*known, *unknown):
        scene(seed).save(folder / f"scene {seed}.png")
        units = [str(seed)] if seed in known else []
        records.append(json.dumps({"image": f"scene {seed}.png", "units": units}))
    file = folder / "pictures.jsonl"
    file.write_text("\n".join(records), encoding="utf-8")
    return file


def test_a_known_thing_has_more_confidence_than_an_unknown_one(kb):
    known, unknown = (kb.query(scene(seed), QUESTION).units[0] for seed in (3, 40))
    assert 0 <= unknown.confidence < known.confidence <= 1
    assert known.id == "3"
    assert known.score == known.confidence


def test_below_the_threshold_no_fact_is_stated(kb):
    sure = kb.query(scene(3), QUESTION)
    assert sure.answer == "Land 3"
    with KnowledgeBase.open(kb.path, confidence_threshold=1.0) as strict:
        unsure = strict.query(scene(3), QUESTION)
        named = strict.query(scene(3), "Where does Lamp 5 come from?")
    assert unsure.answer == ""
    assert unsure.to_dict()["citations"] == []
    assert "looks most like Lamp 3" in unsure.reading.why
    assert "not in the knowledge base" in unsure.reading.why
    assert (named.answer, named.units[0].confidence) == ("Land 5", 1.0)


def test_labelled_pictures_set_the_confidence(kb, tmp_path):
    before = kb.query(scene(3), QUESTION).units[0].confidence
    file = labelled(tmp_path, range(8), range(40, 52))
    tuned = kb.tune_confidence(file)
    assert (tuned.pictures, tuned.right) == (20, 8)
    assert tuned.right_kept >= 0.8
    assert tuned.wrong_declined >= 0.8
    after = kb.query(scene(3), QUESTION).units[0].confidence
    assert after != before
    with KnowledgeBase.open(kb.path) as again:
        assert again.query(scene(3), QUESTION).units[0].confidence == after


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"image": "a.png"}', "lacks an image or units"),
        ('{"image": "a.png", "units": []}', "'a.png' is not there"),
        ("[]", "expected an object"),
        ("", "0 pictures match something, 0 of them their unit: expected at least 20"),
    ],
)
def test_wrong_records_are_refused(kb, tmp_path, line, expected):
    file = tmp_path / "pictures.jsonl"
    file.write_text(line, encoding="utf-8")
    with pytest.raises(BadInput, match=expected):
        kb.tune_confidence(file)


def test_the_intercept_is_that_of_the_labels():
    rng = np.random.default_rng(0)
    evidence = rng.normal(6, 2, 4000)
    right = rng.random(4000) < 1 / (1 + np.exp(-(evidence - 7)))
    assert fit_intercept(evidence, right) == pytest.approx(-7, abs=0.15)
    assert fit_intercept(evidence[:0], right[:0], -3.0) == pytest.approx(-3.0)


def test_the_intercept_of_matches_that_all_look_good_is_their_log_odds():
    right = np.arange(30) < 20
    assert fit_intercept(np.full(30, 10.0), right) == pytest.approx(-9.2, abs=0.2)


def test_the_threshold_loses_at_most_a_tenth_of_right_matches():
    assert choose_threshold(np.linspace(0.01, 1, 100)) == pytest.approx(0.1)
    assert choose_threshold([0.9, 0.95]) == 0.5
