from benchmarks.flag_questions import normalise
from ku_rag.demo.dataset import RECORDS
from tools.demo_data.__main__ import records
from tools.demo_data.facts import countries, country_named
from tools.demo_data.records import unit_record
from tools.demo_data.texts import join_names, write_texts


def test_borders_are_told_by_both_sides():
    by_id = countries()
    one_sided = [
        (c.name, name)
        for c in by_id.values()
        for name in c.neighbours or ()
        if (neighbour := country_named(name)) and c.name not in neighbour.neighbours
    ]
    assert one_sided == []


def test_no_country_borders_itself_or_one_twice():
    for c in countries().values():
        assert c.name not in (c.neighbours or ())
        assert len(set(c.neighbours or ())) == len(c.neighbours or ())


def test_names_and_aliases_are_unique():
    names = [n.casefold() for c in countries().values() for n in (c.name, *c.aliases)]
    assert len(names) == len(set(names))


def test_every_fact_stands_in_the_texts():
    for c in countries().values():
        prose = f" {normalise(' '.join(write_texts(c)))} "
        facts = [c.capital, c.currency, c.main_language, *c.languages, *c.continents]
        facts += [*(c.neighbours or ()), *(c.waters or ()), *c.flag_meanings.values()]
        facts += [c.flag_year and str(c.flag_year), c.area_km2 and str(c.area_km2)]
        missing = [fact for fact in facts if fact and f" {normalise(fact)} " not in prose]
        assert missing == [], c.id


def test_every_line_is_a_sentence_a_heading_or_a_labelled_line():
    for c in countries().values():
        for text in write_texts(c):
            for line in text.splitlines():
                assert line.endswith(".") or ": " in line or line == f"Flag of {c.full_name}"
                assert ".." not in line
                assert "None" not in line
                assert line[0].isupper()


def test_articles_and_lists():
    assert countries()["netherlands"].full_name == "the Netherlands"
    assert join_names(["a"]) == "a"
    assert join_names(["a", "b", "c"]) == "a, b and c"


def test_the_records_of_the_demo_are_those_that_are_written():
    assert RECORDS.read_text(encoding="utf-8") == records()


def test_relations_point_to_units_or_declare_what_they_point_to():
    relations = unit_record(countries()["ireland"])["relations"]
    assert relations == [
        {"relation": "borders", "target": "united-kingdom"},
        {"relation": "capital", "target": "Dublin", "target_kind": "city"},
        {"relation": "currency", "target": "euro", "target_kind": "currency"},
        {"relation": "language", "target": "Irish", "target_kind": "language"},
        {"relation": "language", "target": "English", "target_kind": "language"},
    ]
    outside = unit_record(countries()["lebanon"])["relations"][0]
    assert outside == {"relation": "borders", "target": "Syria", "target_kind": "country"}


def test_every_country_leads_to_its_neighbours_and_its_currency():
    records = {c.id: unit_record(c)["relations"] for c in countries().values()}
    for c in countries().values():
        stated = records[c.id]
        borders = [relation["target"] for relation in stated if relation["relation"] == "borders"]
        assert len(borders) == len(c.neighbours or ())
        for name, target in zip(c.neighbours or (), borders, strict=True):
            neighbour = country_named(name)
            assert target == (neighbour.id if neighbour else name)
            if neighbour:
                back = {"relation": "borders", "target": c.id}
                assert back in records[neighbour.id]
        currencies = [relation for relation in stated if relation["relation"] == "currency"]
        kind = {"relation": "currency", "target": c.currency, "target_kind": "currency"}
        assert currencies == ([kind] if c.currency else [])
