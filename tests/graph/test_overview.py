"""Overviews of whole graphs: the selected entities and the drawings."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from ku_rag import Relation, Unit
from ku_rag.errors import BadInput
from tests.graph.test_drawing import SVG, dense


@pytest.fixture
def harbour(kb):
    """Three piers of a harbour, and an island without a relation to them."""
    kb.add(Unit("Harbour", relations=tuple(Relation("has", f"Pier {n}") for n in range(3))))
    kb.add(Unit("Pier 0", relations=(Relation("beside", "Pier 1"),)))
    kb.add(Unit("Island", relations=(Relation("has", "Lighthouse"),)))
    kb.add(Unit("Buoy"))
    return kb


def elements(drawing, name):
    return list(ElementTree.fromstring(drawing).iter(f"{SVG}{name}"))


def test_the_most_linked_entities_are_selected(harbour):
    view = harbour.graph.overview()
    names = [entity.name for entity in view.entities]
    assert names[0] == "Harbour"
    assert sorted(names) == ["Harbour", "Island", "Lighthouse", "Pier 0", "Pier 1", "Pier 2"]
    assert len(view.steps) == 5
    fewer = harbour.graph.overview(most=3)
    assert {entity.name for entity in fewer.entities} == {"Harbour", "Pier 0", "Pier 1"}
    assert (len(fewer.steps), fewer.left_out) == (3, 3)


def test_a_relation_and_further_entities_are_chosen(harbour):
    buoy = harbour.graph.show("Buoy").entity
    view = harbour.graph.overview(relation="beside", include=[buoy])
    assert view.entities[0] == buoy
    assert {entity.name for entity in view.entities[1:]} == {"Pier 0", "Pier 1"}
    assert [step.relation for step in view.steps] == ["beside"]
    with pytest.raises(BadInput, match="most"):
        harbour.graph.overview(most=501)


def test_a_drawing_has_entities_relations_and_paths(harbour):
    paths = harbour.graph.paths("Pier 2", "Pier 1", most=1, direction="both")
    view = harbour.graph.overview()
    (marked,) = (entity.row for entity in view.entities if entity.name == "Island")
    drawing = view.draw(paths=paths, marked=[marked], link=lambda entity: f"/units/{entity.name}")
    assert len(elements(drawing, "circle")) == 6
    assert {link.get("href") for link in elements(drawing, "a")} == {
        f"/units/{entity.name}" for entity in view.entities
    }
    wide = [line for line in elements(drawing, "path") if line.get("stroke-width") == "3"]
    assert len(wide) == 2
    rings = [circle for circle in elements(drawing, "circle") if circle.get("class") == "marked"]
    assert len(rings) == 1
    titles = [title.text for title in elements(drawing, "title")]
    assert "Harbour —has→ Pier 2" in titles
    assert view.draw() == harbour.graph.overview().draw()


def test_names_do_not_overlap_and_more_have_space_when_enlarged(kb):
    for unit in dense():
        kb.add(unit)
    view = kb.graph.overview()
    counts = []
    for zoom in (1, 4):
        drawing = view.draw(zoom=zoom)
        names = [text for text in elements(drawing, "text") if text.get("paint-order")]
        boxes = [(float(t.get("x")), float(t.get("y")), 6 * len(t.text)) for t in names]
        assert not any(
            abs(y - v) < 8 and x < u + b and u < x + a
            for (x, y, a), (u, v, b) in combinations(boxes, 2)
        )
        counts.append(len(names))
    assert counts[0] < counts[1] <= len(view.entities)


@pytest.mark.parametrize("relations", [(), (Relation("is", "Harbour"),)])
def test_a_graph_of_one_entity_is_drawn(kb, relations):
    kb.add(Unit("Harbour", relations=relations))
    view = kb.graph.overview(include=[kb.graph.show("Harbour").entity])
    assert len(elements(view.draw(), "circle")) == 1
