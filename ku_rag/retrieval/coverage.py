"""Joint coverage: how much of a question a chunk covers together with the chunks linked to it.

A chunk that names a unit, or states a relation to it, is linked to the unit's own chunks. Two of
them together often answer a question: a paragraph and the one that it refers to, a row of a table
and the article that one of its cells names. So each term of the question counts where it is found
best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ku_rag.indexes.keywords import TermScores
from ku_rag.store import table_rows
from ku_rag.store.connection import Connection, array_of, distinct

_MOST_LINKS = 5_000
_OWN = 0.3
"""Weight of what a chunk covers by itself, beside the joint coverage."""
_LINKED = 0.5
"""Share of a term's score that a chunk gets from a chunk that it is linked to."""
_LINKING = 0.75
"""Share of the joint score of a text that the chunks it is linked to get; of a table row: all."""

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


def joint_scores(
    connection: Connection, terms: TermScores, most: int, *, pool: int
) -> dict[int, float]:
    """Return the joint scores of the best chunks, at most `most`, row → score from 0 to 1.

    The links of the `pool` chunks with the best scores are followed; 0 follows none.
    """
    if not len(terms.rows):
        return {}
    own = terms.scores.sum(0)
    linking, linked, share = _links(connection, terms.rows[_best(own, pool)])
    rows = distinct(np.concatenate([terms.rows, linked]))
    by_term = np.zeros((len(terms.scores), len(rows)))
    by_term[:, np.searchsorted(rows, terms.rows)] = terms.scores
    ends = np.searchsorted(rows, linking), np.searchsorted(rows, linked)
    scores = _joint(by_term, *ends, share)
    best = _best(scores, most)
    return dict(zip(rows[best].tolist(), (scores[best] / scores[best[0]]).tolist(), strict=True))


def _best(scores: Floats, most: int) -> Places:
    """Return the places of the best scores, best first, the first of equal ones first."""
    # Many scores are equal: NumPy partitions them faster by the smallest than by the largest.
    costs, places = -scores, np.arange(len(scores))
    if 0 < most < len(scores):
        places = np.flatnonzero(costs <= np.partition(costs, most - 1)[most - 1])
    return places[np.argsort(costs[places], kind="stable")[:most]]


def _joint(by_term: Floats, linking: Places, linked: Places, share: Floats) -> Floats:
    """Return float64[chunks] for float64[terms, chunks], the ends of links, and their shares."""
    together = by_term.copy()
    np.maximum.at(together.T, linking, _LINKED * by_term[:, linked].T)
    best: Floats = together.sum(0)
    passed_on = np.maximum(by_term[:, linked], share * together[:, linking]).sum(0)
    np.maximum.at(best, linked, passed_on)
    best += _OWN * by_term.sum(0)
    return best


def _links(connection: Connection, pool: Places) -> tuple[Places, Places, Floats]:
    """Return the links of chunks of a pool: the chunks, those that they are linked to, shares."""
    if not len(pool):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    pairs = connection.execute(
        "SELECT l.chunk, o.chunk FROM unit_chunks l JOIN unit_chunks o ON o.unit = l.unit "
        "WHERE l.chunk IN (SELECT value FROM carray(?1)) AND NOT l.owned AND o.owned "
        "UNION SELECT c.row, o.chunk FROM carray(?1) p JOIN chunks c ON c.row = p.value "
        "JOIN relations r ON r.source = c.source JOIN entities e ON e.row = r.tail "
        "JOIN unit_chunks o ON o.unit = e.unit AND o.owned LIMIT ?2",
        (array_of(pool.tolist()), _MOST_LINKS),
    ).fetchall()
    linking, linked = np.array(pairs, np.int64).reshape(-1, 2).T
    rows = table_rows.row_chunks(connection, pool.tolist())
    return linking, linked, np.where(np.isin(linking, rows), 1.0, _LINKING)
