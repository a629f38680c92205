"""Parsing of files of foreign origin in a process of its own, with limits.

A parser process is started when a file needs one, reads many files, and is kept for the next
ingest. Several parse the documents of a folder. A process is ended at once when a file exceeds a
limit, when the iterator over its results is closed, and when `progress` raises.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import ku_rag
from ku_rag.errors import BadInput, MissingExtra
from ku_rag.ingest.readers.item_codec import Item, decode_item
from ku_rag.settings import Settings
from ku_rag.types import Progress, Quarantined

_MOST_RESTARTS = 5
"""Records of one file that may exceed a limit; the rest of the file is then left out."""
_PARSERS = min(os.cpu_count() or 1, 4)
"""Processes that parse documents at once."""
_AHEAD = 8
"""Documents that are requested of each before the first is answered."""
_PIPE_BYTES = 1 << 20
"""Bytes of answers that wait in its pipe, where the system permits: those of several documents."""
_AHEAD_BYTES = 1 << 14
"""Bytes of their requests. With one more request they fit into a pipe, so that sending never waits
for a parser that waits until its answer is read."""
_PROGRESS_STEP = 4096
_POLL_S = 0.2
_PATIENCE = 10
_WAIT_S = 60.0
"""Times the limit of processor time, and seconds more, that a parser may take by the clock."""
_READ_BYTES = 1 << 16
_FRAME_BYTES = 1 << 16
"""What a frame may have beyond the limit of output: ends and errors are frames, too."""
_MODULE = "ku_rag.ingest.readers.parser_process"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """What parsing may take for each document or record: bytes, processor time, bytes of JSON."""

    memory: int = 1 << 30
    seconds: float = 60.0
    output: int = 64 << 20

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Return the limits of a knowledge base."""
        return cls(
            settings.parse_memory << 20, float(settings.parse_seconds), settings.parse_output << 20
        )


class _LimitExceeded(BadInput):
    """A file was not parsed to its end, and its parser has ended."""


