"""Write docs/performance.md from benchmarks/performance.md, and the plan in docs/scale.md.

    python -m benchmarks.page

The figures are those of benchmarks/results. A test fails if either page differs from the output of
this program.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks import plan, scale
from benchmarks.record import RESULTS, markdown, read_result
from benchmarks.systems import SYSTEMS

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
TEMPLATE = Path(__file__).with_name("performance.md")
SCALE = PAGE.with_name("scale.md")
PLANNED = ["--units", "1e9", "--pictures-per-unit", "0.1"]
COMPARED = ("vector", "vector, filter 1 %", "text", "filter 1 %", "filter 10 %", "list, page 1,000",
            "add", "update", "delete", "open, with imports", "bulk, units a second",
            "bulk and index, units a second", "disk, MB", "memory, own, MB")  # fmt: skip
COMPARED_UNITS = 100_000
PICTURE_SETS = {"packs": "93 packs", "clean": "120 groceries, clean to shop",
                "shop": "120 groceries, shop to shop", "flags": "54 flags",
                "icons": "86 icons"}  # fmt: skip
EXTRAS = {"embedded": "nothing", "embedded, words": "`ocr`",
          "embedded+efficientnet:lite2": "`pictures`",
          "embedded+efficientnet:lite2, words": "`pictures,ocr`"}  # fmt: skip


def performance() -> str:
    """Return docs/performance.md."""
    results = {file.stem: read_result(file.stem) for file in RESULTS.glob("*.json")}
    rows = dict(sorted(results["scale"]["rows"].items(), key=lambda row: _size(row[0])))
    loads = sorted(figures["load average"] for figures in rows.values())
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        compared=_compared(rows),
        systems=_systems(),
        load=f"{loads[0]:g} to {loads[-1]:g}",
        pictures=_pictures(results["pictures"]),
        retrieval=_retrieval(results["retrieval"]),
        answers=_answers(results),
        document_share=f"{results['documents']['unseen']['document_share']:.2f}",
        sizes=scale.table({name: row for name, row in rows.items() if name.startswith("ku-rag")}),
        others=scale.table(
            {name: row for name, row in rows.items() if "chunk" in name and _size(name)[1] > 10_000}
        ),
        measured_with=_measured_with(results),
    )


def _size(name: str) -> tuple[str, int]:
    """Return the shape and the number of units of a row such as "ku-rag, chunk, 10,000"."""
    _, shape, units = name.split(", ")
    return shape, int(units.replace(",", ""))


def _compared(rows: Mapping[str, Any]) -> str:
    columns = {name: rows.get(f"{name}, chunk, {COMPARED_UNITS:,}") for name in SYSTEMS}
    columns = {name: _with_index(figures) for name, figures in columns.items() if figures}
    own = columns.pop("ku-rag")
    lines = [["", "ku-rag", *(f"÷ {name}" for name in columns)]]
    for row in COMPARED:
        ratios = [
            (figures[row] / own[row] if row.endswith("a second") else own[row] / figures[row])
            if figures.get(row)
            else None
            for figures in columns.values()
        ]
        cells = ["" if ratio is None else f"{ratio:.2g}" for ratio in ratios]
        lines.append([row, f"{own[row]:,g}", *cells])
    recalls = [figures.get("recall@10", "") for figures in (own, *columns.values())]
    lines.append(["recall@10", *map(str, recalls)])
    return markdown(lines)


def _with_index(figures: Mapping[str, float]) -> dict[str, float]:
    """Add a row: some systems index texts and fields while they insert, others afterwards."""
    seconds = COMPARED_UNITS / figures["bulk, units a second"] + figures["index, s"]
    return {**figures, "bulk and index, units a second": round(COMPARED_UNITS / seconds)}


def _systems() -> str:
    lines = [["system", "index", "when a change has returned"]]
    lines += [[name, system.index, system.durability] for name, system in SYSTEMS.items()]
    return markdown(lines, 3)


def _pictures(result: Mapping[str, Any]) -> str:
    lines = [["installed", *PICTURE_SETS.values()]]
    for encoder, name in EXTRAS.items():
        sets = [result[encoder][set_name] for set_name in PICTURE_SETS]
        cells = [f"{figures['R@1'][0]:.2f}, {figures['R@5'][0]:.2f}" for figures in sets]
        lines.append([name, *cells])
    return markdown(lines)


def _retrieval(result: Mapping[str, Any]) -> str:
    sets = {
        name: value
        for name, value in result.items()
        if isinstance(value, dict) and "found" in value
    }
    lines = [["set, encoder", "questions", "first 5", "first 10", "first 20"]]
    for name, figures in sets.items():
        shares = [f"{share:.2f}" for share in figures["found"]]
        lines.append([name, str(figures["questions"]), *shares])
    return markdown(lines)


def _answers(results: Mapping[str, Any]) -> str:
    facts, owners = results["fact_questions"], results["owner_questions"]["sets"]
    lines = [["questions", "number", "answered", "right of answered"]]
    number = sum(kind["questions"] for kind in facts["kinds"].values())
    lines.append(["for facts, made by rule", f"{number}", "", f"{facts['right']:.2f}"])
    unseen = [counts for name, counts in owners.items() if name.endswith("unseen")]
    lines.append(["of users, on records", *_shares(unseen)])
    lines.append(
        ["of users, on short texts", *_shares([results["owner_documents"]["sets"]["unseen"]])]
    )
    for name in ("OTT-QA", "HotpotQA"):
        figures = results["reader"][name]
        share = f"{figures['right of answered'][0]:.2f}" if figures["answered"] else ""
        lines.append([f"{name}, passages", f"{figures['questions']}",
                      f"{figures['answered']:.2f}", share])  # fmt: skip
    for name in ("wikipedia", "town"):
        figures = results["prose"][name]["report"]["forward"]
        lines.append([f"for one fact, {name}", f"{figures['questions']}",
                      f"{figures['answered']:.2f}", f"{figures['right'][0]:.2f}"])  # fmt: skip
    lines.append(["documents not read before", *_shares([results["documents"]["unseen"]])])
    return markdown(lines)


def _shares(counts: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the number of questions with an answer, the share answered, and the right of these."""
    right, wrong, declined = (
        sum(part.get(verdict, 0) for part in counts) for verdict in ("right", "wrong", "declined")
    )
    number, stated = right + wrong + declined, right + wrong
    return [f"{number}", f"{stated / number:.2f}", f"{right / stated:.2f}"]


def _measured_with(results: Mapping[str, Any]) -> str:
    lines = [["result", "date", "ku-rag", "machine"]]
    for name, result in sorted(results.items()):
        machine = result["machine"]
        lines.append([f"{name}.json", result["date"], result["versions"]["ku-rag"],
                      f"{machine['cpu']}, {machine['cpus']} processors"])  # fmt: skip
    return markdown(lines, 4)


def with_plan(page: str) -> str:
    """Return docs/scale.md with the plan computed from the current results."""
    before, start, rest = page.partition("<!-- plan -->\n")
    _, end, after = rest.partition("<!-- /plan -->")
    return "".join((before, start, plan.table(PLANNED), "\n", end, after))


def main() -> int:
    """Write both pages."""
    PAGE.write_text(performance(), encoding="utf-8")
    SCALE.write_text(with_plan(SCALE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE, SCALE, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
