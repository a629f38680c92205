"""How a knowledge base comes to be: its folder, and what it says it was made with."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.errors import Mismatch, NotFound, ReadOnly
from ku_rag.regions.base import Segmenter
from ku_rag.settings import Settings
from ku_rag.store import vectors
from ku_rag.store.connection import connect
from ku_rag.store.database import Database, explained
from ku_rag.store.layout import Layout, sync_names, write_durably
from ku_rag.store.lock import WriterLock
from ku_rag.store.vectors import KINDS, Kind

_OURS = {
    "ku.sqlite",
    "ku.sqlite-journal",
    "ku.sqlite-wal",
    "ku.sqlite-shm",
    "ku.commits",
    "images",
    "indexes",
    "ku.toml",
    "writer.lock",
}


_PARTIAL = re.compile(r"ku\.toml\.(\d+\.)?partial")
"""What a process leaves behind that is stopped while it writes the settings."""


def open_database(
    layout: Layout,
    settings: Settings,
    *,
    create: bool,
    read_only: bool,
    stated: Collection[str],
    spec: str | None,
    encoder: Encoder,
    segmenter: Callable[[], Segmenter],
) -> Database:
    """Open the store of a knowledge base, made before if need be, and see that the encoder fits.

    Whoever makes one holds the writer lock meanwhile, so of several at once one does and the others
    wait. What a maker that was stopped left behind is finished.

    Args:
        layout: where it lies.
        settings: what a new one is made with.
        create: make it if it is not there.
        read_only: never write.
        stated: settings that a new one keeps in its ku.toml.
        spec: the encoder's name; None for an object.
        encoder: the encoder.
        segmenter: makes the segmenter; only a new base asks.

    Raises:
        NotFound: there is none, or its folder cannot be made.
        Mismatch: it was made with another encoder, or the folder is something else.
        Locked: another process is writing to one that is not finished.
        ReadOnly: it cannot be written to.
    """
    if read_only:
        database = Database(layout.database, read_only=True, lock_wait_s=settings.lock_wait_s)
    elif create and made_with(layout.database) is None:
        proposing = segmenter()
        _make_folder(layout)
        with holding(WriterLock(layout.lock, wait_s=settings.lock_wait_s), layout):
            _check_nothing_is_lost(layout)
            _fill_folder(layout, settings.to_toml(stated))
            database = Database(layout.database, create=True, lock_wait_s=settings.lock_wait_s)
            _write_manifest(database, settings, spec, encoder, proposing)
    else:
        database = Database(layout.database, lock_wait_s=settings.lock_wait_s)
        if database.meta("encoder") is None:
            with holding(database.lock, layout):
                _write_manifest(database, settings, spec, encoder, segmenter())
    try:
        with explained(database.path):
            check(database, encoder, spec)
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def holding(lock: WriterLock, layout: Layout) -> Iterator[None]:
    """Hold the writer lock.

    Raises:
        ReadOnly: its file cannot be opened for writing.
        Locked: another process is writing.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(lock)
        except OSError as error:
            raise ReadOnly(
                f"{layout.root} cannot be written to ({layout.lock.name}: {error.strerror}): "
                "check its permissions, or use it read-only"
            ) from error
        yield


def lost(layout: Layout) -> list[str]:
    """The folders that hold files although the database that knows of them is gone or empty."""
    if layout.database.exists() and layout.database.stat().st_size:
        return []
    return [
        f"{folder.name}/"
        for folder in (layout.indexes, layout.images)
        if any(not one.is_dir() for one in folder.rglob("*"))
    ]


def encoder_rows(database: Database, encoder: Encoder) -> dict[Kind, int]:
    """The rows under which vectors of chunks and of images are stored.

    Raises:
        Mismatch: there is none.
    """
    with explained(database.path):
        return {kind: _encoder_row(database, side(encoder, kind)) for kind in KINDS}


def _encoder_row(database: Database, encoder: Encoder) -> int:
    row = database.connection.execute(
        "SELECT row FROM encoders WHERE fingerprint = ?", (encoder.fingerprint,)
    ).fetchone()
    if row is None:
        raise Mismatch(f"the encoder {encoder.fingerprint} has no vectors in this knowledge base")
    return int(row[0])


