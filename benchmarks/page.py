"""Fill the tables of docs/performance.md from the results that lie in benchmarks/results.

    python -m benchmarks.page

Between `<!-- NAME -->` and `<!-- /NAME -->` stands what the result says now; the rest is prose.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import scale
from benchmarks.peers import report
from benchmarks.peers.registry import PEERS
from benchmarks.record import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_NOT_YET = "Not measured yet."


def fill(page: str, results: Path = RESULTS) -> str:
    """The page with every table made anew."""
    peers, grown = _read(results / "peers.json"), _read(results / "scale.json")
    some, bulk = _read(results / "peers_some.json"), _read(results / "bulk.json")
    parts: dict[str, Callable[[], str]] = {
        "machine": lambda: _machine(peers),
        "kept": lambda: _kept(peers),
        "peers": lambda: _by_set(peers, report.table),
        "ratios": lambda: _by_set(peers, report.ratios),
        "peer-targets": lambda: _targets(peers),
        "bulk": lambda: _bulk(bulk),
        "some-peers": lambda: _by_set(some, report.ratios),
        "some-peer-targets": lambda: _targets(some),
        "scale": lambda: "\n\n".join(
            scale.table(of, {int(count): one for count, one in sizes.items()})
            for of, sizes in grown["sets"].items()
        ),
        "scale-targets": lambda: _targets(grown),
    }
    sources = {
        "bulk": bulk,
        "some-peers": some,
        "some-peer-targets": some,
        "scale": grown,
        "scale-targets": grown,
    }
    for name, part in parts.items():
        text = part() if sources.get(name, peers) else _NOT_YET
        found = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.S)
        page, times = found.subn(lambda at, text=text: f"{at[1]}{text}{at[2]}", page)
        if times != 1:
            raise SystemExit(f"the page has {times} places for {name!r}: expected 1")
    return page


def _bulk(result: Mapping[str, Any]) -> str:
    lines = ["| set | ratio | processor time | wall time |", "| --- | --- | ---: | ---: |"]
    for name, found in result["sets"].items():
        wall = found["wall"]["ratios"]
        lines += [
            f"| {name} | {pair.replace('/', '÷')} | {ratio:.2f} | {wall[pair]:.2f} |"
            for pair, ratio in found["processor"]["ratios"].items()
        ]
    return "\n".join(lines)


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _machine(result: Mapping[str, Any]) -> str:
    machine, versions = result["machine"], result["versions"]
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{result['date']}, {machine['cpu']}, {machine['cpus']} processors; {told}."


def _kept(result: Mapping[str, Any]) -> str:
    lines = ["| system | index | when a change has returned, there was |", "| --- | --- | --- |"]
    figures = next(iter(result["sets"].values()))
    for name, one in figures.items():
        lines.append(f"| {PEERS[name].title} | {one['index']} | {one['durability']} |")
    return "\n".join(lines)


def _by_set(result: Mapping[str, Any], table: Callable[[str, report.Figures], str]) -> str:
    return "\n\n".join(table(of, figures) for of, figures in result["sets"].items())


def _targets(result: Mapping[str, Any]) -> str:
    lines = ["| set | what | measured | bound | |", "| --- | --- | ---: | ---: | --- |"]
    for one in result["targets"]:
        bound = f"≤ {one['most']}" if "most" in one else f"≥ {one['least']}"
        state = "reached" if one["ok"] else "**not reached**"
        lines.append(f"| {one['set']} | {one['what']} | {one['value']} | {bound} | {state} |")
    return "\n".join(lines)


def main() -> int:
    """Write the page."""
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
