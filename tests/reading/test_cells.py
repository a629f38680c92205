"""Answers from table cells: the question determines the row and the column."""

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.reading.cells import read
from ku_rag.types import Cell, Evidence, Table, TableRow
from tests.conftest import picture

STADIUMS = """Club,City,Stadium,Coach,Seats
Red Star,Oakton,Mill Road,Bob Stone,"12,000"
Harbour United,Port Vale,Pier Park,Ann Miller,"8,500"
Valley Rovers,Oakton,Green Lane,Carl Berg,"9,000"
"""
TRAMS = """Tram,Leaves Oakton,Leaves Hull,Reaches Crows End,Runs
Blue Arrow,10:15,10:40,11:02,daily
Night Owl,17:45,18:05,18:36,Fridays
"""
SHOWS = """Show,Date,Seats,Host
Rose evening,4 May 2025,30,Ann Miller
Poison tour,1 June 2025,8,Carl Berg
"""
FILMS = """Title,Released,Director
Wide Bay,3 March 1999,Nora Quist
Glass Hill,17 May 2004,Peter Dorn
"""
LAMP = """# Lamp

A lamp for the desk.

| Property | Value |
| --- | --- |
| Weight | 3 kg |
| Colour | green |
"""


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    (folder / "clubs.csv").write_text(STADIUMS)
    (folder / "trams.csv").write_text(TRAMS)
    (folder / "shows.csv").write_text(SHOWS)
    (folder / "films.csv").write_text(FILMS)
    (folder / "lamp.md").write_text(LAMP)
    (folder / "coaches.md").write_text(
        "# Ann Miller\n\nShe was born in Leeds and played in goal.\n\n"
        "# Bob Stone\n\nHe was born in Hull and played for ten years.\n"
    )
    with KnowledgeBase.open(folder / "kb", create=True) as base:
        base.ingest(folder)
        yield base


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the stadium of Red Star?", "Mill Road"),
        ("Which stadium does Valley Rovers play in?", "Green Lane"),
        ("Which city is Harbour United from?", "Port Vale"),
        ("Which club plays at Pier Park?", "Harbour United"),
        ("Who is the coach of Red Star?", "Bob Stone"),
        ("What is the weight of the lamp?", "3 kg"),
        ("How many seats does the Poison tour have?", "8"),
        ("How many seats does Red Star have?", "12,000"),
        ("When was Wide Bay released?", "3 March 1999"),
        ("When is the Rose evening?", "4 May 2025"),
        ("When does the Night Owl reach Crows End?", "18:36"),
        ("When does the Night Owl leave Hull?", "18:05"),
        ("What time does the Blue Arrow leave Oakton?", "10:15"),
    ],
)
def test_a_cell_answers(kb, question, answer):
    response = kb.query(None, question)
    assert response.answer == answer
    cited = next(c for c in response.chunks if c.label == response.citations[0])
    assert answer in cited.text
    assert cited.table


def test_a_cell_and_a_text_answer_together(kb):
    response = kb.query(None, "What is the stadium of the club whose coach was born in Leeds?")
    assert response.answer == "Pier Park"


def row(label, score, *cells, text=None):
    table = TableRow("Clubs", 0, tuple((column, Cell(value)) for column, value in cells))
    lines = [f"{column}: {value}" for column, value in cells]
    return Evidence(label, 1, ("clubs",), "clubs.csv", text or "\n".join(lines), score, table=table)


@pytest.mark.parametrize(
    ("cells", "text", "marked"),
    [
        ([("Coach", "Bob"), ("Club", "Red Star")], None, "Bob"),
        ([("Club", "Red Star"), ("Coach", "Bob")], None, "Bob"),
        # A part of a long row without the cell; a row whose text has the value elsewhere.
        ([("Club", "Red Star"), ("Coach", "Bob")], "Club: Red Star", ""),
        ([("Club", "Red Star"), ("Coach", "Bob")], "Club: Red Star\nCoach: Bobby", ""),
    ],
)
def test_the_cell_that_answers_is_marked(cells, text, marked):
    evidence = row("E1", 1.0, *cells, text=text)
    reading = read("Who is the coach of Red Star?", [evidence], [evidence])
    assert reading.answer == "Bob"
    ((start, end),) = reading.spans
    assert evidence.text[start:end] == marked


