"""Edit distances at which the title of a table names an entity: `python -m benchmarks.anchoring`.

For each OTT-QA question, its names (runs of capitalised words) replace extracted entities, and the
three best tables of the search are the candidates. The program prints, for each distance, the
shares of gold tables and of other tables with a title closer than that to a name: for every second
question (tuning), and for the others (report).
"""

from __future__ import annotations

import re
import sys
from tempfile import TemporaryDirectory

from benchmarks.ottqa import units
from benchmarks.questions import ottqa
from benchmarks.record import mean
from ku_rag import KnowledgeBase
from ku_rag.papers.graphrag.clue_selection import edit_distance
from ku_rag.types import Evidence

DISTANCES = (0.25, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
_NAME = re.compile(r"\b[A-Z0-9][\w'-]*(?: (?:(?:of|the|and|in|de) )?[A-Z0-9][\w'-]*)*")
_MOST_TABLES = 3


def tables_of(rows: list[Evidence]) -> dict[str, set[str]]:
    """Return the titles of the first tables by the ids of their units."""
    titles: dict[str, set[str]] = {}
    for row in rows:
        if row.table and (len(titles) < _MOST_TABLES or row.owners[0] in titles):
            own = titles.setdefault(row.owners[0], set())
            own |= {row.owner_names[0], row.table.name} - {""}
    return titles


def main() -> None:
    """Measure and print."""
    questions, passages = ottqa()
    distances: list[list[tuple[bool, float]]] = []
    with TemporaryDirectory() as folder, KnowledgeBase.open(folder, create=True) as kb:
        kb.add_many(list(units(passages, {})))
        for question in questions:
            names = _NAME.findall(question.question)[1:] or [question.question]
            tables = tables_of(list(kb.search(text=question.question, k=100).chunks))
            distances.append(
                [
                    (
                        table == question.units[0],
                        min(edit_distance(title, name) for title in titles for name in names),
                    )
                    for table, titles in tables.items()
                ]
            )
    for half, part in (("tuning", distances[::2]), ("report", distances[1::2])):
        pairs = [pair for row in part for pair in row]
        for limit in DISTANCES:
            gold = mean([distance < limit for is_gold, distance in pairs if is_gold])
            others = mean([distance < limit for is_gold, distance in pairs if not is_gold])
            print(f"{half}, below {limit}: gold tables {gold}, others {others}")


if __name__ == "__main__":
    sys.exit(main())
