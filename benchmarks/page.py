"""Fill the tables of docs/performance.md from the results that lie in benchmarks/results.

    python -m benchmarks.page

Between `<!-- NAME -->` and `<!-- /NAME -->` stands what the result says now; the rest is prose.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import scale
from benchmarks.peers import report
from benchmarks.peers.registry import PEERS
from benchmarks.record import RESULTS, markdown, told

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_NOT_YET = "Not measured yet."


def fill(page: str, results: Path = RESULTS) -> str:
    """The page with every table made anew."""
    peers, grown = _read(results / "peers.json"), _read(results / "scale.json")
    some, bulk = _read(results / "peers_some.json"), _read(results / "bulk.json")
    served = _read(results / "serve.json")
    filtered, million = _read(results / "filters.json"), _read(results / "filters_alone.json")
    parts: dict[str, tuple[dict[str, Any], Callable[[Mapping[str, Any]], str]]] = {
        "machine": (peers, _machine),
        "kept": (peers, _kept),
        "peers": (peers, partial(_by_set, report.table)),
        "ratios": (peers, partial(_by_set, report.ratios)),
        "peer-targets": (peers, _targets),
        "bulk": (bulk, _bulk),
        "filters": (filtered, _filters),
        "filters-alone": (million, _filters),
        "some-peers": (some, partial(_by_set, report.ratios)),
        "some-peer-targets": (some, _targets),
        "scale": (grown, lambda result: scale.table(result["rows"])),
        "server": (served, _server),
        "server-targets": (served, _targets),
    }
    for name, (result, part) in parts.items():
        text = part(result) if result else _NOT_YET
        found = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.S)
        page, times = found.subn(lambda at, text=text: f"{at[1]}{text}{at[2]}", page)
        if times != 1:
            raise SystemExit(f"the page has {times} places for {name!r}: expected 1")
    return page


def _bulk(result: Mapping[str, Any]) -> str:
    rows = [["set", "ratio", "processor time", "wall time"]]
    for name, found in result["sets"].items():
        wall = found["wall"]["ratios"]
        for pair, ratio in found["processor"]["ratios"].items():
            rows.append([name, pair.replace("/", "÷"), f"{ratio:.2f}", f"{wall[pair]:.2f}"])
    return markdown(rows, 2)


def _filters(result: Mapping[str, Any]) -> str:
    ours, *others = result["systems"].values()
    _, *names = result["systems"]
    rows = [["search", "ku-rag, ms", "processor time, ms"]]
    rows[0] += [f"÷ {name}{of}" for name in names for of in ("", ", processor time")]
    for search, wall in ours["wall"].items():
        times = {"wall": wall, "processor": ours["processor"][search]}
        ratios = [
            f"{time / other[clock][search]:.2f}" if search in other[clock] else ""
            for other in others
            for clock, time in times.items()
        ]
        rows.append([search, *(f"{time:.1f}" for time in times.values()), *ratios])
    return markdown(rows)


def _server(result: Mapping[str, Any]) -> str:
    rows = [["search", "through HTTP ÷ by the method", "added, ms"]]
    times = result["search_ms"]
    for name, prefix in (("ku-rag", ""), ("txtai", "txtai_")):
        if f"{prefix}http" in times:
            method, http = times[f"{prefix}method"], times[f"{prefix}http"]
            rows.append([name, f"{http / method:.2f}", f"{http - method:.1f}"])
    return markdown(rows)


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _machine(result: Mapping[str, Any]) -> str:
    machine, versions = result["machine"], result["versions"]
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{result['date']}, {machine['cpu']}, {machine['cpus']} processors; {told}."


def _kept(result: Mapping[str, Any]) -> str:
    figures = next(iter(result["sets"].values()))
    rows = [[PEERS[n].title, one["index"], one["durability"]] for n, one in figures.items()]
    return markdown([["system", "index", "when a change has returned, there was"], *rows], 3)


def _by_set(table: Callable[[str, Any], str], result: Mapping[str, Any]) -> str:
    return "\n\n".join(table(of, figures) for of, figures in result["sets"].items())


def _targets(result: Mapping[str, Any]) -> str:
    return told(result["targets"])


def main() -> int:
    """Write the page."""
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
