"""The systems measured by benchmarks/scale.py, and the rows that each of them stores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

DIM, WORDS, VOCABULARY, MAKERS = 128, 12, 2_000, 100
LARGE, LARGE_DIM = 1_000_000, 512
"""More units than `LARGE` have vectors of `LARGE_DIM` dimensions."""
COLOURS = ("red", "green", "blue", "white", "black", "brown", "grey", "pink", "teal", "gold")
KINDS = ("tool", "part")
MATERIALS = ("oak", "steel", "brass", "glass", "linen", "paper", "copper", "wool", "clay", "cork")
COMPUTED = ("pictures", "records")
"""Shapes whose names are matched in texts and whose vectors the embedded encoder computes."""
REPEATS = 20
"""Calls of each query, with different values."""
BATCH = 10_000
Vectors = NDArray[np.float32]
Calls = dict[str, Callable[[int], Any]]
"""Calls by the name of their row; the argument of a call chooses its values."""


class Data:
    """The units of a shape, the same for each system and run.

    Attributes:
        drawing: Seconds of processor time that `batches` has taken.
    """

    drawing = 0.0

    def __init__(self, shape: str, units: int) -> None:
        self.shape, self.units, self.texts_a_unit = shape, units, 10 if shape == "ten" else 1
        self.dim = LARGE_DIM if units > LARGE else DIM
        self._centres = np.random.default_rng(1).normal(size=(256, self.dim))

    def batches(self) -> Iterator[tuple[range, list[str], Vectors]]:
        """Yield rows of units, their texts and the vectors of these, float32[texts, dim]."""
        for first in range(0, self.units, BATCH):
            started = time.thread_time()
            rows, rng = range(first, min(first + BATCH, self.units)), np.random.default_rng(first)
            count = len(rows) * self.texts_a_unit
            ranks = np.minimum(rng.zipf(1.3, size=(count, WORDS)), VOCABULARY).tolist()
            vectors = self._centres[rng.integers(256, size=count)]
            vectors = vectors + rng.normal(size=vectors.shape) * 0.8
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            texts = [" ".join(f"word{n}" for n in row) for row in ranks]
            if self.shape == "records":
                texts = [
                    f"The thing {row} was built in {1800 + row % 200}. It is made of "
                    f"{MATERIALS[row * 7 % 10]}, weighs {row % 90 + 1} kg and has {text}."
                    for row, text in zip(rows, texts, strict=True)
                ]
            vectors = vectors.astype(np.float32)
            self.drawing += time.thread_time() - started
            yield rows, texts, vectors

    def fields(self, row: int) -> dict[str, Any]:
        """Return the fields of a unit."""
        return {
            "colour": COLOURS[row % 10],
            "price": row * 7919 % 100_000,
            "maker": f"maker {row * 31 % MAKERS}",
        }


def picture(number: int) -> Image.Image:
    """Return a picture of shapes, 160 × 120 pixels; a unit has the numbers 2 × row and the next."""
    rng = np.random.default_rng(number)
    image = Image.new("RGB", (160, 120), tuple(rng.integers(256, size=3).tolist()))
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        (x, y), (width, height) = rng.integers((150, 110)), rng.integers((10, 10), (70, 60))
        shape = draw.rectangle if rng.random() < 0.5 else draw.ellipse
        shape((x, y, x + width, y + height), fill=tuple(rng.integers(256, size=3).tolist()))
    return image


def words(n: int) -> str:
    """Return the words of a query."""
    return f"word{n % 50 + 5} word{n + 60}"


def scene(row: int) -> Image.Image:
    """Return a picture on a larger background, slightly rotated."""
    ground = Image.new("RGB", (640, 480), (180, 190, 200))
    ground.paste(picture(row).rotate(3, fillcolor=(200, 200, 200)).resize((400, 300)), (120, 90))
    return ground


class ReadyVectors:
    """An encoder for precomputed vectors: all texts have the same vector, pictures are refused."""

    max_tokens, cross_modal = 512, False

    def __init__(self, dim: int) -> None:
        self.dim, self.fingerprint = dim, f"ready-made:{dim}"

    def count_tokens(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Return float32[n, dim]."""
        return np.tile(np.eye(1, self.dim, dtype=np.float32), (len(texts), 1))

    def encode_images(self, *_: object) -> Vectors:
        """Raise NotImplementedError."""
        raise NotImplementedError("only ready-made vectors are measured")

    encode_regions = encode_images


