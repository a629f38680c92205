"""Encoding by Ray Data: tasks read the sources, actors encode blocks and write their shards."""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from ku_rag.errors import KuError, reason
from ku_rag.plugins import extra
from ku_rag.scale.shards import Block, Shard, ShardWriter, read_blocks
from ku_rag.transfer.object_storage import StagedSource

_READS = 4
"""Number of sources that are read at once for each processor."""
_CONNECT_TIMEOUT_S = 10
_ATTEMPTS = "RAY_gcs_server_port_wait_time_s"
"""Number of attempts to connect, 20 if unset. Each takes 40 s if the port is not Ray's."""
_RESTARTS = 3
"""Number of times that a worker that died is started again."""
_RESUME = "the same command continues after the shards that are written"

Row = dict[str, Any]
"""A row of Ray Data: a block or a shard, or the error that ends the run, under "item"."""


class ShardActor:
    """Writes the shards of blocks in a process of its own."""

    def __init__(self, make: Callable[[], ShardWriter]) -> None:
        self._make = cache(make)

    def __call__(self, row: Row) -> Row:
        """Return the shard of a block. Errors are returned: Ray would retry if they were raised."""
        item: Block | KuError = row["item"]
        try:
            return {"item": item if isinstance(item, KuError) else self._make().write(item)}
        except KuError as error:
            return {"item": error}
        except Exception as error:  # each encoder has its own errors
            return {"item": KuError(f"an encoder failed ({reason(error)}): {_RESUME}")}


def run(
    sources: Sequence[StagedSource],
    size: int,
    make: Callable[[], ShardWriter],
    workers: int,
    address: str | None = None,
) -> Iterator[Shard]:
    """Yield the shards of sources, in the order in which they are written.

    Every worker reaches the sources under these names. Each actor calls `make`, which loads the
    encoder. `workers` is the number of actors; 0 for one for each GPU of the cluster, or each
    processor. Without an address the current connection is used, or a cluster started.

    Raises:
        KuError: A source cannot be read, a shard cannot be written, a worker failed repeatedly, or
            there is no cluster at the address.
        MissingExtra: Ray is not installed.
    """
    ray, data = extra("ray", "ray"), extra("ray", "ray.data")

    def read(row: Row) -> Iterator[Row]:
        try:
            for block in read_blocks(sources[row["item"]], int(row["item"]), size):
                yield {"item": block}
        except KuError as error:
            yield {"item": error}

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = data.DataContext.get_current()
    context.target_max_block_size = 1  # Ray would merge blocks of records, for one actor
    context.enable_progress_bars = False
    try:
        if not ray.is_initialized():
            _connect(ray, address)
        numbers = data.from_items(list(range(len(sources))), override_num_blocks=len(sources))
        with warnings.catch_warnings(action="ignore"):  # limits of restarts end with Ray 2.64
            cluster = ray.cluster_resources()
            reads = max(1, int(_READS * cluster.get("CPU", 1.0)))
            # Neither reserves processors: when a node dies, the others have room for its work.
            rows = numbers.flat_map(read, num_cpus=0, concurrency=reads).map(
                ShardActor,
                fn_constructor_args=[make],
                max_restarts=_RESTARTS,
                max_task_retries=-1,  # until Ray notices a dead node, which takes 10 s and more
                **_resources(cluster, workers, data.ActorPoolStrategy),
            )
        for row in rows.iter_rows():
            if isinstance(row["item"], KuError):
                raise row["item"]
            yield row["item"]
    except (ray.exceptions.RayError, ConnectionError) as error:
        last = reason(ValueError(str(error).strip().rpartition("\n")[2]))  # without the traceback
        raise KuError(f"a worker of Ray failed ({last}): see the logs of Ray; {_RESUME}") from error


def _connect(ray: Any, address: str | None) -> None:  # noqa: ANN401 - a module
    """Connect to the cluster at an address, or start one on this machine."""
    try:
        server = urlsplit(f"//{(address or '').removeprefix('ray://')}")
        if server.port:  # Ray would wait for minutes if nothing listens there
            timeout = _CONNECT_TIMEOUT_S
            socket.create_connection((server.hostname, server.port), timeout).close()
            os.environ.setdefault(_ATTEMPTS, "1")
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        place = f"at {address}" if address else "on this machine"
        raise KuError(
            f"no Ray cluster {place} ({reason(error)}): start one or correct --address"
        ) from error


def _resources(cluster: Mapping[str, float], workers: int, pool: Any) -> dict[str, Any]:  # noqa: ANN401 - a class of Ray
    """Return the number of actors, their distribution over nodes, and the GPUs of each."""
    processors, gpus = cluster.get("CPU", 1.0), cluster.get("GPU", 0.0)
    workers = workers or int(gpus or processors)
    return {
        "compute": pool(size=workers),
        "num_cpus": 0,
        "scheduling_strategy": "SPREAD",
        "num_gpus": min(1.0, gpus / workers) or None,
    }