def test_a_row_that_says_the_same_in_a_second_column_of_that_name_is_no_other_answer():
    cells = ("Club", "Red Star"), ("Coach", "Bob")
    again = row("E2", 0.99, cells[0], ("Coach", "Ann"), cells[1])
    assert (
        read("Who is the coach of Red Star?", [row("E1", 1.0, *cells), again], ()).answer == "Bob"
    )
    second = row("E2", 0.99, cells[0], ("Coach", "Ann"))
    assert read("Who is the coach of Red Star?", [row("E1", 1.0, *cells), second], ()) is None


def test_a_text_that_the_row_does_not_name_tells_nothing_of_it():
    rows = [row("E1", 1.0, ("Light", "Pell Point"), ("Keeper", "Ann"))]
    pieces = [("Pell Point", "It stands on a white cliff."), ("Hollen", "Hollen is an island.")]
    texts = [
        Evidence(f"E{n}", n, (), "file", text, 0.5, (name,), (name,))
        for n, (name, text) in enumerate(pieces, 2)
    ]
    assert read("Which light stands on Hollen?", rows, texts) is None
    assert read("Which light stands on a white cliff?", rows, texts).answer == "Pell Point"


@pytest.mark.parametrize(
    "question",
    [
        "Which club from Oakton has the most seats?",  # rows would have to be compared
        "Which club is from Oakton?",  # there are two
        "What is the mascot of Red Star?",  # no such column
        "What is the stadium of Red Moon?",  # no such club
        "What was the stadium of Red Star in 1950?",
        "Which clubs use the euro?",
        "Which stadium has a roof?",
        "How many hosts does the Poison tour have?",  # the column holds names
        "How many days does the Night Owl run?",
        "How many trams run on Fridays?",
        "When is the Night Owl run?",
        "When was Carl Berg born?",  # the date is that of the show
        "When is the Tulip tour?",
        "When does the Night Owl leave?",  # two columns fit
        "when does the night owl leave for crows end?",
        "When was the coach of Red Star born?",
    ],
)
def test_the_reader_abstains(kb, question):
    assert kb.query(None, question).answer == ""


@pytest.mark.parametrize(
    ("query_seed", "question", "answer"),
    [
        (3, "Which trains use this engine?", ""),  # there are two
        (4, "Which train uses this engine?", "Noon Local"),
        (4, "When does it depart?", "12:00"),
        (3, "Which engine pulls the Noon Local?", ""),
    ],
)
def test_with_a_picture_only_rows_that_hold_what_it_shows_answer(
    tmp_path, query_seed, question, answer
):
    rows = [
        ("Quarryman", "10:15", "Bramble"),
        ("Noon Local", "12:00", "Wasp"),
        ("Evening Mail", "17:45", "Bramble"),
    ]
    trains = Table(
        ("Train", "Departs", "Engine"), [[Cell(text) for text in cells] for cells in rows]
    )
    pictures = {seed: picture(tmp_path / f"{seed}.png", seed) for seed in (3, 4)}
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        for name, seed in (("Bramble", 3), ("Wasp", 4)):
            base.add(Unit(name, texts=(f"{name} is an engine.",), images=(pictures[seed],)))
        base.add(Unit("trains", tables=(trains,), match=False))
        assert base.query(pictures[query_seed], question).answer == answer


def test_the_best_row_is_the_closest_evidence_where_no_cell_answers(tmp_path):
    (tmp_path / "fares.csv").write_text("Ticket,Single,Return\nChild,4 euros,6 euros\n")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.ingest(tmp_path / "fares.csv")
        response = base.query(None, "How much is a return ticket for a child?")
    assert not response.answer
    assert response.reading.why == "No cell or sentence states it."
    assert response.reading.closest.evidence == "E1"
    assert response.reading.closest.text == response.chunks[0].text
