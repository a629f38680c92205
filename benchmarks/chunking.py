"""Sentences and chunks: how fast, how slow at worst, and how right are the sentence ends?

    python -m benchmarks.chunking [--write]

Ends are compared with those of the HotpotQA paragraphs of the shared data, which were cut by other
software and looked through by nobody: a difference is not always an error of ours.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from pathlib import Path

from benchmarks.record import write_result
from ku_rag.encoders.embedded import EmbeddedEncoder
from ku_rag.ingest.chunking import chunk
from ku_rag.text.sentences import sentences

DATA = Path(__file__).parents[2] / "shared" / "data"

PROSE = (
    "Dr. Ada Berg moved to the U.S. in 1962, when the harbour was rebuilt. She said that no ship "
    "would call there again! Was she right? By the end of the century, approx. 40 ferries came "
    "every day (see fig. 3), and the town's population had doubled.\n\n"
)
HOSTILE = {
    '"a. " 300,000 times': "a. " * 300_000,
    "5 MB without a full stop": "word " * 1_000_000,
    "5 MB without a space": "x" * 5_000_000,
    "5 MB of blank lines": "\n" * 5_000_000,
    "1 MB of full-width stops": "。" * 333_333,
    "1 MB of short lines": "ab\n" * 333_333,
    "1 MB of marks": "!" * 1_000_000,
}


def speeds() -> dict[str, dict[str, float]]:
    """Megabytes of UTF-8 a second for prose, seconds for texts that are made to be slow."""
    encoder = EmbeddedEncoder()

    def cut(text: str) -> list[str]:
        return chunk(text, count_tokens=encoder.count_tokens, max_tokens=encoder.max_tokens)

    prose = PROSE * 8_000
    sentences(PROSE)  # loads NLTK
    size = len(prose.encode()) / 1e6
    return {
        "prose, MB/s": {
            "sentences": round(size / _seconds(sentences, prose), 2),
            "chunks": round(size / _seconds(cut, prose), 2),
            "counting tokens alone": round(size / _seconds(encoder.count_tokens, prose), 2),
        },
        "hostile, seconds": {name: round(_seconds(cut, text), 2) for name, text in HOSTILE.items()},
    }


def _seconds(run: Callable[[str], object], text: str) -> float:
    started = time.perf_counter()
    run(text)
    return time.perf_counter() - started


def ends() -> dict[str, float] | None:
    """Precision and recall of sentence starts within HotpotQA paragraphs."""
    file = DATA / "hotpotqa" / "dev_distractor_100.json"
    if not file.is_file():
        return None
    questions = json.loads(file.read_text(encoding="utf-8"))
    paragraphs = list(chain.from_iterable(q["context"]["sentences"] for q in questions))
    given = ours = both = 0
    for paragraph in paragraphs:
        text = "".join(paragraph)
        before = accumulate((len(part) for part in paragraph), initial=0)
        expected = {
            at + len(part) - len(part.lstrip())
            for at, part in zip(before, paragraph, strict=False)
            if part.strip()
        }
        found = {start for start, _ in sentences(text)}
        first = len(text) - len(text.lstrip())
        given += len(expected - {first})
        ours += len(found - {0, first})
        both += len((expected & found) - {first})
    return {
        "paragraphs": len(paragraphs),
        "precision": round(both / ours, 4),
        "recall": round(both / given, 4),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args(arguments)
    found: dict[str, object] = {**speeds(), "ends": ends()}
    for group, figures in found.items():
        if not isinstance(figures, dict):
            print(f"{group}: the shared data is not there, nothing measured")
            continue
        for name, value in figures.items():
            print(f"{group:18} {name:28} {value:8}")
    if options.write:
        print(write_result("chunking", found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
