"""Filtered searches beside LanceDB (with scalar indexes) and Chroma.

    python -m benchmarks.filters [--units 100000] [--write]
    python -m benchmarks.filters --alone --units 1000000 [--folder DIR] [--write]

Units of one chunk with a vector, a text and nine fields. A filter selects 1 %, 10 % or 50 % of them
by an equal value, or 10 % by a range. Each query has another vector or another pair of words, and a
filter that was not used before; then the same filters are used once more ("repeated"). Vector
searches are compared with exact search among the units that pass. All systems answer the same
queries in a process each, one after the other; only ratios between them count. Given are the median
wall time, and the median processor time of all threads, which other work on the machine changes
less. --alone measures ku-rag without the others: they take long to fill with a million units.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.ku import ReadyMade
from benchmarks.record import write_result

DIM, K, WORDS, VOCABULARY = 128, 10, 12, 2_000
FIELDS = {"p01": 100, "p10a": 10, "p10b": 10, **{f"p50{letter}": 2 for letter in "abcde"}}
"""Fields and their numbers of values."""
QUERIES = {"1 %": 40, "10 %": 20, "50 %": 10, "range": 20}
SYSTEMS = ("ku-rag", "LanceDB", "Chroma")
Vectors = NDArray[np.float32]
Seconds = NDArray[np.float64]
"""Wall time and processor time of all threads."""


class Encoder(ReadyMade):
    """Ready-made vectors for units; every question has the same vector."""

    def encode_texts(self, texts: Any) -> Vectors:  # noqa: ANN401
        """Return float32[n, dim]."""
        return np.tile(np.eye(1, self.dim, dtype=np.float32), (len(texts), 1))


class Data:
    """Vectors in clusters, texts of common and rare words, and fields; the same for each system."""

    def __init__(self, units: int) -> None:
        rng = np.random.default_rng(1)
        centres = rng.normal(size=(256, DIM))
        vectors = centres[rng.integers(256, size=units)] + rng.normal(size=(units, DIM)) * 0.8
        self.vectors = _unit_length(vectors)
        ranks = np.minimum(rng.zipf(1.3, size=(units, WORDS)), VOCABULARY)
        self.texts = [" ".join(f"word{n}" for n in row) for row in ranks.tolist()]
        self.fields = {name: rng.integers(most, size=units) for name, most in FIELDS.items()}
        self.fields["rank"] = rng.permutation(units)
        self.queries = _unit_length(self.vectors[rng.integers(units, size=64)]
                                    + rng.normal(size=(64, DIM)) * 0.1)  # fmt: skip
        self.words = [f"word{n % 50 + 5} word{n + 60}" for n in range(64)]

    def filters(self, share: str) -> Iterator[tuple[str, int, int]]:
        """Yield filters: a field, and the ends of its values; equal ends for one value."""
        units, count = len(self.texts), QUERIES[share]
        if share == "range":
            starts = np.linspace(0, units * 0.89, count).astype(int)
            yield from (("rank", int(start), int(start + units * 0.1)) for start in starts)
            return
        names = [name for name in FIELDS if name.startswith(f"p{int(share[:-2]):02}")]
        pairs = ((name, value) for value in range(FIELDS[names[0]]) for name in names)
        yield from ((name, value, value) for name, value in list(pairs)[:count])

    def exact(self, vector: Vectors, condition: tuple[str, int, int]) -> set[int]:
        """Return the nearest rows among those that pass."""
        name, low, high = condition
        rows = np.flatnonzero((self.fields[name] >= low) & (self.fields[name] <= high))
        return set(rows[np.argsort(-(self.vectors[rows] @ vector))[:K]].tolist())


def _unit_length(vectors: Any) -> Vectors:  # noqa: ANN401
    found: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return found


class KuRag:
    """A base through its public methods."""

    def __init__(self, folder: Path, data: Data) -> None:
        from ku_rag import KnowledgeBase, Unit

        self.unit = Unit
        is_filled = (folder / "kb").exists()
        self.kb = KnowledgeBase.open(folder / "kb", create=True, encoder=Encoder(DIM))
        if is_filled:
            return
        columns = {name: values.tolist() for name, values in data.fields.items()}
        units = (
            Unit(
                f"Thing {row}",
                id=str(row),
                texts=(text,),
                metadata={name: values[row] for name, values in columns.items()},
                match=False,
            )
            for row, text in enumerate(data.texts)
        )
        self.kb.add_many(units, vectors={"texts": data.vectors})
        self.kb.tune(recall=0.99)

    def search(self, vector: Vectors | None, words: str, condition: Any) -> list[int]:  # noqa: ANN401
        """Return the rows found."""
        where: tuple[str, ...] = ()
        if condition:
            name, low, high = condition
            where = (f"{name}={low}" if low == high else f"{name}={low}..{high}",)
        options: dict[str, Any] = {"text": words} if vector is None else {"vector": vector}
        return [int(hit.owners[0]) for hit in self.kb.search(k=K, where=where, **options).chunks]

    def write(self, row: int, vector: Vectors) -> None:
        """Add a unit."""
        unit = self.unit(f"Late {row}", id=str(row), texts=("word9",), metadata={"p01": 200})
        self.kb.add(unit, vectors={"texts": vector[None]})


class LanceDb:
    """A table with an index of vectors, a scalar index of each field and one of texts."""

    def __init__(self, folder: Path, data: Data) -> None:
        import lancedb
        import pyarrow
        from lancedb.index import FTS, Bitmap, BTree, IvfPq

        columns = {
            "id": pyarrow.array(range(len(data.texts)), pyarrow.int64()),
            "vector": pyarrow.FixedSizeListArray.from_arrays(data.vectors.reshape(-1), DIM),
            "text": pyarrow.array(data.texts),
            **{
                name: pyarrow.array(values, pyarrow.int64()) for name, values in data.fields.items()
            },
        }
        self.table = lancedb.connect(folder).create_table("rows", pyarrow.table(columns))
        wait = timedelta(minutes=20)
        self.table.create_index("vector", config=IvfPq(distance_type="cosine"), wait_timeout=wait)
        self.table.create_index("text", config=FTS(), wait_timeout=wait)
        for name in data.fields:
            config = BTree() if name == "rank" else Bitmap()
            self.table.create_index(name, config=config, wait_timeout=wait)

    def search(self, vector: Vectors | None, words: str, condition: Any) -> list[int]:  # noqa: ANN401
        """Return the rows found."""
        if vector is None:
            query = self.table.search(words, query_type="fts")
        else:
            query = self.table.search(vector).distance_type("cosine").nprobes(20).refine_factor(10)
        if condition:
            name, low, high = condition
            sql = f"{name} = {low}" if low == high else f"{name} >= {low} AND {name} <= {high}"
            query = query.where(sql, prefilter=True)
        return [int(row["id"]) for row in query.select(["id", "text"]).limit(K).to_list()]

    def write(self, row: int, vector: Vectors) -> None:
        """Add a row."""
        names = [*FIELDS, "rank"]
        self.table.add(
            [{"id": row, "vector": vector, "text": "word9", **dict.fromkeys(names, 200)}]
        )


class Chroma:
    """A collection; it ranks no texts."""

    def __init__(self, folder: Path, data: Data) -> None:
        import chromadb

        client = chromadb.PersistentClient(
            str(folder), settings=chromadb.Settings(anonymized_telemetry=False)
        )
        space: Any = {"hnsw": {"space": "cosine", "ef_search": 200}}
        self.rows = client.create_collection("rows", embedding_function=None, configuration=space)
        columns = {name: values.tolist() for name, values in data.fields.items()}
        for first in range(0, len(data.texts), 5_000):
            rows = range(first, min(first + 5_000, len(data.texts)))
            self.rows.add(
                ids=[str(row) for row in rows],
                embeddings=data.vectors[rows.start : rows.stop],
                documents=data.texts[rows.start : rows.stop],
                metadatas=[{name: values[row] for name, values in columns.items()} for row in rows],
            )

    def search(self, vector: Vectors | None, _: str, condition: Any) -> list[int]:  # noqa: ANN401
        """Return the rows found."""
        where = None
        if condition:
            name, low, high = condition
            ends = {"$and": [{name: {"$gte": low}}, {name: {"$lte": high}}]}
            where = {name: low} if low == high else ends
        found = self.rows.query(
            query_embeddings=[vector], n_results=K, where=where, include=["documents"]
        )
        return [int(row) for row in found["ids"][0]]

    def write(self, row: int, vector: Vectors) -> None:
        """Add a row."""
        self.rows.add(ids=[str(row)], embeddings=[vector], documents=["word9"],
                      metadatas=[{"p01": 200}])  # fmt: skip


def measure(name: str, units: int, folder: Path) -> dict[str, Any]:
    """Build a system in a folder and measure its searches in milliseconds."""
    data = Data(units)
    is_new, started = not any(folder.iterdir()), time.perf_counter()
    classes: Any = {"ku-rag": KuRag, "LanceDB": LanceDb, "Chroma": Chroma}
    system = classes[name](folder, data)
    figures: dict[str, Any] = {}
    if is_new:
        figures["build_seconds"] = round(time.perf_counter() - started, 1)
    times: dict[str, list[Seconds]] = {}
    for mode in ["vector"] if name == "Chroma" else ["vector", "text"]:
        plain = [_timed(system, data, mode, n, None)[0] for n in range(40)]
        times[f"{mode}, no filter"] = plain[10:]
        for share in QUERIES:
            conditions = list(data.filters(share))
            recalls = []
            for turn in ("new", "repeated"):
                measured = times[f"{mode}, {share}, {turn}"] = []
                for n, condition in enumerate(conditions):
                    seconds, rows = _timed(system, data, mode, n, condition)
                    measured.append(seconds)
                    if mode == "vector" and turn == "new":
                        exact = data.exact(data.queries[n], condition)
                        recalls.append(len(exact.intersection(rows)) / len(exact))
            if recalls:
                figures[f"recall, {share}"] = round(statistics.mean(recalls), 4)
        after = times[f"{mode}, 1 %, after a write"] = []
        for n, condition in enumerate(list(data.filters("1 %"))[:10]):
            system.write(units + 100 * (mode == "text") + n, data.queries[n])
            after.append(_timed(system, data, mode, n, condition)[0])
    medians = {key: 1000 * np.median(measured, axis=0) for key, measured in times.items()}
    for n, clock in enumerate(("wall", "processor")):
        figures[clock] = {key: round(float(median[n]), 2) for key, median in medians.items()}
    return figures


def _timed(
    system: Any,  # noqa: ANN401
    data: Data,
    mode: str,
    n: int,
    condition: tuple[str, int, int] | None,
) -> tuple[Seconds, list[int]]:
    vector = data.queries[n] if mode == "vector" else None
    started = _clock()
    rows = system.search(vector, data.words[n], condition)
    return _clock() - started, rows


def _clock() -> Seconds:
    return np.array([time.perf_counter(), time.process_time()])


def _measure_apart(name: str, units: int, folder: Path | None) -> dict[str, Any]:
    """Measure a system in a process of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", __spec__.name, "--only", name, "--units", str(units)]
        command += ["--folder", str(folder or temporary)]
        process = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Measure, print, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--alone", action="store_true", help="measure ku-rag only")
    parser.add_argument("--folder", type=Path, help="with --alone: keeps the base for further runs")
    parser.add_argument("--write", action="store_true", help="write the result file")
    parser.add_argument("--only", choices=SYSTEMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.units, options.folder)))
        return
    systems = SYSTEMS[:1] if options.alone else SYSTEMS
    folder = options.folder if options.alone else None
    figures = {name: _measure_apart(name, options.units, folder) for name in systems}
    for clock in ("wall", "processor"):
        heads = "".join(f"{name:>10}" for name in systems)
        print(f"{f'{clock} time, ms, median':34}{heads}{'' if options.alone else '  / LanceDB'}")
        for key, value in figures["ku-rag"][clock].items():
            cells = "".join(f"{figures[name][clock].get(key, '-'):>10}" for name in systems)
            lance = None if options.alone else figures["LanceDB"][clock][key]
            print(f"{key:34}{cells}{f'{value / lance:>10.2f}' if lance else ''}")
    for share in QUERIES:
        print(f"recall, {share}:", *(figures[name][f"recall, {share}"] for name in systems))
    if options.write:
        result = {"units": options.units, "dimensions": DIM, "systems": figures}
        name, packages = "filters", ("lancedb", "chromadb")
        if options.alone:
            name, packages = "filters_alone", ()
        print(write_result(name, result, packages=packages))


if __name__ == "__main__":
    main()
