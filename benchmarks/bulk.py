"""Bulk insert beside bare apsw and LanceDB: the same chunks, texts and vectors, in turn.

    python -m benchmarks.bulk [--count 100000] [--rounds 3] [--write]

Two shapes are measured: units of one chunk with a field of metadata, and units of ten chunks.
Every system fills an empty folder in a process of its own, on two processors. The systems take
turns in every round, so that a slow minute of the machine is slow for all. Bare apsw stores the
rows that ku-rag's tables hold for the same chunks (units, sources, chunks, facts, keyword index,
lists, float16 vectors), with page checksums, in ten commits, synchronous=FULL. It does nothing
else, so it is the lower bound. "statements" runs the statements of ku-rag again on an empty base,
without the Python code between them: what is above it are checks, hashes, tokens and names.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import vectors
from benchmarks.peers.ku import CHUNKS_A_UNIT, GROUPS, KuRag
from benchmarks.peers.lance import LanceDb
from benchmarks.record import run_stage, write_result
from benchmarks.vectors import Prepared
from ku_rag.text.stems import index_terms
from ku_rag.text.tokens import words

SHAPES = (1, CHUNKS_A_UNIT)
"""Chunks a unit."""
SYSTEMS = ("ku-rag", "statements", "apsw", "lancedb")
_COMMITS = 10
_SCHEMA = """
    CREATE TABLE units (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL);
    CREATE TABLE names (key TEXT, unit INTEGER, PRIMARY KEY (key, unit)) WITHOUT ROWID;
    CREATE TABLE sources (row INTEGER PRIMARY KEY, uri TEXT NOT NULL UNIQUE, unit INTEGER);
    CREATE INDEX sources_unit ON sources(unit);
    CREATE TABLE chunks (row INTEGER PRIMARY KEY, source INTEGER, position INTEGER, text TEXT,
                         UNIQUE (source, position));
    CREATE TABLE unit_chunks (unit INTEGER, chunk INTEGER, owned INTEGER,
                              PRIMARY KEY (unit, chunk)) WITHOUT ROWID;
    CREATE INDEX unit_chunks_chunk ON unit_chunks(chunk);
    CREATE TABLE facts (
        row INTEGER PRIMARY KEY, unit INTEGER, label INTEGER, key TEXT, number REAL);
    CREATE INDEX facts_unit ON facts(unit, label);
    CREATE INDEX facts_key ON facts(label, key, unit);
    CREATE INDEX facts_number ON facts(label, number, unit);
    CREATE TABLE vectors (row INTEGER PRIMARY KEY, vector BLOB NOT NULL);
    CREATE VIRTUAL TABLE words USING fts5(
        terms, content = '', contentless_delete = 1, tokenize = 'ascii');
    INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
