"""What each operation costs with ten thousand, a hundred thousand and a million units.

    python -m benchmarks.scale [--units 10000,100000,1000000] [--shapes chunk,ten,pictures]
                               [--systems ku-rag,LanceDB,Chroma] [--folder DIR] [--write]

Shapes: "chunk" is a unit of one text with three fields, a kind and a relation to its maker; "ten"
has ten texts a unit; "pictures" has two pictures and a text a unit (10,000 units at most, because
each picture is a file). Vectors of texts are ready-made, of 128 dimensions; those of pictures are
computed. Texts are twelve words by Zipf's law. Every filter has a value that was not used before;
"repeated" asks it again. Each stage runs in a process of its own. "Cold" is the first call after
the page cache of the files was dropped. Figures are medians, in milliseconds unless the name says
otherwise.

LanceDB (scalar indexes of the fields, a text index) and Chroma get the same rows in the shape
"chunk", up to 100,000. Chroma ranks no texts. Both sync less than ku-rag, whose every change is
durable when the call returns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.filters import Encoder
from benchmarks.record import markdown, run_stage, write_result

DIM, WORDS, VOCABULARY, MAKERS = 128, 12, 2_000, 100
COLOURS = ("red", "green", "blue", "white", "black", "brown", "grey", "pink", "teal", "gold")
KINDS = ("tool", "part")
SHAPES = {"chunk": 1_000_000, "ten": 100_000, "pictures": 10_000}
"""Shapes, and the most units of each that are measured."""
PEER_UNITS = 100_000
STAGES = ("build", "ask", "change", "keep")
_BATCH, _REPEATS = 10_000, 20


class Data:
    """The units of a shape, the same for every system and run."""

    def __init__(self, shape: str, units: int) -> None:
        self.shape, self.units, self.texts_a_unit = shape, units, 10 if shape == "ten" else 1
        self._centres = np.random.default_rng(1).normal(size=(256, DIM))

    def batches(self) -> Iterator[tuple[range, list[str], np.ndarray[Any, Any]]]:
        """Yield rows of units, their texts and the vectors of these, float32[texts, DIM]."""
        for first in range(0, self.units, _BATCH):
            rows, rng = range(first, min(first + _BATCH, self.units)), np.random.default_rng(first)
            count = len(rows) * self.texts_a_unit
            ranks = np.minimum(rng.zipf(1.3, size=(count, WORDS)), VOCABULARY).tolist()
            vectors = self._centres[rng.integers(256, size=count)]
            vectors = vectors + rng.normal(size=vectors.shape) * 0.8
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            texts = [" ".join(f"word{n}" for n in row) for row in ranks]
            yield rows, texts, vectors.astype(np.float32)

    def fields(self, row: int) -> dict[str, Any]:
        """Return the fields of a unit."""
        return {
            "colour": COLOURS[row % 10],
            "price": row * 7919 % 100_000,
            "maker": f"maker {row * 31 % MAKERS}",
        }


def picture(row: int) -> Image.Image:
    """Return a picture of shapes, 160 × 120 pixels."""
    rng = np.random.default_rng(row)
    drawn = Image.new("RGB", (160, 120), tuple(rng.integers(256, size=3).tolist()))
    draw = ImageDraw.Draw(drawn)
    for _ in range(6):
        (x, y), (width, height) = rng.integers((150, 110)), rng.integers((10, 10), (70, 60))
        shape = draw.rectangle if rng.random() < 0.5 else draw.ellipse
        shape((x, y, x + width, y + height), fill=tuple(rng.integers(256, size=3).tolist()))
    return drawn


class KuRag:
    """A base through its public methods."""

    def __init__(self, folder: Path, data: Data) -> None:
        from ku_rag import KnowledgeBase, Relation, Unit

        self._unit, self._relation, self._data, self._folder = Unit, Relation, data, folder
        ready = {} if data.shape == "pictures" else {"encoder": Encoder(DIM)}
        self.kb = KnowledgeBase.open(folder / "kb", create=True, **ready)

    def _units(self, rows: range, texts: list[str]) -> Iterator[Any]:
        for row in rows:
            first = (row - rows.start) * self._data.texts_a_unit
            fields = self._data.fields(row)
            images = ()
            if self._data.shape == "pictures":
                images = tuple(self._folder / f"{row}-{n}.png" for n in (0, 1))
                for n, image in enumerate(images):
                    picture(2 * row + n).save(image)
            yield self._unit(
                f"Thing {row}",
                id=str(row),
                kind=KINDS[row % 2],
                texts=tuple(texts[first : first + self._data.texts_a_unit]),
                images=images,
                metadata=fields,
                relations=(self._relation("made by", fields["maker"]),),
                match=self._data.shape == "pictures",
            )

    def build(self) -> None:
        """Add all units, and one for each maker."""
        for rows, texts, vectors in self._data.batches():
            ready = {} if self._data.shape == "pictures" else {"vectors": {"texts": vectors}}
            self.kb.add_many(self._units(rows, texts), **ready)
        countries = ((n, {"country": f"country {n}"}) for n in range(MAKERS))
        self.kb.add_many(
            self._unit(f"maker {n}", id=f"maker-{n}", metadata=fields) for n, fields in countries
        )

    def index(self) -> None:
        """Choose and build the index."""
        self.kb.tune(recall=0.99)

    def ask(self, vectors: Any) -> dict[str, Callable[[int], Any]]:  # noqa: ANN401
        """Return the queries of a stage by the name of the row."""
        kb, units = self.kb, self._data.units

        def search(
            where: Callable[[int], str] | None = None, kind: str | None = None
        ) -> Callable[[int], Any]:
            return lambda n: kb.search(
                text=_words(n), k=10, where=where(n) if where else (), kind=kind
            )

        rows: dict[str, Callable[[int], Any]] = {"text": search()}
        if vectors is not None:
            rows["vector"] = lambda n: kb.search(vector=vectors[n], k=10)
        return rows | {
            "filter 1 %": search(lambda n: f"maker=maker {n}"),
            "filter 1 %, repeated": search(lambda n: f"maker=maker {n}"),
            "filter 10 %": search(lambda n: f"colour={COLOURS[n % 10]}"),
            "filter range": search(lambda n: f"price>={90_000 + n}"),
            "filter kind": search(kind="tool"),
            "fact question": lambda n: kb.query(None, f"What is the colour of Thing {n * 37}?"),
            "count question": lambda n: kb.query(None, f"How many tools are {COLOURS[n % 10]}?"),
            "two-hop question": lambda n: kb.query(
                None, f"What is the country of the maker of Thing {n * 41}?"
            ),
            **(
                {"picture question": lambda n: kb.query(_scene(2 * n), "What is its price?")}
                if self._data.shape == "pictures"
                else {}
            ),
            "list, page 1": lambda _: kb.list(limit=50),
            "list, page 1,000": lambda _: kb.list(limit=50, offset=min(49_950, units - 50)),
            "list with a filter": lambda n: kb.list(limit=50, where=f"maker=maker {n}"),
            "stats": lambda _: kb.stats(),
        }

    def change(self) -> dict[str, Callable[[int], Any]]:
        """Return single changes."""
        fields = {"colour": "red", "price": 7, "maker": "maker 1"}
        return {
            "add": lambda n: self.kb.add(
                self._unit(f"Late {n}", id=f"late{n}", texts=("A new word9.",), metadata=fields)
            ),
            "update": lambda n: self.kb.update(f"late{n}", texts=["Another word8."]),
            "delete": lambda n: self.kb.delete(f"late{n}"),
        }

    def keep(self) -> dict[str, Callable[[int], Any]]:
        """Return what is done once."""
        copies = self._folder / "copies"
        return {
            "snapshot, s": lambda _: self.kb.snapshot(copies / "snapshot"),
            "export, s": lambda _: self.kb.export(copies / "export"),
            "verify, s": lambda _: self.kb.verify(),
            "compact, s": lambda _: self.kb.compact(),
        }


class LanceDb:
    """A table with indexes of vectors, texts and fields; only the shape "chunk"."""

    def __init__(self, folder: Path, data: Data) -> None:
        import lancedb

        exists = (folder / "lance").exists()
        self._data, self._base = data, lancedb.connect(folder / "lance")
        self._table: Any = self._base.open_table("rows") if exists else None

    def build(self) -> None:
        """Add all rows."""
        import pyarrow

        for rows, texts, vectors in self._data.batches():
            fields = [self._data.fields(row) for row in rows]
            columns = {
                "id": pyarrow.array([str(row) for row in rows]),
                "vector": pyarrow.FixedSizeListArray.from_arrays(vectors.reshape(-1), DIM),
                "text": pyarrow.array(texts),
                "kind": pyarrow.array([KINDS[row % 2] for row in rows]),
                **{name: pyarrow.array([f[name] for f in fields]) for name in fields[0]},
            }
            if self._table is None:
                self._table = self._base.create_table("rows", pyarrow.table(columns))
            else:
                self._table.add(pyarrow.table(columns))

    def index(self) -> None:
        """Build all indexes."""
        from datetime import timedelta

        from lancedb.index import FTS, Bitmap, BTree, IvfPq

        wait = timedelta(minutes=20)
        kinds = {"vector": IvfPq(distance_type="cosine"), "text": FTS(), "price": BTree()}
        kinds |= {name: Bitmap() for name in ("colour", "maker", "kind")} | {"id": BTree()}
        for name, config in kinds.items():
            self._table.create_index(name, config=config, wait_timeout=wait)

    def ask(self, vectors: Any) -> dict[str, Callable[[int], Any]]:  # noqa: ANN401
        """See `KuRag.ask`."""

        def search(where: Callable[[int], str] | None = None) -> Callable[[int], Any]:
            def run(n: int) -> Any:  # noqa: ANN401
                query = self._table.search(_words(n), query_type="fts")
                query = query.where(where(n), prefilter=True) if where else query
                return query.select(["id", "text"]).limit(10).to_list()

            return run

        def near(n: int) -> Any:  # noqa: ANN401
            query = self._table.search(vectors[n]).distance_type("cosine").nprobes(20)
            return query.refine_factor(10).select(["id", "text"]).limit(10).to_list()

        def page(offset: int) -> Callable[[int], Any]:
            return lambda _: self._table.search().limit(50).offset(offset).to_list()

        return {
            "text": search(),
            "vector": near,
            "filter 1 %": search(lambda n: f"maker = 'maker {n}'"),
            "filter 1 %, repeated": search(lambda n: f"maker = 'maker {n}'"),
            "filter 10 %": search(lambda n: f"colour = '{COLOURS[n % 10]}'"),
            "filter range": search(lambda n: f"price >= {90_000 + n}"),
            "filter kind": search(lambda _: "kind = 'tool'"),
            "list, page 1": page(0),
            "list, page 1,000": page(min(49_950, self._data.units - 50)),
            "list with a filter": lambda n: (
                self._table.search().where(f"maker = 'maker {n}'").limit(50).to_list()
            ),
            "stats": lambda _: self._table.count_rows(),
        }

    def change(self) -> dict[str, Callable[[int], Any]]:
        """See `KuRag.change`."""
        row = {
            "vector": np.eye(1, DIM, dtype=np.float32)[0],
            "kind": "tool",
            "text": "A new word9.",
        }
        fields = {"colour": "red", "price": 7, "maker": "maker 1"}
        return {
            "add": lambda n: self._table.add([{"id": f"late{n}", **row, **fields}]),
            "update": lambda n: self._table.update(f"id = 'late{n}'", {"text": "Another word8."}),
            "delete": lambda n: self._table.delete(f"id = 'late{n}'"),
        }

    def keep(self) -> dict[str, Callable[[int], Any]]:
        """See `KuRag.keep`."""
        return {"compact, s": lambda _: self._table.optimize()}


class Chroma:
    """A collection, which ranks no texts; only the shape "chunk"."""

    def __init__(self, folder: Path, data: Data) -> None:
        import chromadb

        settings = chromadb.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(folder / "chroma"), settings=settings)
        space: Any = {"hnsw": {"space": "cosine", "ef_search": 200}}
        self._data = data
        self._rows = client.get_or_create_collection(
            "rows", embedding_function=None, configuration=space
        )

    def build(self) -> None:
        """Add all rows."""
        for rows, texts, vectors in self._data.batches():
            for first in range(0, len(rows), 5_000):
                part = slice(first, first + 5_000)
                self._rows.add(
                    ids=[str(row) for row in rows[part]],
                    embeddings=vectors[part],
                    documents=texts[part],
                    metadatas=[
                        self._data.fields(row) | {"kind": KINDS[row % 2]} for row in rows[part]
                    ],
                )

    def index(self) -> None:
        """Chroma builds its index while it adds."""

    def ask(self, vectors: Any) -> dict[str, Callable[[int], Any]]:  # noqa: ANN401
        """See `KuRag.ask`."""
        return {
            "vector": lambda n: self._rows.query(query_embeddings=[vectors[n]], n_results=10),
            "list, page 1": lambda _: self._rows.get(limit=50),
            "list, page 1,000": lambda _: self._rows.get(
                limit=50, offset=min(49_950, self._data.units - 50)
            ),
            "list with a filter": lambda n: self._rows.get(where={"maker": f"maker {n}"}, limit=50),
            "stats": lambda _: self._rows.count(),
        }

    def change(self) -> dict[str, Callable[[int], Any]]:
        """See `KuRag.change`."""
        row = {"documents": ["A new word9."], "embeddings": np.eye(1, DIM, dtype=np.float32)}
        return {
            "add": lambda n: self._rows.add(ids=[f"late{n}"], metadatas=[{"colour": "red"}], **row),
            "update": lambda n: self._rows.update(ids=[f"late{n}"], **row),
            "delete": lambda n: self._rows.delete(ids=[f"late{n}"]),
        }

    def keep(self) -> dict[str, Callable[[int], Any]]:
        """See `KuRag.keep`."""
        return {}


SYSTEMS = {"ku-rag": KuRag, "LanceDB": LanceDb, "Chroma": Chroma}


def _words(n: int) -> str:
    return f"word{n % 50 + 5} word{n + 60}"


def _scene(row: int) -> Image.Image:
    """Return a picture on a larger ground, turned a little."""
    scene = Image.new("RGB", (640, 480), (180, 190, 200))
    scene.paste(picture(row).rotate(3, fillcolor=(200, 200, 200)).resize((400, 300)), (120, 90))
    return scene


def stage(name: str, system: str, data: Data, folder: Path) -> dict[str, float]:
    """Run one stage in this process, and return its rows."""
    started = time.perf_counter()
    opened = SYSTEMS[system](folder, data)
    figures: dict[str, float] = {}
    if name == "build":
        opened.build()
        figures["bulk, units a second"] = round(data.units / (time.perf_counter() - started))
        started = time.perf_counter()
        opened.index()
        figures["index, s"] = round(time.perf_counter() - started, 1)
        return figures
    vectors = None if data.shape == "pictures" else next(data.batches())[2][:_REPEATS]
    if name == "ask":
        figures["open, with imports"] = round(1000 * (time.perf_counter() - started), 1)
    calls = opened.ask(vectors) if name == "ask" else getattr(opened, name)()
    for row, call in calls.items():
        times = []
        for n in range(1 if row.endswith(", s") else _REPEATS):
            before = time.perf_counter()
            call(n)
            times.append(time.perf_counter() - before)
        if name == "ask" and row in ("text", "vector") and len(figures) == 1:
            figures["first answer, cold"] = round(1000 * times[0], 1)
        unit = 1 if row.endswith(", s") else 1000
        figures[row] = round(unit * float(np.median(times[1:] or times)), 2)
        if row == "vector" or (row == "text" and "vector" not in calls):
            figures |= _memory()
    return figures


def _memory() -> dict[str, float]:
    """Return the memory of this process in MB: its own, and files that are mapped."""
    text = Path("/proc/self/smaps_rollup").read_text("ascii")
    kib = {line.split()[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    own = kib["Anonymous:"]
    return {"memory, own, MB": own // 1024, "memory, mapped, MB": (kib["Rss:"] - own) // 1024}


def drop_page_cache(folder: Path) -> None:
    """Drop the pages of all files in a folder from the cache of the system."""
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def measure(system: str, shape: str, units: int, folder: Path) -> dict[str, float]:
    """Run all stages of a system, each in a process of its own."""
    figures: dict[str, float] = {}
    for name in STAGES:
        if name == "ask":
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            figures["disk, MB"] = round(size / 1e6)
            drop_page_cache(folder)
        run = run_stage(["benchmarks.scale", "--stage", name, system, shape, units, folder], {})
        if "failed" in run:
            raise SystemExit(f"{name} of {system}, {shape}, {units:,}: {run['failed']}")
        figures |= run
    return figures


def table(results: dict[str, Any]) -> str:
    """Return the rows as Markdown: one column for each system, shape and number of units."""
    rows = dict.fromkeys(row for figures in results.values() for row in figures)
    lines = [["", *results]]
    for row in rows:
        values = [figures.get(row) for figures in results.values()]
        lines.append([row, *("" if value is None else f"{value:,g}" for value in values)])
    return markdown(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and with --write keep the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--units", default="10000,100000,1000000")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--folder", type=Path, help="where bases are built; they are deleted")
    parser.add_argument("--write", action="store_true", help="write the result file")
    parser.add_argument("--stage", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        name, system, shape, units, path = options.stage
        print(json.dumps(stage(name, system, Data(shape, int(units)), Path(path))))
        return 0
    results = {}
    for shape in options.shapes.split(","):
        for units in map(int, options.units.split(",")):
            for system in options.systems.split(","):
                most = SHAPES[shape] if system == "ku-rag" else PEER_UNITS * (shape == "chunk")
                if units > most:
                    continue
                folder = Path(tempfile.mkdtemp(dir=options.folder))
                try:
                    figures = measure(system, shape, units, folder)
                finally:
                    shutil.rmtree(folder)
                results[f"{system}, {shape}, {units:,}"] = figures
                print(system, shape, units, json.dumps(figures), flush=True)
    print(table(results))
    if options.write:
        packages = {"LanceDB": "lancedb", "Chroma": "chromadb"}
        used = [packages[name] for name in options.systems.split(",") if name in packages]
        print(write_result("scale", {"rows": results}, packages=used))
    return 0


if __name__ == "__main__":
    sys.exit(main())
