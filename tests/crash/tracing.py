"""The writes, renames, deletions and syncs of a process, in order: a trace of strace."""

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
    """A successful system call.

    Args:
        name: of the call; "begin" where a sync began that calls of another thread interrupted.
        args: its arguments as strace writes them.
        texts: those of them that are texts: paths, or written data.
        value: its return value.
        thread: the calling thread.
    """

    name: str
    args: tuple[str, ...]
    texts: tuple[bytes, ...]
    value: int
    thread: int

    def __str__(self) -> str:
        """The call and its file, for messages."""
        path = handle(self.args[0])[1] if _HANDLE.match(self.args[0]) else self.texts[0]
        return f"{self.name} {os.fsdecode(path or b'?')}"


def missing() -> str | None:
    """The reason why no process can be traced here, or None."""
    if not shutil.which("strace"):
        return "strace is not installed"
    attempt = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True)
    if attempt.returncode:
        return f"strace may not trace here: {attempt.stderr.strip()}"
    return None


def traced(command: Sequence[str], output: Path, *, cwd: Path, keep: int) -> subprocess.Popen[str]:
    """Start a command and trace its calls into a file.

    Args:
        command: the command.
        output: the file of the trace.
        cwd: the folder of the command.
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

    A file counts as closed when closing begins: another thread may then get the same handle. A
    program that the process starts, such as the parser of documents, has its own handles.
    """
    unfinished: dict[str, str] = {}
    with trace.open(encoding="ascii") as lines:
        started = [line.split()[0] for line in lines if line.split()[1].startswith("execve(")]
    others = set(started[1:]) - set(started[:1])
    with trace.open(encoding="ascii") as lines:
        for line in lines:
            thread, text = _LINE.fullmatch(line.rstrip("\n")).groups()
            if thread in others or text.startswith("execve("):
                continue
            if text.endswith(_UNFINISHED):
                unfinished[thread] = begun = text.removesuffix(_UNFINISHED)
                if begun.startswith(("fsync(", "fdatasync(")):
                    yield _call("begin", begun.partition("(")[2], 0, thread)
                elif begun.startswith("close("):
                    yield _call("close", begun.partition("(")[2], 0, thread)
                continue
            if resumed := _RESUMED.match(text):
                text = unfinished.pop(thread) + text[resumed.end() :]
                if text.startswith("close("):
                    continue
            if (match := _CALL.match(text)) and int(match[3]) >= 0:
                yield _call(match[1], match[2], int(match[3]), thread)


def _call(name: str, args: str, value: int, thread: str) -> Call:
    texts = tuple(bytes.fromhex(t.replace("\\x", "")) for t in _TEXT.findall(args))
    return Call(name, tuple(args.split(", ")), texts, value, int(thread))


@cache
def handle(arg: str) -> tuple[int | None, bytes | None]:
    """The number of a handle and its path according to strace."""
    number, path = _HANDLE.match(arg).groups()
    name = None
    if path is not None:
        name = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), path.encode())
    return (None if number == "AT_FDCWD" else int(number)), name