class Parsing:
    """Parses the files of one ingest.

    To cancel from another thread, let `progress` raise: while a parser is awaited, it is called at
    least five times a second, in the thread that iterates. The parser is then killed, and the
    exception continues to the caller. Closing an iterator of `items` or `rows` kills it, too.

    Args:
        units: What a text or document is: "file" one unit, "heading" one for each heading, "auto"
            either.

    Attributes:
        count: Number of items read so far, as the caller counts them.
        archives, unpacked: Number of archives around it, and files and bytes unpacked of them.
    """

    def __init__(
        self, limits: Limits | None = None, progress: Progress | None = None, units: str = "auto"
    ) -> None:
        self.limits, self.count, self._progress = limits or Limits(), 0, progress
        self.units, self.root = units, Path("/")
        self.archives, self.unpacked = 0, (0, 0)

    @classmethod
    def of(cls, settings: Settings, progress: Progress | None = None) -> Parsing:
        """Return the parsing with the settings of a base."""
        return cls(Limits.of(settings), progress, settings.units)

    def items(self, reader: str, path: Path, **options: object) -> Iterator[Item]:
        """Yield the items of a file; a record that exceeds a limit is reported as one of them."""
        last = 0  # record
        for restarts in range(_MOST_RESTARTS + 1):
            try:
                with _parser(self.limits) as parser:
                    parser.send(reader, path, options or {"skip": last})
                    for number, item in self._answers(decode_item, parser, path):
                        last = number
                        yield item
            except _LimitExceeded as error:
                if options or restarts == _MOST_RESTARTS:
                    raise
                last += 1
                yield Quarantined(f"{path.as_posix()}:{last}", f"record {last:,}: {error}")
            else:
                return

    def documents(
        self, paths: Sequence[Path], mode: str = ""
    ) -> Iterator[tuple[Path, list[Item] | BadInput]]:
        """Yield each path with the items of the document, or the reason why it is left out.

        The next documents are parsed meanwhile, by several parsers in turn if the system limits
        their memory. A unit's id is the path below `root` without suffix.
        """
        with ExitStack() as stack:
            count = _PARSERS if _has_memory_limit() else 1
            parts = (paths[first::count] for first in range(count))
            requests = [self._requests(part, mode or self.units) for part in parts]
            waiting = deque((stack.enter_context(closing(r)), next(r, None)) for r in requests)
            while waiting:
                request, document = waiting.popleft()
                if document is None:
                    continue
                path, answers = document
                items: list[Item] | BadInput
                try:
                    items = [item for _, item in answers]
                except BadInput as error:
                    items = error
                waiting.append((request, next(request, None)))
                yield path, items

    def _requests(
        self, paths: Sequence[Path], mode: str
    ) -> Generator[tuple[Path, Iterator[tuple[int, Item]]], None, None]:
        """Have one parser after another read documents; yield each path with its answers to read.

        Those behind a document that ends its parser are requested again.
        """
        remaining = deque(paths)
        while remaining:
            with _parser(self.limits) as parser:
                unsent = iter(tuple(remaining))
                while remaining and parser.can_continue:
                    while parser.has_room and (path := next(unsent, None)):
                        file_path = path.relative_to(self.root).as_posix()
                        options = {"mode": mode, "file_path": file_path}
                        parser.send("outline:read_units", path, options)
                    path = remaining.popleft()
                    yield path, self._answers(decode_item, parser, path)

    def rows(self, reader: str, path: Path, **options: object) -> Iterator[tuple[int, Any]]:
        """Yield number and value of what a reader yields, as JSON values; see `items`."""
        with _parser(self.limits) as parser:
            parser.send(reader, path, options)
            yield from self._answers(lambda value: value, parser, path)

    def _answers(
        self, decode: Callable[[Any], T], parser: _ParserProcess, path: Path
    ) -> Iterator[tuple[int, T]]:
        """Yield what a parser sends for the first of its requests."""
        parser.name, parser.can_continue, size = path.name, False, 0
        while True:
            frame = parser.receive(self.limits.output - size, self._beat)
            try:
                answer = json.loads(frame)
                if isinstance(answer, dict):
                    break
                number, value = answer[0], decode(answer[1])
            except (LookupError, RecursionError, TypeError, ValueError) as error:
                raise BadInput(f"{path.name} made its parser send no record: check it") from error
            size = 0 if number else size + len(frame)
            yield number, value
        parser.unanswered.popleft()
        parser.can_continue = answer["can_continue"]
        match answer.get("error"):
            case "memory":
                raise parser.exceeded_memory()
            case "extra":
                raise MissingExtra(answer["reason"])
            case "input":
                raise BadInput(answer["reason"])

    def advance(self) -> None:
        """Count an item of a graph, and report the progress at times."""
        self.count += 1
        if not self.count % _PROGRESS_STEP:
            self._beat()

    def _beat(self) -> None:
        if self._progress:
            self._progress(self.count)


def _has_memory_limit() -> bool:
    """Whether the system limits the memory of a process; elsewhere this process measures it."""
    return sys.platform == "linux"


