"""Salvaged rows that name rows which are lost: what can be known of those is put in their place.

A lost row's id or uri is taken from a page of its index, if that page says of other rows what is
known of them: a page belongs to one index. Content whose unit cannot be found is kept as shared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ku_rag.ingest.assembly import Declaration
from ku_rag.store import relations
from ku_rag.store.connection import Connection
from ku_rag.store.database import checksum
from ku_rag.transfer.pages import Pages

_REFERRING = ("chunks", "unit_images", "relations")
_LOST = "incomplete:incomplete"


@dataclass(slots=True)
class Index:
    """What an index that gives the numbers of texts says of rows.

    Args:
        known: number → text of the rows that are sound.
        said: likewise, from pages that agree with `known`.
    """

    known: Mapping[int, str]
    said: dict[int, str] = field(default_factory=dict)

    def look_at(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Take what a page says, (number, text) each, if it says of known rows what is known."""
        agree = [self.known[row] == text for row, text in pairs if row in self.known]
        if agree and all(agree):
            self.said.update(pairs)


def mend(
    connection: Connection,
    pages: Pages,
    names: Mapping[tuple[str, int], str],
    *,
    units: Index,
    sources: Index,
) -> dict[str, list[str]]:
    """Make salvaged rows a store that can be exported.

    Args:
        connection: to the new store.
        pages: the damaged one.
        names: what rows that fail their checksum call themselves, by table and row.
        units: of ids.
        sources: of uris.

    Returns:
        What is lost, by table.
    """
    connection.execute("BEGIN")
    _mend_encoders(connection)
    lost = {
        "sources": sorted(_mend_sources(connection, pages, sources, names)),
        "units": sorted(_mend_units(connection, units, names)),
    }
    for table, index in (("sources", sources), ("units", units)):
        gone = (row for row in index.said if not _there(connection, table, row))
        lost[table] += [index.said[row] for row in sorted(gone)]
    lost |= _count(connection)
    connection.execute("COMMIT")
    return lost


def _there(connection: Connection, table: str, row: int) -> bool:
    return connection.execute(f"SELECT 1 FROM {table} WHERE row = ?", (row,)).fetchone() is not None


# ---- sources and units -------------------------------------------------------------------------


def _mend_sources(
    connection: Connection,
    pages: Pages,
    index: Index,
    names: Mapping[tuple[str, int], str],
) -> Iterator[str]:
    missing = {
        row
        for table in _REFERRING
        for (row,) in connection.execute(f"SELECT DISTINCT source FROM {table}")
    } - index.known.keys()
    owners = _owners(connection, pages) if missing else {}
    taken = set(index.known.values())
    for row in sorted(missing):
        uri = index.said.get(row) or names.get(("sources", row)) or f"salvaged:source-{row}"
        if uri in taken:
            uri = f"salvaged:source-{row}"
        taken.add(uri)
        unit = owners.get(row)
        declared = "{}" if unit is None else Declaration().to_json()
        fields = (uri, unit, "ingest", _LOST, declared)
        connection.execute(
            "INSERT INTO sources (row, uri, unit, origin, hash, declared, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row, *fields, checksum(*fields)),
        )
        yield uri


def _owners(connection: Connection, pages: Pages) -> dict[int, int]:
    """The units of lost sources, as far as what they brought says."""
    said: dict[int, Counter[int]] = {}
    for sql in (
        "SELECT source, unit FROM unit_images WHERE unit IS NOT NULL",
        "SELECT r.source, e.unit FROM relations r JOIN entities e ON e.row = r.head "
        "WHERE e.unit IS NOT NULL",
    ):
        for source, unit in connection.execute(sql):
            said.setdefault(source, Counter())[unit] += 1
    for source, unit in _listed(connection, pages):
        said.setdefault(source, Counter())[unit] += 1
    return {source: votes.most_common(1)[0][0] for source, votes in said.items()}


def _listed(connection: Connection, pages: Pages) -> Iterator[tuple[int, int]]:
    """(lost source, unit) from the pages of the lists that say which unit owns which chunk."""
    for page in pages.entries():
        triples = [cell.fields for cell in page if len(cell.fields) == 3]
        if not triples or any(fields[2] not in (0, 1) for fields in triples):
            continue
        agree, orphans = True, []
        for unit, chunk, owned in triples:
            if not (owned and isinstance(unit, int) and isinstance(chunk, int)):
                continue
            found = connection.execute(
                "SELECT c.source, s.row, s.unit FROM chunks c LEFT JOIN sources s "
                "ON s.row = c.source WHERE c.row = ?",
                (chunk,),
            ).fetchone()
            if found and found[1] is None:
                orphans.append((int(found[0]), unit))
            elif found and found[2] != unit:
                agree = False
        if agree:
            yield from orphans


