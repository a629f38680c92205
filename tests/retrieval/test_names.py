"""Names in a question: longest matches, plurals, misspellings and parts of longer names."""

import pytest

from ku_rag import Relation, Unit
from ku_rag.retrieval.names import find_names


@pytest.fixture
def names(kb):
    kb.add_many(
        [
            Unit("Marsh", id="m", texts=("Area: 3 ha",)),
            Unit("Heron", id="h"),
            Unit("Marsh heron", id="mh", relations=(Relation("sold by", "Turners and Growers"),)),
            Unit("Aurora lamp", id="l", aliases=("AL-200",)),
            Unit("Plants", id="p"),
            Unit("HMS Otter (55)", id="o"),
            Unit("Mercury (planet)", id="mp"),
            Unit("Mercury (element)", id="me"),
        ]
    )
    return lambda question: find_names(kb._database.connection, question)


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("What does the Marsh heron eat?", ["marsh heron"]),
        ("What do marsh herons eat?", ["marsh heron"]),
        ("What does the Marsch heron eat?", ["marsh heron"]),
        ("what does the marsh herron eat", ["marsh heron"]),
        ("Which birds do Turners and Growers sell?", ["turners and growers"]),
        ("How heavy is the Aurora AL-200?", ["al 200"]),
        ("How heavy is the Aurora AL-201?", []),
        ("How long is the Night Heron?", []),
        ("How long is the Heron Island?", []),
        ("How long is Dr Heron?", ["heron"]),
        ("When was HMS Otter launched?", ["hms otter 55"]),
        ("How heavy is Mercury?", []),
        ("HOW BIG IS THE MARSH?", ["marsh"]),
        ("How many planets?", []),
        ("", []),
    ],
)
def test_whole_names_are_found(names, question, keys):
    assert [span.key for span in names(question).spans] == keys


def test_a_similar_name_is_suggested(kb, names):
    assert names("How long is the Night Heron?").similar == {"Night Heron": "heron"}
    assert names("How many planets?").similar == {"planets": "plants"}
    kb.add(Unit("Herod", id="hd"))
    assert names("How long is Herot?").similar == {"herot": "heron"}  # Herod is equally similar
    answer = kb.query(None, "How long is the Night Heron?")
    assert (answer.answer, "did you mean 'heron'?" in answer.reading.why) == ("", True)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who sells the lamp?", ["l"]),
        ("Who sells a lamp?", []),
        ("How old is the aurora?", ["l"]),
        ("How old is an aurora?", []),
        ("Is the lamp heavier than a heron?", ["h", "l"]),
    ],
)
def test_words_of_one_name_alone_stand_for_it(kb, names, question, expected):
    units = kb.query(None, question).units
    assert [unit.id for unit in units if unit.named] == expected


def test_words_of_two_names_stand_for_neither(kb, names):
    kb.add(Unit("Reading lamp"))
    units = kb.query(None, "Who sells the lamp?").units
    assert [unit.id for unit in units if unit.named] == []


def test_parts_of_many_names_are_not_compared(kb, names, monkeypatch):
    monkeypatch.setattr("ku_rag.retrieval.names._MOST_NAMES", 3)
    units = kb.query(None, "Who sells the lamp?").units
    assert [unit.id for unit in units if unit.named] == []
