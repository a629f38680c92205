"""Answers from the graph, and questions that the graph does not answer."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase, Relation, ScriptedMLLM, Unit
from ku_rag.graph.model import Graph
from ku_rag.reading.named_units import trace


def country(name, currency, language, *borders):
    return Unit(
        name,
        id=name.lower(),
        kind="country",
        texts=(f"{name} lies on a sea.",),
        relations=(
            *(Relation("borders", neighbour, "country") for neighbour in borders),
            Relation("currency", currency, "currency"),
            Relation("language", language, "language"),
        ),
    )


@pytest.fixture
def kb(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(
            [
                country("Arland", "euro", "Arish", "Borland", "Corland", "Dorland", "Eland"),
                country("Borland", "euro", "Borish", "Arland"),
                country("Corland", "crown", "Arish", "Arland"),
                country("Dorland", "euro", "Arish", "Arland"),
            ]
        )
        yield base


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Which neighbours of this country use the euro?", ("Borland", "Dorland")),
        ("Which countries border Arland and speak Arish?", ("Corland", "Dorland")),
        ("Which countries does it border?", ("Borland", "Corland", "Dorland", "Eland")),
        ("What is the currency of this country?", ("euro",)),
        ("Which language is spoken here?", ("Arish",)),
        ("Which neighbours of this country do not use the euro?", None),
        ("How many neighbours of this country use the euro?", ("2",)),
        ("What is the largest neighbour that uses the euro?", None),
        ("Which neighbours of this country use the yen?", None),
        ("What is the currency of its neighbours?", ("euro", "crown")),
        ("Who is the president?", None),
        ("What is this?", None),
        ("", None),
    ],
)
def test_words_lead_along_relations_or_nowhere(kb, question, answers):
    graph = Graph(kb._database.connection, kb._layout)
    (start,) = (entity for entity in graph.find("Arland") if entity.unit)
    reading = trace(graph, start, question)
    assert (reading and reading.answers) == answers


@pytest.fixture
def museum(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(
            [
                Unit(
                    "Red Amphora",
                    id="amphora",
                    kind="object",
                    relations=(
                        Relation("made by", "exekias"),
                        Relation("stands in", "hall", condition="in summer"),
                        Relation("stands in", "cellar", condition="in winter"),
                    ),
                ),
                Unit(
                    "Exekias", id="exekias", kind="person", relations=(Relation("lived in", "a"),)
                ),
                Unit("Athens", id="a", kind="city"),
                Unit("Hall", id="hall", kind="room"),
                Unit("Cellar", id="cellar", kind="room"),
            ]
        )
        yield base


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Who made the Red Amphora?", ("Exekias",)),
        ("Which city did the maker of the Red Amphora live in?", ("Athens",)),
        ("Where did the person who made the Red Amphora live?", ("Athens",)),
        ("Where does the Red Amphora stand?", ("Hall", "Cellar")),
        ("Where does the Red Amphora stand in winter?", ("Cellar",)),
        ("In how many rooms does the Red Amphora stand?", ("2",)),
        ("What does the Red Amphora stand in?", ("Hall", "Cellar")),
        ("Does the Red Amphora stand in the Hall?", ("yes",)),
        ("Does the Red Amphora stand in the Attic?", None),
    ],
)
def test_relations_are_followed_as_far_as_the_question_goes(museum, question, answers):
    graph = Graph(museum._database.connection, museum._layout)
    reading = trace(graph, graph.find("Red Amphora")[0], question)
    assert (reading and reading.answers) == answers


def test_a_city_is_no_country(museum):
    assert museum.query(None, "Which city did Exekias live in?").answer == "Athens"
    assert museum.query(None, "Which country did Exekias live in?").answer == ""


@pytest.fixture
def monsters(tmp_path):
    def monster(name, weaknesses, **relations):
        links = [Relation("weakness", weakness) for weakness in weaknesses]
        links += [Relation(word, end) for word, end in relations.items()]
        return Unit(name, id=name, kind="monster", relations=links)

    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(
            [
                monster("Agnak", ["Water", "Ice"], element="Fire", subspecies="Glacial Agnak"),
                monster("Glacial Agnak", ["Fire"], element="Ice", type="Leviathan"),
                monster("Barrot", ["Fire", "Ice", "Thunder"], element="Water", type="Leviathan"),
            ]
        )
        base.add(Unit("Lamp", metadata={"waterproof": False, "price": "49 euros", "tags": ["a"]}))
        yield base


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which monsters have the weakness Ice?", "Agnak, Barrot"),
        ("Which monsters are weak to Ice?", "Agnak, Barrot"),
        ("Which monsters have Fire as a weakness?", "Glacial Agnak, Barrot"),
        ("What is Glacial Agnak a subspecies of?", "Agnak"),
        ("Which subspecies does Agnak have?", "Glacial Agnak"),
        ("Which subspecies does Glacial Agnak have?", ""),
        ("How many monsters are weak to Ice?", "2"),
        ("How many weaknesses does Barrot have?", "3"),
        ("Is Barrot weak to Fire?", "yes"),
        ("Is Barrot weak to Water?", "no"),
        ("Is Ice a weakness of Agnak?", "yes"),
        ("Isn't Barrot weak to Water?", "no"),
        ("Is Barrot not weak to Water?", ""),
        ("Is Barrot weak to Cheese?", ""),
        ("Which monsters that have the element Water are weak to Fire?", "Barrot"),
        ("Which monsters have the element Ice and the weakness Fire?", "Glacial Agnak"),
        ("Which leviathans are weak to Fire?", "Glacial Agnak, Barrot"),
        ("Which weaknesses do Agnak and Barrot share?", "Ice"),
        ("Do Agnak and Barrot have the same weakness?", "yes"),
        ("Do Agnak and Glacial Agnak have the same weakness?", "no"),
        ("Which has more weaknesses, Agnak or Barrot?", "Barrot"),
        ("Which has fewer weaknesses, Agnak or Barrot?", "Agnak"),
        ("Which is older, Agnak or Barrot?", ""),
        ("Which monsters are not weak to Ice?", ""),
        ("What is the price of the Lamp?", "49 euros"),
        ("Is the Lamp waterproof?", "no"),
    ],
)
def test_relations_are_asked_for_in_both_directions(monsters, question, answer):
    assert monsters.query(None, question).answer == answer


@pytest.fixture
def locks(tmp_path):
    """A chain of relations named by nouns, and a boat at its first unit."""
    relations = {
        "Alder": [Relation("next lock", "birch")],
        "Birch": [Relation("next lock", "cedar"), Relation("keeper", "Mr Finn", "person")],
        "Cedar": [Relation("modelled after", "King Hal", "person")],
        "Dory": [Relation("moored at", "alder", "lock")],
    }
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(
            Unit(name, id=name.lower(), kind="boat" if name == "Dory" else "lock", relations=some)
            for name, some in relations.items()
        )
        yield base


@pytest.mark.parametrize(
    ("pictured", "question", "answer"),
    [
        ("", "What is the next lock after Birch?", "Cedar"),
        ("", "What is the next lock from Birch?", "Cedar"),
        ("", "After Birch, what is the next lock?", "Cedar"),
        ("", "What is Birch's next lock?", "Cedar"),
        ("", "What is the next lock of Cedar?", ""),
        ("", "What is the next lock after Cedar?", ""),
        ("", "Which next lock does Cedar have?", ""),
        ("", "What is the next lock before Cedar?", "Birch"),
        ("", "Whose next lock is Birch?", "Alder"),
        ("", "Which lock's next lock is Birch?", "Alder"),
        ("", "Which lock has the next lock Birch?", "Alder"),
        ("", "Which lock has Birch as its next lock?", "Alder"),
        ("", "What does Birch have as its next lock?", "Cedar"),
        ("", "Birch is the next lock of what?", "Alder"),
        ("", "Of which lock is Birch the next lock?", "Alder"),
        ("", "Is Birch the next lock after Alder?", "yes"),
        ("", "Is Alder the next lock after Birch?", ""),
        ("", "Who is the keeper for Birch?", "Mr Finn"),
        ("", "Who is the keeper of Mr Finn?", ""),
        ("", "Whose keeper is Mr Finn?", "Birch"),
        ("", "Who was the keeper before Mr Finn?", ""),
        ("", "Who is Cedar modelled after?", "King Hal"),
        ("", "Which lock is modelled after King Hal?", "Cedar"),
        ("", "Which boats are moored at Alder?", "Dory"),
        ("", "What lock is after the lock where Dory is moored?", ""),
        ("", "What is the next lock after the one where Dory is moored?", "Birch"),
        ("", "What is the next lock before the one where Dory is moored?", ""),
        ("Birch", "What is the next lock?", "Cedar"),
        ("Cedar", "What is the next lock?", ""),
        ("Birch", "What is the next lock before this one?", ""),
        ("Birch", "What is this the next lock of?", "Alder"),
        ("Alder", "Which boats are moored here?", "Dory"),
    ],
)
def test_a_noun_is_followed_forwards_unless_the_question_turns_it(
    locks, pictured, question, answer
):
    graph = Graph(locks._database.connection, locks._layout)
    reading = trace(graph, graph.find(pictured)[0] if pictured else None, question)
    assert (", ".join(reading.answers) if reading else "") == answer


@pytest.fixture
def plants(tmp_path):
    """Units of two kinds with facts in metadata and in labelled lines."""

    def plant(name, *lines, **metadata):
        return Unit(name, id=name, kind="plant", texts=lines, metadata=metadata)

    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(
            [
                plant("Foxglove", poisonous=True, color="purple", height_cm=120, price=4.5),
                plant("Rose", poisonous=False, color="red", height_cm=80, price=3),
                plant("Yew", poisonous=True, color="green", height_cm=2000, price=30),
                plant("Basil", "Poisonous: no\nColor: green\nHeight: 30 cm\nSoil: 12 mm deep"),
                plant("Oleander", "Poisonous: yes\nColor: pink and red\nHeight: 2 m"),
                Unit("Old hall", id="o", kind="house", texts=("Built: 1851\nOwner: Ann",)),
                Unit("Pump", id="pump", kind="tool", metadata={"maker": "Bo"}),
                Unit(
                    "Stove",
                    id="stove",
                    kind="tool",
                    metadata={"maker": "Bo"},
                    texts=("It is made of oak and weighs 7 kg.",),
                ),
                Unit(
                    "New hall",
                    id="n",
                    kind="house",
                    metadata={"city": "Rome", "rooms": 8},
                    texts=("Built: 1900",),
                    relations=(Relation("made of", "stone"), Relation("made by", "Ben")),
                ),
            ]
        )
        yield base


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which plants are poisonous?", "Foxglove, Yew, Oleander"),
        ("How many plants are poisonous?", "3"),
        ("Which plants are poisonous and green?", "Yew"),
        ("Which plants are red?", "Rose, Oleander"),
        ("Which plants are blue?", ""),
        ("Which plants live?", ""),
        ("Which plants?", ""),
        ("Which plants are not poisonous?", "Rose, Basil"),
        ("How many plants are there?", "5"),
        ("What is the cheapest thing?", "Rose"),
        ("Which is the cheapest plant?", "Rose"),
        ("Which is the cheapest poisonous plant?", "Foxglove"),
        ("Which plant has the highest price?", "Yew"),
        ("Which plants are taller than 1 m?", "Foxglove, Yew, Oleander"),
        ("How many plants cost less than 5 euros?", "2"),
        ("Which is taller, Basil or Oleander?", "Oleander"),
        ("Which is heavier, Basil or Oleander?", ""),
        ("Is the Foxglove taller than the Oleander?", "no"),
        ("Which is older, the Old hall or the New hall?", "Old hall"),
        ("Do Yew and Basil have the same color?", "yes"),
        ("Is the Yew 20 m high?", "yes"),
        ("Is the Yew 21 m high?", "no"),
        ("Is the Yew 20 kg high?", ""),
        ("Was the Old hall built in 1900?", "no"),
        ("How many rooms does the New hall have?", "8"),
        ("Who owns the Old hall?", "Ann"),
        ("Where is the owner of the Old hall?", ""),
        ("Which country is the New hall in?", ""),
        ("Which city is the New hall in?", "Rome"),
        ("What is the New hall made of?", "stone"),
        ("What is the Pump made of?", ""),
        ("What is the Stove made of?", "oak"),
        ("What make is the Stove?", "Bo"),
        ("Who made the New hall?", "Ben"),
        ("Which houses are made of stone?", "New hall"),
    ],
)
def test_metadata_and_labelled_lines_are_facts_like_relations(plants, question, answer):
    assert plants.query(None, question).answer == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which boat is the most expensive?", "Ferry"),
        ("Which boats cost less than 1000 euros?", "Canoe"),
        ("Which bench is the most expensive?", "Ash bench"),
        ("Which is the most expensive tool?", "Sander"),
        ("Which lamps do not work?", "Flare lamp"),
        ("How much does the Canoe cost per day?", ""),
        ("How much does the Canoe cost?", "900 euros"),
    ],
)
def test_prices_are_read_however_they_are_written(kb, question, answer):
    prices = {
        "boat": {"Kayak": "1,200 euros", "Ferry": "€ 2000", "Canoe": "900 euros"},
        "bench": {"Oak bench": "$100", "Pine bench": "150 dollars", "Ash bench": "USD 200"},
        "tool": {"Sander": "1.299,00 €", "Drill": "120 €"},
    }
    units = [
        Unit(name, id=name, kind=kind, metadata={"price": price, "works": name != "Sander"})
        for kind, of_kind in prices.items()
        for name, price in of_kind.items()
    ]
    lamp = Unit("Flare lamp", id="lamp", kind="lamp", texts=("Works: no",))
    kb.add_many([*units, lamp])
    assert kb.query(None, question).answer == answer


def test_more_units_than_an_answer_lists_are_counted(kb):
    kb.add_many(
        Unit(f"Lamp {n}", id=f"{n}", kind="lamp", metadata={"colour": "red"}) for n in range(30)
    )
    answer = kb.query(None, "Which lamps are red?")
    assert (answer.answer, answer.reading.why[:12]) == ("", "30 units fit")
    assert kb.query(None, "How many lamps are red?").answer == "30"


def test_facts_are_cited_where_they_are_stated(plants):
    answer = plants.query(None, "Which plants are red?")
    assert answer.reading.why == "Found in lines and sentences of texts and in metadata."
    line, field = answer.citations
    (piece,) = (piece for piece in answer.chunks if piece.label == line)
    start, end = answer.reading.spans[0]
    assert piece.text[start:end] == "Color: pink and red"
    assert [path.text for path in answer.paths if path.label == field] == ["Rose —color→ red"]
    assert plants.query(None, "Which plants are red?", where="price<2").answer == ""


def test_too_many_answers_of_a_second_relation_are_none(museum):
    lived = tuple(Relation("lived in", f"Town {n}", "city") for n in range(30))
    museum.add(Unit("Vase", id="vase", relations=(Relation("made by", "guild"),)))
    museum.add(Unit("Guild", id="guild", relations=lived))
    graph = Graph(museum._database.connection, museum._layout)
    (vase,) = graph.find("Vase")
    assert trace(graph, vase, "Which city did the maker of the Vase live in?") is None
    assert trace(graph, vase, "Where did those who made the Vase live?") is None


def test_too_many_answers_are_none(kb):
    kb.add(country("Big", "euro", "Bish", *(f"Place {n}" for n in range(30))))
    graph = Graph(kb._database.connection, kb._layout)
    (start,) = (entity for entity in graph.find("Big") if entity.unit)
    assert trace(graph, start, "Which countries does it border?") is None


def test_the_query_answers_from_the_graph_and_cites_it(kb):
    answer = kb.query(None, "Which neighbours of Arland use the euro?")
    assert answer.answer == "Borland, Dorland"
    cited = {path.label: path.text for path in answer.paths if path.label in answer.citations}
    assert list(cited.values()) == [
        "Arland —borders→ Borland —currency→ euro",
        "Arland —borders→ Dorland —currency→ euro",
    ]
    assert answer.reading.why == "Found by following relations in the graph."
    without = kb.query(None, "Which neighbours of Arland use the euro?", graph=False)
    assert (without.answer, without.paths) == ("", ())


def test_labelled_lines_and_relations_that_differ_are_both_shown(kb):
    kb.update("arland", texts=["Currency: taler"])
    answer = kb.query(None, "What is the currency of Arland?")
    assert (answer.answer, len(answer.citations)) == ("euro, taler", 2)
    kb.update("arland", texts=["Currency: euro"])
    assert kb.query(None, "What is the currency of Arland?").answer == "euro"
    kb.update("arland", texts=["Arland is old."])
    assert kb.query(None, "What is the currency of Arland?").answer == "euro"


def test_the_items_of_a_list_are_stated_once(kb):
    kb.update("arland", texts=["Currency: euro and taler"])
    assert kb.query(None, "What is the currency of Arland?").answer == "euro, taler"
    kb.update("arland", texts=["Currency: pound and penny"])
    assert kb.query(None, "What is the currency of Arland?").answer == "euro, pound and penny"


def test_facts_of_all_texts_of_a_unit_count(kb):
    kb.add(Unit("Vase", id="v", texts=tuple(f"Colour: tint {n}" for n in range(60))))
    assert kb.query(None, "How many colours does the Vase have?").answer == "60"


def test_only_generic_nouns_mean_units_of_any_kind(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(Unit(name, id=name, texts=("Color: red",)) for name in ("Vase", "Lamp"))
        assert base.query(None, "Which things are red?").answer == "Vase, Lamp"
        assert base.query(None, "How many products are red?").answer == "2"
        assert base.query(None, "Which buildings are red?").answer == ""
        assert base.query(None, "How many planets are red?").answer == ""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which products does Nordwood AB supply?", "Vase, Lamp"),
        ("How many products are supplied by Nordwood AB?", "2"),
        ("Which products supply Nordwood AB?", ""),
        ("Which products does Nordwood AB sell?", ""),
    ],
)
def test_an_agent_is_asked_for_by_its_verb(tmp_path, question, answer):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(
            Unit(name, id=name, texts=("It is red.",), metadata={"supplier": "Nordwood AB"})
            for name in ("Vase", "Lamp")
        )
        assert base.query(None, question).answer == answer


def test_a_model_is_shown_the_paths(kb):
    mllm = ScriptedMLLM(
        [
            "Eland",
            {
                "reason": "",
                "citations": ["E2"],
                "answer": "Borland, Dorland",
                "changed": True,
                "believed": "path",
            },
        ]
    )
    with KnowledgeBase.open(kb.path, read_only=True, mllm=mllm) as reader:
        answer = reader.query(None, "Which neighbours of Arland use the euro?")
    assert answer.correction.believed == "path"
    assert "Arland —borders→ Borland —currency→ euro" in mllm.requests[1].messages[-1].text


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is Basil heavier than Oleander?", ""),
        ("Is Oleander heavier than Basil?", ""),
        ("Is Basil more expensive than Oleander?", ""),
        ("Is Yew heavier than Basil?", "yes"),
    ],
)
def test_what_has_no_common_measure_is_not_compared(kb, question, answer):
    for name, weight, price in (
        ("Basil", "5 kg", "9 EUR"),
        ("Oleander", "not yet measured", "4 USD"),
        ("Yew", "70 kg", "8 EUR"),
    ):
        kb.add(Unit(name, metadata={"weight": weight, "price": price}))
    assert kb.query(None, question).answer == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the manufacturing country of Apple Juice?", "Sweden"),
        ("Who is the manufacturer of Apple Juice?", "BRAVO"),
    ],
)
def test_a_country_that_is_asked_for_is_not_the_shown_one(kb, question, answer):
    lines = "Manufacturer and volume: BRAVO, 2l\nManufacturing country: Sweden"
    kb.add(Unit("Apple Juice", texts=(lines,)))
    assert kb.query(None, question).answer == answer
