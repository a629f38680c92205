"""Drawings of neighbourhoods: without overlap, inside the picture, and true to the graph."""

import random
import re
import unicodedata
from functools import cache
from importlib.resources import as_file, files
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageFont

from ku_rag.errors import BadInput
from ku_rag.graph.drawing import draw
from ku_rag.graph.drawing_layout import clean, text_width, wrap
from ku_rag.graph.model import Graph
from ku_rag.graph.neighbourhood import neighbourhood
from ku_rag.types import Relation, Unit

LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "seventeen", "hippopotamuses", LONG]


def unit(name, *relations, kind="place"):
    stated = tuple(Relation(*fields) for fields in relations)
    return Unit(name, id=name, kind=kind, relations=stated)


def star(count=59, relations=1):
    return [
        unit("C", *((f"attack {n % relations} of", f"Attack {n}", "attack") for n in range(count)))
    ]


def chain(count=60):
    return [
        unit("C" if n == 0 else f"Link {n}", ("leads to", f"Link {n + 1}", "place"))
        for n in range(count)
    ]


def dense(count=60):
    rng = random.Random(1)
    rest = [f"Place {n}" for n in range(1, count)]

    def others():
        for target in rng.sample(rest, 5):
            relation = rng.choice(["feeds", "hates", "rules"])
            yield relation, target, None, None, rng.choice([None, "wet"])

    return [
        unit(
            name,
            *(("near", target) for target in rest if name == "C"),
            *others(),
            kind=rng.choice(["town", "river", "hill"]),
        )
        for name in ["C", *rest]
    ]


def wordy():
    rng = random.Random(2)

    def phrase(most):
        return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))

    names = [f"{phrase(12)} {n}" for n in range(59)]
    return [
        unit("C", *((phrase(8), name, None, phrase(9)) for name in names), kind=phrase(20)),
        *(
            unit(name, ("loops", name), (phrase(2), rng.choice(names)), kind=phrase(3))
            for name in names
        ),
    ]


def broad():
    names = [f"第{n}の三連突進と毒を伴う宙返り尻尾攻撃{'続' * (n % 30)}" for n in range(59)]
    relations = ["攻撃", "連続攻撃の技と毒の攻撃"]
    return [
        unit("C", *((relations[n % 2], name) for n, name in enumerate(names))),
        *(
            unit(name, ("続く", names[n * 7 % 59]), ("弱点", names[n - 1]), kind="攻撃")
            for n, name in enumerate(names)
        ),
    ]


GRAPHS = {
    "star": star(), "many relations": star(relations=59), "chain": chain(), "dense": dense(),
    "long names": wordy(), "broad": broad(), "alone": [*star(1), unit("D", ("is", "E", "x"))],
}  # fmt: skip


def graph_of(kb, units):
    kb.add_many(units)
    return Graph(kb._database.connection, kb._layout)


def drawn(kb, units, name="C", **options):
    graph = graph_of(kb, units)
    return draw(graph, graph.find(name)[0], **options)


# ---- reading a drawing -------------------------------------------------------------------------


@cache
def font(name):
    with as_file(files("ttf_opensans") / "ttf" / f"OpenSans-{name}.ttf") as path:
        return ImageFont.truetype(path, 1000, layout_engine=ImageFont.Layout.BASIC)


SVG = "{http://www.w3.org/2000/svg}"


def texts(root):
    """(text, box) of every text, in the widths of Open Sans and 1 em for CJK characters."""
    for group in [root, *root.iter(f"{SVG}g")]:
        moved = re.fullmatch(r"translate\((\S+) (\S+)\)", group.get("transform", "translate(0 0)"))
        for element in group.findall(f"{SVG}text"):
            size = float(element.get("font-size"))
            wide = sum(
                size if unicodedata.east_asian_width(c) in "WF"
                else font("Regular").getlength(c) * size / 1000
                for c in element.text
            )  # fmt: skip
            x = float(element.get("x")) + float(moved[1])
            y = float(element.get("y")) + float(moved[2])
            x -= 0 if element.get("text-anchor") == "start" else wide / 2
            yield element.text, (x, y - 0.75 * size, x + wide, y + 0.22 * size)


def groups(root, kind):
    return [group for group in root.iter(f"{SVG}g") if group.get("class") == kind]


def entities(root):
    """Boxes of entities by name."""
    boxes = {}
    for group in groups(root, "entity"):
        box = group.find(f"{SVG}rect")
        x, y, wide, high = (float(box.get(k)) for k in ("x", "y", "width", "height"))
        name = " ".join(t.text for t in group.iter(f"{SVG}text"))
        boxes[name] = (x, y, x + wide, y + high)
    return boxes


def labels(root):
    return sorted(group.find(f"{SVG}text").text for group in groups(root, "relation"))


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def within(inner, outer):
    return (
        outer[0] <= inner[0] and outer[1] <= inner[1]
        and inner[2] <= outer[2] and inner[3] <= outer[3]
    )  # fmt: skip


