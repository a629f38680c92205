"""FAISS alone: no texts, no durability, a file when it is told to write one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.peers.base import Hits, Peer, Vectors


class BareFaiss(Peer):
    """An index under row numbers."""

    packages = ("faiss",)
    distributions = ("faiss-cpu",)
    durability = "in memory; a file without fsync when it is written"
    text_index = "none"

    def load(self) -> None:
        """Import the package and state the number of threads."""
        import faiss

        self._faiss: Any = faiss
        faiss.omp_set_num_threads(2)

    def _made(self) -> Any:  # noqa: ANN401
        raise NotImplementedError

    def create(self) -> None:
        """Make an empty index."""
        self._index = self._made()
        self._waiting: list[tuple[range, Vectors]] = []

    def add(self, rows: range, vectors: Vectors, texts: Sequence[str]) -> None:
        """Add, or keep until the index is trained."""
        if self._index.is_trained:
            self._index.add_with_ids(vectors, _numbers(rows))
        else:
            self._waiting.append((rows, vectors))

    def finish(self) -> None:
        """Write the file."""
        self._write()

    def _write(self) -> None:
        self._faiss.write_index(self._index, str(self.folder / "index.faiss"))

    def build(self, queries: Vectors) -> None:
        """Train, where the index wants it, and add what waited."""
        if self._index.is_trained:
            return
        import numpy as np

        self._index.train(np.concatenate([vectors for _, vectors in self._waiting]))
        for rows, vectors in self._waiting:
            self._index.add_with_ids(vectors, _numbers(rows))
        self._waiting = []
        self._write()

    def query(self, vector: Vectors, k: int) -> Hits:
        """Search."""
        _, rows = self._index.search(vector[None], k)
        return [(int(row), "") for row in rows[0] if row >= 0]

    def add_one(self, row: int, vector: Vectors, text: str) -> None:
        """Add to the index in memory."""
        self._index.add_with_ids(vector[None], _numbers(range(row, row + 1)))

    def delete_one(self, row: int) -> None:
        """Remove from the index in memory."""
        self._index.remove_ids(_numbers(range(row, row + 1)))

    def open(self) -> None:
        """Read the file."""
        self._index = self._faiss.read_index(str(self.folder / "index.faiss"))


class Flat(BareFaiss):
    """float32, every vector looked at."""

    title = "FAISS flat float32"
    index = "flat float32"

    def _made(self) -> Any:  # noqa: ANN401
        flat = self._faiss.IndexFlat(self.dim, self._faiss.METRIC_INNER_PRODUCT)
        return self._faiss.IndexIDMap2(flat)


class FlatHalf(BareFaiss):
    """Half precision, every vector looked at."""

    title = "FAISS flat half precision"
    index = "flat half precision"

    def _made(self) -> Any:  # noqa: ANN401
        faiss = self._faiss
        half = faiss.IndexScalarQuantizer(
            self.dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        )
        return faiss.IndexIDMap2(half)


class IvfHalf(BareFaiss):
    """512 lists of half-precision vectors."""

    title = "FAISS IVF512 half precision"
    index = "IVF512 half precision"

    def _made(self) -> Any:  # noqa: ANN401
        faiss = self._faiss
        centres = faiss.IndexFlat(self.dim, faiss.METRIC_INNER_PRODUCT)
        index = faiss.IndexIVFScalarQuantizer(
            centres,
            self.dim,
            self._lists,
            faiss.ScalarQuantizer.QT_fp16,
            faiss.METRIC_INNER_PRODUCT,
        )
        index.own_fields = True
        centres.this.disown()
        return index

    _lists = 512

    def ladder(self) -> Sequence[object]:
        """Lists looked at."""
        return [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]

    def use(self, parameters: object) -> None:
        """Look at this many lists."""
        self._index.nprobe = parameters


def _numbers(rows: range) -> Any:  # noqa: ANN401
    import numpy as np

    return np.arange(rows.start, rows.stop, dtype=np.int64)
