"""A disk that keeps what was synced and may forget the rest: a model of a power cut.

A file is its content and the writes since its last sync; a folder is its names and the changes to
them since its last sync. A name survives when its folder is synced, not when its file is. Each
block and each name that was not synced may be kept or lost separately.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.tracing import Call, handle

_BLOCK = 4096

Keep = Callable[[], bool]
"""Called for each change that was not synced; returns whether it is on the disk."""


@dataclass(eq=False)
class File:
    """Synced content, and later changes: (offset, data), or (size, None) to truncate."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    size: int = 0

    def write(self, offset: int, data: bytes) -> None:
        self.pending.append((offset, data))
        self.size = max(self.size, offset + len(data))

    def cut(self, size: int) -> None:
        self.pending.append((size, None))
        self.size = size

    def sync(self, count: int) -> None:
        self.synced = self.after(lambda: True, count)
        del self.pending[:count]

    def after(self, keep: Keep, count: int | None = None) -> bytearray:
        content = bytearray(self.synced)
        for offset, data in self.pending[:count]:
            if data is None:
                if keep():
                    _resize(content, offset)
                continue
            for start in range(0, len(data), _BLOCK):
                if keep():
                    block = data[start : start + _BLOCK]
                    _resize(content, max(len(content), offset + start + len(block)))
                    content[offset + start : offset + start + len(block)] = block
        return content


@dataclass(eq=False)
class Folder:
    """Synced names, and later changes, each of names that change together."""

    synced: dict[str, Any] = field(default_factory=dict)
    pending: list[dict[str, Any]] = field(default_factory=list)
    now: dict[str, Any] = field(default_factory=dict)

    def change(self, names: dict[str, Any]) -> None:
        self.pending.append(names)
        _apply(self.now, names)

    def sync(self, count: int) -> None:
        for names in self.pending[:count]:
            _apply(self.synced, names)
        del self.pending[:count]

    def after(self, keep: Keep) -> dict[str, Any]:
        result = dict(self.synced)
        for names in self.pending:
            if keep():
                _apply(result, names)
        return result


