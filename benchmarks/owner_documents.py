"""Questions that owners ask about their documents: `python -m benchmarks.owner_documents`.

The five folders in `document_sets/` describe lamps of a shop, objects of a museum, plants, bicycles
and musical instruments. All are invented. Each thing has a short text; two folders have a table as
well. Half of the questions are about one thing, half about a set: which, how many, the heaviest.
They were written from the documents before facts were read from sentences. "Seen" questions may be
read while the reader is changed, "unseen" ones are only counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.owner_questions import verdict
from benchmarks.record import write_result
from ku_rag import KnowledgeBase

SETS = Path(__file__).with_name("document_sets")
NAMES = ("lamps", "museum", "nursery", "bikes", "instruments")


def ask(name: str, part: str) -> Counter[str]:
    """Ask the questions of a folder; count the verdicts."""
    lines = (SETS / f"{name}_{part}.jsonl").read_text("utf-8").splitlines()
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase.open(f"{folder}/kb", create=True) as kb,
    ):
        kb.ingest(SETS / name / "docs")
        questions = map(json.loads, lines)
        return Counter(verdict(kb.query(None, q["question"]).answer, q) for q in questions)


def main() -> None:
    """Ask, print, and with --write write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args()
    result: dict[str, dict[str, int]] = {}
    for part in ("seen", "unseen"):
        total: Counter[str] = Counter()
        for name in NAMES:
            counts = ask(name, part)
            total += counts
            result[f"{name}, {part}"] = dict(counts)
            print(f"{name}, {part}: {dict(counts)}")
        result[part] = dict(total)
        print(f"all, {part}: {dict(total)}")
    if options.write:
        print(write_result("owner_documents", {"sets": result}))


if __name__ == "__main__":
    sys.exit(main())
