"""Folders: which files describe one unit, and the right reader for each file.

A sub-folder is a unit if it directly holds pictures that its documents do not name, or a single
document. Record files (.jsonl, .csv, .tsv) are read by their own readers. Other texts and documents
are units, or their headings are; so are pictures in the ingested folder. A picture that a record or
document names, in the same folder or below it, belongs to it alone. Other pictures of the ingested
folder, and folders that hold only pictures, come last: a picture named after a unit belongs to it.
Knowledge bases are skipped. What cannot be read is reported, and the rest is read.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Generator, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from ku_rag.errors import BadInput, NotFound
from ku_rag.ingest.readers.decoding import clean_name, file_name
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.ingest.readers.picture_names import PictureNames, picture_record
from ku_rag.ingest.readers.registry import READERS, load_reader
from ku_rag.picture_paths import PICTURE_SUFFIXES
from ku_rag.store.layout import Layout
from ku_rag.types import Quarantined, Record, Source, Unit

_IGNORED = frozenset({"__macosx", "thumbs.db", "desktop.ini"})


def read(path: Path, parsing: Parsing | None = None) -> Generator[Item, None, None]:
    """Read the units that a folder or file describes, one record at a time; see `Parsing`."""
    if not path.exists():
        raise NotFound(f"{path} is not there: expected a folder or a file to read")
    path, parsing = path.resolve(), parsing or Parsing()
    is_root = path.is_dir() or path.suffix.lower() == ".zip"
    parsing.root = path if is_root else path.parent
    if path.is_dir():
        if _is_base(path):
            raise BadInput(
                f"{path} is a knowledge base itself: expected a folder of knowledge; name that one"
            )
        return _count(read_folder(path, parsing), parsing)
    if not path.is_file() or _kind(path) is None:
        raise BadInput(f"{path.name}: {_no_reader(path)}")
    return _count(_read_file(path, parsing), parsing)


def _count(items: Iterator[Item], parsing: Parsing) -> Generator[Item, None, None]:
    for item in items:
        parsing.count += 1
        yield item


def renamed(items: Iterator[Item], folder: Path, root: str) -> Iterator[Item]:
    """Name the items of a folder as if its path was `root`."""
    path = folder.as_posix()

    def rename(name: str) -> str:
        return root + name.removeprefix(path) if name.startswith(f"{path}/") else name

    for item in items:
        if isinstance(item, Quarantined):
            yield Quarantined(rename(item.item), item.reason.replace(path, root))
        else:
            sources = tuple(replace(source, uri=rename(source.uri)) for source in item.sources)
            yield replace(item, sources=sources)


# ---- files -------------------------------------------------------------------------------------


def _kind(path: Path) -> str | None:
    """Return "picture", what the file's reader returns, or None."""
    suffix = path.suffix.lower()
    reader = READERS.get(suffix)
    return "picture" if suffix in PICTURE_SUFFIXES else reader and reader.returns


def _is_picture(path: Path) -> bool:
    return _kind(path) == "picture"


def _no_reader(path: Path) -> str:
    what = path.suffix or "files without a suffix"
    hint = "; write one object a line and call it .jsonl" if path.suffix == ".json" else ""
    expected = f"pictures, {', '.join(READERS)}"
    return f"no reader for {what}: expected {expected}; convert or remove it{hint}"


def _read_file(path: Path, parsing: Parsing) -> Iterator[Item]:
    """Read one file that is not part of a unit's folder."""
    reader = READERS.get(path.suffix.lower())
    try:
        if reader is None:
            yield from _unit(clean_name(path.stem) or path.stem, [path], parsing)
        elif reader.returns == "outline":
            yield from _documents([path], parsing)
        elif reader.returns == "records":
            yield from parsing.items(reader.function, path)
        else:
            yield from load_reader(reader.function)(path, parsing)
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read ({error.strerror}): check it") from error


# ---- folders -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Contents:
    """The entries of one folder by kind, in order of names."""

    folders: list[Path] = field(default_factory=list)
    unit_files: list[Path] = field(default_factory=list)
    record_files: list[Path] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)


def read_folder(root: Path, parsing: Parsing) -> Iterator[Item]:
    """Yield what the files of a folder describe, and those of the folders below it."""
    waiting, named, names = [root], set[Path](), PictureNames(root)
    loose: dict[str, list[Path]] = {}
    picture_folders: list[Path] = []
    while waiting:
        folder = waiting.pop()
        contents = _contents(folder, root)
        yield from contents.quarantined
        identity = "" if folder == root else folder.relative_to(root).as_posix()
        if not identity:
            loose = _without_documents(contents)
        elif contents.unit_files and all(map(_is_picture, contents.unit_files)):
            picture_folders.append(folder)
            contents.unit_files = []
        for item in _items(identity, contents, named, parsing):
            named |= _named_pictures(item)
            names.add(item)
            yield item
        waiting += reversed(contents.folders)
    for stem, pictures in loose.items():
        if files := [path for path in pictures if path not in named]:
            unit = names.unit(stem, is_view=True)
            yield from (picture_record(unit, files),) if unit else _unit(stem, files, parsing)
    for folder in picture_folders:
        files = [path for path in _contents(folder, root).unit_files if path not in named]
        yield from _pictures(folder.relative_to(root).as_posix(), files, names, parsing)


