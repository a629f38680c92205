"""One collection on a Milvus server: row numbers, vectors, and a state of its own."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ku_rag.addresses import Address
from ku_rag.encoders.base import Vectors
from ku_rag.errors import BadInput, IndexUnavailable, reason
from ku_rag.indexes.segment import Rows
from ku_rag.plugins import extra

MOST_HITS = 16_384
"""Maximum number of rows that Milvus returns at once."""
TIMEOUT_S = 10.0
"""Limit of a call that neither writes nor loads the collection, seconds."""

_STATE = "ku"
"""The property of the collection that holds its state."""
_NOT_FOUND = 100
"""Milvus's error code for a collection that does not exist."""
_WRITE_S = 600.0
"""Limit of a call that writes or loads the collection, seconds."""
REQUEST_BYTES = 16 << 20
"""Maximum size of the vectors of one upsert."""
_LOGGERS = ("pymilvus", "grpc", "milvus_lite.server_manager", "milvus_lite.adapter")
"""Loggers of libraries that log the errors that they raise."""
_CONNECT = (
    "; index_uri must name a Milvus server that runs, such as http://localhost:19530, "
    "or a folder of Milvus Lite, such as milvus.db, that no other process uses"
)


@dataclass(frozen=True, slots=True)
class CollectionState:
    """What a collection contains.

    Args:
        knowledge_base, encoder: Id of the knowledge base, fingerprint of the encoder.
        made: Random name given to the collection at its creation.
        run: Random name of the last sync that wrote to it; the knowledge base stores it as well.
        seq: Watermark: number of the last change that it contains.
        uploaded: Last row sent by the first upload; None once it is complete.
    """

    knowledge_base: str
    encoder: str
    made: str
    run: str
    seq: int
    uploaded: int | None


class MilvusCollection:
    """A collection of vectors of length `dim` on a server; the first call connects.

    Every method raises `IndexUnavailable` if the server cannot be reached, does not answer in time
    or reports an error, and `MissingExtra` if pymilvus is not installed.
    """

    def __init__(self, address: Address, name: str, dim: int) -> None:
        if not address.url:
            raise BadInput(
                'index_engine is "milvus" and index_uri is empty: set KU_INDEX_URI to the address '
                "of the server, such as http://localhost:19530"
            )
        self._address, self._uri, self.name, self._dim = address, address.url, name, dim
        self._client: Any = None
        self._loaded = False

    def __str__(self) -> str:
        """Return name and address, without a password."""
        return f"the collection {self.name} at {self._address.shown}"

    def state(self) -> CollectionState | None:
        """Return the state of the collection; None if it does not exist or is not complete."""
        try:
            properties = self._call("describe_collection")["properties"]
            return CollectionState(**json.loads(properties[_STATE]))
        except (KeyError, TypeError, ValueError):
            return None
        except IndexUnavailable as error:
            if getattr(error.__cause__, "code", None) == _NOT_FOUND:
                return None
            raise

    def set_state(self, state: CollectionState) -> None:
        """Store the state of the collection."""
        self._call("alter_collection_properties", properties={_STATE: json.dumps(asdict(state))})

    def flush(self) -> None:
        """Make everything that was written durable."""
        self._call("flush", timeout=_WRITE_S)

    def create(self, state: CollectionState) -> None:
        """Create an empty collection; an existing one of this name is dropped."""
        milvus = extra("milvus", "pymilvus")
        client, kinds = milvus.MilvusClient, milvus.DataType
        self._call("drop_collection")
        schema = client.create_schema(auto_id=False)
        schema.add_field("id", kinds.INT64, is_primary=True)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=self._dim)
        index = client.prepare_index_params()
        index.add_index(field_name="vector", index_type="FLAT", metric_type="COSINE")
        # At other levels of consistency a search may miss the last upserts.
        options = {"schema": schema, "consistency_level": "Strong"}
        self._call("create_collection", timeout=_WRITE_S, **options)
        self._call("create_index", timeout=_WRITE_S, index_params=index)
        self._call("load_collection", timeout=_WRITE_S, _async=True)  # takes seconds
        self.set_state(state)

    def upsert(self, rows: Rows, vectors: Vectors) -> None:
        """Insert or replace vectors float32[n, dim] of rows int64[n]."""
        step = REQUEST_BYTES // vectors.itemsize // self._dim
        for at in range(0, len(rows), step):
            part = zip(rows[at : at + step].tolist(), vectors[at : at + step], strict=True)
            self._call("upsert", data=[{"id": a, "vector": b} for a, b in part], timeout=_WRITE_S)

    def delete(self, rows: Rows) -> None:
        """Delete rows int64[n]; rows that are not in the collection are ignored."""
        for at in range(0, len(rows), MOST_HITS):
            self._call("delete", ids=rows[at : at + MOST_HITS].tolist(), timeout=_WRITE_S)

    def search(self, queries: Vectors, k: int) -> Rows:
        """Return the k nearest rows of each query, int64[n, m], m ≤ k, padded with -1."""
        self._load()
        results = self._call("search", data=list(queries), limit=k, output_fields=["id"])
        rows = np.full((len(queries), max(map(len, results), default=0)), -1)
        for line, hits in zip(rows, results, strict=True):
            line[: len(hits)] = [hit["id"] for hit in hits]
        return rows

    def rows(self, first: int, last: int) -> Rows:
        """Return the rows of the collection from first to last, ascending; at most `MOST_HITS`."""
        self._load()
        condition = f"id >= {first} and id <= {last}"
        hits = self._call("query", filter=condition, output_fields=["id"], limit=MOST_HITS)
        return np.unique(np.array([hit["id"] for hit in hits], np.int64))

    def _load(self) -> None:
        """Load the collection on the server, which reads require."""
        if not self._loaded:
            self._call("load_collection", timeout=_WRITE_S)
            self._loaded = True

    def _call(self, method: str, *, timeout: float = 0, **options: object) -> Any:  # noqa: ANN401 - of the client
        """Call a method of the client on the collection; without a limit it would retry forever."""
        milvus, grpc = extra("milvus", "pymilvus"), extra("milvus", "grpc")
        client = self._client
        try:
            if client is None:
                for logger in _LOGGERS:
                    logging.getLogger(logger).setLevel(logging.CRITICAL)
                token = self._address.secret()
                client = milvus.MilvusClient(self._uri, token=token, timeout=TIMEOUT_S)
                self._client = client
            return getattr(client, method)(self.name, timeout=timeout or TIMEOUT_S, **options)
        except (milvus.MilvusException, grpc.RpcError, ValueError) as error:
            self._client, self._loaded = None, False
            detail = error.details() if isinstance(error, grpc.RpcError) else reason(error)
            why = getattr(error, "message", "") or detail
            why = why.replace(self._uri, "its address")  # which may contain a password
            advice = _CONNECT if client is None else ""
            raise IndexUnavailable(f"{self} cannot be used: {why}{advice}") from error