class _ParserProcess:
    """A parser process with its pipes, and the sizes in bytes of the requests not yet answered."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        package = str(Path(ku_rag.__file__).parents[1])
        paths = filter(None, (package, os.environ.get("PYTHONPATH")))
        memory = limits.memory if _has_memory_limit() else 0
        # -P: modules are not searched for in the current folder, which may hold foreign files.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(memory), str(limits.seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # an interrupt in a terminal reaches this process alone
        )
        self._requests = cast(IO[bytes], self._process.stdin)
        self._frames = cast(IO[bytes], self._process.stdout)
        if sys.platform == "linux":
            import fcntl

            with suppress(OSError):  # the system limits the pipes of a user
                fcntl.fcntl(self._frames, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._received = bytearray()
        self.can_continue, self.name = True, ""
        self.unanswered: deque[int] = deque()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._frames, selectors.EVENT_READ)

    def is_alive(self) -> bool:
        """Whether the process can take a request."""
        return self._process.poll() is None

    @property
    def has_room(self) -> bool:
        """Whether another document may be requested before the first is answered."""
        most = _AHEAD if _has_memory_limit() else 1
        return len(self.unanswered) < most and sum(self.unanswered) < _AHEAD_BYTES

    def send(self, reader: str, path: Path, options: Mapping[str, object]) -> None:
        """Send a request; a process that has ended is noticed when its answer is received."""
        request = {"reader": reader, "path": str(path), "options": options}
        line = json.dumps(request).encode() + b"\n"
        self.unanswered.append(len(line))
        with suppress(BrokenPipeError):
            self._requests.write(line)

    def receive(self, most: int, beat: Callable[[], None]) -> bytes:
        """Return the next frame, of `most` bytes and a few more; call `beat` meanwhile."""
        deadline = time.monotonic() + _WAIT_S + _PATIENCE * self.limits.seconds
        size = int.from_bytes(self._read(4, deadline, beat))
        if size > most + _FRAME_BYTES:
            raise _LimitExceeded(
                f"{self.name} gives more than {self.limits.output >> 20:,} MiB of text and "
                "tables: split it, or raise the setting parse_output"
            )
        return self._read(size, deadline, beat)

    def _read(self, size: int, deadline: float, beat: Callable[[], None]) -> bytes:
        while len(self._received) < size:
            if self._selector.select(_POLL_S):
                data = os.read(self._frames.fileno(), _READ_BYTES)
                if not data:
                    raise self._ended()
                self._received += data
                continue
            beat()
            if not _has_memory_limit() and self._resident_bytes() > self.limits.memory:
                raise self.exceeded_memory()
            if time.monotonic() > deadline:
                raise self._exceeded_time()
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    def _resident_bytes(self) -> int:
        """Return the memory that the process uses; 0 if it has ended."""
        command = ["ps", "-o", "rss=", "-p", str(self._process.pid)]
        listed = subprocess.run(command, capture_output=True)
        return int(listed.stdout or 0) << 10

    def _ended(self) -> _LimitExceeded:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        if code == -signal.SIGPROF:
            return self._exceeded_time()
        cause = signal.Signals(-code).name if code and code < 0 else f"exit code {code}"
        return _LimitExceeded(
            f"{self.name} ended its parser ({cause}; its limit of memory is "
            f"{self.limits.memory >> 20:,} MiB): check it, or raise the setting parse_memory"
        )

    def exceeded_memory(self) -> _LimitExceeded:
        """Return the error for a file that takes too much memory."""
        return _LimitExceeded(
            f"{self.name} takes more than {self.limits.memory >> 20:,} MiB of memory to parse: "
            "split or simplify it, or raise the setting parse_memory"
        )

    def _exceeded_time(self) -> _LimitExceeded:
        return _LimitExceeded(
            f"{self.name} takes more than {self.limits.seconds:g} s to parse: split or simplify "
            "it, or raise the setting parse_seconds"
        )

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._selector.close()
        self._requests.close()
        self._frames.close()


_idle: list[_ParserProcess] = []
"""Processes that wait for the next file."""


@contextmanager
def _parser(limits: Limits) -> Iterator[_ParserProcess]:
    """Provide a waiting process, or a new one; if it has answered everything, it waits again.

    Those that wait with other limits are ended.
    """
    while True:
        try:
            parser = _idle.pop()
        except IndexError:
            parser = _ParserProcess(limits)
            break
        if parser.limits == limits and parser.is_alive():
            break
        parser.end()
    try:
        yield parser
    finally:
        if parser.can_continue and not parser.unanswered and len(_idle) < _PARSERS:
            _idle.append(parser)
        else:
            parser.end()


@atexit.register
def _end_idle() -> None:
    while _idle:
        _idle.pop().end()


# A copy of this process must not use the same pipes.
os.register_at_fork(after_in_child=_idle.clear)