def _without_documents(contents: _Contents) -> dict[str, list[Path]]:
    """Remove the pictures without a document of their name from a folder; return them by name."""
    documents = {path.stem for path in contents.unit_files if not _is_picture(path)}
    pictures: dict[str, list[Path]] = {}
    for path in contents.unit_files:
        if path.stem not in documents:
            pictures.setdefault(path.stem, []).append(path)
    contents.unit_files = [path for path in contents.unit_files if path.stem in documents]
    return pictures


def _pictures(
    identity: str, files: Sequence[Path], names: PictureNames, parsing: Parsing
) -> Iterator[Item]:
    """Yield the records of a folder of pictures.

    All pictures belong to the unit that the folder is named after. If there is none, and all
    pictures or at least two are named after units, each picture belongs to its unit, or is a unit
    of its own. Otherwise the folder is one unit.
    """
    if not files:
        return
    if unit := names.unit(identity.rpartition("/")[2]):
        yield picture_record(unit, files)
        return
    units = [names.unit(path.stem, is_view=True) for path in files]
    if len(units) - units.count(None) < 2 and None in units:
        yield from _unit(identity, files, parsing)
        return
    for path, unit in zip(files, units, strict=True):
        if unit:
            yield picture_record(unit, [path])
        else:
            yield from _unit(f"{identity}/{path.stem}", [path], parsing)


def _named_pictures(item: Item) -> set[Path]:
    """Return the pictures of an item that are not sources of their own."""
    sources = item.sources if isinstance(item, Record) else ()
    pictures = ((source.uri, image) for source in sources for image in source.images)
    return {image for uri, image in pictures if image.as_posix() != uri}


def _contents(folder: Path, root: Path) -> _Contents:
    contents = _Contents()
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        reason = f"the folder cannot be read ({error.strerror}): check its rights"
        contents.quarantined.append(Quarantined(folder.as_posix(), reason))
        return contents
    for entry in entries:
        if entry.name.startswith(".") or entry.name.casefold() in _IGNORED:
            continue
        try:
            _classify(entry, root, contents)
        except (BadInput, OSError) as error:
            contents.quarantined.append(Quarantined(_printable(entry.path), str(error)))
    return contents


def _classify(entry: os.DirEntry[str], root: Path, contents: _Contents) -> None:
    path = Path(entry.path)
    if _printable(entry.path) != entry.path:
        raise BadInput("its name is not UTF-8: rename it")
    if entry.is_symlink():
        _check_link(path, root)
    if entry.is_dir():
        if not _is_base(path):
            contents.folders.append(path)
    elif not entry.is_file():
        raise BadInput("it is neither a file nor a folder: remove it")
    elif (kind := _kind(path)) in ("picture", "outline"):
        contents.unit_files.append(path)
    elif kind:
        contents.record_files.append(path)
    elif entry.stat().st_size:
        raise BadInput(_no_reader(path))


def _is_base(folder: Path) -> bool:
    return Layout(folder).database.exists()


def _check_link(path: Path, root: Path) -> None:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise BadInput("the link leads nowhere: correct or remove it") from error
    if not target.is_relative_to(root):
        raise BadInput("the link leads out of the ingested folder: put a copy in its place")
    if target.is_dir():
        raise BadInput("the link leads to a folder that is read where it stands: remove the link")


def _items(
    identity: str, contents: _Contents, named: Set[Path], parsing: Parsing
) -> Iterator[Item]:
    """Yield what the files of a folder describe, record files first.

    In the ingested folder, whose identity is "", a picture and texts of the same name are one unit.
    Texts come before pictures, because they may name them: `named` are those of earlier items.
    """
    for path in contents.record_files:
        try:
            yield from _read_file(path, parsing)
        except BadInput as error:
            yield Quarantined(path.as_posix(), str(error))
    files = [path for path in contents.unit_files if path not in named]
    if identity:
        documents = [path for path in files if not _is_picture(path)]
        if documents != files:
            items = list(_unit(identity, files, parsing))
            if set(files).difference(documents, *map(_named_pictures, items)):
                yield from items
                return
        yield from _documents(documents, parsing, "folder" if len(documents) == 1 else "")
        return
    pictured = dict[str, list[Path]]((path.stem, []) for path in files if _is_picture(path))
    documents = []
    for path in files:
        pictured.get(path.stem, documents).append(path)
    yield from _documents(documents, parsing)
    for stem, group in pictured.items():
        yield from _unit(stem, [path for path in group if path not in named], parsing)


def _unit(identity: str, files: Sequence[Path], parsing: Parsing) -> Iterator[Item]:
    """Yield the unit of one folder, with a source for each file."""
    identity = unicodedata.normalize("NFC", identity)
    try:
        name = file_name(identity.rpartition("/")[2])
    except BadInput as error:
        yield from (Quarantined(path.as_posix(), str(error)) for path in files)
        return
    documents = [path for path in files if not _is_picture(path)]
    sources = [Source(path.as_posix(), images=(path,)) for path in files if path not in documents]
    for item in _documents(documents, parsing, "whole"):
        if isinstance(item, Record):
            sources += item.sources
        else:
            yield item
    sources.sort(key=lambda source: Path(source.uri).name)
    if sources:
        yield Record(Unit(name, id=identity), tuple(sources))


def _documents(paths: Sequence[Path], parsing: Parsing, mode: str = "") -> Iterator[Item]:
    for path, items in parsing.documents(paths, mode):
        if isinstance(items, BadInput):
            yield Quarantined(path.as_posix(), str(items))
        else:
            yield from items


def _printable(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
