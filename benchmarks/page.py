"""Write docs/performance.md from benchmarks/performance.md, and the plan in docs/scale.md.

    python -m benchmarks.page

The figures are those of benchmarks/results. A test fails while one of both pages differs from what
this program writes.
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
            "add", "update", "delete", "open, with imports", "bulk, units a second", "disk, MB",
            "memory, own, MB")  # fmt: skip
MORE_IS_BETTER = "bulk, units a second"
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
    loads = sorted(of["load average"] for of in rows.values())
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        compared=_compared(rows),
        systems=_systems(),
        load=f"{loads[0]:g} to {loads[-1]:g}",
        pictures=_pictures(results["pictures"]),
        retrieval=_retrieval(results["retrieval"]),
        answers=_answers(results),
        document_share=f"{results['documents']['unseen']['document_share']:.2f}",
        sizes=scale.table({name: of for name, of in rows.items() if name.startswith("ku-rag")}),
        others=scale.table(
            {name: of for name, of in rows.items() if "chunk" in name and _size(name)[1] > 10_000}
        ),
        measured_with=_measured_with(results),
    )


def _size(name: str) -> tuple[str, int]:
    """The shape and the number of units of a row: "ku-rag, chunk, 10,000"."""
    _, shape, units = name.split(", ")
    return shape, int(units.replace(",", ""))


def _compared(rows: Mapping[str, Any]) -> str:
    columns = {name: rows.get(f"{name}, chunk, 100,000") for name in SYSTEMS}
    columns = {name: figures for name, figures in columns.items() if figures}
    own = columns.pop("ku-rag")
    lines = [["", "ku-rag", *(f"÷ {name}" for name in columns)]]
    for row in COMPARED:
        ratios = [
            (of[row] / own[row] if row == MORE_IS_BETTER else own[row] / of[row])
            if of.get(row)
            else None
            for of in columns.values()
        ]
        cells = ["" if ratio is None else f"{ratio:.2g}" for ratio in ratios]
        lines.append([row, f"{own[row]:,g}", *cells])
    recalls = [of.get("recall@10", "") for of in (own, *columns.values())]
    lines.append(["recall@10", *map(str, recalls)])
    return markdown(lines)


def _systems() -> str:
    lines = [["system", "index", "when a change has returned"]]
    lines += [[name, of.index, of.durability] for name, of in SYSTEMS.items()]
    return markdown(lines, 3)


def _pictures(result: Mapping[str, Any]) -> str:
    lines = [["installed", *PICTURE_SETS.values()]]
    for encoder, name in EXTRAS.items():
        found = [
            (result[encoder][of]["R@1"][0], result[encoder][of]["R@5"][0]) for of in PICTURE_SETS
        ]
        lines.append([name, *(f"{first:.2f}, {five:.2f}" for first, five in found)])
    return markdown(lines)


def _retrieval(result: Mapping[str, Any]) -> str:
    sets = {name: of for name, of in result.items() if isinstance(of, dict) and "found" in of}
    lines = [["set, encoder", "questions", "first 5", "first 10", "first 20"]]
    for name, of in sets.items():
        lines.append([name, str(of["questions"]), *(f"{share:.2f}" for share in of["found"])])
    return markdown(lines)


def _answers(results: Mapping[str, Any]) -> str:
    facts, owners = results["fact_questions"], results["owner_questions"]["sets"]
    lines = [["questions", "number", "answered", "right of answered"]]
    number = sum(kind["questions"] for kind in facts["kinds"].values())
    lines.append(["for facts, made by rule", f"{number}", "", f"{facts['right']:.2f}"])
    unseen = [of for name, of in owners.items() if name.endswith("unseen")]
    lines.append(["of users, on records", *_shares(unseen)])
    lines.append(
        ["of users, on short texts", *_shares([results["owner_documents"]["sets"]["unseen"]])]
    )
    for name in ("OTT-QA", "HotpotQA"):
        of = results["reader"][name]
        share = f"{of['right of answered'][0]:.2f}" if of["answered"] else ""
        lines.append([f"{name}, passages", f"{of['questions']}", f"{of['answered']:.2f}", share])
    for name in ("wikipedia", "town"):
        of = results["prose"][name]["report"]["forward"]
        lines.append([f"for one fact, {name}", f"{of['questions']}", f"{of['answered']:.2f}",
                      f"{of['right'][0]:.2f}"])  # fmt: skip
    lines.append(["documents not read before", *_shares([results["documents"]["unseen"]])])
    return markdown(lines)


def _shares(counts: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the number of questions with an answer, the share answered, and the right of these."""
    right, wrong, declined = (
        sum(of.get(verdict, 0) for of in counts) for verdict in ("right", "wrong", "declined")
    )
    number, stated = right + wrong + declined, right + wrong
    return [f"{number}", f"{stated / number:.2f}", f"{right / stated:.2f}"]


def _measured_with(results: Mapping[str, Any]) -> str:
    lines = [["result", "date", "ku-rag", "machine"]]
    for name, of in sorted(results.items()):
        machine = of["machine"]
        lines.append([f"{name}.json", of["date"], of["versions"]["ku-rag"],
                      f"{machine['cpu']}, {machine['cpus']} processors"])  # fmt: skip
    return markdown(lines, 4)


def with_plan(page: str) -> str:
    """Return docs/scale.md with the plan that the results give now."""
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
