"""The calls that are killed: a sequence of calls of one base.

`CALLS[n]` takes the base from state n to state n + 1. The files that a call reads are written
before it, so that a call can be repeated after its process was killed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import Mismatch
from tests.crash.encoder import FIRST, SECOND, Hashed

CONTENT = "content"
"""The name of the folder of files that calls read."""


@dataclass(frozen=True)
class Call:
    """One call of the public API.

    Args:
        name: for messages.
        make: makes the call, given the base and the folder of the files to read.
        encoder: the encoder with which the base is opened for it.
    """

    name: str
    make: Callable[[KnowledgeBase, Path], object]
    encoder: Hashed = FIRST


def put(path: Path, data: bytes) -> Path:
    """Write a file unless it has this content; an incomplete file is never visible."""
    if not path.exists() or path.read_bytes() != data:
        fresh = _beside(path)
        fresh.write_bytes(data)
        fresh.replace(path)
    return path


def _beside(path: Path) -> Path:
    """The path at which a file of the content is written, outside of the folders that are read."""
    content = next(folder for folder in path.parents if folder.name == CONTENT)
    making = content.with_name("making")
    for folder in (making, path.parent):
        folder.mkdir(parents=True, exist_ok=True)
    return making / f"{path.name}.{os.getpid()}"


def draw(path: Path, seed: int) -> Path:
    """A small picture that no other seed makes."""
    if not path.exists():
        blocks = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        fresh = _beside(path)
        Image.fromarray(blocks).resize((32, 32), Image.Resampling.NEAREST).save(fresh, "PNG")
        fresh.replace(path)
    return path


def _folder(content: Path, changed: bool) -> Path:
    """Units as folders; changed: one has another text, one is deleted and one is new."""
    folder = content / "folder"
    there = [0, 1, 2, 4, 5] if changed else [0, 1, 2, 3, 4]
    for n in there:
        draw(folder / f"Stone {n}" / "face.png", n)
        sentence = "It was moved." if changed and n == 2 else "Nobody moved it."
        text = f"Stone {n} lies beside Stone {(n + 1) % 5}. {sentence} Its weight is {n} tons."
        put(folder / f"Stone {n}" / "about.txt", text.encode())
    put(folder / "road.md", b"# The road\n\nIt leads from Stone 1 to Stone 2 and on to the Mill.\n")
    for gone in {3, 5} - set(there):
        if (folder / f"Stone {gone}").exists():
            shutil.rmtree(folder / f"Stone {gone}")
    return folder


def _records(content: Path) -> Path:
    records = [
        {
            "id": f"mill-{n}",
            "name": f"Mill {n}",
            "aliases": ["the Mill"] if n == 0 else [],
            "images": [str(draw(content / f"mill{n}.png", 20 + n).name)],
            "texts": [f"Mill {n} grinds flour for Stone {n}.", f"It was built in 18{n}0."],
            "metadata": {"floor": n},
            "relations": [{"relation": "stands near", "target": f"Stone {n}"}],
        }
        for n in range(4)
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    return put(content / "mills.jsonl", lines.encode())


def _bridge(content: Path, name: str, number: int, unit_id: str | None = None) -> Unit:
    texts = (f"{name} has {number} arches.", f"It crosses river {number} near Mill 1.")
    images = (draw(content / f"bridge{number}.png", 40 + number),)
    return Unit(name, id=unit_id, texts=texts, images=images)


def _export(content: Path) -> Path:
    """An export of another base, made once."""
    export = content / "ferries"
    if not export.exists():
        making = _beside(export)
        with KnowledgeBase.open(making / "kb", create=True, encoder=FIRST) as kb:
            for n in range(4):
                texts = (f"Ferry {n} goes to Mill {n}.", f"Its captain is {50 + n} years old.")
                images = (draw(content / f"ferry{n}.png", 70 + n),)
                kb.add(Unit(f"Ferry {n}", texts=texts, images=images))
            kb.export(making / "ferries")
        (making / "ferries").replace(export)
        shutil.rmtree(making)
    return export


def _apply_increment(kb: KnowledgeBase, content: Path) -> None:
    """Apply an increment that begins or ends at the state of the base; make one if necessary."""
    for increment in sorted(content.glob("increment*")):
        with suppress(Mismatch):
            kb.apply_increments(increment)
            return
    making = _beside(content / "increment")
    kb.snapshot(making / "copy")
    with KnowledgeBase.open(making / "copy", encoder=FIRST) as copy:
        copy.add(_bridge(content, "Iron Bridge", 9))
        copy.update("mill-1", texts=["Mill 1 was pulled down."], images=[])
        copy.delete("mill-2")
        copy.compact()
        copy.snapshot(making / "increment", since=kb.path)
    increment = content / f"increment{len(list(content.glob('increment*')))}"
    (making / "increment").replace(increment)
    shutil.rmtree(making)
    kb.apply_increments(increment)


CALLS = (
    Call("ingest a folder", lambda kb, c: kb.ingest(_folder(c, changed=False))),
    Call("add a unit", lambda kb, c: kb.add(_bridge(c, "Old Bridge", 3, "bridge"))),
    Call("ingest records", lambda kb, c: kb.ingest(_records(c))),
    Call("add to a unit by its name", lambda kb, c: kb.add(_bridge(c, "Old Bridge", 5))),
    Call(
        "update texts and images",
        lambda kb, c: kb.update(
            "mill-1", texts=["Mill 1 is a ruin beside Stone 4."], images=[draw(c / "ruin.png", 60)]
        ),
    ),
    Call("update a name", lambda kb, _: kb.update("mill-2", name="Saw Mill", metadata={"old": 1})),
    Call("delete units", lambda kb, _: kb.delete(["mill-3", "bridge"])),
    Call("sync", lambda kb, c: kb.sync(_folder(c, changed=True))),
    Call("compact", lambda kb, _: kb.compact()),
    Call("apply an increment", _apply_increment),
    Call("ingest records again", lambda kb, c: kb.ingest(_records(c))),
    Call("import", lambda kb, c: kb.import_(_export(c))),
    Call("reindex", lambda kb, _: kb.reindex(SECOND)),
    Call("add after that", lambda kb, c: kb.add(_bridge(c, "New Bridge", 7)), SECOND),
    Call("compact after that", lambda kb, _: kb.compact(), SECOND),
)


def encoders(call: int) -> list[Hashed]:
    """The encoders that a base may have after call `call` began."""
    begun = CALLS[call]
    return [FIRST, SECOND] if begun.name == "reindex" else [begun.encoder]