def _apply(names: dict[str, Any], changes: dict[str, Any]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _resize(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    else:
        del content[size:]


@dataclass
class _Open:
    """An open file or folder; `offset` is the position of the next plain write."""

    node: File | Folder
    offset: int = 0
    append: bool = False


class Disk:
    """The part of a file system in one folder, as a trace changes it.

    Args:
        root: the folder in the trace.
        begin: a folder with its content at the beginning of the trace, all of it synced.
    """

    def __init__(self, root: Path, begin: Path) -> None:
        self._root = root
        self._top = _load(begin)
        self._handles: dict[int, _Open] = {}
        self._begun: dict[int, tuple[File | Folder, int]] = {}

    def restart(self) -> None:
        """Start another process: the files that the previous one had open are closed."""
        self._handles.clear()
        self._begun.clear()

    def apply(self, call: Call) -> bool:
        """Apply a call; return whether it changed anything here."""
        act = getattr(self, f"_on_{_SAME.get(call.name, call.name)}", None)
        if act is None:
            raise ValueError(f"the call {call.name} is traced, but no disk does it yet")
        return bool(act(call))

    def store(self, target: Path, keep: Keep) -> None:
        """Write the content after a power cut.

        Args:
            target: a new folder.
            keep: decides about everything that was not synced.
        """
        _store(self._top, target, keep)

    def unsynced(self) -> Iterator[str]:
        """Contents that were not synced and names that would be lost."""
        yield from _unsynced(self._top, Path())

    # ---- handles -------------------------------------------------------------------------------

    def _on_openat(self, call: Call) -> bool:
        flags = call.args[2]
        folder, name = self._place(call.args[0], call.texts[0])
        if folder is None:
            self._handles.pop(call.value, None)
            return False
        node = folder.now.get(name) if name else folder
        changed = node is None
        if node is None:
            node = File()
            folder.change({name: node})
        if "O_TRUNC" in flags and isinstance(node, File) and node.size:
            node.cut(0)
            changed = True
        self._handles[call.value] = _Open(node, append="O_APPEND" in flags)
        return changed

    def _on_close(self, call: Call) -> None:
        self._handles.pop(handle(call.args[0])[0], None)

    def _on_dup(self, call: Call) -> None:
        number = handle(call.args[0])[0]
        if number in self._handles:
            self._handles[call.value] = self._handles[number]
        else:
            self._handles.pop(call.value, None)

    def _on_fcntl(self, call: Call) -> None:
        if call.args[1].startswith("F_DUPFD"):
            self._on_dup(call)

    def _on_lseek(self, call: Call) -> None:
        if opened := self._opened(call):
            opened.offset = call.value

    # ---- content -------------------------------------------------------------------------------

    def _on_write(self, call: Call) -> bool:
        opened = self._opened(call)
        if opened is None:
            return False
        data = b"".join(call.texts)[: call.value]
        if len(data) != call.value:
            raise ValueError(f"a write of {call.value} bytes is traced with {len(data)}")
        if opened.append:
            opened.offset = opened.node.size
        opened.node.write(opened.offset, data)
        opened.offset += len(data)
        return True

    def _on_pwrite64(self, call: Call) -> bool:
        opened = self._opened(call)
        if opened is None:
            return False
        opened.node.write(int(call.args[-1]), b"".join(call.texts)[: call.value])
        return True

    def _on_ftruncate(self, call: Call) -> bool:
        if opened := self._opened(call):
            opened.node.cut(int(call.args[1]))
        return opened is not None

    def _on_truncate(self, call: Call) -> bool:
        folder, name = self._place("AT_FDCWD", call.texts[0])
        if folder is not None:
            folder.now[name].cut(int(call.args[1]))
        return folder is not None

    def _on_elsewhere(self, call: Call) -> bool:
        """Calls that do not occur inside the folder so far."""
        touched = [self._opened(call)] + [self._place("AT_FDCWD", text)[0] for text in call.texts]
        if any(node is not None for node in touched):
            raise ValueError(f"{call.name} changes the base, but no disk does it yet")
        return False

    # ---- syncing -------------------------------------------------------------------------------

    def _on_begin(self, call: Call) -> bool:
        if opened := self._opened(call):
            self._begun[call.thread] = (opened.node, len(opened.node.pending))
        return False

    def _on_fsync(self, call: Call) -> bool:
        node, count = self._begun.pop(call.thread, (None, None))
        if node is None:
            opened = self._opened(call)
            if opened is None:
                return False
            node, count = opened.node, len(opened.node.pending)
        node.sync(count)
        return True

    # ---- names ---------------------------------------------------------------------------------

    def _on_rename(self, call: Call) -> bool:
        return self._rename("AT_FDCWD", "AT_FDCWD", call)

    def _on_renameat(self, call: Call) -> bool:
        return self._rename(call.args[0], call.args[2], call)

    def _rename(self, source_at: str, target_at: str, call: Call) -> bool:
        source, old = self._place(source_at, call.texts[0])
        target, new = self._place(target_at, call.texts[1])
        if source is None and target is None:
            return False
        if source is None or target is None:
            raise ValueError(f"{call.texts} moves something into the base or out of it")
        node = source.now[old]
        if source is target:
            source.change({old: None, new: node})
        else:
            source.change({old: None})
            target.change({new: node})
        return True

    def _on_unlinkat(self, call: Call) -> bool:
        return self._remove(call.args[0], call)

    def _on_unlink(self, call: Call) -> bool:
        return self._remove("AT_FDCWD", call)

    def _remove(self, at: str, call: Call) -> bool:
        folder, name = self._place(at, call.texts[0])
        if folder is not None:
            folder.change({name: None})
        return folder is not None

    def _on_mkdirat(self, call: Call) -> bool:
        return self._make(call.args[0], call)

    def _on_mkdir(self, call: Call) -> bool:
        return self._make("AT_FDCWD", call)

    def _make(self, at: str, call: Call) -> bool:
        folder, name = self._place(at, call.texts[0])
        if folder is not None:
            folder.change({name: Folder()})
        return folder is not None

    def _opened(self, call: Call) -> _Open | None:
        number = call.args[0].partition("<")[0]
        return self._handles.get(int(number)) if number.isdigit() else None

    def _place(self, at: str, path: bytes) -> tuple[Folder | None, str]:
        """The folder of a path and its name there; the root itself has no name."""
        place = Path(os.fsdecode(path))
        if not place.is_absolute():
            _, base = handle(at)
            if base is None:
                return None, ""
            place = Path(os.fsdecode(base)) / place
        if not place.is_relative_to(self._root):
            return None, ""
        node: Any = self._top
        *folders, name = place.relative_to(self._root).parts or ("",)
        for folder in folders:
            node = node.now[folder]
        return node, name


_SAME = {
    **dict.fromkeys(("dup2", "dup3"), "dup"),
    **dict.fromkeys(("writev",), "write"),
    **dict.fromkeys(("pwritev",), "pwrite64"),
    "fdatasync": "fsync",
    "renameat2": "renameat",
    "rmdir": "unlink",
    **dict.fromkeys(
        (
            *("open", "creat", "pwritev2", "sendfile", "copy_file_range", "fallocate", "sync"),
            *("syncfs", "link", "linkat", "symlink", "symlinkat"),
        ),
        "elsewhere",
    ),
}


def _load(path: Path) -> Folder:
    names: dict[str, Any] = {}
    for entry in path.iterdir():
        if entry.is_dir():
            names[entry.name] = _load(entry)
        else:
            content = bytearray(entry.read_bytes())
            names[entry.name] = File(content, size=len(content))
    return Folder(dict(names), now=names)


def _store(folder: Folder, target: Path, keep: Keep) -> None:
    target.mkdir()
    for name, node in folder.after(keep).items():
        if isinstance(node, Folder):
            _store(node, target / name, keep)
        elif not name.endswith("-shm"):  # shared memory of processes, which the next one rebuilds
            (target / name).write_bytes(node.after(keep))


def _unsynced(folder: Folder, path: Path) -> Iterator[str]:
    for names in folder.pending:
        yield from (f"the name {path / name}" for name, node in names.items() if node)
    for name, node in folder.now.items():
        if isinstance(node, Folder):
            yield from _unsynced(node, path / name)
        elif node.pending:
            yield f"the content of {path / name}"
