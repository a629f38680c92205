"""Evidence graphs without a model: what they take from facts, relations and cells."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase, Relation, Unit
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.types import Table

SEATS = "How many seats does the stadium of Red Star have?"


@pytest.fixture
def clubs(tmp_path):
    teams = Table(
        ("Team", "Stadium", "Founded"),
        (
            ("Red Star", "Oak Park", "1901"),
            ("Blue Moon", "Mill Lane", "1920"),
            ("Green Leaf", "River Side", "1933"),
        ),
        "Teams of the league",
    )
    oak = "Oak Park is a stadium in Ambleford. Its roof is green. It has 12,000 seats."
    coach = "Ann Bell is a coach. She was born in Brockton.\n\nNickname: the Fox\n\nHeight: 180 cm"
    units = [
        Unit("Ambleford League", id="league", kind="league", tables=(teams,)),
        Unit("Oak Park", id="oak", kind="stadium", texts=(oak,)),
        Unit("Mill Lane", id="mill", kind="stadium", texts=("Mill Lane is a stadium.",)),
        Unit(
            "Ann Bell",
            id="ann",
            kind="coach",
            texts=(coach,),
            relations=(Relation("trains", "Oak Runners"), Relation("owns", "Tessa")),
        ),
    ]
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(units)
        yield kb


def lines(found):
    return [found.graph.edge_text(edge) for edge in found.graph.edges]


def test_a_cell_joins_a_row_and_a_passage(clubs):
    found = clubs.graph.evidence(SEATS)
    assert (found.agents, found.enough, found.usage["calls"]) == ("embedded", True, 0)
    assert found.pattern.types == ("Stadium",)
    assert "Teams of the league —has row→ Teams of the league, row 1" in lines(found)
    assert "Teams of the league, row 1 —Stadium→ Oak Park" in lines(found)
    oak = found.graph.nodes["text:oak park"]
    # The sentence about the roof has no word of the question.
    assert oak.description == "Oak Park is a stadium in Ambleford. It has 12,000 seats."
    texts = {one.chunk: one.text for one in clubs.search(text=SEATS).chunks}
    assert [texts[chunk][:8] for chunk in oak.chunks] == ["Oak Park", "Teams of"]
    assert found.to_dict()["agents"] == "embedded"


def test_a_graph_that_lacks_a_word_of_the_question_is_not_enough(clubs):
    found = clubs.graph.evidence("What is the mascot of Zorkville?")
    assert not found.enough
    assert found.stopped == "the graph is not enough, without: mascot, zorkvill"


@pytest.mark.parametrize("question", ["?", "Who is it?", "a " * 5000, "東京駅はいつ開業したか？"])
def test_a_question_without_known_words_has_no_sufficient_graph(clubs, question):
    found = clubs.query(None, question, method="evidence")
    assert (found.answer, found.evidence_graph.enough) == ("", False)


def test_lines_and_relations_that_are_asked_for_are_edges(clubs):
    def of_ann(question):
        return [line for line in lines(clubs.graph.evidence(question)) if "Ann" in line]

    assert of_ann("What is the nickname of Ann Bell?") == ["Ann Bell —Nickname→ the Fox"]
    assert of_ann("Which club trains with Ann Bell?") == ["Ann Bell —trains→ Oak Runners"]


def test_without_table_mining_there_are_no_rows(clubs):
    found = clubs.graph.evidence(SEATS, construction=EvidenceSettings(table_mining=False))
    assert (found.graph.of("row"), found.enough) == ([], False)


def test_a_question_without_candidates_has_an_empty_graph(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        found = kb.graph.evidence("Who?")
    assert (found.enough, found.graph.nodes) == (False, {})
    assert found.stopped == "the graph is not enough"


def test_a_cell_and_a_passage_answer_together(clubs):
    found = clubs.query(None, SEATS, method="evidence")
    (text, row) = (one for one in found.chunks if one.label in found.citations)
    assert (found.answer, text.owners, row.table.row) == ("12,000", ("oak",), 0)
    assert found.reading.why == "E1 states it of Oak Park, the 'Stadium' of E3."
    texts = {one.label: one.text for one in found.chunks}
    cited = zip(found.citations, found.reading.spans, strict=True)
    assert [texts[label][start:end] for label, (start, end) in cited][1:] == ["Oak Park"]
    assert clubs.query(None, SEATS).answer == ""
    labels = [one.label for one in (*found.chunks, *found.paths)]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize(
    "question",
    [
        "How many seats does the stadium of Green Leaf have?",
        "How many seats does the stadium of Black Sun have?",
        "How many seats does the stadium of the oldest team have?",
        "How many roofs does the stadium of Red Star have?",
        "How many seats does the stadium of Blue Moon have?",
    ],
)
def test_what_the_row_and_its_passage_do_not_state_is_not_stated(clubs, question):
    found = clubs.query(None, question, method="evidence")
    assert found.answer == ""
    assert found.chunks
    assert found.evidence_graph.agents == "embedded"


def test_a_folder_with_a_table_and_texts_answers_on_the_command_line(tmp_path, ku):
    folder = tmp_path / "league"
    for name, text in (
        ("Oak Park", "Oak Park is a stadium in Ambleford. It has 12,000 seats."),
        ("Mill Lane", "Mill Lane is a stadium in Brockton. It has 9,500 seats."),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "about.txt").write_text(text, encoding="utf-8")
    rows = "Team,Stadium\nRed Star,Oak Park\nBlue Moon,Mill Lane\nGreen Leaf,River Side\n"
    (folder / "teams.csv").write_text(rows, encoding="utf-8")
    assert ku("ingest", folder, "--kb", tmp_path / "kb").code == 0
    asked = ("query", "-", SEATS, "--kb", tmp_path / "kb", "--method", "evidence")
    done = ku(*asked)
    assert done.out.splitlines()[0] == "12,000"
    assert "Team: Red Star" in done.out
    assert "by embedded agents: the graph is enough" in done.err
    without = ku(*asked, "--no-table-mining", "--json").json
    assert (without["answer"], without["evidence_graph"]["enough"]) == ("", False)


def test_texts_of_the_entities_asked_for_go_first(clubs):
    def order(**how):
        asked = "How many seats does the stadium of Blue Moon have?"
        return [one.owners[0] for one in clubs.query(None, asked, k=10, **how).chunks]

    plain, mined = order(), order(method="evidence")
    assert (plain[0], mined[0]) == ("league", "mill")
    assert sorted(mined) == sorted(plain)
    without = EvidenceSettings(table_mining=False)
    assert order(method="evidence", construction=without) == plain


def test_units_of_another_kind_do_not_count(clubs):
    found = clubs.query(None, SEATS, method="evidence", kind="coach")
    assert (found.answer, found.evidence_graph.graph.of("row")) == ("", [])
    assert {one.owners for one in found.chunks} <= {("ann",)}
