"""Shop photos asked "Which country does it come from?", end to end.

    python -m benchmarks.grocery_answers [--write]

Every photo of `grocery/query_photos` is asked of a base of the clean product pictures (`units`),
and of the same base after the shop photos of `kb_photos` were added to the same units. Gold answers
are read from the products' own information files. Photos are halved as in
benchmarks.grocery_pictures: the descriptor was tuned on the even ones.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ku_rag
from benchmarks.record import write_result

GROCERY = Path(__file__).parents[1].parent / "shared" / "data" / "grocery"
QUESTION = "Which country does it come from?"
_COUNTRY = re.compile(r"^(?:manufacturing )?country(?: and volume)?\s*:\s*([^,\n]+)", re.I | re.M)


@dataclass(frozen=True, slots=True)
class Asked:
    """One photo: its product, the matched units, the answer and the right answer ("" for none)."""

    product: str
    even: bool
    units: tuple[str, ...]
    answer: str
    gold: str


def gold_of(product: Path) -> str:
    """The country that a product's own files state, or ""."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(product.glob("*.txt"))]
    found = _COUNTRY.search("\n".join(texts))
    return found[1].strip() if found else ""


def ask_all(kb: ku_rag.KnowledgeBase) -> list[Asked]:
    """Ask about every query photo."""
    asked = []
    for folder in sorted((GROCERY / "query_photos").iterdir()):
        gold = gold_of(GROCERY / "units" / folder.name)
        for n, photo in enumerate(sorted(folder.iterdir())):
            answer = kb.query(photo, QUESTION)
            units = tuple(unit.id for unit in answer.units)
            asked.append(Asked(folder.name, n % 2 == 0, units, answer.answer, gold))
    return asked


def measure(asked: Sequence[Asked]) -> dict[str, float | int]:
    """Shares of photos: unit found first and among three, and what was answered."""
    matched = [a for a in asked if a.units[:1] == (a.product,)]
    known = [a for a in matched if a.gold]
    unknown = [a for a in matched if not a.gold]
    return {
        "photos": len(asked),
        "unit_recall_at_1": _share([a.units[:1] == (a.product,) for a in asked]),
        "unit_recall_at_3": _share([a.product in a.units for a in asked]),
        "right_answers_when_matched_and_known": _share([a.answer == a.gold for a in known]),
        "matched_and_known": len(known),
        "abstentions_when_matched_and_unknown": _share([a.answer == "" for a in unknown]),
        "matched_and_unknown": len(unknown),
        "right_answers_or_abstentions_overall": _share([a.answer == a.gold for a in asked]),
    }


def _share(flags: Sequence[bool]) -> float:
    return round(sum(flags) / len(flags), 4) if flags else float("nan")


def main() -> int:
    """Print the table; with --write, write the result as well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    arguments = parser.parse_args()
    if not GROCERY.is_dir():
        print("grocery_answers: left out, the shared data folder is not beside this checkout")
        return 0
    result: dict[str, dict[str, dict[str, float | int]]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ku_rag.KnowledgeBase.open(Path(folder) / "kb", create=True) as kb,
    ):
        for name, source in (("units", "units"), ("units and kb_photos", "kb_photos")):
            kb.ingest(GROCERY / source)
            asked = ask_all(kb)
            result[name] = {
                "all photos": measure(asked),
                "reporting half": measure([a for a in asked if not a.even]),
            }
            for half, figures in result[name].items():
                print(f"{name}, {half}")
                for figure, value in figures.items():
                    print(f"  {figure:<40} {value}")
    if arguments.write:
        write_result("grocery_answers", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
