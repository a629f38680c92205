"""Resolution of a new unit without an id to a stored unit (KU-RAG, appendix A, KU addition).

A new unit joins the unit of its name; otherwise the unit whose picture, or else whose text, is
closer than units of this base are to each other. The decision depends on what is stored, and not
on row numbers or on the order of insertion: rows of equal score are compared together, and the
threshold is measured on pictures or texts that are chosen by their hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apsw
import numpy as np

from ku_rag.encoders.base import Vectors
from ku_rag.indexes.segment import Rows
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.store.database import Database
from ku_rag.store.vectors import Kind
from ku_rag.text.tokens import name_key

_UNMEASURED = 0.97
"""The threshold while there are too few units to measure one."""
_LOWEST = 0.9
_FEWEST = 20
_SAMPLE = 64, 512
"""Smallest and largest number of vectors that the threshold is measured on."""
_PAIRS = 1 << 22
"""About how many pairs of vectors are compared to measure it, within these bounds."""
_QUANTILE = 0.999
_NEAR = 32
_MOST = 1000
"""More rows of equal score are not examined: the unit joins none."""
_EQUAL = 1e-3
"""Scores that differ by less are equal. Rounding a unit vector to half precision changes its
product with another one by up to 2^-11, so the order of closer scores says nothing."""
_NOISE = 1e-5
"""Orders of summation in single precision change a score by less."""
_WHAT: dict[Kind, str] = {"image": "picture", "chunk": "text"}


def resolve(
    database: Database,
    name: str,
    compared: Iterable[tuple[VectorIndex, Vectors | Sequence[Vectors] | None]],
    *,
    threshold: float,
) -> tuple[tuple[int, float] | None, str]:
    """Return the unit that a new one joins, if there is one, its similarity, and why.

    `compared` are indexes of pictures and chunks, each with the vectors of the new unit,
    float32[n, dim]; the threshold is a cosine, 0 to 1, and 0 measures it.
    """
    named = database.connection.column("SELECT unit FROM names WHERE key = ?", (name_key(name),))
    if len(named) == 1:
        return (named[0], 1.0), f"it bears the name {name!r}"
    reasons = [f"{len(named) or 'no'} unit{'s bear' if named else ' bears'} its name"]
    for index, vectors in compared:
        if vectors is None or not len(vectors) or not index.count:
            continue
        score, rows = _nearest(index, np.asarray(vectors))
        limit = threshold or (measure(database, index) if score >= _LOWEST else _LOWEST)
        what = _WHAT[index.kind]
        if score < limit:
            reasons.append(f"the nearest {what} has cosine {score:.3f}, joining needs {limit:.3f}")
            continue
        owners = set().union(*_owners(database, index.kind, rows).values())
        if len(rows) >= _MOST:
            reasons.append(f"{_MOST:,} {what}s or more have cosine {score:.3f}")
            break
        if len(owners) == 1:
            why = f"its {what} has cosine {score:.3f}, at least {limit:.3f}"
            return (min(owners), score), why
        if owners:
            reasons.append(
                f"{what}s of {len(owners)} units have cosine {score:.3f}: {_ids(database, owners)}"
            )
            break
        reasons.append(f"the nearest {what} (cosine {score:.3f}) belongs to no unit")
    return None, "; ".join(reasons)


def _nearest(index: VectorIndex, vectors: Vectors) -> tuple[float, Rows]:
    """Return the highest cosine to one of the vectors, and the rows whose cosine equals it."""
    best, rows = -1.0, np.empty(0, np.int64)
    queries = vectors
    for most in (_NEAR, _MOST):
        hits, cosines = index.search(queries, most)
        best = max(best, float(cosines.max()))
        is_near = (hits >= 0) & (cosines >= best - _EQUAL)
        rows = np.union1d(rows, hits[is_near])
        queries = queries[is_near[:, -1]]
        if not len(queries):
            break
    # Half-precision numbers are multiples of 2^-24. In double precision, sums of their products are
    # exact in every order.
    rows, stored = index.gather(rows)
    products = vectors.astype(np.float16).astype(np.float64) @ stored.T.astype(np.float64)
    return float(products.max()), rows


def measure(database: Database, index: VectorIndex) -> float:
    """Return the cosine that 999 in 1,000 pairs of nearest units of this base do not exceed.

    It is greater by the difference that counts as none, and so equal scores do not reach it; an
    equal vector always does.
    """
    fewest, most = _SAMPLE
    size = min(max(_PAIRS // index.count, fewest), most)
    rows, vectors = index.gather(_sample(database, index.kind, size))
    hits, cosines = index.search(vectors, _NEAR)
    owners = _owners(database, index.kind, np.union1d(rows, hits))
    nearest = []
    for row, near, scores in zip(rows.tolist(), hits.tolist(), cosines.tolist(), strict=True):
        # Which rows of the lowest score are among the hits depends on their numbers.
        lowest = scores[-1] + _NOISE if near[-1] >= 0 else -1.0
        own = owners[row]
        others = [
            score
            for hit, score in zip(near, scores, strict=True)
            if score > lowest and own.isdisjoint(owners.get(hit, own))
        ]
        if others:
            nearest.append(max(others))
    if len(nearest) < _FEWEST:
        return _UNMEASURED
    measured = float(np.quantile(nearest, _QUANTILE)) + _EQUAL
    return min(max(_LOWEST, measured), 1 - _EQUAL)


def _sample(database: Database, kind: Kind, most: int) -> Rows:
    """Return rows that units own, those whose contents have the smallest hashes.

    Of rows with equal texts any may be returned: their vectors are equal.
    """
    owned = {
        "image": "SELECT row FROM images WHERE EXISTS "
        "(SELECT 1 FROM unit_images WHERE image = images.row AND unit IS NOT NULL) "
        "ORDER BY hash LIMIT ?",
        "chunk": "SELECT chunks.row, min(text) FROM chunks JOIN unit_chunks "
        "ON chunk = chunks.row AND owned GROUP BY hash ORDER BY hash LIMIT ?",
    }[kind]
    rows = database.connection.execute(owned, (most,))
    return np.fromiter((row for row, *_ in rows), np.int64)


def _owners(database: Database, kind: Kind, rows: Rows) -> dict[int, set[int]]:
    """Return the units that own each of the rows, as far as there are any."""
    owned = {
        "image": "SELECT image, unit FROM unit_images JOIN carray(?) ON image = value "
        "WHERE unit IS NOT NULL",
        "chunk": "SELECT chunk, unit FROM unit_chunks JOIN carray(?) ON chunk = value WHERE owned",
    }[kind]
    owners: dict[int, set[int]] = {}
    for row, unit in database.connection.execute(owned, (apsw.carray(rows),)):
        owners.setdefault(row, set()).add(unit)
    return owners


def _ids(database: Database, units: Iterable[int]) -> str:
    """Return the ids of units for a message, the first three in their order."""
    ids = database.connection.column(
        "SELECT id FROM units WHERE row IN (SELECT value FROM carray(?)) ORDER BY id",
        (apsw.carray(np.fromiter(units, np.int64)),),
    )
    return ", ".join(map(repr, ids[:3])) + (f" and {len(ids) - 3} more" if ids[3:] else "")