def view(root):
    x, y, wide, high = map(float, root.get("viewBox").split())
    return x, y, x + wide, y + high


# ---- legibility --------------------------------------------------------------------------------


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("name", GRAPHS)
def test_nothing_overlaps_or_leaves_the_picture(kb, name, hops):
    root = ElementTree.fromstring(drawn(kb, GRAPHS[name], hops=hops))
    picture, boxes, written = view(root), list(entities(root).values()), list(texts(root))
    assert len(boxes) == len(groups(root, "entity"))
    assert [box for box in boxes if not within(box, picture)] == []
    assert [pair for pair in combinations(boxes, 2) if overlap(*pair)] == []
    assert [text for text, box in written if not within(box, picture)] == []
    assert [(a[0], b[0]) for a, b in combinations(written, 2) if overlap(a[1], b[1])] == []
    # A text lies in a box, or touches none.
    assert [
        text
        for text, inner in written
        if any(overlap(inner, box) and not within(inner, box) for box in boxes)
    ] == []


@pytest.mark.parametrize("name", GRAPHS)
def test_lines_stay_inside_the_picture(kb, name):
    root = ElementTree.fromstring(drawn(kb, GRAPHS[name], hops=2))
    left, top, right, low = view(root)
    for path in root.iter(f"{SVG}path"):
        if "C" in path.get("d"):
            numbers = re.findall(r"-?[\d.]+", path.get("d"))
            x0, y0, x1, y1, x2, y2, x3, y3 = map(float, numbers[:8])
            for t in (n / 20 for n in range(21)):
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                x = sum(w * p for w, p in zip(weights, (x0, x1, x2, x3), strict=True))
                y = sum(w * p for w, p in zip(weights, (y0, y1, y2, y3), strict=True))
                assert left <= x <= right
                assert top <= y <= low


def test_equal_graphs_give_equal_drawings(kb, tmp_path):
    from ku_rag import KnowledgeBase

    first = drawn(kb, GRAPHS["dense"])
    with KnowledgeBase.open(tmp_path / "other", create=True) as copy:
        assert drawn(copy, GRAPHS["dense"]) == first


# ---- content -----------------------------------------------------------------------------------

SMALL = [
    unit(
        "Rathian",
        ("attack of", "Triple Rush", "attack"),
        ("weak to", "Dragon", "element"),
        ("fears", "Dragon", "element"),
        ("roars at", "Rathian"),
        kind="monster",
    ),
    unit(
        "Triple Rush",
        ("continues", "Bite", "attack", "three times", "enraged"),
        ("ends in", "Rathian"),
        kind="attack",
    ),
    unit("Rathalos", ("mate of", "Rathian"), ("attack of", "Bite", "attack"), kind="monster"),
]


def test_entities_relations_and_kinds_are_drawn(kb):
    root = ElementTree.fromstring(drawn(kb, SMALL, "Rathian", hops=2))
    assert sorted(entities(root)) == [
        "Bite three times; when enraged", "Dragon", "Rathalos", "Rathian ↺ roars at", "Triple Rush",
    ]  # fmt: skip
    assert labels(root) == ["attack of", "continues", "ends in", "fears", "mate of", "weak to"]
    (across,) = groups(root, "across")
    assert across.find(f"{SVG}title").text == "Rathalos —attack of→ Bite"
    meanings = [group.find(f"{SVG}text").text for group in groups(root, "legend")]
    assert meanings == ["monster", "attack", "element", "attack of"]
    colours = {
        group.find(f"{SVG}text").text: group.find(f"{SVG}rect").get("fill")
        for group in groups(root, "entity")
    }
    assert colours["Rathian"] == colours["Rathalos"]
    assert len(set(colours.values())) == 3
    assert [text for text, _ in texts(root)][:2] == ["Entities: 5", "Relations: 8"]


@pytest.mark.parametrize(
    ("stated", "heads"),
    [
        ([unit("C", ("to", "D", "x"))], {(1, "D")}),
        ([unit("D", ("to", "C")), unit("C")], {(-1, "C")}),
        ([unit("C", ("to", "D")), unit("D", ("to", "C"))], {(1, "D"), (-1, "C")}),
    ],
)
def test_arrowheads_point_where_the_relation_goes(kb, stated, heads):
    """An arrowhead to the right touches the entity there; one to the left is near the other."""
    root = ElementTree.fromstring(drawn(kb, stated))
    arrowheads = set()
    assert len(groups(root, "relation")) == 1  # both directions are one line
    for polygon in groups(root, "relation")[0].iter(f"{SVG}polygon"):
        tip, back = (float(point.split(",")[0]) for point in polygon.get("points").split()[:2])
        side = 1 if tip > back else -1
        boxes = entities(root).items()
        arrowheads.add(
            (side, min(boxes, key=lambda item: min(abs(x - tip) for x in item[1][::2]))[0])
        )
    assert arrowheads == heads


