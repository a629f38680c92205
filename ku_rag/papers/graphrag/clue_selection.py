"""Anchors of pictures and tables, and the selection of clues, by edit distance and by vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ku_rag.encoders.base import Encoder, encode_queries
from ku_rag.encoders.pair import side
from ku_rag.papers.graphrag.evidence_graph import RELATED, EvidenceEdge, EvidenceNode
from ku_rag.retrieval.image_matching import ImageSearch
from ku_rag.text.tokens import name_key

MOST_SHOWN = 3
"""Pictures among which a model chooses (appendix B)."""


def edit_distance(name: str, other: str) -> float:
    """Return the Levenshtein distance of two names, 0 to 1: divided by the length of the longer."""
    from rapidfuzz.distance import Levenshtein

    keys = name_key(name), name_key(other)
    return float(Levenshtein.normalized_distance(*keys)) if all(keys) else 1.0


def anchors(
    medium: EvidenceNode, nodes: Sequence[EvidenceNode], threshold: float
) -> Iterator[EvidenceEdge]:
    """Yield edges from a picture or table to entities that its titles name, below a distance."""
    for node in nodes:
        distance = min((edit_distance(title, node.name) for title in medium.titles), default=1.0)
        if distance < threshold or not distance:
            yield EvidenceEdge(medium.id, RELATED, node.id)


def select_by_name(nodes: Sequence[EvidenceNode], keywords: Sequence[str], k: int) -> list[str]:
    """Return ids of the k nodes with the least distance to any of the keywords (eq. 5)."""
    distances = [
        min((edit_distance(node.name, word) for word in keywords), default=1.0) for node in nodes
    ]
    order = sorted(range(len(nodes)), key=lambda n: distances[n])
    return [nodes[n].id for n in order[:k]]


def select_by_description(
    nodes: Sequence[EvidenceNode], question: str, encoder: Encoder, k: int
) -> list[str]:
    """Return ids of the k nodes whose descriptions have the greatest cosine to the question."""
    if not nodes:
        return []
    texts = [node.description or node.name for node in nodes]
    vectors = encode_queries(encoder, [question, *texts])
    order = np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")
    return [nodes[n].id for n in order[:k].tolist()]


def nearest_pictures(
    description: str, pictures: Sequence[EvidenceNode], search: ImageSearch
) -> tuple[list[EvidenceNode], str]:
    """Return the three pictures nearest to a description; or the first three, and why."""
    encoder = side(search.encoder, "image")
    if len(pictures) <= MOST_SHOWN:
        return list(pictures), ""
    if not encoder.cross_modal:
        note = f"{encoder.fingerprint} compares no texts with pictures: the first {MOST_SHOWN}"
        return list(pictures[:MOST_SHOWN]), note
    by_row = {picture.image or 0: picture for picture in pictures}
    vector = encode_queries(encoder, [description])
    rows, _ = search.images.search(vector, MOST_SHOWN, among=np.array([*by_row], np.int64))
    return [by_row[row] for row in rows[0].tolist() if row >= 0], ""
