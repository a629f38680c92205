import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from PIL import Image

from ku_rag.answering.report import Section, render
from ku_rag.papers.cogplanner.plan import Hit, Plan, PlannedSearch, Round
from ku_rag.papers.graphrag.construction import EvidenceSearch
from ku_rag.papers.graphrag.evidence_agents import PatternGraph
from ku_rag.papers.graphrag.evidence_graph import EvidenceEdge, EvidenceGraph, EvidenceNode
from ku_rag.types import (
    Answer,
    ClosestSentence,
    Correction,
    Evidence,
    Match,
    PathEvidence,
    Reading,
    Region,
)

EVIL = '<script>alert("1")</script>&amp; \' $title ${body}'
VOID = {"meta", "img", "br", "hr", "link", "input"}
TEXT = "Anjou is a pear.\nCountry: Argentina, ca 170g\nIt is <b>good</b>."
START = TEXT.index("Country")
END = TEXT.index("\nIt is")


def answer(**changes):
    settings = {
        "question": "Which country does it come from?",
        "image": "photo.jpg",
        "region": Region((20, 10, 60, 50), "windows", 0.7123, "Its best match is the clearest."),
        "units": (Match("anjou", "Anjou", 0.8123, 0.9, "a.jpg", "picture, cosine 0.81"),),
        "chunks": (
            Evidence("E1", 1, ("anjou",), "/data/units/Anjou/information.txt", TEXT, 0.9),
            Evidence("E2", 2, ("anjou",), "/data/units/Anjou/more.txt", "Other words.", 0.3),
        ),
        "paths": (PathEvidence("E3", ("Anjou", "Argentina"), ("grows in",), "It grows there."),),
        "passage": (),
        "reading": Reading("Argentina", ("E1",), ((START, END),), 0.9, "The line says so."),
        "models": {"encoder": "embedded", "reader": "extractive"},
        "timings_ms": {"match": 12.34, "total": 1234.5},
    }
    return Answer(**(settings | changes))


def page(subject=None, **more):
    settings = {"picture": Image.new("RGB", (100, 80), "red"), "unit_pictures": {}, "pages": ()}
    return render([Section(subject or answer(), **(settings | more))])


