"""What a process asks the system to write, rename, remove and sync, in order: a trace of strace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TRACED = (
    *("open", "openat", "creat", "close", "dup", "dup2", "dup3", "fcntl", "lseek"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range"),
    *("truncate", "ftruncate", "fallocate", "fsync", "fdatasync", "sync", "syncfs"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "execve"),
)
_LINE = re.compile(r"(\d+) +(.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>")
_UNFINISHED = " <unfinished ...>"
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_HANDLE = re.compile(r"(-?\d+|AT_FDCWD)(?:<([^>]*)>.*)?$")


@dataclass(frozen=True)
class Call:
    """One call of the system that succeeded.

    Args:
        name: of the call; "begin" where a sync began that another thread's calls came between.
        args: its arguments as strace writes them.
        texts: those of them that are texts: paths, or what was written.
        value: what it returned.
        thread: who called.
    """

    name: str
    args: tuple[str, ...]
    texts: tuple[bytes, ...]
    value: int
    thread: int

    def __str__(self) -> str:
        """The call and the file that it is about, for messages."""
        known = handle(self.args[0])[1] if _HANDLE.match(self.args[0]) else self.texts[0]
        return f"{self.name} {os.fsdecode(known or b'?')}"


def missing() -> str | None:
    """Why no process can be traced here, or None."""
    if not shutil.which("strace"):
        return "strace is not installed"
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True)
    if tried.returncode:
        return f"strace may not trace here: {tried.stderr.strip()}"
    return None


def traced(command: Sequence[str], output: Path, *, cwd: Path, keep: int) -> subprocess.Popen[str]:
    """Start a command whose calls are written to a file.

    Args:
        command: what is run.
        output: where its calls are written.
        cwd: its folder.
        keep: a handle that it inherits.
    """
    options = ["-f", "-y", "-xx", "-s", str(1 << 24), "-e", f"trace={','.join(_TRACED)}"]
    return subprocess.Popen(
        ["strace", "--seccomp-bpf", "-o", str(output), *options, "-e", "signal=none", *command],
        pass_fds=(keep,),
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def calls(trace: Path) -> Iterator[Call]:
    """The calls of a trace in the order in which they ended, without those of other programs.

    A file is closed when that begins: from then on another thread may get the number of its handle.
    A program that the process starts, such as the parser of documents, has handles of its own.
    """
    unfinished: dict[str, str] = {}
    with trace.open(encoding="ascii") as lines:
        started = [line.split()[0] for line in lines if line.split()[1].startswith("execve(")]
    others = set(started[1:]) - set(started[:1])
    with trace.open(encoding="ascii") as lines:
        for line in lines:
            thread, said = _LINE.fullmatch(line.rstrip("\n")).groups()
            if thread in others or said.startswith("execve("):
                continue
            if said.endswith(_UNFINISHED):
                unfinished[thread] = begun = said.removesuffix(_UNFINISHED)
                if begun.startswith(("fsync(", "fdatasync(")):
                    yield _call("begin", begun.partition("(")[2], 0, thread)
                elif begun.startswith("close("):
                    yield _call("close", begun.partition("(")[2], 0, thread)
                continue
            if resumed := _RESUMED.match(said):
                said = unfinished.pop(thread) + said[resumed.end() :]
                if said.startswith("close("):
                    continue
            if (found := _CALL.match(said)) and int(found[3]) >= 0:
                yield _call(found[1], found[2], int(found[3]), thread)


def _call(name: str, args: str, value: int, thread: str) -> Call:
    texts = tuple(bytes.fromhex(t.replace("\\x", "")) for t in _TEXT.findall(args))
    return Call(name, tuple(args.split(", ")), texts, value, int(thread))


@cache
def handle(arg: str) -> tuple[int | None, bytes | None]:
    """The number of a handle and the path that strace knows of it."""
    number, path = _HANDLE.match(arg).groups()
    known = None
    if path is not None:
        known = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), path.encode())
    return (None if number == "AT_FDCWD" else int(number)), known
