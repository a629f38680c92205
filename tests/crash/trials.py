"""One trial: some calls of the script, an end at some moment, and a check of the remaining base."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ku_rag import KnowledgeBase
from ku_rag.errors import KuError, Mismatch, NotFound
from tests.crash import state
from tests.crash.encoder import Hashed
from tests.crash.script import CALLS, CONTENT, encoders

ROOT = Path(__file__).parents[2]


def copy_base(source: Path, target: Path) -> None:
    """Copy a base that nothing commits to, without memory that processes share.

    Pictures of the next batch may be written meanwhile: no commit references a file that is renamed
    before it could be read.
    """

    def copy(file: str, to: str) -> None:
        with suppress(FileNotFoundError):
            shutil.copy2(file, to)

    ignored = shutil.ignore_patterns("*-shm")
    shutil.copytree(source, target, ignore=ignored, copy_function=copy)


class Player:
    """A process that plays calls and can be killed repeatedly; see `tests.crash.player`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.player", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def run(self, kb: Path, content: Path, start: int, stop: int, **how: Any) -> dict[str, Any]:
        """Play calls `start` to `stop` and report their results.

        Args:
            kb: the base.
            content: folder of the files that are read.
            start: the first call.
            stop: the call after the last one.
            **how: "delay", seconds until the kill; "die_at", the number of a durable step; "error",
                "at" and "lasting", see `durable.fail`; "fault", "at" and "lasting", see
                `tests.crash.faulty_disk`; "retry", to repeat a refused call in the same process,
                whose disk then works; "bytes", the maximum size of a file; "count", to list the
                steps, or the operations that a fault affects; "copies", a folder for copies after
                commits; "mutation"; "lies".

        Returns:
            The number of calls "done", their "times" in seconds, the "steps", the messages
            "refused" and "failed", and whether the process was "killed".
        """
        request = {"kb": str(kb), "content": str(content), "start": start, "stop": stop, **how}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@dataclass(frozen=True)
class Story:
    """The course of the script without kills.

    Args:
        player: plays calls.
        root: a folder for trials.
        content: the files that are read.
        templates: the base before each call, and after the last.
        states: the dump of each template; None where there is no base yet.
        between: the dumps after each commit of each call.
        seconds: the duration of each call.
    """

    player: Player
    root: Path
    content: Path
    templates: list[Path]
    states: list[dict[str, Any] | None]
    between: list[list[dict[str, Any]]]
    seconds: list[float]

    @classmethod
    def tell(cls, player: Player, root: Path) -> Self:
        """Play every call once, and record the states before, within and after each."""
        content = root / CONTENT
        content.mkdir()
        templates, states, between = [root / "base-0"], [None], []
        for call in range(len(CALLS)):
            kb, copies = root / f"base-{call + 1}", root / f"copies-{call}"
            if call:
                copy_base(templates[call], kb)
            reply = player.run(kb, content, call, call + 1, copies=str(copies))
            assert reply["done"] == 1, (CALLS[call].name, reply)
            templates.append(kb)
            with opened(kb, encoders(call)) as base:
                states.append(state.dump(base))
            between.append(list(_dumps(copies, encoders(call))))
        times = player.run(root / "timed", content, 0, len(CALLS))["times"]
        seconds = [stop - start for start, stop in pairwise([0.0, *times])]
        return cls(player, root, content, templates, states, between, seconds)

    def begin(self, call: int, name: str = "trial") -> Path:
        """A fresh copy of the base before a call."""
        kb = self.root / name
        shutil.rmtree(kb, ignore_errors=True)
        if call:
            copy_base(self.templates[call], kb)
        return kb

    def check(self, kb: Path, call: int, stop: int, *, again: bool = True) -> None:
        """Check that a base is whole after a crash within call `call`, and reaches the final state.

        Args:
            kb: the base, as the crash left it.
            call: the first call that did not return; `stop` if all did.
            stop: the calls before this one are repeated.
            again: make the remaining calls as well.

        Raises:
            AssertionError: the base is not whole or does not reach the state.
        """
        within = encoders(min(call, stop - 1)) if call < stop else encoders(stop - 1)
        allowed = [self.states[call], *(self.between[call] if call < stop else ())]
        try:
            with opened(kb, within) as base:
                _whole(base)
                actual = state.dump(base)
        except NotFound:
            actual = None
        if actual not in allowed:
            raise AssertionError("a half change: " + _nearest(actual, allowed))
        if again and call < stop:
            committed = actual is not None and actual != self.states[call]
            self._go_on(kb, call, stop, committed=committed)

    def _go_on(self, kb: Path, call: int, stop: int, *, committed: bool) -> None:
        base = opened(kb, encoders(call), create=call == 0)
        with ExitStack() as stack:
            for number in range(call, stop):
                if base.encoder.fingerprint != CALLS[number].encoder.fingerprint:
                    base = opened(kb, encoders(number))
                stack.enter_context(base)
                try:
                    CALLS[number].make(base, self.content)
                except NotFound:  # a deleted unit cannot be deleted again
                    if not (committed and number == call and "delete" in CALLS[number].name):
                        raise
            _whole(base)
            actual = state.dump(base)
        if actual != self.states[stop]:
            raise AssertionError(
                "the same calls again end elsewhere: " + _nearest(actual, [self.states[stop]])
            )


def opened(kb: Path, made_with: list[Hashed], *, create: bool = False) -> KnowledgeBase:
    """Open a base with the first of these encoders that matches it."""
    for encoder in made_with[:-1]:
        try:
            return KnowledgeBase.open(kb, encoder=encoder, create=create)
        except Mismatch:
            continue
    return KnowledgeBase.open(kb, encoder=made_with[-1], create=create)


def _dumps(copies: Path, made_with: list[Hashed]) -> list[dict[str, Any]]:
    dumps: list[dict[str, Any]] = []
    for copy in sorted(copies.iterdir(), key=lambda f: int(f.name)) if copies.exists() else ():
        with opened(copy, made_with) as base:
            dump = state.dump(base)
        if dump not in dumps:
            dumps.append(dump)
        shutil.rmtree(copy)
    return dumps


def _whole(base: KnowledgeBase) -> None:
    problems = base.verify().problems
    assert not problems, problems


def _nearest(actual: dict[str, Any] | None, allowed: list[dict[str, Any] | None]) -> str:
    if actual is None:
        return "the base is gone"
    reports = [state.differences(actual, expected) for expected in allowed if expected]
    return "\n".join(min(reports, key=len)) if reports else "there should be no base"


KNOWN = (KuError, AssertionError)
"""Errors that a check may raise when a base is not whole."""