def made_with(path: Path) -> Mapping[str, Any] | None:
    """What the manifest says of the encoder; None where no finished store can be read."""
    if not path.is_file() or not path.stat().st_size:
        return None
    try:
        with closing(connect(path, read_only=True)) as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = 'encoder'").fetchone()
    except (apsw.Error, ReadOnly):  # opening the store reports what is wrong
        return None
    found: dict[str, Any] | None = row and json.loads(row[0])
    return found


def _make_folder(layout: Layout) -> None:
    root = layout.root
    if root.exists() and not root.is_dir():
        raise Mismatch(f"{root} is a file: name a folder for the knowledge base with --kb")
    try:
        there = {f.name for f in root.iterdir()} if root.exists() else set()
        strangers = {f for f in there - _OURS if not _PARTIAL.fullmatch(f)}
        made = [folder for folder in (root, *root.parents) if not folder.exists()]
        root.mkdir(parents=True, exist_ok=True)
        sync_names(made)
    except OSError as error:
        raise NotFound(f"{root} cannot be made ({error.strerror}): check the path") from error
    if strangers:
        raise Mismatch(
            f"{root} is not a knowledge base and holds other files ({min(strangers)} …): "
            "name a new or empty folder with --kb"
        )


def _check_nothing_is_lost(layout: Layout) -> None:
    if left := lost(layout):
        raise Mismatch(
            f"{layout.database} is gone, but {' and '.join(left)} hold files: "
            "restore ku.sqlite, or name another folder with --kb"
        )


def _fill_folder(layout: Layout, settings: str) -> None:
    try:
        layout.images.mkdir(exist_ok=True)
        layout.indexes.mkdir(exist_ok=True)
        there = layout.settings.exists()
        written = layout.settings.read_bytes() if there else settings.encode()
        write_durably([(layout.settings, written)])
    except OSError as error:
        raise NotFound(
            f"{layout.root} cannot be made ({error.strerror}): check the path"
        ) from error


def _write_manifest(
    database: Database,
    settings: Settings,
    spec: str | None,
    encoder: Encoder,
    segmenter: Segmenter,
) -> None:
    """Keep what a new base is made with; what an older one was made with stays."""
    if database.meta("encoder") is not None:
        return
    with database.change() as connection:
        database.set_meta("id", uuid.uuid4().hex)
        set_encoder(database, spec, encoder, settings.max_tokens or encoder.max_tokens)
        chosen = {"spec": settings.segmenter, "fingerprint": segmenter.fingerprint}
        database.set_meta("segmenter", chosen)
        for kind in KINDS:
            made = side(encoder, kind)
            vectors.encoder_row(connection, made.fingerprint, made.dim)


def set_encoder(database: Database, spec: str | None, encoder: Encoder, max_tokens: int) -> None:
    """Write down what vectors are made with, and how long a chunk may be. Called inside a change.

    Args:
        database: the store.
        spec: what the encoder is made from; None for an object.
        encoder: the encoder.
        max_tokens: longest chunk.
    """
    made = {kind: side(encoder, kind) for kind in KINDS}
    database.set_meta(
        "encoder",
        {
            "spec": spec,
            "fingerprint": encoder.fingerprint,
            "sides": {kind: [one.fingerprint, one.dim] for kind, one in made.items()},
        },
    )
    database.set_meta("max_tokens", max_tokens)


def check(database: Database, encoder: Encoder, spec: str | None = None) -> None:
    """See that the base is still made with this encoder.

    Args:
        database: the store.
        encoder: the one that is to be used.
        spec: what that is made from, if it is known.

    Raises:
        Mismatch: it is made with another one, or has no manifest.
    """
    made = database.meta("encoder")
    if made is None:
        raise Mismatch(
            f"{database.path.parent} has no manifest: making it was interrupted; "
            "open it for writing once"
        )
    if made["fingerprint"] == encoder.fingerprint:
        return
    said = (
        f"{database.path.parent} was made with encoder {made['fingerprint']}, this is "
        f"{encoder.fingerprint}: "
    )
    if spec is None:
        raise Mismatch(said + "open it again with the encoder that it is made with now")
    folder = shlex.quote(str(database.path.parent))
    command = f"`ku reindex --encoder {shlex.quote(spec)} --kb {folder}`"
    if made["spec"] is None:
        how = "open it with the encoder object that made it"
    elif made["spec"] == spec:
        how = "install the version that made it"
    else:
        how = "name no other encoder (--encoder, KU_ENCODER, ku.toml)"
    raise Mismatch(f"{said}{how}, or bring it over with {command}")