def test_an_entity_without_relations_is_drawn_alone(kb):
    root = ElementTree.fromstring(drawn(kb, [unit("C"), unit("D", ("is", "E"))]))
    assert list(entities(root)) == ["C"]
    assert [text for text, _ in texts(root)] == ["Entities: 1", "C", "place"]


def test_what_is_left_out_is_counted(kb):
    graph = graph_of(kb, star(500, relations=2))
    entity = graph.find("C")[0]
    root = ElementTree.fromstring(draw(graph, entity, most=40))
    assert [text for text, _ in texts(root)][:3] == [
        "Entities: 40", "Relations: 39", "Entities not drawn: 461",
    ]  # fmt: skip
    # Both relations contribute.
    assert set(entities(root)) - {"C"} == {f"Attack {n}" for n in range(39)}
    assert list(entities(ElementTree.fromstring(draw(graph, entity, most=1)))) == ["C"]


def test_relations_across_are_drawn_in_colours_and_counted(kb):
    root = ElementTree.fromstring(drawn(kb, GRAPHS["dense"]))
    meanings = [group.find(f"{SVG}text").text for group in groups(root, "legend")]
    assert {"feeds", "hates", "rules"} < set(meanings)
    counts = dict(text.split(": ") for text, _ in texts(root) if ": " in text)
    graph = Graph(kb._database.connection, kb._layout)
    every = [step for name in ["C", *(f"Place {n}" for n in range(1, 60))]
             for step in graph.hop(graph.find(name)[0])]  # fmt: skip
    left_out = int(counts["Relations between these entities not drawn"])
    assert int(counts["Relations"]) + left_out == len(every)


def test_entities_that_point_to_one_are_around_it(kb):
    units = [unit(f"Country {n}", ("currency", "euro", "currency")) for n in range(5)]
    root = ElementTree.fromstring(drawn(kb, units, "euro"))
    assert sorted(entities(root)) == [*(f"Country {n}" for n in range(5)), "euro"]


def test_nearer_entities_come_first_and_branches_take_turns(kb):
    units = [
        unit("C", *(("a", f"B {n}") for n in range(10))),
        *(unit(f"B {n}", *(("b", f"L {n} {m}", "leaf") for m in range(10))) for n in range(10)),
    ]
    graph = graph_of(kb, units)
    result = neighbourhood(graph, graph.find("C")[0], hops=2, most=31)
    names = [entity.name for entity in result.entities]
    assert names[:11] == ["C", *(f"B {n}" for n in range(10))]
    assert names[11:] == [f"L {n} {m}" for n in range(10) for m in range(2)]
    rows = {entity.name: entity.row for entity in result.entities}
    assert all(result.parents[rows[f"L {n} {m}"]] == rows[f"B {n}"]
               for n in range(10) for m in range(2))  # fmt: skip
    assert result.left_out == 80


def test_names_are_escaped_and_cleaned(kb):
    name = 'a <b> & "c" \x1b[31m\u202egnirts\u202c Z' + "\u0301" * 40
    svg = drawn(kb, [unit("C", ("<is> &", name, "kind <k>")), unit(name)])
    root = ElementTree.fromstring(svg)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", svg)
    (drawn_name,) = set(entities(root)) - {"C"}
    assert drawn_name.startswith('a <b> & "c" [31m')
    assert drawn_name.count("\u0301") <= 2
    assert labels(root) == ["<is> &"]


@pytest.mark.parametrize("options", [{"hops": 0}, {"hops": 3}, {"most": 0}, {"most": 201}])
def test_numbers_out_of_range_are_refused(kb, options):
    with pytest.raises(BadInput, match=r"expected a whole number from 1 to"):
        drawn(kb, star(1), **options)


# ---- text --------------------------------------------------------------------------------------

lines = st.text(st.characters(codec="utf-8"), max_size=80)


@given(lines, st.integers(1, 3), st.integers(10, 40))
def test_lines_are_short_and_lose_nothing_unless_cut(text, most, length):
    wrapped = wrap(text, most, length)
    assert 1 <= len(wrapped) <= most
    assert all(len(line) <= length for line in wrapped)
    if clean(text) and not wrapped[-1].endswith("…"):
        assert "".join(wrapped).replace(" ", "") == clean(text).replace(" ", "")


@given(lines)
def test_a_cleaned_text_is_one_line_without_control_characters(text):
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert not any(unicodedata.category(c)[0] == "C" for c in cleaned)


def test_widths_are_at_least_those_of_a_common_font():
    for code in [*range(32, 127), *range(0xC0, 0x180), *range(0x391, 0x3CA), *range(0x410, 0x450)]:
        char = chr(code)
        if unicodedata.category(char)[0] != "C":
            assert text_width(char, 1000) >= font("Regular").getlength(char), char
