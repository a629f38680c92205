"""Import of the shards of `ku encode`: exports of blocks of records, one after another.

The manifest of the folder names the shards with the checksums of their manifests, and these have
the checksums of the tables. Shards hold different sources, so their order is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ku_rag import arguments
from ku_rag.encoders.base import is_same
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, Mismatch
from ku_rag.ingest.pipeline import Pipeline
from ku_rag.ingest.preparation import PreparedRecord
from ku_rag.store.vectors import KINDS
from ku_rag.transfer.parquet_import import ExportRecords
from ku_rag.transfer.parquet_reader import Export, read_manifest
from ku_rag.transfer.tables import MANIFEST
from ku_rag.types import Quarantined

SHARDS = "shards"


def is_shard_set(folder: Path) -> bool:
    """Return whether `ku encode` wrote, or began to write, a folder."""
    return (folder / SHARDS).is_dir()


def check_shards(
    folder: Path, *, partial: bool = False
) -> tuple[Mapping[str, Any], list[Quarantined]]:
    """Return the manifest of a folder of shards, and those that are not sound, if `partial`."""
    manifest = read_manifest(folder / MANIFEST)
    if not manifest.get("finished"):
        raise BadInput(
            f"{folder} is not finished: run the same `ku encode` again, which continues it"
        )
    problems = list(_find_problems(folder / SHARDS, manifest["sha256"]))
    if problems and not partial:
        raise _refusal(folder, len(manifest["sha256"]), problems)
    return manifest, problems


class ShardSet:
    """The records of all sound shards in a folder; `partial` allows others to be left out."""

    def __init__(self, folder: Path, pipeline: Pipeline, *, partial: bool = False) -> None:
        self._folder, self._pipeline, self._partial = folder, pipeline, partial
        manifest, self._problems = check_shards(folder, partial=partial)
        self._check_making(manifest)
        self._digests: Mapping[str, str] = manifest["sha256"]

    def __iter__(self) -> Iterator[PreparedRecord | Quarantined]:
        """Yield the records of the sound shards, and a report of the others."""
        yield from self._problems
        broken = {problem.item for problem in self._problems}
        for name in self._digests:
            if name in broken:
                continue
            export = Export(self._folder / SHARDS / name)
            if export.is_whole:
                yield from ExportRecords(export, self._pipeline)
                continue
            problem = Quarantined(name, "its tables have changed since they were written")
            if not self._partial:
                raise _refusal(self._folder, len(self._digests), [problem])
            yield problem

    def _check_making(self, manifest: Mapping[str, Any]) -> None:
        sides, pipeline = (manifest.get("encoder") or {}).get("sides", {}), self._pipeline
        for kind in KINDS:
            ours, (theirs, *_) = side(pipeline.encoder, kind).fingerprint, sides.get(kind, [None])
            if not is_same(theirs or "", ours):
                raise Mismatch(
                    f"{self._folder} has vectors of the encoder {theirs}, the base is made "
                    f"with {ours}: encode with the encoder of the base, or import into a new one"
                )
        if (longest := manifest.get("max_tokens")) != pipeline.max_tokens:
            raise Mismatch(
                f"{self._folder} has chunks of up to {longest} tokens, the base has "
                f"{pipeline.max_tokens}: encode again with KU_MAX_TOKENS={pipeline.max_tokens}, "
                "or import into a new base"
            )


def _find_problems(shards: Path, digests: Mapping[str, str]) -> Iterator[Quarantined]:
    """Yield the shards that are missing, truncated or duplicated, without reading tables."""
    for name, digest in digests.items():
        manifest = shards / name / MANIFEST
        if not manifest.is_file():
            yield Quarantined(name, "it is missing")
        elif arguments.file_hash(manifest) != digest:
            yield Quarantined(name, "its manifest has changed since it was written")
        else:
            sizes = read_manifest(manifest)["bytes"]
            for file, size in sizes.items():
                path = manifest.with_name(file)
                actual = path.stat().st_size if path.is_file() else 0
                if actual != size:
                    reason = f"{file} has {actual:,} bytes instead of {size:,}"
                    yield Quarantined(name, f"{reason}: it is truncated")
                    break
    there = {path.name for path in shards.iterdir() if path.is_dir()}
    for name in sorted(name for name in there - digests.keys() if not name.startswith(".")):
        yield Quarantined(name, "the manifest does not name it: it is a copy, or from another run")


def _refusal(folder: Path, count: int, problems: list[Quarantined]) -> BadInput:
    listed = "; ".join(f"{problem.item[:16]}: {problem.reason}" for problem in problems[:3])
    return BadInput(
        f"{len(problems):,} of {count:,} shards in {folder} cannot be imported ({listed}): run "
        "`ku encode` or copy the folder again, or pass --partial to import the others"
    )
