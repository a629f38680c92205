"""Plays calls of the script in a process that may be killed at any moment.

`python -m tests.crash.player serve` loads everything once and forks one process for each request,
so that a trial takes no longer than its calls. Requests and replies are one JSON object a line.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ku_rag import KnowledgeBase
from ku_rag.errors import KuError, NotFound
from ku_rag.indexes import vector_index
from ku_rag.ingest import pipeline
from tests.crash import durable, mutations
from tests.crash.faulty_disk import DISK
from tests.crash.script import CALLS, CONTENT, Call, encoders

_BEGUN, _DONE = "begun", "done"


def play(request: dict[str, Any], acknowledge: int) -> None:
    """Make calls `start` to `stop`, and write to `acknowledge` when one begins and has returned.

    Without calls, the base is opened, read and closed.

    Args:
        request: "kb", "content", "start", "stop"; see `Player.run` for the rest.
        acknowledge: a pipe.
    """
    if request.get("upgrade"):
        KnowledgeBase.upgrade(request["kb"])
        os.write(acknowledge, f"{_DONE} {time.monotonic()}\n".encode())
        return
    start, stop, content = request["start"], request["stop"], Path(request["content"])
    calls = CALLS[start:stop] or (Call("read", lambda kb, _: kb.list(), encoders(start)[0]),)
    with ExitStack() as stack:
        kb = None
        os.write(acknowledge, f"{_BEGUN}\n".encode())
        for call in calls:
            if request.get("lies"):
                os.write(acknowledge, f"{_DONE} {time.monotonic()}\n".encode())
            try:
                kb = _opened(call, kb, request, stack)
                call.make(kb, content)
            except KuError as error:
                if not request.get("retry"):
                    raise
                _refuse(error, acknowledge)
                DISK.disarm()
                kb = _opened(call, kb, request, stack)
                with suppress(*(NotFound,) if "delete" in call.name else ()):
                    call.make(kb, content)  # a deleted unit cannot be deleted again
            if not request.get("lies"):
                os.write(acknowledge, f"{_DONE} {time.monotonic()}\n".encode())


def _opened(
    call: Call, kb: KnowledgeBase | None, request: dict[str, Any], stack: ExitStack
) -> KnowledgeBase:
    """Open the base with the encoder of a call."""
    if kb is None or kb.encoder.fingerprint != call.encoder.fingerprint:
        stack.close()
        create = request["start"] == 0
        kb = KnowledgeBase.open(request["kb"], create=create, encoder=call.encoder)
        stack.enter_context(kb)
    return kb


def _refuse(error: KuError, acknowledge: int) -> None:
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    os.write(acknowledge, f"refused {text}\n".encode())


def _child(request: dict[str, Any], acknowledge: int) -> None:
    status, pages = 0, bool(request.get("upgrade"))
    try:
        if request.get("mutation"):
            mutations.APPLY[request["mutation"]]()
        if request.get("bytes") is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["bytes"], request["bytes"]))
        if request.get("copies"):
            durable.watch(_copying(request), Path(request["kb"]))
        if request.get("count") and not request.get("fault"):
            durable.watch(_counting(acknowledge), Path(request["kb"]), pages=pages)
        if request.get("die_at"):
            durable.watch(durable.die(request["die_at"]), Path(request["kb"]), pages=pages)
        if request.get("error"):
            watcher = durable.fail(request["at"], request["error"], lasting=request["lasting"])
            durable.watch(watcher, Path(request["kb"]))
        if request.get("fault"):
            DISK.log = _counting(acknowledge) if request.get("count") else None
            DISK.arm(request["fault"], request.get("at", 0), lasting=request.get("lasting", False))
        play(request, acknowledge)
    except KuError as error:
        _refuse(error, acknowledge)
        status = 3
    except BaseException:
        text = traceback.format_exc().replace("\n", " | ")
        os.write(acknowledge, f"failed {text}\n".encode())
        status = 4
    finally:
        os._exit(status)


def _counting(acknowledge: int) -> durable.Watcher:
    write = os.write
    return lambda step: write(acknowledge, f"step {step}\n".encode()) and None


def _copying(request: dict[str, Any]) -> durable.Watcher:
    """Copy the base after every commit to a folder "1", "2" … of `copies`."""
    from tests.crash.trials import copy_base

    count = 0

    def watcher(step: str) -> None:
        nonlocal count
        if step.startswith("after "):
            count += 1
            copy_base(Path(request["kb"]), Path(request["copies"]) / str(count))

    return watcher


def _serve_one(request: dict[str, Any]) -> dict[str, Any]:
    reader, acknowledge = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child(request, acknowledge)
    os.close(acknowledge)
    output = b""
    deadline = None
    begun = time.monotonic()
    while True:
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([reader], [], [], wait)
        if not ready:
            os.kill(child, signal.SIGKILL)
            deadline = None
            continue
        some = os.read(reader, 1 << 16)
        if not some:
            break
        if not output and request.get("delay") is not None:
            begun = time.monotonic()
            deadline = begun + request["delay"]
        output += some
    os.close(reader)
    _, status = os.waitpid(child, 0)
    # The last line of a killed process may be incomplete and is ignored.
    lines = output.decode(errors="replace").split("\n")[:-1]
    times = [float(line.split()[1]) - begun for line in lines if line.startswith(_DONE)]
    return {
        "done": len(times),
        "times": times,
        "steps": [line[5:] for line in lines if line.startswith("step ")],
        "refused": next((line[8:] for line in lines if line.startswith("refused ")), None),
        "failed": next((line[7:] for line in lines if line.startswith("failed ")), None),
        "killed": os.WIFSIGNALED(status),
    }


def _serve() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_serve_one(json.loads(line))) + "\n")
        sys.stdout.flush()


def _warm_up() -> None:
    """Import the modules that calls import at first, and draw each picture once."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        content = root / CONTENT
        content.mkdir()
        request = {"kb": str(root / "kb"), "content": str(content), "start": 0}
        play({**request, "stop": len(CALLS)}, os.open(os.devnull, os.O_WRONLY))


if __name__ == "__main__":
    # A process whose files cannot grow would leave an incomplete file of bytecode.
    sys.dont_write_bytecode = True
    # Small batches, so that one ingest has several commits; the clock never ends a batch.
    pipeline._BATCH_RECORDS = 3
    pipeline._BATCH_SECONDS = 1e9
    # Caches of a few vectors, so that they are written, become outdated and are updated.
    assert hasattr(vector_index, "BASE_MIN")
    vector_index.BASE_MIN = 6
    if sys.argv[1] == "serve":
        _warm_up()
        _serve()
    else:
        _child(json.loads(sys.argv[2]), int(sys.argv[3]))
