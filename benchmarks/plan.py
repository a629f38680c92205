"""Machines, memory, disk, hours and cost of a large collection, from the committed results.

    python -m benchmarks.plan --units 1e9 [--texts-per-unit 1] [--pictures-per-unit 0]
        [--dimensions 512] [--workers 128] [--encoder all-MiniLM-L6-v2] [--memory 256]
        [--price-hour 1] [--price-gigabyte 0.1]

Each number is printed with its basis: results in scale.json, encode.json and milvus_sync.json, or
an argument. A number is "extrapolated" if the collection is larger than the measured one. It is
then proportional: bytes and processor time grow with the number of texts and pictures. One writer
imports; any number of workers and of machines that search can be added.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from benchmarks.record import markdown, read_result

HALF_AND_BYTE = 3
"""Bytes a dimension in the base: a vector in half precision, and one byte in the index."""
FLOAT, HALF, MONTH_HOURS = 4, 2, 730
HEAD = ["quantity", "number", "state", "rests on"]


@dataclass(frozen=True)
class Row:
    """A number of the plan with its basis."""

    quantity: str
    number: float
    basis: str
    size: int = 0
    """Texts or pictures of the smallest measurement; 0 if the number depends on arguments alone."""

    def cells(self, planned: float) -> list[str]:
        """Return the cells of a table; `planned` is the number of texts or pictures."""
        mark = (
            "computed" if not self.size else "extrapolated" if planned > self.size else "measured"
        )
        number = f"{self.number:,.3g}" if self.number < 100 else f"{self.number:,.0f}"
        return [self.quantity, number, mark, self.basis]


def rows(options: argparse.Namespace, results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return the numbers of a plan, each after those that it is computed from."""
    texts, pictures = (
        options.units * n for n in (options.texts_per_unit, options.pictures_per_unit)
    )
    size, imported = max((int(n), f) for n, f in results["encode"]["sizes"].items())
    rate = results["encode"]["encoded a second"][options.encoder]
    of_import = f"encode.json, {size:,} texts"
    shapes, sync = results["scale"]["rows"], results["milvus_sync"]
    way, seconds = list(sync["seconds"].items())[-1]
    pictured, picture_s, picture_mb = _per_picture(shapes)
    wider = (options.dimensions - 512) * HALF_AND_BYTE / 1e6

    worker_hours = (texts / rate + pictures * picture_s) / 3600
    import_hours = texts * imported["import_processor_s"] / size / 3600
    index_hours = texts * imported["index_processor_s"] / size / 3600
    wide = options.dimensions / 512
    sync_hours = (texts + pictures) * wide * seconds["sync"] / sync["chunks"] / 3600
    base = (texts * (imported["disk_mb"] / size + wider) + pictures * picture_mb) / 1e3
    shards = (texts * (HALF * options.dimensions + 200) / 1e6 + pictures * picture_mb) / 1e3
    memory = (texts + pictures) * FLOAT * options.dimensions / 1e9
    machines = ceil(memory / options.memory)
    return [
        Row("texts", texts, "--units × --texts-per-unit"),
        Row("pictures", pictures, "--units × --pictures-per-unit"),
        Row("encoding, worker-hours", worker_hours,
            f"texts ÷ {rate:g} a second (encode.json, {options.encoder}, one thread) + pictures × "
            f"{1000 * picture_s:.0f} ms (scale.json, {pictured:,} of 160 × 120, embedded)", 1000),
        Row("encoding, hours", worker_hours / options.workers,
            f"worker-hours ÷ {options.workers} (--workers), if the disks of sources keep up", 1000),
        Row("import, hours", import_hours,
            f"texts × {1e6 * imported['import_processor_s'] / size:.0f} µs of processor time "
            f"({of_import}); one writer, and no waiting for disks", size),
        Row("local index, hours", index_hours,
            f"texts × {1e6 * imported['index_processor_s'] / size:.0f} µs ({of_import})", size),
        Row("first sync with Milvus, hours", sync_hours,
            f"vectors × {1e6 * seconds['sync'] / sync['chunks']:.0f} µs × dimensions ÷ 512 ({way}, "
            f"milvus_sync.json, {sync['chunks']:,} vectors)", sync["chunks"]),
        Row("base, GB", base,
            f"texts × {1e6 * imported['disk_mb'] / size:.0f} bytes ({of_import} of 200 characters, "
            f"512 dimensions), {HALF_AND_BYTE} bytes for each further dimension; pictures × "
            f"{1e6 * picture_mb:.0f} bytes (scale.json, PNG files of 160 × 120)", size),
        Row("shards, GB", shards,
            "texts × (2 bytes a dimension + 200 characters), pictures as in the base", pictured),
        Row("memory of the writer, at least, GB", imported["index_peak_mb"] / 1e3,
            f"peak of import and index ({of_import})", size),
        Row("vectors in memory, GB", memory, "4 bytes a dimension: Milvus with the index FLAT"),
        Row("machines that search", machines,
            f"vectors in memory ÷ {options.memory:g} GB (--memory); no machine beside a first was "
            "ever measured"),
        Row("cost of the first import",
            (worker_hours + import_hours + sync_hours * (1 + machines)) * options.price_hour,
            "(worker-hours + import hours + sync hours × (1 + machines)) × --price-hour", size),
        Row("cost of search, a month", machines * MONTH_HOURS * options.price_hour,
            f"machines × {MONTH_HOURS} hours × --price-hour"),
        Row("cost of storage, a month", (base + shards) * options.price_gigabyte,
            "(base + shards) × --price-gigabyte", size),
    ]  # fmt: skip


def _per_picture(shapes: Mapping[str, Mapping[str, float]]) -> tuple[int, float, float]:
    """Return the largest number of measured pictures, and seconds and MB of a picture.

    They are half the difference between a unit of the shape "pictures", which has two pictures and
    a text, and a unit of one text, among as many units.
    """
    prefix = "ku-rag, pictures, "
    sizes = (name.removeprefix(prefix) for name in shapes if name.startswith(prefix))
    units = max(int(size.replace(",", "")) for size in sizes)
    of_text, of_both = (shapes[f"ku-rag, {shape}, {units:,}"] for shape in ("chunk", "pictures"))
    seconds = 1 / of_both["bulk, units a second"] - 1 / of_text["bulk, units a second"]
    return 2 * units, seconds / 2, (of_both["disk, MB"] - of_text["disk, MB"]) / units / 2


def table(arguments: Sequence[str]) -> str:
    """Return the plan as Markdown."""
    options = parser().parse_args(arguments)
    results = {name: read_result(name) for name in ("scale", "encode", "milvus_sync")}
    planned = options.units * max(options.texts_per_unit, options.pictures_per_unit)
    return markdown([HEAD, *(row.cells(planned) for row in rows(options, results))], 4)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    created = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    numbers = {"texts-per-unit": 1.0, "pictures-per-unit": 0.0, "dimensions": 512, "workers": 128,
               "memory": 256.0, "price-hour": 1.0, "price-gigabyte": 0.1}  # fmt: skip
    created.add_argument("--units", type=float, required=True)
    for name, default in numbers.items():
        created.add_argument(f"--{name}", type=type(default), default=default)
    created.add_argument("--encoder", default="all-MiniLM-L6-v2")
    return created


if __name__ == "__main__":
    print(table(sys.argv[1:]))
