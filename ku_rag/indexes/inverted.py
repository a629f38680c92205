"""The inverted index: a list of chunks for every unit (KU-RAG, section 3.2.2, Assembly).

A unit's list holds the chunks of its own sources, the chunks that name it, and the rows of tables
with a cell that links to it. The lists depend only on the stored units and chunks, not on their
order: a new chunk is searched for all names, and a new name is searched in all chunks. Functions
that write are called inside a change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

from ku_rag.indexes import keywords
from ku_rag.indexes.name_index import NameIndex, matchable
from ku_rag.store import table_rows, vocabulary
from ku_rag.store.connection import SLICE, Connection, as_json, fields
from ku_rag.text.tokens import words

# A chunk of the unit's own source is already in its list and stays marked as owned.
_LINKED = f"INSERT OR IGNORE INTO unit_chunks SELECT {fields(2)}, 0 FROM json_each(?)"
_NAMES = "SELECT n.key, n.unit FROM names n JOIN units u ON u.row = n.unit WHERE u.match"
# The chunks of the sources with such links are read once, whatever the number of links.
_LINKED_CELLS = """
    WITH linked AS MATERIALIZED (
        SELECT u.row AS unit, k.source, k.document FROM cell_links k JOIN units u ON u.id = k.target
        WHERE {}
    )
    SELECT l.unit, c.row, 0 FROM (SELECT DISTINCT source FROM linked) s
    CROSS JOIN chunks c ON c.source = s.source
    JOIN linked l ON l.source = c.source AND l.document = c.document
"""


def rename(
    connection: Connection, unit: int, name: str, *, before: set[str], after: set[str]
) -> None:
    """Update a unit's list after its name keys have changed. Called inside a change.

    Cells of tables that hold its old name, whose key is `name`, stay linked to it.
    """
    if before - after:
        if name not in after:
            table_rows.link_named(connection, unit, name)
        left = NameIndex((key, unit) for key in after)
        named = connection.execute(
            "SELECT c.row, c.text FROM unit_chunks l JOIN chunks c ON c.row = l.chunk "
            "WHERE l.unit = ? AND NOT l.owned",
            (unit,),
        ).fetchall()
        connection.executemany(
            "DELETE FROM unit_chunks WHERE unit = ? AND chunk = ?",
            ((unit, chunk) for chunk, text in named if not left.find(words(text))),
        )
    add_names(connection, {unit: after - before})


def add_names(connection: Connection, units: Mapping[int, set[str]]) -> None:
    """List the stored chunks that name or link units; `units` maps rows to new name keys."""
    keys = set().union(*units.values())
    vocabulary.of(connection).beginnings.add(key.partition(" ")[0] for key in keys)
    if connection.execute("SELECT 1 FROM chunks LIMIT 1").fetchone() is None:
        return
    keys = keywords.in_vocabulary(connection, keys)
    new = [
        (key, unit)
        for unit, of_unit in units.items()
        for key in filter(matchable, sorted(of_unit & keys))
    ]
    links: list[tuple[int, int]] = []
    candidates = keywords.chunks_with_all(connection, [key for key, _ in new])
    for place, group in groupby(candidates, key=itemgetter(0)):
        wanted, unit = NameIndex([new[place]]), new[place][1]
        links += ((unit, chunk) for _, chunk, text in group if wanted.find(words(text)))
    _link(connection, links)
    _link_cells(connection, "u.row IN (SELECT value FROM json_each(?))", units)


def add_chunks(connection: Connection, chunks: Mapping[int, tuple[int | None, str]]) -> None:
    """Add new chunks to the keyword index, and to the list of every unit that they name.

    Called inside a change. `chunks` has the row of the owner and the text of each row.
    """
    rows = list(chunks)
    for first in range(0, len(rows), SLICE):
        cut = {row: words(chunks[row][1]) for row in rows[first : first + SLICE]}
        names = names_in(connection, cut.values())
        _link(connection, [(unit, row) for row, of in cut.items() for unit in names.find(of)])
        vocabulary.of(connection).terms.add(set(chain.from_iterable(cut.values())))
        owned = [(row, chunks[row][0], of) for row, of in cut.items()]
        keywords.put(connection, {unit for _, unit, _ in owned if unit is not None}, owned)
    sources = "(SELECT source FROM chunks WHERE row IN (SELECT value FROM json_each(?)))"
    _link_cells(connection, f"k.source IN {sources}", chunks)


def names_in(connection: Connection, texts: Collection[Sequence[str]]) -> NameIndex:
    """Return an index of the names that are a word of some texts or begin with two adjacent ones.

    The first word would not do: "Thing 1", "Thing 2" … may be the names of all units.
    """
    distinct = set(chain.from_iterable(texts))
    firsts = set(vocabulary.of(connection).beginnings.among(connection, distinct))
    pairs = {
        f"{first} {second}" for of in texts for first, second in pairwise(of) if first in firsts
    }
    # Words contain no character before "!", so these keys are the pair, alone or before a space.
    starts = "n.key >= w.value AND n.key < w.value || '!'"
    select = (
        "SELECT n.key, n.unit FROM json_each({}) w CROSS JOIN names n ON {} "
        "CROSS JOIN units u ON u.row = n.unit WHERE u.match"
    )
    query = f"{select.format('?1', 'n.key = w.value')} UNION ALL {select.format('?2', starts)}"
    return NameIndex(connection.execute(query, (as_json(firsts), as_json(pairs))))


def differences(connection: Connection) -> Iterator[str]:
    """Yield differences between the stored lists and the names in texts; for `verify`."""
    names = NameIndex(connection.execute(_NAMES))
    linked: dict[int, set[int]] = {}
    for unit, chunk, _ in connection.execute(_LINKED_CELLS.format("1")):
        linked.setdefault(chunk, set()).add(unit)
    for chunk, text, owner in connection.execute(
        "SELECT c.row, c.text, s.unit FROM chunks c JOIN sources s ON s.row = c.source"
    ):
        listing = {*names.find(words(text)), *linked.get(chunk, ())}
        expected = {(unit, 0) for unit in listing if unit != owner}
        if owner is not None:
            expected.add((owner, 1))
        stored = set(
            connection.execute("SELECT unit, owned FROM unit_chunks WHERE chunk = ?", (chunk,))
        )
        if stored != expected:
            yield (
                f"chunk {chunk} is listed by units {sorted(stored)}, expected "
                f"{sorted(expected)} (unit row, 1 when owned)"
            )


def _link(connection: Connection, links: Sequence[tuple[int, int]]) -> None:
    if links:  # otherwise SQLite would write the new rows of the keyword index to disk now
        connection.execute(_LINKED, (as_json(links),))


def _link_cells(connection: Connection, condition: str, rows: Iterable[int]) -> None:
    """List the chunks with cells that link to units; the condition on rows selects the links."""
    if connection.execute("SELECT 1 FROM cell_links LIMIT 1").fetchone():
        select = _LINKED_CELLS.format(condition)
        connection.execute(f"INSERT OR IGNORE INTO unit_chunks {select}", (as_json(rows),))
