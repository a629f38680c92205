import re

import pytest

from benchmarks.flag_questions import exact_match
from ku_rag import KnowledgeBase
from ku_rag.demo.tour import STOPS, run
from ku_rag.graph.model import Graph, Path
from tools.demo_data.facts import countries

GOLD = {
    "What is the capital of this country?": "Stockholm",
    "Which neighbours of this country use the euro?": (
        "Austria, Belgium, France, Luxembourg and the Netherlands"
    ),
    "Which countries does this country border?": (
        "Namibia, Botswana, Zimbabwe, Mozambique, Eswatini and Lesotho"
    ),
    "What are the official languages of this country?": "English and French",
    "What does black stand for in the flag of this country?": (
        "the strength and creativity of the people"
    ),
    "On which sea or ocean does the coast of this country lie?": "Persian Gulf",
    "What is the currency of the country that borders Myanmar?": "taka",
    "How large is this country?": "2,586 square kilometres",
    "When was the flag of the African country adopted?": "1957",
    "How many people live in this country?": "not in the base",
}


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tour") / "demo"
    lines = []
    report = run(folder, write_line=lines.append)
    return folder, report, lines


def answers(lines):
    questions = [line.removeprefix("    question  ") for line in lines if "    question  " in line]
    values = [line.removeprefix("    answer    ") for line in lines if "    answer    " in line]
    return dict(zip(questions, values, strict=True))


def seen_first(lines):
    """The first country recognised in the picture, by question."""
    questions = [line.removeprefix("    question  ") for line in lines if "    question  " in line]
    sightings = [line.removeprefix("    seen      ") for line in lines if "    seen      " in line]
    names = [re.split(r" at \(|:", line)[0] for line in sightings]
    return dict(zip(questions, names, strict=True))


def test_ten_questions_are_asked_and_answered(tour):
    _, _, lines = tour
    assert list(answers(lines)) == [stop.question for stop in STOPS]
    assert set(GOLD) == {stop.question for stop in STOPS}
    assert "demo data: flags drawn, texts written and scenes made by code" in lines[0]


def test_all_are_recognised_and_answered_right(tour):
    _, _, lines = tour
    tour_answers, sightings = answers(lines), seen_first(lines)
    recognised = [s.question for s in STOPS if sightings[s.question] == countries()[s.country].name]
    assert len(recognised) == len(STOPS)
    wrong = {q: tour_answers[q] for q in recognised if not exact_match(tour_answers[q], [GOLD[q]])}
    assert wrong == {}


def test_what_the_base_does_not_know_is_not_answered(tour):
    _, _, lines = tour
    assert answers(lines)["How many people live in this country?"] == "not in the base"


def test_an_answer_over_two_relations_shows_its_paths(tour):
    _, report, lines = tour
    section = lines[lines.index("    question  Which neighbours of this country use the euro?") :]
    paths = [line.split(maxsplit=1)[1] for line in section[: section.index("")] if "→" in line]
    assert len(paths) == 5
    assert "Germany —borders→ Luxembourg —currency→ euro" in paths
    page = re.sub("<[^>]+>", "", report.read_text(encoding="utf-8"))
    assert page.count("Germany —borders→ Luxembourg —currency→ euro") == 1


def test_the_report_is_one_page_with_ten_sections_and_no_address(tour):
    folder, report, _ = tour
    page = report.read_text(encoding="utf-8")
    assert report == folder / "report.html"
    assert len(re.findall(r'<section class="question"', page)) == 10
    assert "demo data" in page
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)


@pytest.mark.slow
def test_a_second_run_adds_nothing(tour):
    folder, _, _ = tour
    lines = []
    run(folder, write_line=lines.append)
    assert "0 units added, 93 unchanged" in lines[1]


def euro_paths(graph, name):
    """The paths of two relations from a country over a neighbour to the euro."""
    (start,) = graph.find(name)
    over = [Path(start).then(s) for s in graph.hop(start) if s.relation == "borders"]
    ended = [path.then(s) for path in over for s in graph.hop(path.end) if s.relation == "currency"]
    return [path for path in ended if path.end.name == "euro"]


@pytest.mark.parametrize(
    ("name", "neighbours"),
    [
        ("Germany", {"Austria", "Belgium", "France", "Luxembourg", "Netherlands"}),
        ("Denmark", {"Germany"}),
        ("Sweden", {"Finland"}),
        ("Estonia", {"Latvia"}),
        ("Brazil", {"France"}),
        ("Japan", set()),
    ],
)
def test_the_graph_says_which_neighbours_use_the_euro(tour, name, neighbours):
    folder, _, _ = tour
    with KnowledgeBase.open(folder / "kb") as kb:
        graph = Graph(kb._database.connection, kb._layout)
        paths = euro_paths(graph, name)
        assert {path.entities[1].name for path in paths} == neighbours
        assert len({path.end.row for path in paths}) <= 1
        (euro,) = graph.find("euro")
        assert (euro.kind, euro.unit) == ("currency", None)


@pytest.mark.parametrize(("scene", "larger"), [(2, "Mali"), (4, "Canada"), (5, "Mali")])
def test_what_is_seen_is_compared_with_what_the_question_names(tour, scene, larger):
    folder, *_ = tour
    question = "Which has the larger area, this country or Mali?"
    with KnowledgeBase.open(folder / "kb", read_only=True) as kb:
        answer = kb.query(folder / "scenes" / f"{scene:02}.png", question)
    assert answer.answer == larger
    assert answer.units[0].name == countries()[STOPS[scene - 1].country].name