class System(Protocol):
    """A system over the folder of its files."""

    packages: tuple[str, ...]
    index: str
    durability: str
    """State of the disk when a change has returned."""
    server: int | None = None
    """Process of a server, whose processor time and memory count, work between calls included."""

    def __init__(self, folder: Path, data: Data) -> None: ...

    def build(self) -> None:
        """Add all rows."""

    def build_index(self) -> None:
        """Build all indexes that are not built while rows are added."""

    def ask(self, vectors: Vectors | None) -> Calls:
        """Return queries; that of the row "vector" returns the texts of the ten nearest."""

    def change(self) -> Calls:
        """Return single changes."""

    def maintain(self) -> Calls:
        """Return the operations that run once."""


class KuRag(System):
    """A knowledge base, used through its public methods."""

    packages: tuple[str, ...] = ()
    index = "IVF, scalar quantisation, rescored"
    durability = "synced (SQLite, write-ahead log)"

    def __init__(self, folder: Path, data: Data) -> None:
        from ku_rag import KnowledgeBase, Relation, Unit

        self._unit, self._relation, self._data, self._folder = Unit, Relation, data, folder
        ready: Any = {} if data.shape in COMPUTED else {"encoder": ReadyVectors(data.dim)}
        self._open = partial(KnowledgeBase.open, create=True, **ready)
        self.kb = self._open(folder / "kb")

    def _units(self, rows: range, texts: list[str]) -> Iterator[Any]:
        for row in rows:
            first = (row - rows.start) * self._data.texts_a_unit
            fields = self._data.fields(row)
            images = ()
            if self._data.shape == "pictures":
                images = tuple(self._folder / f"{2 * row + n}.png" for n in (0, 1))
            yield self._unit(
                f"Thing {row}",
                id=str(row),
                kind=KINDS[row % 2],
                texts=tuple(texts[first : first + self._data.texts_a_unit]),
                images=images,
                metadata=fields,
                relations=(self._relation("made by", fields["maker"]),),
                match=self._data.shape in COMPUTED,
            )

    def build(self) -> None:
        """Add all units, and one for each maker."""
        for rows, texts, vectors in self._data.batches():
            ready = {} if self._data.shape in COMPUTED else {"vectors": {"texts": vectors}}
            self.kb.add_many(self._units(rows, texts), **ready)
        countries = ((n, {"country": f"country {n}"}) for n in range(MAKERS))
        self.kb.add_many(
            self._unit(f"maker {n}", id=f"maker-{n}", metadata=fields) for n, fields in countries
        )

    def build_index(self) -> None:
        """Choose and build the index; above a million units, only one kind is tried."""
        self.kb.tune(recall=0.99, kind="ivf-sq8" if self._data.units > LARGE else None)

    def ask(self, vectors: Vectors | None) -> Calls:
        """See `System.ask`."""
        kb, units = self.kb, self._data.units

        def search(
            where: Callable[[int], str] | None = None, kind: str | None = None
        ) -> Callable[[int], Any]:
            return lambda n: kb.search(
                text=words(n), k=10, where=where(n) if where else (), kind=kind
            )

        rows: Calls = {"text": search()}
        if vectors is not None:
            rows["vector"] = lambda n: [h.text for h in kb.search(vector=vectors[n], k=10).chunks]
            rows["vector, filter 1 %"] = lambda n: kb.search(
                vector=vectors[n], k=10, where=f"maker=maker {n + REPEATS}"
            )
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
                {"sentence question": lambda n: kb.query(None, f"What is Thing {n * 43} made of?")}
                if self._data.shape == "records"
                else {}
            ),
            **(
                {"picture question": lambda n: kb.query(scene(2 * n), "What is its price?")}
                if self._data.shape == "pictures"
                else {}
            ),
            "list, page 1": lambda _: kb.list(limit=50),
            "list, page 1,000": lambda _: kb.list(limit=50, offset=min(49_950, units - 50)),
            "list with a filter": lambda n: kb.list(limit=50, where=f"maker=maker {n}"),
            "stats": lambda _: kb.stats(),
        }

    def change(self) -> Calls:
        """See `System.change`."""
        fields = {"colour": "red", "price": 7, "maker": "maker 1"}
        return {
            "add": lambda n: self.kb.add(
                self._unit(f"Late {n}", id=f"late{n}", texts=("A new word9.",), metadata=fields)
            ),
            "update": lambda n: self.kb.update(f"late{n}", texts=["Another word8."]),
            "delete": lambda n: self.kb.delete(f"late{n}"),
        }

    def maintain(self) -> Calls:
        """See `System.maintain`."""
        folder = self._folder / "copies"
        rows: Calls = {"verify, s": lambda _: self.kb.verify()}
        if self._data.units > LARGE:  # the others need as much disk again, or twice
            return rows
        rows |= {
            "snapshot, s": lambda _: self.kb.snapshot(folder / "snapshot"),
            "export, s": lambda _: self.kb.export(folder / "export"),
            "import, s": lambda _: self._open(folder / "imported").import_(folder / "export"),
            "compact, s": lambda _: self.kb.compact(),
        }
        if self._data.shape != "pictures":
            rows["reindex, s"] = lambda _: self.kb.reindex(ReadyVectors(DIM // 2))
        return rows


class LanceDb(System):
    """A table with indexes of vectors, texts and fields."""

    packages = ("lancedb",)
    index = "IVF, product quantisation, refined"
    durability = "files renamed, not synced"

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

    def build_index(self) -> None:
        """Build all indexes."""
        from datetime import timedelta

        from lancedb.index import FTS, Bitmap, BTree, IvfPq

        wait = timedelta(minutes=20)
        kinds = {"vector": IvfPq(distance_type="cosine"), "text": FTS(), "price": BTree()}
        kinds |= {name: Bitmap() for name in ("colour", "maker", "kind")} | {"id": BTree()}
        for name, config in kinds.items():
            self._table.create_index(name, config=config, wait_timeout=wait)

    def ask(self, vectors: Vectors | None) -> Calls:
        """See `System.ask`."""

        def search(where: Callable[[int], str] | None = None) -> Callable[[int], Any]:
            def run(n: int) -> Any:  # noqa: ANN401
                query = self._table.search(words(n), query_type="fts")
                query = query.where(where(n), prefilter=True) if where else query
                return query.select(["id", "text"]).limit(10).to_list()

            return run

        def near(n: int, where: str | None = None) -> list[str]:
            query = self._table.search(vectors[n]).distance_type("cosine").nprobes(50)
            query = query.where(where, prefilter=True) if where else query
            # Recall .99 takes 50 candidates a hit among 100,000 rows, 500 among a million.
            query = query.refine_factor(50 if self._data.units <= 100_000 else 500)
            rows = query.select(["id", "text"]).limit(10).to_list()
            return [row["text"] for row in rows]

        def page(offset: int) -> Callable[[int], Any]:
            return lambda _: self._table.search().limit(50).offset(offset).to_list()

        return {
            "text": search(),
            "vector": near,
            "vector, filter 1 %": lambda n: near(n, f"maker = 'maker {n + REPEATS}'"),
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

    def change(self) -> Calls:
        """See `System.change`."""
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

    def maintain(self) -> Calls:
        """See `System.maintain`."""
        return {"compact, s": lambda _: self._table.optimize()}


class Chroma(System):
    """A collection; it ranks no texts."""

    packages = ("chromadb",)
    index = "HNSW, float32"
    durability = "synced (SQLite, rollback journal)"

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

    def build_index(self) -> None:
        """Chroma builds its index while it adds."""

    def ask(self, vectors: Vectors | None) -> Calls:
        """See `System.ask`."""

        def near(n: int, **where: Any) -> list[str]:  # noqa: ANN401
            rows = self._rows.query(query_embeddings=[vectors[n]], n_results=10, **where)
            return list(rows["documents"][0])

        return {
            "vector": near,
            "vector, filter 1 %": lambda n: near(n, where={"maker": f"maker {n + REPEATS}"}),
            "list, page 1": lambda _: self._rows.get(limit=50),
            "list, page 1,000": lambda _: self._rows.get(
                limit=50, offset=min(49_950, self._data.units - 50)
            ),
            "list with a filter": lambda n: self._rows.get(where={"maker": f"maker {n}"}, limit=50),
            "stats": lambda _: self._rows.count(),
        }

    def change(self) -> Calls:
        """See `System.change`."""
        row = {"documents": ["A new word9."], "embeddings": np.eye(1, DIM, dtype=np.float32)}
        return {
            "add": lambda n: self._rows.add(ids=[f"late{n}"], metadatas=[{"colour": "red"}], **row),
            "update": lambda n: self._rows.update(ids=[f"late{n}"], **row),
            "delete": lambda n: self._rows.delete(ids=[f"late{n}"]),
        }

    def maintain(self) -> Calls:
        """See `System.maintain`."""
        return {}


class SqliteVec(System):
    """Tables of one SQLite file: rows with indexes of the fields, FTS5, and vec0."""

    packages = ("sqlite-vec", "apsw")
    index = "none: compares all vectors"
    durability = "synced (SQLite, write-ahead log)"

    def __init__(self, folder: Path, data: Data) -> None:
        import apsw
        import sqlite_vec

        self._data, self._base = data, apsw.Connection(str(folder / "rows.db"))
        self._base.enable_load_extension(True)
        self._base.load_extension(sqlite_vec.loadable_path())
        self._base.execute(f"""
            PRAGMA journal_mode = wal; PRAGMA synchronous = full; PRAGMA cache_size = -131072;
            CREATE TABLE IF NOT EXISTS rows
                (n INTEGER PRIMARY KEY, id UNIQUE, text, colour, price, maker, kind);
            CREATE VIRTUAL TABLE IF NOT EXISTS words
                USING fts5(text, content='', contentless_delete=1);
            CREATE VIRTUAL TABLE IF NOT EXISTS vectors
                USING vec0(vector float[{DIM}] distance_metric=cosine);
        """).fetchall()

    def _insert(self, row: int, id_: str, text: str, vector: Any, *fields: object) -> None:  # noqa: ANN401
        self._base.execute(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", (row, id_, text, *fields)
        )
        self._base.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (row, text))
        self._base.execute("INSERT INTO vectors(rowid, vector) VALUES (?, ?)", (row, bytes(vector)))

    def build(self) -> None:
        """See `System.build`."""
        for rows, texts, vectors in self._data.batches():
            with self._base:
                for row, text, vector in zip(rows, texts, vectors, strict=True):
                    fields = self._data.fields(row).values()
                    self._insert(row, str(row), text, vector, *fields, KINDS[row % 2])

    def build_index(self) -> None:
        """See `System.build_index`."""
        for field in ("colour", "price", "maker", "kind"):
            self._base.execute(f"CREATE INDEX rows_{field} ON rows({field})")

    def ask(self, vectors: Vectors | None) -> Calls:
        """See `System.ask`."""

        def run(sql: str, *values: Any) -> list[Any]:  # noqa: ANN401
            return self._base.execute(sql, values).fetchall()

        def search(where: str = "1", *values: Callable[[int], object]) -> Callable[[int], Any]:
            sql = f"""SELECT id, rows.text FROM words JOIN rows ON n = words.rowid
                WHERE words MATCH ? AND {where} ORDER BY rank LIMIT 10"""
            return lambda n: run(sql, words(n).replace(" ", " OR "), *(v(n) for v in values))

        def near(n: int, where: str = "", *values: object) -> list[str]:
            sql = f"""SELECT rows.text FROM vectors JOIN rows ON n = vectors.rowid
                WHERE vector MATCH ? AND k = 10 {where} ORDER BY distance"""
            return [text for (text,) in run(sql, bytes(vectors[n]), *values)]

        of_maker = "AND vectors.rowid IN (SELECT n FROM rows WHERE maker = ?)"
        return {
            "text": search(),
            "vector": near,
            "vector, filter 1 %": lambda n: near(n, of_maker, f"maker {n + REPEATS}"),
            "filter 1 %": search("maker = ?", lambda n: f"maker {n}"),
            "filter 1 %, repeated": search("maker = ?", lambda n: f"maker {n}"),
            "filter 10 %": search("colour = ?", lambda n: COLOURS[n % 10]),
            "filter range": search("price >= ?", lambda n: 90_000 + n),
            "filter kind": search("kind = 'tool'"),
            "list, page 1": lambda _: run("SELECT * FROM rows LIMIT 50"),
            "list, page 1,000": lambda _: run(
                "SELECT * FROM rows LIMIT 50 OFFSET ?", min(49_950, self._data.units - 50)
            ),
            "list with a filter": lambda n: run(
                "SELECT * FROM rows WHERE maker = ? LIMIT 50", f"maker {n}"
            ),
            "stats": lambda _: run("SELECT count(*) FROM rows"),
        }

    def change(self) -> Calls:
        """See `System.change`."""
        first, vector = self._data.units, np.eye(1, DIM, dtype=np.float32)[0]

        def run(*statements: str) -> Callable[[int], None]:
            def change(n: int) -> None:
                with self._base:
                    for sql in statements:
                        self._base.execute(sql, {"n": first + n, "v": bytes(vector)})

            return change

        return {
            "add": run(
                """INSERT INTO rows
                    VALUES (:n, 'late' || :n, 'A new word9.', 'red', 7, 'maker 1', 'tool')""",
                "INSERT INTO words(rowid, text) VALUES (:n, 'A new word9.')",
                "INSERT INTO vectors(rowid, vector) VALUES (:n, :v)",
            ),
            "update": run(
                "UPDATE rows SET text = 'Another word8.' WHERE n = :n",
                "UPDATE words SET text = 'Another word8.' WHERE rowid = :n",
                "UPDATE vectors SET vector = :v WHERE rowid = :n",
            ),
            "delete": run(
                "DELETE FROM rows WHERE n = :n",
                "DELETE FROM words WHERE rowid = :n",
                "DELETE FROM vectors WHERE rowid = :n",
            ),
        }

    def maintain(self) -> Calls:
        """See `System.maintain`."""
        return {"compact, s": lambda _: self._base.execute("VACUUM")}


READY: dict[str, Vectors] = {}
"""Vectors of the texts that txtai encodes next."""


def ready_vectors(texts: Sequence[str]) -> Vectors:
    """Return the vectors of texts; txtai calls it as its encoder."""
    return np.stack([READY[text] for text in texts])


class Txtai(System):
    """An index with content and keywords, saved after each change; it cannot list rows."""

    packages = ("txtai",)
    index = "FAISS, IVF, float32"
    durability = "all files written again, not synced"

    def __init__(self, folder: Path, data: Data) -> None:
        from txtai import Embeddings

        self._data, self._path = data, str(folder / "txtai")
        encoder: Any = {"method": "external", "transform": ready_vectors, "dimensions": DIM}
        self._rows = Embeddings(
            encoder
            | {"content": True, "faiss": {"nprobe": 32}, "indexes": {"words": {"keyword": True}}}
        )
        if (folder / "txtai").exists():
            self._rows.load(self._path, config=encoder)

    def _save(self) -> None:
        self._rows.save(self._path)

    def build(self) -> None:
        """See `System.build`."""
        for rows, texts, vectors in self._data.batches():
            READY.update(zip(texts, vectors, strict=True))
            kinds = [{"kind": KINDS[row % 2]} for row in rows]
            fields = [self._data.fields(row) | kind for row, kind in zip(rows, kinds, strict=True)]
            texts_of = zip(rows, texts, fields, strict=True)
            self._rows.upsert([(str(row), {"text": text, **f}, None) for row, text, f in texts_of])
        self._save()

    def build_index(self) -> None:
        """See `System.build_index`."""

    def ask(self, vectors: Vectors | None) -> Calls:
        """See `System.ask`."""
        if vectors is not None:
            READY.update({f"vector {n}": vector for n, vector in enumerate(vectors)})

        def run(like: str, where: str = "") -> list[Any]:
            sql = f"select id, text from txtai where similar({like}) {where}"
            return list(self._rows.search(sql, limit=10))

        return {
            "text": lambda n: run(f"'{words(n)}', 'words'"),
            "vector": lambda n: [row["text"] for row in run(f"'vector {n}'")],
            "vector, filter 1 %": lambda n: run(
                f"'vector {n}', 1000", f"and maker = 'maker {n + REPEATS}'"
            ),
            "filter 1 %": lambda n: run(f"'{words(n)}', 1000, 'words'", f"and maker = 'maker {n}'"),
            "filter 10 %": lambda n: run(
                f"'{words(n)}', 100, 'words'", f"and colour = '{COLOURS[n % 10]}'"
            ),
            "filter range": lambda n: run(
                f"'{words(n)}', 100, 'words'", f"and price >= {90_000 + n}"
            ),
            "stats": lambda _: self._rows.count(),
        }

    def change(self) -> Calls:
        """See `System.change`."""
        row = {"colour": "red", "price": 7, "maker": "maker 1", "kind": "tool"}
        READY.update(dict.fromkeys(("A new word9.", "Another word8."), np.eye(1, DIM)[0]))

        def add(n: int, text: str) -> None:
            self._rows.upsert([(f"late{n}", {"text": text, **row}, None)])
            self._rows.save(self._path)

        def delete(n: int) -> None:
            self._rows.delete([f"late{n}"])
            self._rows.save(self._path)

        return {
            "add": lambda n: add(n, "A new word9."),
            "update": lambda n: add(n, "Another word8."),
            "delete": delete,
        }

    def maintain(self) -> Calls:
        """See `System.maintain`."""
        return {}


class MilvusLite(System):
    """A collection with BM25; Milvus Lite is a server in a thread of this process."""

    packages: tuple[str, ...] = ("pymilvus", "milvus-lite")
    index = "HNSW, float32"
    durability = "write-ahead log, not synced"
    ranks_texts = True

    def __init__(self, folder: Path, data: Data) -> None:
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        self._data, self._client = data, MilvusClient(self._start(folder))
        if self._client.has_collection("rows"):
            if self._client.list_indexes("rows"):
                self._client.load_collection("rows", timeout=3600)
            return
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
        if self.ranks_texts:
            schema.add_field("text", DataType.VARCHAR, max_length=1000, enable_analyzer=True)
            schema.add_field("words", DataType.SPARSE_FLOAT_VECTOR)
            schema.add_function(Function("bm25", FunctionType.BM25, ["text"], ["words"]))
        else:
            schema.add_field("text", DataType.VARCHAR, max_length=1000)
        self._client.create_collection("rows", schema=schema)

    def _start(self, folder: Path) -> str:
        """Return the address of the server."""
        return str(folder / "milvus.db")

    def _row(self, id_: int, text: str, vector: Any, kind: str = "tool") -> dict[str, Any]:  # noqa: ANN401
        return {"id": id_, "text": text, "vector": vector, "kind": kind, **self._data.fields(id_)}

    def build(self) -> None:
        """See `System.build`."""
        for rows, texts, vectors in self._data.batches():
            columns = zip(rows, texts, vectors, strict=True)
            self._client.insert("rows", [self._row(*c, KINDS[c[0] % 2]) for c in columns])
        self._client.flush("rows", timeout=3600)

    def build_index(self) -> None:
        """See `System.build_index`."""
        index = self._client.prepare_index_params()
        if self.ranks_texts:
            index.add_index("words", "SPARSE_INVERTED_INDEX", metric_type="BM25", params={})
        graph = {"M": 16, "efConstruction": 200}
        index.add_index("vector", "HNSW", metric_type="COSINE", params=graph)
        self._client.create_index("rows", index, timeout=3600)
        self._client.load_collection("rows", timeout=3600)

    def ask(self, vectors: Vectors | None) -> Calls:
        """See `System.ask`."""

        def search(data: Any, field: str, where: str = "") -> list[str]:  # noqa: ANN401
            options = {"anns_field": field, "filter": where, "output_fields": ["text"], "limit": 10}
            if field == "vector":
                options["search_params"] = {"params": {"ef": 200}}
            (rows,) = self._client.search("rows", data=[data], **options)
            return [row["entity"]["text"] for row in rows]

        def page(where: str = "", **options: int) -> list[Any]:
            return list(self._client.query("rows", filter=where, limit=50, **options))

        rows: Calls = {
            "text": lambda n: search(words(n), "words"),
            "filter 1 %": lambda n: search(words(n), "words", f"maker == 'maker {n}'"),
            "filter 10 %": lambda n: search(words(n), "words", f"colour == '{COLOURS[n % 10]}'"),
            "filter range": lambda n: search(words(n), "words", f"price >= {90_000 + n}"),
            "filter kind": lambda n: search(words(n), "words", "kind == 'tool'"),
        }
        return (rows if self.ranks_texts else {}) | {
            "vector": lambda n: search(vectors[n], "vector"),
            "vector, filter 1 %": lambda n: search(
                vectors[n], "vector", f"maker == 'maker {n + REPEATS}'"
            ),
            "list, page 1": lambda _: page(),
            "list, page 1,000": lambda _: page(offset=min(49_950, self._data.units - 50)),
            "list with a filter": lambda n: page(f"maker == 'maker {n}'"),
        }

    def change(self) -> Calls:
        """See `System.change`."""
        first, vector = self._data.units, np.eye(1, DIM, dtype=np.float32)[0]
        late = {"add": "A new word9.", "update": "Another word8."}
        return {
            "add": lambda n: self._client.insert(
                "rows", [self._row(first + n, late["add"], vector)]
            ),
            "update": lambda n: self._client.upsert(
                "rows", [self._row(first + n, late["update"], vector)]
            ),
            "delete": lambda n: self._client.delete("rows", ids=[first + n]),
        }

    def maintain(self) -> Calls:
        """See `System.maintain`."""
        return {}


class Milvus(MilvusLite):
    """The server of the package milvus, a process of its own; version 2.3 ranks no texts."""

    packages = ("pymilvus", "milvus")
    ranks_texts = False

    def _start(self, folder: Path) -> str:
        import atexit

        import milvus

        self._server = milvus.MilvusServer()
        self._server.set_base_dir(str(folder / "milvus"))
        self._server.start()
        atexit.register(self._server.stop)
        return f"http://127.0.0.1:{self._server.listen_port}"

    @property
    def server(self) -> int | None:
        """See `System.server`."""
        return int(self._server.server_proc.pid)

    def ask(self, vectors: Vectors | None) -> Calls:
        """See `System.ask`; the server has no pages above 16,384 rows."""
        calls = super().ask(vectors)
        if self._data.units > 16_384:
            del calls["list, page 1,000"]
        return calls


SYSTEMS: dict[str, type[System]] = {
    "ku-rag": KuRag,
    "LanceDB": LanceDb,
    "Chroma": Chroma,
    "sqlite-vec": SqliteVec,
    "txtai": Txtai,
    "Milvus Lite": MilvusLite,
    "Milvus": Milvus,
}
