"""Questions in everyday words and their answers from the records of a boat yard."""

from __future__ import annotations

import json

import pytest

from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture

RECORDS = [
    {
        "id": "B-1",
        "name": "Merry Dancer",
        "kind": "sailing yacht",
        "texts": ["Sail number: 417-22"],
        "metadata": {
            "length_m": 8.2,
            "year_built": 1936,
            "asking_price_gbp": 28500,
            "for_sale": True,
            "draught": "1,1 m",
            "surveyed": "2024-05-02",
        },
        "relations": [
            {"relation": "owned by", "target": "Barnaby Thrupp", "target_kind": "owner"},
            {"relation": "lies at", "target": "Berth A2", "target_kind": "berth"},
        ],
    },
    {
        "id": "B-2",
        "name": "Brassica",
        "kind": "motor cruiser",
        "metadata": {
            "length_m": 11.8,
            "year_built": 2004,
            "asking_price_gbp": 64000,
            "for_sale": True,
            "draught": "0.9 m",
        },
        "relations": [
            {"relation": "owned by", "target": "Saltreach Yard"},
            {"relation": "lies at", "target": "Berth B1", "target_kind": "berth"},
        ],
    },
    {
        "id": "B-3",
        "name": "Pickle",
        "kind": "dinghy",
        "metadata": {"length_m": 3.1, "asking_price_gbp": 750, "oars_included": True},
        "relations": [
            {"relation": "owned by", "target": "Barnaby Thrupp", "target_kind": "owner"},
            {"relation": "tender to", "target": "Merry Dancer"},
        ],
    },
    {
        "id": "A-2",
        "name": "Berth A2",
        "kind": "berth",
        "metadata": {"electricity": True, "depth_m": 2.4, "rent_gbp_per_year": 1900},
        "relations": [{"relation": "managed by", "target": "Imogen Sallow"}],
    },
]


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    folder = tmp_path_factory.mktemp("yard")
    file = folder / "boats.jsonl"
    file.write_text("\n".join(map(json.dumps, RECORDS)), "utf-8")
    with KnowledgeBase.open(folder / "kb", create=True) as base:
        base.ingest(file)
        yield base


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        # Parts of names, of units and of other entities
        ("What does the Dancer cost?", "28500 gbp"),
        ("Which boats belong to Barnaby?", "Merry Dancer, Pickle"),
        ("What does the Berth cost?", ""),
        ("How long is the Thunder Dancer?", ""),
        # Words with little content, and verbs whose subject is the user
        ("how much would somebody have to pay for Pickle", "750 gbp"),
        ("When was Merry Dancer last surveyed?", "2024-05-02"),
        ("Do I get oars with Pickle?", "yes"),
        ("Does Pickle fly?", ""),
        ("When was Pickle surveyed?", ""),
        # A sentence before the question
        ("The bilge is full. Who owns Brassica?", "Saltreach Yard"),
        # Wordings, and the direction that the relation has
        ("How deep does Merry Dancer sit in the water?", "1,1 m"),
        ("Where is Brassica moored?", "Berth B1"),
        ("Who looks after Berth A2?", ""),
        ("Who is in charge of Brassica?", ""),
        # Relations by their preposition alone
        ("What can I see at Berth A2?", "Merry Dancer"),
        # Of two readings, the one that covers more of the question
        ("How long is the boat that Pickle is tender to?", "8.2 m"),
        # Limits without a label, two limits, comparisons
        ("Anything under 1,000 pounds?", ""),
        ("Which boats are under 1,000 gbp?", "Pickle"),
        ("boats between 3 and 9 m in length please", "Merry Dancer, Pickle"),
        ("Which boats are longer than ten metres?", "Brassica"),
        ("boats for sale under 30000 gbp", "Merry Dancer"),
        ("Which is longer, Pickle or Brassica?", "Brassica"),
        ("Does Merry Dancer or Brassica draw less?", "Brassica"),
        # Superlatives, kinds by their last word, nouns of the file
        ("dearest boat?", "Brassica"),
        ("Name the oldest boat.", "Merry Dancer"),
        ("What is the dearest aeroplane?", ""),
        ("How many yachts are for sale?", "1"),
        ("How many trains are for sale?", ""),
        ("Do you have boats with oars?", "Pickle"),
        ("Pickle, what length is it?", "3.1 m"),
        # Values that are codes
        ("417-22, which boat is that?", "Merry Dancer"),
        # Questions that a flag or an amount does not answer
        ("Which oars does Pickle have?", ""),
        ("Who is the price of Pickle?", ""),
    ],
)
def test_questions(kb, question, answer):
    assert kb.query(None, question).answer == answer


def test_an_alias_and_its_unit(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Shelduck", id="s", aliases=("Tadorna tadorna",), metadata={"colour": "white"}))
        assert kb.query(None, "Tadorna tadorna, which bird is that?").answer == "Shelduck"
        assert kb.query(None, "Tadorna tadorna, which of these is that?").answer == "Shelduck"
        assert kb.query(None, "Tadorna tadorna, which colour is it?").answer == "white"


@pytest.mark.parametrize(
    ("prices", "dearest"),
    [(("5 EUR", "7 EUR"), "B"), (("5 EUR", "7"), "B"), (("5 EUR", "7 USD"), "")],
)
def test_prices_in_several_currencies_are_not_compared(tmp_path, prices, dearest):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for name, price in zip("AB", prices, strict=True):
            kb.add(Unit(name, id=name, kind="lamp", metadata={"price": price}))
        assert kb.query(None, "Which is the dearest lamp?").answer == dearest


def test_a_noun_beside_a_picture_is_what_it_shows(tmp_path):
    photo = picture(tmp_path / "shown.png", 3)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Aurora lamp", id="a", metadata={"weight": "3 kg"}))
        kb.add(Unit("Sun", id="s", metadata={"price": "5 EUR"}, images=(photo,)))
        assert kb.query(None, "How heavy is the lamp?").answer == "3 kg"
        assert kb.query(photo, "How heavy is the lamp?").answer == ""
