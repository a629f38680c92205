"""The manifest of a knowledge base: its folder, and the models that it was made with."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import uuid
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw

from ku_rag.encoders import DEFAULT, default_spec, deferred_encoder, load_encoder, sides
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.errors import KuError, Mismatch, NotFound
from ku_rag.regions.base import Segmenter
from ku_rag.settings import Settings
from ku_rag.store import vectors
from ku_rag.store.connection import connect
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, sync_names, write_durably
from ku_rag.store.lock import WriterLock
from ku_rag.store.vectors import KINDS

_OURS = {
    *("ku.sqlite", "ku.sqlite-journal", "ku.sqlite-wal", "ku.sqlite-shm", "ku.commits"),
    *("images", "indexes", "uploads", "ku.toml", "writer.lock"),
}
_PARTIAL = re.compile(r"ku\.toml\.(\d+\.)?partial")
"""A file that a process leaves behind when it is stopped while it writes the settings."""


def choose_encoder(
    entry: Mapping[str, Any] | None, settings: Settings, *, as_made: bool
) -> tuple[Encoder, str]:
    """Return the encoder of a base, and its spec with absolute paths.

    It is the one that the settings name, else the one that the base was made with, else, for a new
    base, the default one. The one that the base was made with is loaded at its first use.

    Args:
        entry: the encoder in the manifest; None for a new base.
        settings: may name the encoder.
        as_made: use the encoder that the base was made with, whatever the settings name.

    Raises:
        NotFound: there is no such encoder, or its weights are not here.
        BadInput: its weights are damaged.
        MissingExtra: a package that it needs is not installed.
    """
    own = entry["spec"] if entry else None
    chosen = settings.encoder or own or default_spec(settings.default_encoder)
    spec = "+".join(sides(chosen))
    # The default one needs no weights, so its version is compared at once.
    if entry is None or (not as_made and (own != spec or spec == DEFAULT)):
        return load_encoder(spec, settings=settings), spec
    stored = [entry["sides"][kind] for kind in KINDS]
    return deferred_encoder(own, stored, settings), own or ""


def make(
    layout: Layout,
    settings: Settings,
    database: Database | None,
    *,
    create: bool,
    stated: Collection[str],
    spec: str | None,
    encoder: Encoder,
    segmenter: Segmenter,
) -> Database:
    """Make a knowledge base, or finish one that was made in part.

    This holds the writer lock, so of several processes one makes the base and the others wait.

    Args:
        layout: paths of the base.
        settings: what it is made with.
        database: the store, if there is one.
        create: make its folder, too.
        stated: settings that its ku.toml states.
        spec: the encoder's name; None for an object.
        encoder: the encoder.
        segmenter: the segmenter.

    Raises:
        NotFound: its folder cannot be made.
        Mismatch: the folder is something else.
        Locked: another process is writing to it.
        ReadOnly: it cannot be written to.
    """
    wait = settings.lock_wait_s
    if create:
        _make_folder(layout)
    with WriterLock(layout.lock, wait_s=wait):
        if create:
            _fill_folder(layout, settings.to_toml(stated))
        database = database or Database(layout.database, create=True, lock_wait_s=wait)
        if database.meta("encoder") is None:  # another process may have made it meanwhile
            with database.change() as connection:
                database.set_meta("id", uuid.uuid4().hex)
                set_encoder(database, spec, encoder, settings.max_tokens or encoder.max_tokens)
                database.set_meta("language", settings.language or "english")
                proposing = {"spec": settings.segmenter, "fingerprint": segmenter.fingerprint}
                database.set_meta("segmenter", proposing)
                for kind in KINDS:
                    part = side(encoder, kind)
                    vectors.encoder_row(connection, part.fingerprint, part.dim)
    return database


def discard(layout: Layout, there: Collection[Path]) -> None:
    """Delete an empty base that no other process uses, except the files in `there`."""
    with (
        suppress(KuError, OSError, apsw.Error),
        WriterLock(layout.lock, wait_s=0),
        closing(connect(layout.database)) as connection,
    ):
        connection.set_busy_timeout(0)
        if connection.execute("SELECT 1 FROM sources").fetchone():
            return
        connection.execute("PRAGMA journal_mode = DELETE")  # fails while others have it open
        for path in set(layout.root.iterdir()) - set(there):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        layout.root.rmdir()  # fails if it holds files that were there


def lost(layout: Layout) -> list[str]:
    """Return the folders that hold files although the database is gone or empty."""
    if layout.database.exists() and layout.database.stat().st_size:
        return []
    return [
        f"{folder.name}/"
        for folder in (layout.indexes, layout.images, layout.uploads)
        if any(not path.is_dir() for path in folder.rglob("*"))
    ]


def _make_folder(layout: Layout) -> None:
    root = layout.root
    if root.exists() and not root.is_dir():
        raise Mismatch(f"{root} is a file: name a folder for the knowledge base with --kb")
    try:
        there = {f.name for f in root.iterdir()} if root.exists() else set()
        folders = [folder for folder in (root, *root.parents) if not folder.exists()]
        root.mkdir(parents=True, exist_ok=True)
        sync_names(folders)
    except OSError as error:
        raise NotFound(f"{root} cannot be made ({error.strerror}): check the path") from error
    if strangers := {name for name in there - _OURS if not _PARTIAL.fullmatch(name)}:
        raise Mismatch(
            f"{root} is not a knowledge base and holds other files ({min(strangers)} …): "
            "name a new or empty folder with --kb"
        )


def _fill_folder(layout: Layout, settings: str) -> None:
    if left := lost(layout):
        raise Mismatch(
            f"{layout.database} is gone, but {' and '.join(left)} hold files: "
            "restore ku.sqlite, or name another folder with --kb"
        )
    try:
        layout.images.mkdir(exist_ok=True)
        layout.indexes.mkdir(exist_ok=True)
        written = layout.settings.read_bytes() if layout.settings.exists() else settings.encode()
        write_durably([(layout.settings, written)])
    except OSError as error:
        raise NotFound(
            f"{layout.root} cannot be made ({error.strerror}): check the path"
        ) from error


def record_setting(layout: Layout, name: str, value: object) -> None:
    """Write a setting to ku.toml, in place of the line that states it or shows its default.

    Raises:
        ReadOnly: the file cannot be written.
    """
    text = layout.settings.read_text("utf-8") if layout.settings.exists() else ""
    lines = text.rstrip("\n").split("\n")
    shown = [line.partition("=")[0].strip() for line in lines]
    place = next((shown.index(key) for key in (name, f"# {name}") if key in shown), len(lines))
    lines[place : place + 1] = [f"{name} = {json.dumps(value, ensure_ascii=False)}"]
    write_durably([(layout.settings, ("\n".join(lines) + "\n").encode())])


def set_encoder(database: Database, spec: str | None, encoder: Encoder, max_tokens: int) -> None:
    """Record the encoder and the longest chunk in tokens. Called inside a change.

    `spec` is the encoder's name; None for an object.
    """
    database.set_meta("encoder", describe_encoder(spec, encoder))
    database.set_meta("max_tokens", max_tokens)


def describe_encoder(spec: str | None, encoder: Encoder) -> dict[str, Any]:
    """Return what manifests say of an encoder; `spec` is its name, None for an object."""
    parts = {kind: side(encoder, kind) for kind in KINDS}
    return {
        "spec": spec,
        "fingerprint": encoder.fingerprint,
        "sides": {kind: [part.fingerprint, part.dim] for kind, part in parts.items()},
    }


def check(
    database: Database, encoder: Encoder, spec: str | None = None, *, language: str = ""
) -> None:
    """Check that the base is made with this encoder and holds stems of this language.

    Args:
        database: the store.
        encoder: the encoder that is to be used.
        spec: its name, if it is known.
        language: "" is any.

    Raises:
        Mismatch: it is made with another encoder or language, or has no manifest.
    """
    stored, folder = database.meta("encoder"), database.path.parent
    if language and language != database.meta("language"):
        raise Mismatch(
            f"{folder} was filled with language = {database.meta('language')!r}, the settings say "
            f"{language!r}: change it back (ku.toml, KU_LANGUAGE), or ingest the sources into a "
            "new knowledge base"
        )
    if stored is None:
        raise Mismatch(
            f"{folder} has no manifest: making it was interrupted; open it for writing once"
        )
    if stored["fingerprint"] == encoder.fingerprint:
        return
    how = "open it again with the encoder that it is made with now"
    if spec is not None:
        how = "name no other encoder (--encoder, KU_ENCODER, ku.toml) or version of it"
        if stored["spec"] is None:
            how = "open it with the encoder object that made it"
        how += f", or bring it over with `ku reindex --encoder {shlex.quote(spec)} --kb "
        how += f"{shlex.quote(str(folder))}`"
    seen = f"{folder} was made with encoder {stored['fingerprint']}, this is {encoder.fingerprint}"
    raise Mismatch(f"{seen}: {how}")
