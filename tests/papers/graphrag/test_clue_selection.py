"""Anchors and clues: edit distances, the two paths of nodes, and pictures by description."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.encoders.embedded.encoder import EmbeddedEncoder
from ku_rag.papers.graphrag.clue_selection import (
    anchors,
    edit_distance,
    select_by_description,
    select_by_name,
)
from ku_rag.papers.graphrag.evidence_graph import EvidenceNode
from tests.papers.graphrag.test_construction import Cast, build

COLOURS = ("red", "green", "blue")


class ColourEncoder:
    """Encodes texts by the colours that they name, and pictures by their mean colour."""

    dim, max_tokens, cross_modal, fingerprint = 3, 100, True, "tests/colours:3"

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        return scaled([[text.split().count(colour) + 0.01 for colour in COLOURS] for text in texts])

    def encode_images(self, images):
        return scaled([np.asarray(image, np.float32).mean((0, 1)) + 0.01 for image in images])

    def encode_regions(self, image, boxes):
        return self.encode_images([image.crop(box) for box in boxes])


def scaled(rows):
    vectors = np.array(rows, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def node(name, description=""):
    return EvidenceNode(f"text:{name}", name, "thing", "text", description)


def image_node(*titles):
    return EvidenceNode("image:1", "Songs", "image", "image", image=1, titles=titles)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("Billy Joel", "billy-joel!", 0.0),
        ("Café", "Cafe", 0.0),
        ("Billy Joel", "Billy Noel", 0.1),
        ("Joel", "Billy Joel", 0.6),
        ("?", "?", 1.0),
    ],
)
def test_edit_distance_is_relative_to_the_longer_name(first, second, distance):
    assert edit_distance(first, second) == pytest.approx(distance)


def test_a_title_below_the_threshold_is_anchored():
    nodes = [node("Billy Joel"), node("Billy Noel"), node("Elton John")]
    targets = [edge.target for edge in anchors(image_node("Songs", "Billy Joel"), nodes, 0.2)]
    assert targets == ["text:Billy Joel", "text:Billy Noel"]
    assert [edge.target for edge in anchors(image_node("Billy Joel"), nodes, 0.1)] == targets[:1]
    # No distance is below 0, but equal names are always anchored.
    assert [edge.target for edge in anchors(image_node("Billy Joel"), nodes, 0)] == targets[:1]
    assert [*anchors(image_node(), nodes, 1)] == []


def test_the_nearest_keyword_counts():
    nodes = [node("Piano Man"), node("Colton Dixon"), node("Elton John")]
    assert select_by_name(nodes, ("Colton Dixen", "Piano"), 2) == [
        "text:Colton Dixon",
        "text:Piano Man",
    ]
    assert select_by_name(nodes, (), 1) == ["text:Piano Man"]


def test_descriptions_are_compared_with_the_question():
    nodes = [node("A", "a tall tower"), node("B", "a singer of happy songs"), node("singer songs")]
    selected = select_by_description(nodes, "Which singer has happy songs?", EmbeddedEncoder(), 2)
    assert selected == ["text:B", "text:singer songs"]
    assert select_by_description([], "Which?", EmbeddedEncoder(), 2) == []


def test_three_pictures_are_chosen_by_an_encoder_of_texts_and_pictures(tmp_path):
    shades = {"Rust": (200, 20, 0), "Rose": (255, 0, 40), "Leaf": (0, 250, 0), "Moss": (20, 90, 0)}
    shades |= {"Sea": (0, 20, 220), "Sky": (10, 60, 255), "Ink": (0, 0, 90)}
    units = []
    for name, shade in shades.items():
        Image.new("RGB", (64, 64), shade).save(tmp_path / f"{name}.png")
        texts = (f"{name} is a film.",)
        units.append(Unit(name, id=name, texts=texts, images=(tmp_path / f"{name}.png",)))
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=ColourEncoder()) as kb:
        kb.add_many(units)

    titles = []

    def choose(lines):
        titles.extend(line["title"] for line in lines if "title" in line)
        return {"picture": 1}

    def extract(lines):
        return {"entities": [{"name": name, "type": "film"} for name in shades]}

    cast = Cast(
        pattern={"entity_types": ["film"], "relations": [], "keywords": ["film"]},
        extraction=extract,
        descriptions={"descriptions": ["a blue poster"]},
        choice=choose,
        sufficiency={"enough": True},
    )
    result = build(
        tmp_path / "kb", cast, "Which film has a blue poster?", encoder=ColourEncoder(), k=1
    )
    assert set(titles) == {"Sea", "Sky", "Ink"}
    chosen = [
        image.name for image in result.graph.of("image") if "a blue poster" in image.description
    ]
    assert chosen == titles[:1]
