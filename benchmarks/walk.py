"""How much code a small command passes through: `python -m benchmarks.walk [-v] [--write]`.

Counts the distinct functions of ku_rag that are called (code objects, by `sys.setprofile`) with the
opening of the base, the files that they are in, and lists those of more than 60 lines.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

import ku_rag
from benchmarks.record import write_result
from ku_rag.demo.dataset import build
from tools.demo_data.flags import draw

Command = Callable[[ku_rag.KnowledgeBase], object]

_LONG = 60
_ROOT = str(Path(ku_rag.__file__).parent)


def walked(folder: Path, command: Command) -> set[CodeType]:
    """The functions of ku_rag that opening a base, a command and closing call, in every thread."""
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_ROOT):
            called.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with ku_rag.KnowledgeBase.open(folder) as kb:
            command(kb)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    # Neither modules, classes, comprehensions nor lambdas.
    return {
        code for code in called if code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")
    }


def lines(code: CodeType) -> int:
    """The number of lines of a function."""
    numbers = [line for *_, line in code.co_lines() if line]
    return max(numbers) - code.co_firstlineno + 1


def main() -> None:
    """Walk four commands on the demo's base, opened anew for each."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with ku_rag.KnowledgeBase.open(folder / "kb", create=True) as kb:
            kb.ingest(build(folder / "data") / "countries.jsonl")
        (folder / "lamp.txt").write_text("The lamp comes from Peru.", encoding="utf-8")
        draw("japan").save(folder / "flag.png")
        commands: dict[str, Command] = {
            "ingest of one text": lambda kb: kb.ingest(folder / "lamp.txt"),
            "picture question": lambda kb: kb.query(folder / "flag.png", "What is the capital?"),
            "delete": lambda kb: kb.delete("japan"),
            "graph question": lambda kb: kb.graph.search("Which countries does France border?"),
        }
        long: set[CodeType] = set()
        figures = {}
        print(f"{'':<20} functions  files")
        for label, command in commands.items():
            called = walked(folder / "kb", command)
            files = {code.co_filename for code in called}
            print(f"{label:<20} {len(called):>9}  {len(files):>5}")
            figures[label] = {"functions": len(called), "files": len(files)}
            long |= {code for code in called if lines(code) > _LONG}
            if "-v" in sys.argv:
                for code in sorted(called, key=lambda one: (one.co_filename, one.co_firstlineno)):
                    print(f"    {code.co_filename.removeprefix(_ROOT)}: {code.co_name}")
    for code in sorted(long, key=lines):
        print(f"{lines(code)} lines: {code.co_filename.removeprefix(_ROOT)}: {code.co_name}")
    if "--write" in sys.argv:
        write_result("walk", figures)


if __name__ == "__main__":
    main()
