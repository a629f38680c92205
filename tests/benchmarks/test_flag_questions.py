"""The questions of the flags benchmark: their gold answers, and clues that contain no answer."""

import numpy as np
import pytest

from benchmarks.flag_questions import (
    UNKNOWN,
    benchmark_question,
    exact_match,
    make_question,
    normalise,
    parts,
)
from tools.demo_data.facts import countries
from tools.demo_data.flags import COUNTRIES
from tools.demo_data.texts import write_texts


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("Lisbon", "lisbon", True),
        ("the euro.", "euro", True),
        ("The United Kingdom", "United Kingdom", True),
        ("Spain and France", "France, Spain", True),
        ("Spain, France, and Italy", "Italy, Spain and France", True),
        ("Spain", "France and Spain", False),
        ("Spain, France and Italy", "France and Spain", False),
        ("83,900 square kilometres", "83,900 square kilometres", True),
        ("83900", "83,900", True),
        ("839", "83,900", False),
        ("", "euro", False),
        ("Washington D.C.", "Washington, D.C.", False),
        ("N’Djamena", "N'Djamena", True),
        ("unity and justice", "justice and unity", True),
    ],
)
def test_exact_match(answer, gold, right):
    assert exact_match(answer, [gold]) is right


def test_any_gold_answer_will_do_and_none_matches_nothing():
    assert exact_match("Washington", ["Washington, D.C.", "Washington"])
    assert not exact_match("Washington", [])


def test_normalise_and_parts():
    assert normalise("  The  Gulf of Aden, ") == "gulf of aden"
    assert parts("the Black Sea, the Sea of Azov and 1,200 lakes") == {
        "black sea",
        "sea of azov",
        "1200 lakes",
    }


def test_gold_answers_come_from_the_facts():
    rng = np.random.default_rng(0)

    def gold(country_id, topic):
        return make_question(rng, country_id, topic=topic).gold

    assert gold("ireland", "capital") == ("Dublin",)
    assert gold("ireland", "languages") == ("Irish and English",)
    assert gold("ireland", "neighbour") == ("United Kingdom",)
    assert gold("gabon", "flag year") == ("1960",)
    assert gold("united-states", "capital") == ("Washington, D.C.", "Washington")
    assert "41,300 square kilometres" in gold("switzerland", "area")
    with pytest.raises(KeyError):
        gold("switzerland", "waters")


def test_what_the_base_cannot_answer_is_in_no_text():
    prose = {
        word
        for c in countries().values()
        for text in write_texts(c)
        for word in normalise(text).split()
    }
    topics = {"population", "inhabitants", "anthem", "mountain", "dish", "airport", "rain"}
    assert not topics & prose
    assert not {"capital", "currency", "area"} & set(UNKNOWN)


def test_a_fifth_of_the_questions_has_no_answer_and_they_are_varied():
    questions = [benchmark_question(s, COUNTRIES[s % len(COUNTRIES)], None) for s in range(300)]
    assert sum(not q.answerable for q in questions) == 60
    assert len({q.text for q in questions}) > 50
    assert len({q.topic for q in questions if q.answerable}) == 12
    again = [benchmark_question(s, COUNTRIES[s % len(COUNTRIES)], None) for s in range(300)]
    assert again == questions


def test_with_two_flags_the_question_names_what_only_one_has():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        country, other = (countries()[str(c)] for c in rng.choice(COUNTRIES, 2, replace=False))
        question = make_question(rng, country.id, other=other.id)
        assert question.clue
        assert question.clue in question.text
        name = question.clue.removeprefix("the country ").split()[-1]
        assert name != other.capital
        if question.clue.startswith("the country that borders"):
            borders = [n for n in country.neighbours if question.clue.endswith(n)]
            assert borders
            assert not set(borders) & {other.name, *(other.neighbours or ())}


def test_no_question_gives_its_own_answer_away():
    for seed in range(400):
        rng = np.random.default_rng(seed)
        country, other = rng.choice(COUNTRIES, 2, replace=False)
        question = make_question(rng, str(country), other=str(other))
        clue = f" {normalise(question.clue)} "
        if question.topic in ("capital", "currency", "neighbour", "language", "water"):
            assert [g for g in question.gold if f" {normalise(g)} " in clue] == []
