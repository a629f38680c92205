"""Evidence graphs without a model, from facts, relations and cells."""

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


def lines(result):
    return [result.graph.edge_text(edge) for edge in result.graph.edges]


def test_a_cell_joins_a_row_and_a_passage(clubs):
    result = clubs.graph.evidence(SEATS)
    assert (result.agents, result.enough, result.usage["calls"]) == ("embedded", True, 0)
    assert result.pattern.types == ("Stadium",)
    assert "Teams of the league —has row→ Teams of the league, row 1" in lines(result)
    assert "Teams of the league, row 1 —Stadium→ Oak Park" in lines(result)
    oak = result.graph.nodes["text:oak park"]
    # The sentence about the roof has no word of the question.
    assert oak.description == "Oak Park is a stadium in Ambleford. It has 12,000 seats."
    texts = {chunk.chunk: chunk.text for chunk in clubs.search(text=SEATS).chunks}
    assert [texts[chunk][:8] for chunk in oak.chunks] == ["Oak Park", "Teams of"]
    assert result.to_dict()["agents"] == "embedded"


def test_a_graph_that_lacks_a_word_of_the_question_is_not_enough(clubs):
    result = clubs.graph.evidence("What is the mascot of Zorkville?")
    assert not result.enough
    assert result.stopped == "the graph is not enough, without: mascot, zorkvill"


@pytest.mark.parametrize("question", ["?", "Who is it?", "a " * 5000, "東京駅はいつ開業したか？"])
def test_a_question_without_known_words_has_no_sufficient_graph(clubs, question):
    answer = clubs.query(None, question, method="evidence")
    assert (answer.answer, answer.evidence_graph.enough) == ("", False)


def test_lines_and_relations_that_are_asked_for_are_edges(clubs):
    def of_ann(question):
        return [line for line in lines(clubs.graph.evidence(question)) if "Ann" in line]

    assert of_ann("What is the nickname of Ann Bell?") == ["Ann Bell —Nickname→ the Fox"]
    assert of_ann("Which club trains with Ann Bell?") == ["Ann Bell —trains→ Oak Runners"]


def test_without_table_mining_there_are_no_rows(clubs):
    result = clubs.graph.evidence(SEATS, construction=EvidenceSettings(table_mining=False))
    assert (result.graph.of("row"), result.enough) == ([], False)


def test_a_question_without_candidates_has_an_empty_graph(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        result = kb.graph.evidence("Who?")
    assert (result.enough, result.graph.nodes) == (False, {})
    assert result.stopped == "the graph is not enough"


def test_a_cell_and_a_passage_answer_together(clubs):
    answer = clubs.query(None, SEATS, method="evidence")
    (text, row) = (chunk for chunk in answer.chunks if chunk.label in answer.citations)
    assert (answer.answer, text.owners, row.table.row) == ("12,000", ("oak",), 0)
    assert answer.reading.why == "E1 states it of Oak Park, the 'Stadium' of E3."
    texts = {chunk.label: chunk.text for chunk in answer.chunks}
    cited = zip(answer.citations, answer.reading.spans, strict=True)
    assert [texts[label][start:end] for label, (start, end) in cited][1:] == ["Oak Park"]
    assert clubs.query(None, SEATS).answer == ""
    labels = [item.label for item in (*answer.chunks, *answer.paths)]
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
    answer = clubs.query(None, question, method="evidence")
    assert answer.answer == ""
    assert answer.chunks
    assert answer.evidence_graph.agents == "embedded"


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
    command = ("query", "-", SEATS, "--kb", tmp_path / "kb", "--method", "evidence")
    run = ku(*command)
    assert run.out.splitlines()[0] == "12,000"
    assert "Team: Red Star" in run.out
    assert "by embedded agents: the graph is enough" in run.err
    without = ku(*command, "--no-table-mining", "--json").json
    assert (without["answer"], without["evidence_graph"]["enough"]) == ("", False)


def test_texts_of_the_entities_asked_for_go_first(clubs):
    def order(**how):
        question = "How many seats does the stadium of Blue Moon have?"
        return [chunk.owners[0] for chunk in clubs.query(None, question, k=10, **how).chunks]

    plain, mined = order(), order(method="evidence")
    assert (plain[0], mined[0]) == ("league", "mill")
    assert sorted(mined) == sorted(plain)
    without = EvidenceSettings(table_mining=False)
    assert order(method="evidence", construction=without) == plain


def test_units_of_another_kind_do_not_count(clubs):
    answer = clubs.query(None, SEATS, method="evidence", kind="coach")
    assert (answer.answer, answer.evidence_graph.graph.of("row")) == ("", [])
    assert {chunk.owners for chunk in answer.chunks} <= {("ann",)}