"""


Seconds = NDArray[np.float64]
"""Wall time and processor time of all threads."""


def _clock() -> Seconds:
    return np.array([time.perf_counter(), time.process_time()])


def fill_ku(made: Prepared, folder: Path, chunks_a_unit: int) -> Seconds:
    """Seconds of one `add_many` of everything."""
    peer = KuRag(folder, made.dim)
    peer.chunks_a_unit = chunks_a_unit
    peer.load()
    peer.create()
    rows, found, texts = next(made.batches(made.count))
    started = _clock()
    peer.add(rows, found, texts)
    seconds = _clock() - started
    peer.close()
    return seconds


def fill_statements(made: Prepared, folder: Path, chunks_a_unit: int) -> Seconds:
    """Seconds of the statements that `fill_ku` runs."""
    ran: list[tuple[str, Any]] = []

    def trace(_: object, sql: str, bindings: object) -> bool:
        ran.append((sql, bindings or ()))
        return True

    rows, found, texts = next(made.batches(made.count))
    for name in ("traced", "again"):
        peer = KuRag(folder / name, made.dim)
        peer.chunks_a_unit = chunks_a_unit
        peer.load()
        peer.create()
        connection = peer.kb._database.connection
        if name == "traced":
            connection.exec_trace = trace
            peer.add(rows, found, texts)
            connection.exec_trace = None
        else:
            groups = [(sql, [b for _, b in group]) for sql, group in groupby(ran, itemgetter(0))]
            started = _clock()
            for sql, bindings in groups:
                connection.executemany(sql, bindings).fetchall()
            seconds = _clock() - started
        peer.close()
    return seconds


def fill_lancedb(made: Prepared, folder: Path, chunks_a_unit: int) -> Seconds:
    """Seconds of adding a table and making its text index; it has no units."""
    del chunks_a_unit
    peer = LanceDb(folder, made.dim)
    peer.load()
    peer.create()
    batches = list(made.batches(peer.batch))
    started = _clock()
    for rows, found, texts in batches:
        peer.add(rows, found, texts)
    peer.index_texts()
    return _clock() - started


def _terms(unit: int, text: str) -> str:
    """The terms that ku-rag indexes for a chunk, the name of its unit included."""
    return index_terms(words(f"thing {unit} {text}"), "english")


def fill_apsw(made: Prepared, folder: Path, chunks_a_unit: int) -> Seconds:
    """Seconds of inserting the same rows by `executemany`."""
    import apsw
    import apsw.sqlite_extra

    apsw.sqlite_extra.load(apsw.Connection(":memory:"), "cksumvfs")
    connection = apsw.Connection(str(folder / "bare.sqlite"), vfs="cksmvfs")
    connection.reserve_bytes(reserve=8)
    connection.execute("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 8192")
    connection.execute(_SCHEMA)
    batches = [
        (
            rows,
            found,
            texts,
            [_terms(n // chunks_a_unit, text) for n, text in zip(rows, texts, strict=True)],
        )
        for rows, found, texts in made.batches(made.count // _COMMITS)
    ]
    started = _clock()
    for rows, found, texts, terms in batches:
        with connection:
            units = range(rows.start // chunks_a_unit, -(-rows.stop // chunks_a_unit))
            many = connection.executemany
            many("INSERT OR IGNORE INTO units VALUES (?, ?, ?)",
                 ((n, f"thing-{n}", f"thing {n}") for n in units))  # fmt: skip
            many("INSERT OR IGNORE INTO names VALUES (?, ?)", ((f"thing {n}", n) for n in units))
            many("INSERT OR IGNORE INTO sources VALUES (?, ?, ?)",
                 ((n, f"add:thing-{n}", n) for n in units))  # fmt: skip
            if chunks_a_unit == 1:
                many("INSERT INTO facts (unit, label, key, number) VALUES (?, 1, ?, ?)",
                     ((n, str(n % GROUPS), float(n % GROUPS)) for n in units))  # fmt: skip
            many("INSERT INTO chunks VALUES (?, ?, ?, ?)",
                 ((n, n // chunks_a_unit, n % chunks_a_unit, text)
                  for n, text in zip(rows, texts, strict=True)))  # fmt: skip
            many(
                "INSERT INTO unit_chunks VALUES (?, ?, 1)", ((n // chunks_a_unit, n) for n in rows)
            )
            halves = found.astype(np.float16)
            many("INSERT INTO vectors VALUES (?, ?)",
                 ((n, halves[at].data) for at, n in enumerate(rows)))  # fmt: skip
            many("INSERT INTO words (rowid, terms) VALUES (?, ?)", zip(rows, terms, strict=True))
    seconds = _clock() - started
    connection.close()
    return seconds


FILL: dict[str, Callable[[Prepared, Path, int], Seconds]] = {
    "ku-rag": fill_ku,
    "statements": fill_statements,
    "apsw": fill_apsw,
    "lancedb": fill_lancedb,
}


def in_process(system: str, name: str, count: int, cache: Path, chunks_a_unit: int) -> Seconds:
    """Seconds of filling one system in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["benchmarks.bulk", "--fill", system, "--folder", folder, "--sets", name]
        command += ["--chunks-a-unit", str(chunks_a_unit)]
        found = run_stage([*command, "--count", count, "--cache", cache], {})
    if "failed" in found:
        raise SystemExit(f"{system} failed: {found['failed']}")
    return np.array(found["seconds"])


def _summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Times, medians and ratios of one clock."""
    medians = {system: statistics.median(times) for system, times in seconds.items()}
    pairs = [("ku-rag", "apsw"), ("ku-rag", "lancedb")]
    pairs += [("statements", "apsw"), ("apsw", "lancedb"), ("ku-rag", "statements")]
    ratios = {f"{a} / {b}": round(medians[a] / medians[b], 3) for a, b in pairs if b in medians}
    return {"seconds": seconds, "medians": medians, "ratios": ratios}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure in rounds, print the ratios, and with --write keep the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--sets", default="clusters")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=vectors.CACHE)
    parser.add_argument("--write", action="store_true", help="write the result file")
    parser.add_argument("--fill", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--chunks-a-unit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    if options.fill:
        made = vectors.prepare(options.sets, options.count, options.cache)
        filled = FILL[options.fill](made, options.folder, options.chunks_a_unit)
        print(json.dumps({"seconds": filled.tolist()}))
        return 0
    systems = [one for one in SYSTEMS if one != "lancedb" or find_spec("lancedb")]
    result = {}
    for name, chunks in product(options.sets.split(","), SHAPES):
        vectors.prepare(name, options.count, options.cache)
        spent: dict[str, list[Seconds]] = {system: [] for system in systems}
        for _ in range(options.rounds):
            for system in systems:
                seconds = in_process(system, name, options.count, options.cache, chunks)
                spent[system].append(seconds)
        shape = f"{name}, {chunks} chunk{'s' if chunks > 1 else ''} a unit"
        result[shape] = {
            clock: _summary(
                {system: [float(one[n]) for one in spent[system]] for system in systems}
            )
            for n, clock in enumerate(("wall", "processor"))
        }
        for clock, summary in result[shape].items():
            print(f"{shape}, {clock} time: {summary['ratios']}")
    if options.write:
        print(write_result("bulk", {"chunks": options.count, "sets": result}, packages=["apsw"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