class Checker(HTMLParser):
    """Checks the tags of a page: all are closed in order, ids are unique."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.links, self.sources = [], [], [], [], []
        self.words, self.marks = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        self.sources += [attributes["src"]] if "src" in attributes else []
        assert not any(name.startswith("on") for name in attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)
        if "mark" in self.open:
            self.marks.append(data)


def check(html):
    checked = Checker(html)
    assert checked.open == []
    assert len(checked.ids) == len(set(checked.ids))
    assert {link.removeprefix("#") for link in checked.links} <= set(checked.ids)
    assert all(source.startswith("data:image/") for source in checked.sources)
    assert "http:" not in html
    assert "https:" not in html
    return checked


def test_a_page_is_whole_and_stands_alone():
    html = page(
        unit_pictures={"anjou": Image.new("RGB", (640, 480), "green")},
        pages=[Image.new("RGB", (772, 300), "white")],
    )
    checked = check(html)
    assert html.startswith("<!doctype html>")
    assert "script" not in checked.tags
    assert checked.marks == ["Country: Argentina, ca 170g"]
    assert checked.links == ["#q1-E1"]
    assert len(checked.sources) == 3
    words = " ".join(checked.words)
    for part in (
        "Which country does it come from?",
        "Argentina",
        "The line says so.",
        "Its best match is the clearest.",
        "picture, cosine 0.81",
        "information.txt, score 0.900",
        "2 further pieces of evidence",
        "embedded",
        "1,234.5 ms",
        "12.3 ms",
    ):
        assert part in words


def test_the_pictures_are_in_the_page():
    checked = check(page(pages=[Image.new("RGB", (772, 300), "white")]))
    kinds = []
    for source in checked.sources:
        head, data = source.split(",", 1)
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            kinds.append((head, image.format, image.size))
    assert kinds == [
        ("data:image/jpeg;base64", "JPEG", (100, 80)),
        ("data:image/png;base64", "PNG", (772, 300)),
    ]


def test_the_region_is_drawn_in_parts_of_the_picture():
    assert 'style="left:20.00%;top:12.50%;width:40.00%;height:50.00%"' in page()
    whole = answer(region=Region((0, 0, 100, 80)))
    assert '<div class="region"' not in page(whole)
    assert "the whole picture" in page(whole)
    beyond = answer(region=Region((-10, 0, 500, 80), "yolo"))
    assert 'style="left:0.00%;top:0.00%;width:100.00%;height:100.00%"' in page(beyond)
    assert "<figure>" not in page(picture=None)


def test_an_abstention_is_said_plainly():
    html = page(answer(reading=Reading("", why="Nothing in the evidence says “price”.")))
    words = " ".join(check(html).words)
    assert "No answer was found in the knowledge base." in words
    assert "Nothing in the evidence says “price”." in words
    assert "<details>" not in html, "no evidence is folded away"
    assert "<mark>" not in html
    closest = Reading("", closest=ClosestSentence("E2", "Other words."))
    assert check(page(answer(reading=closest))).marks == ["Other words."]


def corrected(draft, after, *, changed=True, **more):
    return page(
        answer(
            reading=Reading(after, ("E1",), ((0, 0),), unanswered="refused"),
            correction=Correction(draft, changed, "The label says so.", **more),
        )
    )


@pytest.mark.parametrize(
    ("after", "changed", "verdict"),
    [("Argentina", True, "corrected"), ("Italy", False, "kept"), ("", True, "refused")],
)
def test_a_draft_and_its_correction(after, changed, verdict):
    html = corrected("Italy", after, changed=changed)
    words = " ".join(check(html).words)
    assert f"After evidence: {verdict}" in words
    assert "The label says so." in words
    assert "<small>Before evidence</small>Italy</div>" in html
    assert f"</small>{after or '—'}</div>" in html
    assert "Before evidence" not in " ".join(check(page()).words)


def test_a_path_is_shown_once():
    path = PathEvidence("E3", ("Anjou", "Argentina"), ("grows in",), "Anjou —grows in→ Argentina")
    words = " ".join(check(page(answer(paths=(path,)))).words)
    assert words.count("grows in") == 1


@pytest.mark.parametrize("name", ["Billy Joel", EVIL])
def test_an_evidence_graph_is_drawn(name):
    nodes = [
        EvidenceNode("text:a", name, name, "text"),
        EvidenceNode("image:1", name, "image", "image", f"It shows {name}.", image=1),
    ]
    graph = EvidenceGraph().joined(nodes, [EvidenceEdge("image:1", name, "text:a", name)])
    sizes = {"clue": {"nodes": 1200, "edges": 0}, "evidence": graph.sizes}
    pattern = PatternGraph((name,), ((name, name, name),), (name,))
    search = EvidenceSearch(graph, pattern, sizes, False, name, ())
    checked = check(page(answer(evidence_graph=search)))
    words = " ".join(checked.words)
    assert checked.tags.count("svg") == 1
    assert "script" not in checked.tags
    assert "Nodes, edges: clue graph 1,200, 0; evidence graph 2, 1. The construction ended" in words
    assert words.count(name.split()[0]) > 3
    assert "Evidence graph" not in page()
    empty = replace(search, graph=EvidenceGraph(), stopped="no entity was found")
    checked = check(page(answer(evidence_graph=empty)))
    assert "svg" not in checked.tags
    assert "The construction ended: no entity was found." in " ".join(checked.words)


def test_an_answer_in_one_turn_shows_no_draft():
    html = corrected(None, "Argentina", changed=False, caption="A <green> pear.")
    words = " ".join(check(html).words)
    assert "Before evidence" not in words
    assert "Caption of the picture: A <green> pear." in words


def test_everything_is_escaped():
    evil = answer(
        question=EVIL,
        region=Region((1, 2, 3, 4), EVIL, 0.5, EVIL),
        units=(Match(EVIL, EVIL, float("nan"), None, EVIL, EVIL),),
        chunks=(Evidence("E1", 1, (EVIL,), EVIL, EVIL, 0.1),),
        paths=(PathEvidence(EVIL, (EVIL, EVIL), (EVIL,), EVIL),),
        correction=Correction(EVIL, True, EVIL, (EVIL,), EVIL),
        reading=Reading(EVIL, ("E1", EVIL), ((3, 9), (0, 4)), 0.5, EVIL),
        models={EVIL: EVIL},
        timings_ms={EVIL: 1.0},
    )
    html = render([Section(evil, None, {EVIL: Image.new("RGB", (5, 5))})], EVIL)
    checked = Checker(html)
    assert checked.open == []
    assert "script" not in checked.tags
    assert "<script" not in html
    assert "".join(checked.words).count(EVIL) > 10


@pytest.mark.parametrize(
    ("spans", "marks"),
    [
        (((0, 5), (3, 8)), ["Anjou", " is"]),
        (((0, 5), (0, 5)), ["Anjou"]),
        (((9, 3),), []),
        (((0, 10_000),), [TEXT]),
        ((), []),
    ],
)
def test_spans_that_overlap_or_overrun(spans, marks):
    reading = Reading("x", ("E1",) * max(len(spans), 1), spans)
    assert check(page(answer(reading=reading))).marks == marks


def test_cited_paths_and_labels_that_are_not_there():
    html = page(answer(reading=Reading("x", ("E3", "E9"), ((0, 2), (0, 2)))))
    checked = Checker(html)
    assert checked.marks == ["It"]
    assert "#q1-E3" in checked.links


def test_nothing_found_makes_a_page_too():
    empty = answer(
        image=None, region=None, units=(), chunks=(), paths=(), reading=Reading(""),
        models={}, timings_ms={},
    )  # fmt: skip
    words = " ".join(check(page(empty, picture=None)).words)
    assert "No unit matched." in words
    assert "Nothing was found." in words


def test_many_answers_share_one_page():
    sections = [
        Section(answer(), Image.new("RGB", (10, 10))),
        Section(answer(question="What is the price?", reading=Reading("", why="Not said."))),
    ]
    html = render(sections, "Ten <questions>")
    checked = check(html)
    assert "<title>Ten &lt;questions&gt;</title>" in html
    assert {"q1", "q2", "q1-E1", "q2-E1"} <= set(checked.ids)
    assert {"#q1", "#q2", "#q1-E1"} <= set(checked.links)
    contents = re.search(r'<ol class="contents">(.*?)</ol>', html, re.DOTALL)[1]
    assert contents.count("<li>") == 2
    assert "Argentina" in contents


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_pictures_of_every_mode(mode):
    check(page(picture=Image.new(mode, (30, 20)), pages=[Image.new("RGB", (5, 5))]))


def test_large_pictures_are_made_smaller():
    source = check(page(picture=Image.new("RGB", (4000, 1000)))).sources[0]
    with Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))) as image:
        assert image.size == (1000, 250)


def test_a_lone_surrogate_can_be_written(tmp_path):
    html = page(answer(question="photo\udcff.jpg?"))
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    assert "photo?.jpg?" in html


def test_the_rounds_of_a_plan_are_a_timeline():
    first, second = Hit("chunk:1", "Sweden", "…"), Hit("chunk:2", "Norway", "…")
    plan = Plan(
        "<b>?",
        (
            Round(
                ("<i>Which flag?",),
                "image",
                why=("It is not named.", "The picture shows it."),
                searches=(PlannedSearch("<i>Which flag?", (first,), ("Sweden",), "", 7.0),),
                tokens=(1000, 20),
                milliseconds=2.5,
            ),
            Round(
                ("capital of Sweden", "capital of Norway"),
                "text",
                searches=(
                    PlannedSearch("capital of Sweden", (first, second), milliseconds=3.0),
                    PlannedSearch("capital of Norway", error="no result within 2 seconds"),
                ),
                notes=("decided by the embedded planner",),
            ),
            Round(("capital of Sweden",), "none"),
        ),
        planner="mllm",
        stopped="the planner chose no further search",
    )
    words = check(page(answer(plan=plan))).words
    rounds = [word for word in words if word.startswith("Round ")]
    assert rounds == ["Round 1", "Round 2", "Round 3"]
    for line in (
        "<i>Which flag?",
        "1 found, 1 new: Sweden",
        "Query: It is not named.",
        "Action: The picture shows it.",
        "1,020 tokens, 9.5 ms",
        "2 found, 1 new: Sweden, Norway",
        "no result within 2 seconds",
        "decided by the embedded planner",
        "The plan ended: the planner chose no further search.",
    ):
        assert line in words
