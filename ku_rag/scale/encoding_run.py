"""`ku encode`: sources become shards with vectors; no knowledge base is opened.

A run that was interrupted continues: sound shards are not encoded again.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ku_rag
from ku_rag import arguments, manifest
from ku_rag.encoders import default_spec, load_encoder, sides
from ku_rag.encoders.base import Encoder
from ku_rag.errors import BadInput, NotFound, Refused
from ku_rag.ingest.readers.folder import read
from ku_rag.scale import ray_engine
from ku_rag.scale.shards import Shard, ShardWriter, read_blocks
from ku_rag.settings import Settings
from ku_rag.store.layout import write_durably
from ku_rag.transfer.object_storage import RemoteFolder, StagedSource, is_address
from ku_rag.transfer.parquet_reader import read_manifest
from ku_rag.transfer.shard_set import SHARDS
from ku_rag.transfer.tables import ENTITIES, EXTRACTED, FORMAT, MANIFEST, TABLES, parquet
from ku_rag.types import Progress, Quarantined, Serializable

_OURS = re.compile(rf"{MANIFEST}(\.\d+\.partial)?$|{SHARDS}$")
"""Names in a folder of shards, including those that a killed run left behind."""
_AHEAD = 2
"""Blocks queued for each thread."""


@dataclass(frozen=True, slots=True)
class Encoded(Serializable):
    """The result of `encode`.

    Args:
        reused: Number of them that an earlier run had written.
        left_out: Items that are in no shard, in the order of the sources.
    """

    shards: int
    reused: int
    counts: Mapping[str, int]
    left_out: Sequence[Quarantined]
    seconds: float


def encode(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    settings: Settings | None = None,
    encoder: Encoder | None = None,
    engine: str = "local",
    workers: int = 0,
    address: str | None = None,
    block: int = 1024,
    progress: Progress | None = None,
) -> Encoded:
    """Encode sources to shards, which `ku import` stores without encoding (docs/scale.md).

    Args:
        sources: Folders, files or addresses, as `ku encode` takes them. Ray reads several at once.
        out: New, empty, or of an earlier run over the same sources, which is continued or renewed.
        settings: Name of the encoder, device, batch size and longest chunk.
        encoder: An encoder that has no name.
        engine: "local" or "ray".
        workers: Threads, or Ray actors; 0 for one thread, or an actor for each GPU or processor.
        address: Address of a Ray cluster; None starts Ray on this machine.
        block: Records per shard.
        progress: Called with the number of units so far.

    Raises:
        NotFound, BadInput: A source cannot be read, or is inside another one.
        Refused: The folder holds something else, or shards of another encoder or version.
        KuError: A worker failed repeatedly.
        MissingExtra: pyarrow or Ray is not installed.
    """
    parquet()
    started = time.monotonic()
    if address and any(map(is_address, (*sources, out))):
        raise BadInput("a cluster shares no downloads: mount the storage, and name its paths")
    settings = settings or Settings()
    spec = "+".join(sides(settings.encoder or default_spec(settings.default_encoder)))

    def load() -> Encoder:
        return encoder or load_encoder(spec, settings=settings)

    remote = RemoteFolder(str(out)) if is_address(out) else None
    with _staged(sources, out, remote) as (places, folder):
        model = load()
        header: dict[str, Any] = {"format": FORMAT, "ku_rag": ku_rag.__version__}
        header["encoder"] = manifest.describe_encoder(None if encoder else spec, model)
        header["max_tokens"] = min(settings.max_tokens or model.max_tokens, model.max_tokens)
        header["settings"] = {"max_tokens": settings.max_tokens}
        of_all = header | {"block": block, "sources": [source.name for source in places]}
        _begin(folder, of_all)
        if remote:
            remote.upload(folder, MANIFEST)
        writer = partial(ShardWriter, folder, header, remote=remote)
        if engine == "ray":
            running = ray_engine.run(places, block, lambda: writer(load()), workers, address)
        else:
            running = _run_threads(places, block, writer(model), workers or 1)
        shards = list(_counted(running, progress))
        return _finish(folder, of_all, shards, time.monotonic() - started)


def _counted(running: Iterator[Shard], progress: Progress | None) -> Iterator[Shard]:
    units = 0
    for shard in running:
        units += shard.counts["units"]
        if progress:
            progress(units)
        yield shard


@contextmanager
def _staged(
    sources: Sequence[str | Path], out: str | Path, remote: RemoteFolder | None
) -> Iterator[tuple[list[StagedSource], Path]]:
    """Yield sources and the folder of shards on the local disk; then finish the remote folder."""
    with TemporaryDirectory(prefix="ku-encode-") as temporary:
        folder = Path(temporary, "out") if remote else arguments.path(out, "the folder of shards")
        if remote:
            with suppress(NotFound):
                remote.download(folder)
        before = set((folder / SHARDS).glob("*")) if remote else set()
        paths = _resolve([source for source in sources if not is_address(source)], folder)
        places = [StagedSource(path, path.parent, path.parent.as_posix()) for path in paths]
        for source in map(str, filter(is_address, dict.fromkeys(sources))):
            parent, _, name = source.rstrip("/").rpartition("/")
            top = Path(temporary, str(len(places))).resolve()
            RemoteFolder(source).download(top / name)
            read(top / name)  # refuses a wrong name
            places.append(StagedSource(top / name, top, parent))
        yield places, folder.absolute()
        if remote:
            remote.upload(folder, MANIFEST)
            for path in before - set((folder / SHARDS).iterdir()):
                remote.delete(f"{SHARDS}/{path.name}")


def _run_threads(
    sources: Sequence[StagedSource], size: int, writer: ShardWriter, workers: int
) -> Iterator[Shard]:
    """Yield the shards of sources, in order; the threads share the encoder."""
    waiting = deque[Future[Shard]]()
    with ThreadPoolExecutor(workers, "ku-encode") as pool:
        try:
            for number, source in enumerate(sources):
                for block in read_blocks(source, number, size):
                    waiting.append(pool.submit(writer.write, block))
                    if len(waiting) > _AHEAD * workers:
                        yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _resolve(sources: Sequence[str | Path], out: Path) -> list[Path]:
    """Return absolute paths of sources, each once; refuse one inside another, and `out` in one."""
    paths = list(dict.fromkeys(arguments.path(path, "the source").resolve() for path in sources))
    for path in (*paths, out.resolve()):
        for other in paths:
            if other in path.parents:
                raise BadInput(f"{path} is inside the source {other}: name another folder")
    for path in paths:
        read(path)  # refuses a wrong name before the folder of the shards is created
    return paths


def _begin(folder: Path, run: Mapping[str, Any]) -> None:
    """Write the manifest of a run that is not finished; refuse a folder with something else."""
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise Refused(f"{path} is not a folder: name a new or empty folder for the shards")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    old = read_manifest(folder / MANIFEST)
    if (SHARDS in there and not old) or not all(map(_OURS.match, there)):
        raise Refused(f"{folder} holds other files: name a new or empty folder for the shards")
    for key, value in run.items():
        if old and old.get(key) != value:
            raise Refused(
                f"{folder} holds shards of another run, whose {key} is {old.get(key)!r} instead "
                f"of {value!r}: name a new folder, or delete this one"
            )
    if not old:
        _write_manifest(folder, {**run, "finished": False, "sha256": {}})
    (folder / SHARDS).mkdir(exist_ok=True)


def _finish(folder: Path, run: Mapping[str, Any], shards: list[Shard], seconds: float) -> Encoded:
    """Write the manifest of a finished run, delete what it does not name, and report."""
    shards.sort(key=lambda shard: shard.place)
    digests = {shard.name: shard.digest for shard in shards}
    # Shards have no entities and no facts of a model.
    counts = Counter({table.name: 0 for table in TABLES if table not in (ENTITIES, EXTRACTED)})
    for shard in shards:
        counts.update(shard.counts)
    _write_manifest(folder, {**run, "finished": True, "counts": counts, "sha256": digests})
    for path in (folder / SHARDS).iterdir():
        if path.name not in digests:  # from an earlier state of the sources, or from a killed run
            shutil.rmtree(path, ignore_errors=True)
    return Encoded(
        shards=len(shards),
        reused=sum(shard.reused for shard in shards),
        counts=dict(counts),
        left_out=[item for shard in shards for item in shard.left_out],
        seconds=round(seconds, 3),
    )


def _write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1)
    write_durably([(folder / MANIFEST, (text + "\n").encode())])
