"""A large graph: times of the import, of a hop and of a search.

    python -m benchmarks.graph [--entities 100000] [--relations 1000000] [--rounds 3] [--write]

The graph is generated with a fixed seed: each entity has a line of its own, heads and tails are
drawn from a uniform distribution. It is imported from JSON lines into a new base, a complete import
that reads the file, resolves names, writes units, sources, names and checksums, and commits
durably. Alternating with it, the stored relations alone are inserted into a bare SQLite file with
the same indexes, by `executemany` in one transaction. The figures are medians of the rounds; the
ratio is that of processor times.

A search is the whole of `graph_search` with the embedded agents, for a question that names a topic
and a relation. "Evidence" is the search for the paths that a query adds from its matched unit.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import ku_rag
from benchmarks.record import write_result
from ku_rag.graph.model import Graph
from ku_rag.graph.traversal import best_paths
from ku_rag.store.connection import connect
from ku_rag.store.layout import Layout

SEED = 7
HOPS = 2000
SEARCHES = 100
_TOPICS = 300
"""One in this many entities is a topic."""
_WORDS = ("attack of", "continues", "phase", "weak to", "causes", "part of", "lives in", "hunts")


def draw(path: Path, entities: int, relations: int) -> None:
    """Write a random graph as JSON lines: entities, then relations, a fifth with a condition."""
    rng = random.Random(SEED)
    with path.open("w", encoding="utf-8") as file:
        for n in range(entities):
            topic = {"topic": True} if n % _TOPICS == 0 else {}
            file.write(json.dumps({"entity": f"Entity {n}", "kind": "thing", **topic}) + "\n")
        for n in range(relations):
            record = {
                "head": f"Entity {rng.randrange(entities)}",
                "relation": rng.choice(_WORDS),
                "tail": f"Entity {rng.randrange(entities)}",
            }
            if n % 5 == 0:
                record["condition"] = f"when state {n % 97}"
            file.write(json.dumps(record) + "\n")


def measure(entities: int, relations: int, rounds: int) -> dict[str, Any]:
    """Return the figures of one run, which can be written as JSON."""
    imports: list[tuple[float, float]] = []
    bare: list[float] = []
    traversal: dict[str, dict[str, float]] = {}
    stored = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="ku-graph-") as folder:
            place = Path(folder)
            draw(place / "graph.jsonl", entities, relations)
            with ku_rag.KnowledgeBase.open(place / "kb", create=True) as kb:
                started = time.perf_counter(), time.process_time()
                report = kb.graph.import_file(place / "graph.jsonl")
                imports.append((time.perf_counter() - started[0], time.process_time() - started[1]))
                traversal = traversal or _traversal_times(kb, place / "kb", entities)
            stored = report.relations_added
            bare.append(_bare_import(place / "kb" / "ku.sqlite", place / "bare.sqlite"))
    seconds, processor = map(statistics.median, zip(*imports, strict=True))
    return {
        "entities": entities,
        "relations": stored,
        "rounds": rounds,
        "import": {
            "seconds": round(seconds, 2),
            "relations_per_second": round(stored / seconds),
            "seconds_of_each": [round(wall, 2) for wall, _ in imports],
            "processor_seconds": round(processor, 2),
        },
        "bare_processor_seconds": round(statistics.median(bare), 2),
        "import_to_bare": round(processor / statistics.median(bare), 2),
        **traversal,
    }


def _bare_import(stored: Path, path: Path) -> float:
    """Return the processor seconds of inserting the stored relations into a bare file."""
    connection = connect(stored)
    rows = connection.execute("SELECT * FROM relations").fetchall()
    statements = connection.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = 'relations' ORDER BY type DESC"
    ).fetchall()
    connection.close()
    connection = connect(path, create=True)
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA journal_mode = WAL")
    connection.execute("; ".join(sql for (sql,) in statements))
    started = time.process_time()
    with connection:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO relations VALUES ({marks})", rows)
    seconds = time.process_time() - started
    connection.close()
    return seconds


def _traversal_times(
    kb: ku_rag.KnowledgeBase, base: Path, entities: int
) -> dict[str, dict[str, float]]:
    """Return milliseconds of hops from random entities, of searches and of evidence paths."""
    connection = connect(base / "ku.sqlite")
    graph = Graph(connection, Layout(base))
    rng = random.Random(SEED)
    hops, searches, evidence = [], [], []
    steps = paths = 0
    for _ in range(HOPS):
        entity = graph.entity(f"Entity {rng.randrange(entities)}")
        started = time.perf_counter()
        steps += len(graph.hop(entity))
        hops.append(time.perf_counter() - started)
    for _ in range(SEARCHES):
        name = f"Entity {rng.randrange(0, entities, _TOPICS)}"
        question = f"What {rng.choice(_WORDS)} {name} when in state {rng.randrange(97)}?"
        started = time.perf_counter()
        paths += len(kb.graph.search(question).to_dict()["paths"])
        searches.append(time.perf_counter() - started)
        started = time.perf_counter()
        best_paths(graph, [graph.entity(name)], question, k=5)
        evidence.append(time.perf_counter() - started)
    connection.close()
    return {
        "hop_ms": {**_milliseconds(hops), "steps": round(steps / HOPS, 2)},
        "search_ms": {**_milliseconds(searches), "paths": round(paths / SEARCHES, 2)},
        "evidence_ms": _milliseconds(evidence),
    }


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    return {
        "p50": round(statistics.median(seconds) * 1000, 4),
        "p99": round(statistics.quantiles(seconds, n=100)[98] * 1000, 4),
    }


def main() -> None:
    """Measure, print, and with --write write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--relations", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the figures in results/")
    options = parser.parse_args()
    figures = measure(options.entities, options.relations, options.rounds)
    print(json.dumps(figures, indent=2))
    if options.write:
        print(write_result("graph", figures))


if __name__ == "__main__":
    main()