def _mend_units(
    connection: Connection,
    index: Index,
    names: Mapping[tuple[str, int], str],
) -> Iterator[str]:
    missing = {
        row
        for (row,) in connection.execute("SELECT DISTINCT unit FROM sources WHERE unit NOT NULL")
    } - index.known.keys()
    taken = set(index.known.values())
    for row in sorted(missing):
        unit = index.said.get(row) or names.get(("units", row)) or f"salvaged:unit-{row}"
        if unit in taken:
            unit = f"salvaged:unit-{row}"
        taken.add(unit)
        said = [
            Declaration.from_json(declared)
            for (declared,) in connection.execute(
                "SELECT declared FROM sources WHERE unit = ? ORDER BY row", (row,)
            )
        ]
        name = next((one.name for one in said if one.name), unit)
        kind = next((one.kind for one in said if one.kind), "entity")
        aliases = json.dumps([a for one in said for a in one.aliases or ()], ensure_ascii=False)
        fields = (unit, name, kind, aliases, "{}", int(all(one.match for one in said)))
        connection.execute(
            "INSERT INTO units (row, id, name, kind, aliases, metadata, match, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (row, *fields, checksum(*fields)),
        )
        yield unit if name == unit else f"{unit} ({name})"


# ---- vectors -----------------------------------------------------------------------------------


def _mend_encoders(connection: Connection) -> None:
    """See that the manifest and the rows of encoders say what the vectors were made with."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'encoder'").fetchone()
    made = json.loads(found[0]) if found else None
    sides = (made or {}).get("sides", {})
    for kind in ("chunk", "image"):
        most = connection.execute(
            "SELECT encoder, length(vector) / 2 FROM vectors WHERE kind = ? "
            "GROUP BY encoder, length(vector) ORDER BY count(*) DESC LIMIT 1",
            (kind,),
        ).fetchone()
        if not most:
            continue
        if kind in sides:
            fingerprint, dim = sides[kind]
            if dim == most[1] and not _there(connection, "encoders", most[0]):
                connection.execute(
                    "REPLACE INTO encoders (row, fingerprint, dim) VALUES (?, ?, ?)",
                    (most[0], fingerprint, dim),
                )
            continue
        said = connection.execute(
            "SELECT fingerprint, dim FROM encoders WHERE row = ? AND dim = ?", most
        ).fetchone()
        if said:
            sides[kind] = list(said)
    if made is None and sides:
        names = dict.fromkeys(fingerprint for fingerprint, _ in sides.values())
        made = {"spec": None, "fingerprint": " + ".join(names), "sides": sides}
        connection.execute("REPLACE INTO meta VALUES ('encoder', ?)", (json.dumps(made),))


# ---- what is missing ---------------------------------------------------------------------------


def _count(connection: Connection) -> dict[str, list[str]]:
    """What sources should have and have not; their hashes then say so, see `gathering`."""
    return {
        "chunks": [
            f"{number} of {uri}"
            for uri, number in connection.execute(
                "SELECT s.uri, s.chunks - count(c.row) AS gone FROM sources s "
                "LEFT JOIN chunks c ON c.source = s.row WHERE s.chunks > 0 GROUP BY s.row "
                "HAVING gone > 0"
            )
        ],
        "images": [
            f"{number} of {uri}"
            for uri, number in connection.execute(
                "SELECT s.uri, s.images - count(i.row) AS gone FROM sources s "
                "LEFT JOIN unit_images l ON l.source = s.row LEFT JOIN images i ON i.row = l.image "
                "WHERE s.images > 0 GROUP BY s.row HAVING gone > 0"
            )
        ],
        "vectors": [
            f"{number} of {table}, made anew at import"
            for table, kind in (("chunks", "chunk"), ("images", "image"))
            for (number,) in connection.execute(
                f"SELECT count(*) FROM {table} WHERE row NOT IN "
                "(SELECT item FROM vectors WHERE kind = ?)",
                (kind,),
            )
            if number
        ],
        "relations": [
            f"some of {uri}"
            for row, uri, declared in connection.execute(
                "SELECT row, uri, declared FROM sources WHERE unit NOT NULL"
            )
            if Declaration.from_json(declared).relations != relations.stored_digest(connection, row)
        ],
    }
