"""What each operation costs with ten thousand to ten million units.

    python -m benchmarks.scale [--units 10000,100000,1000000] [--shapes chunk,records]
                               [--systems ku-rag,LanceDB] [--folder DIR] [--write]

Shapes: "chunk" is a unit of one text with three fields, a kind and a relation to its maker; "ten"
has ten texts a unit; "pictures" has two pictures and a text a unit; "records" is "chunk" with
sentences that name their units. Vectors of texts are ready-made, of 128 dimensions, 512 for more
than a million units; those of the last two shapes are computed. Texts are twelve words by Zipf's
law.
Every filter has a value that was not used before; "repeated" asks it again. Each stage runs in a
process of its own, each library on one thread. Figures are medians of processor time, in
milliseconds unless the name says otherwise: other work on the machine changes it least, but waiting
for the disk is not in it. "First answer, cold" is the wall time of the first query after the page
cache of the files was dropped; later queries read from the disk what it did not. The recall is that
of the row "vector" against a full comparison.

The other systems (benchmarks/systems.py) get the same rows in the shape "chunk", up to 100,000
(LanceDB and the Milvus server a million), with indexes of the fields and the parameters that find
.99 of the nearest. Chroma and Milvus 2.3 rank no texts; txtai filters the first 100 or 1,000 hits
and has no list. --write keeps rows of earlier runs with the same version of ku-rag.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

import ku_rag
from benchmarks.record import markdown, read_result, run_stage, write_result
from benchmarks.systems import COMPUTED, REPEATS, SYSTEMS, Data, Vectors, picture

SHAPES = {"chunk": 10_000_000, "records": 1_000_000, "ten": 100_000, "pictures": 100_000}
"""Shapes, and the most units of each that are measured."""
PEERS = {name: 100_000 for name in SYSTEMS} | {"LanceDB": 1_000_000, "Milvus": 1_000_000}
"""Most units of another system that are measured, all in the shape "chunk"."""
STAGES = ("build", "index", "ask", "change", "maintain")
VARIABLES = dict.fromkeys(
    ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "LANCE_CPU_THREADS", "TOKIO_WORKER_THREADS"), "1"
) | {"PYTHONDONTWRITEBYTECODE": ""}
"""One thread for each library, and no compilation of Python in each process."""
Figures = dict[str, float]


def stage(name: str, system: str, data: Data, folder: Path) -> Figures:
    """Run one stage in this process, and return its rows."""
    if name == "build":
        return build(system, data, folder)
    started = time.process_time()
    opened = SYSTEMS[system](folder, data)
    figures: Figures = {}
    if name == "index":
        started = processor_time(opened.server)
        opened.build_index()
        return {"index, s": round(processor_time(opened.server) - started, 1)}
    if name == "ask":
        figures["open, with imports"] = round(1000 * (processor_time(opened.server) - started), 1)
    vectors = None if data.shape in COMPUTED else next(data.batches())[2][:REPEATS]
    calls = opened.ask(vectors) if name == "ask" else getattr(opened, name)()
    for row, call in calls.items():
        times = []
        for n in range(1 if row.endswith(", s") else REPEATS):
            clock, started = time.perf_counter(), processor_time(opened.server)
            call(n)
            times.append(processor_time(opened.server) - started)
            if name == "ask" and len(figures) == 1:
                wall = time.perf_counter() - clock
                figures["first answer, cold, wall"] = round(1000 * wall, 1)
        unit = 1 if row.endswith(", s") else 1000
        figures[row] = round(unit * float(np.median(times[1:] or times)), 2)
        if row == "vector" or (row == "text" and "vector" not in calls):
            figures |= memory(opened.server)
    if vectors is not None and "vector" in calls:
        answers = [calls["vector"](n) for n in range(REPEATS)]
        figures["recall@10"] = recall(data, vectors, answers)
    return figures


def build(system: str, data: Data, folder: Path) -> Figures:
    """Add all units to an open base; the time to draw them is left out."""
    if data.shape == "pictures":
        for number in range(2 * data.units):
            picture(number).save(folder / f"{number}.png")
    opened = SYSTEMS[system](folder, data)
    started = processor_time(opened.server)
    opened.build()
    spent = processor_time(opened.server) - started - data.drawing
    return {"bulk, units a second": round(data.units / spent)}


def recall(data: Data, queries: Vectors, answers: Sequence[Sequence[str]]) -> float:
    """Return the share of the exact ten nearest texts that were found."""
    nearest: list[list[tuple[float, str]]] = [[] for _ in queries]
    for _, texts, vectors in data.batches():
        for best, scores in zip(nearest, queries @ vectors.T, strict=True):
            top = np.argsort(-scores)[:10]
            best[:] = sorted([*best, *((float(scores[n]), texts[n]) for n in top)])[-10:]
    shares = [
        len({text for _, text in best} & set(answer)) / len({text for _, text in best})
        for best, answer in zip(nearest, answers, strict=True)
    ]
    return round(float(np.mean(shares)), 3)


def processor_time(server: int | None) -> float:
    """Return the processor seconds of this process and of all threads of a server."""
    nanoseconds = 0
    for file in Path(f"/proc/{server}/task").glob("*/schedstat") if server else ():
        with contextlib.suppress(OSError):  # a thread that has ended
            nanoseconds += int(file.read_text("ascii").split()[0])
    return nanoseconds / 1e9 + time.process_time()


def memory(server: int | None) -> Figures:
    """Return the memory of this process, or of the server, in MB: its own, and mapped files."""
    text = Path(f"/proc/{server or 'self'}/smaps_rollup").read_text("ascii")
    kib = {line.split()[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    own = kib["Anonymous:"]
    return {"memory, own, MB": own // 1024, "memory, mapped, MB": (kib["Rss:"] - own) // 1024}


def drop_page_cache(files: Iterable[Path]) -> None:
    """Drop the pages of files from the cache of the system."""
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def measure(system: str, shape: str, units: int, parent: Path) -> Figures:
    """Run all stages of a system, each in a process of its own, and delete its base.

    The figures of each stage are kept beside the base: after an interruption or a failure the next
    run goes on with the stage that is missing.
    """
    name = "-".join((system.lower().replace(" ", "-"), shape, str(units)))
    folder, file = parent / name, parent / f"{name}.json"
    stages: dict[str, Figures] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for stage_name in STAGES[len(stages) :]:
        figures: Figures = {}
        if stage_name == "build":
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            figures["load average"] = round(os.getloadavg()[0], 1)
        if stage_name == "ask":
            files = [path for path in folder.rglob("*") if path.is_file()]
            own = [path for path in files if path.parent != folder or path.suffix != ".png"]
            figures["disk, MB"] = round(sum(path.stat().st_size for path in own) / 1e6)
            drop_page_cache(files)
        command = ["benchmarks.scale", "--stage", stage_name, system, shape, units, folder]
        run = run_stage(command, VARIABLES)
        if "failed" in run:
            before = json.dumps(stages)
            raise SystemExit(f"{stage_name} of {name}: {run['failed']}\nmeasured before: {before}")
        stages[stage_name] = figures | run
        file.write_text(json.dumps(stages), "utf-8")
    shutil.rmtree(folder)
    file.unlink()
    return {row: value for figures in stages.values() for row, value in figures.items()}


def table(results: Mapping[str, Figures]) -> str:
    """Return the rows as Markdown: one column for each system, shape and number of units."""
    rows = dict.fromkeys(row for figures in results.values() for row in figures)
    lines = [["", *results]]
    for row in rows:
        values = [figures.get(row) for figures in results.values()]
        lines.append([row, *("" if value is None else f"{value:,g}" for value in values)])
    return markdown(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and with --write keep the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--units", default="10000,100000,1000000")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument(
        "--folder", type=Path, help="of bases; after an interruption the next run goes on there"
    )
    parser.add_argument("--write", action="store_true", help="write the result file")
    parser.add_argument("--stage", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        name, system, shape, units, path = options.stage
        print(json.dumps(stage(name, system, Data(shape, int(units)), Path(path))))
        return 0
    results = {}
    sizes = [*map(int, options.units.split(","))]
    runs = product(options.shapes.split(","), sizes, options.systems.split(","))
    with tempfile.TemporaryDirectory() as temporary:
        for shape, units, system in runs:
            most = SHAPES[shape] if system == "ku-rag" else PEERS[system] * (shape == "chunk")
            if units > most:
                continue
            figures = measure(system, shape, units, options.folder or Path(temporary))
            results[f"{system}, {shape}, {units:,}"] = figures
            print(system, shape, units, json.dumps(figures), flush=True)
            if options.write:
                write(results)
    print(table(results))
    return 0


def write(results: Mapping[str, Figures]) -> None:
    """Write rows, with those of earlier runs with the same version."""
    earlier = read_result("scale")
    is_present = earlier.get("versions", {}).get("ku-rag") == ku_rag.__version__
    rows = (earlier["rows"] if is_present else {}) | results
    used = {package for name in rows for package in SYSTEMS[name.split(",")[0]].packages}
    write_result("scale", {"rows": rows}, packages=sorted(used))


if __name__ == "__main__":
    sys.exit(main())
