from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.answering.calibration import choose_threshold, fit_odds
from ku_rag.errors import BadInput

QUESTION = "Where does it come from?"


def blocks(seed: int) -> Image.Image:
    grid = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(grid).resize((120, 90), Image.Resampling.NEAREST)


def scene(seed: int) -> Image.Image:
    """Blocks on a plain background, slightly darker than the stored picture."""
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
        by_name = strict.query(scene(3), "Where does Lamp 5 come from?")
    assert unsure.answer == ""
    assert unsure.to_dict()["citations"] == []
    assert "looks most like Lamp 3" in unsure.reading.why
    assert "not in the knowledge base" in unsure.reading.why
    assert (by_name.answer, by_name.units[0].confidence) == ("Land 5", 1.0)


def test_labelled_pictures_set_the_confidence(kb, tmp_path):
    before = kb.query(scene(60), QUESTION).units[0].confidence
    file = labelled(tmp_path, range(8), range(40, 52))
    tuned = kb.tune_confidence(file)
    assert (tuned.pictures, tuned.known, tuned.right) == (20, 8, 8)
    assert tuned.right_kept >= 0.8
    assert tuned.wrong_declined >= 0.8
    assert 0 <= tuned.right_kept_before <= 1
    assert tuned.wrong_declined_before <= tuned.wrong_declined
    after = kb.query(scene(60), QUESTION).units[0].confidence
    assert after != before
    with KnowledgeBase.open(kb.path) as again:
        assert again.query(scene(60), QUESTION).units[0].confidence == after


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


def test_slope_and_intercept_are_those_of_the_labels():
    rng = np.random.default_rng(0)
    evidence = rng.normal(6, 2, 4000)
    right = rng.random(4000) < 1 / (1 + np.exp(-(1.5 * evidence - 8)))
    assert fit_odds(evidence, right) == pytest.approx((1.5, -8), abs=0.3)
    assert fit_odds(evidence[:0], right[:0], -3.0) == pytest.approx((1, -3))


def test_evidence_that_says_nothing_gives_the_share_of_right_matches():
    rng = np.random.default_rng(0)
    evidence = rng.normal(7, 2, 400)
    slope, intercept = fit_odds(evidence, np.arange(400) % 4 > 0)
    probabilities = 1 / (1 + np.exp(-(slope * evidence + intercept)))
    assert 0 < slope < 0.3
    assert probabilities.mean() == pytest.approx(0.75, abs=0.01)


def test_few_labels_change_the_odds_little():
    slope, intercept = fit_odds(np.array([4.0, 9.0]), np.array([False, True]), -6.4)
    assert slope == pytest.approx(1, abs=0.1)
    assert intercept == pytest.approx(-6.4, abs=0.7)


def test_matches_that_all_look_good_get_the_share_of_right_ones():
    slope, intercept = fit_odds(np.full(30, 10.0), np.arange(30) < 20)
    assert 1 / (1 + np.exp(-(slope * 10 + intercept))) == pytest.approx(2 / 3, abs=0.03)


def test_the_threshold_has_the_least_cost():
    probabilities = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    right = np.array([False, True, False, True, True])
    assert choose_threshold(probabilities, right, cost=4) == pytest.approx(0.6)
    assert choose_threshold(probabilities, right, cost=0.5) == pytest.approx(0.2)
    assert choose_threshold(probabilities, right & False) == pytest.approx(0.95)
    assert choose_threshold(probabilities, right | True) == pytest.approx(0.05)


def test_labels_that_do_not_separate_are_refused_and_change_nothing(kb, tmp_path):
    file = labelled(tmp_path, range(8), range(40, 52))
    rng = np.random.default_rng(2)
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    # Random labels: half of the pictures are labelled with the unit that they match.
    for line in lines:
        image = tmp_path / line["image"]
        looks_like = kb.query(image, QUESTION).units[0].id
        line |= {"image": str(image), "units": [looks_like] if rng.random() < 0.5 else []}
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    before = kb.query(scene(60), QUESTION).units[0].confidence
    with pytest.raises(BadInput, match=r"does not tell the \d+ right matches from the others"):
        kb.tune_confidence(file)
    assert kb.query(scene(60), QUESTION).units[0].confidence == before
