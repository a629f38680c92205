"""Names in texts: how fast are 100,000 names looked for, beside cutting the words alone?

    python -m benchmarks.names [--names 100000] [--megabytes 8] [--write]

Words, names and texts are generated (fixed seed): words are drawn by Zipf's law, as in languages,
from a made-up vocabulary with accents and a little Chinese. "typical" names begin with rarer words,
as names do; in "hostile" every common word begins some name. Texts are given in chunks.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate

from benchmarks.record import write_result
from ku_rag.indexes.name_index import NameIndex
from ku_rag.text.tokens import name_key, words

VOCABULARY = 60_000
CHUNK = 500
FLOOR = 5.0
"""Megabytes a second that must be reached."""

_BEGINNINGS = ("", "b", "d", "k", "l", "m", "n", "r", "s", "t", "th", "st", "ñ")
_ENDINGS = ("a", "e", "i", "o", "u", "é", "ü", "er", "an")


@dataclass(frozen=True, slots=True)
class Speed:
    """One set of names over one text."""

    names: int
    megabytes: float
    megabytes_a_second: float
    share_of_cutting_words_alone: float
    found: int


def measure(names: int, megabytes: float, *, hostile: bool) -> Speed:
    """Time one pass over all chunks, after another pass that warms up."""
    rng = random.Random(7)
    vocabulary = _vocabulary(rng)
    text = _text(rng, vocabulary, megabytes)
    first = vocabulary if hostile else vocabulary[len(vocabulary) // 20 :]
    index = NameIndex()
    keys: dict[str, int] = {}
    while len(keys) < names:
        rest = rng.choices(vocabulary, k=rng.choice((0, 1, 1, 2)))
        keys.setdefault(name_key(" ".join([rng.choice(first), *rest])), len(keys))
    for key, row in keys.items():
        index.add(key, row)
    chunks = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
    _check(index, keys, chunks[:: max(1, len(chunks) // 20)])
    size = len(text.encode()) / 1e6
    seconds, found = min(_time(index, chunks) for _ in range(3))
    started = time.perf_counter()
    for chunk in chunks:
        words(chunk)
    alone = time.perf_counter() - started
    return Speed(
        names=len(keys),
        megabytes=round(size, 2),
        megabytes_a_second=round(size / seconds, 2),
        share_of_cutting_words_alone=round(seconds / alone, 3),
        found=found,
    )


def _time(index: NameIndex, chunks: Sequence[str]) -> tuple[float, int]:
    started = time.perf_counter()
    found = sum(len(index.find(chunk)) for chunk in chunks)
    return time.perf_counter() - started, found


def _check(index: NameIndex, keys: dict[str, int], chunks: Sequence[str]) -> None:
    """What was found must be what stands there: every run of words that is a name."""
    longest = max(key.count(" ") for key in keys) + 1
    for chunk in chunks:
        cut = words(chunk)
        runs = (
            " ".join(cut[at : at + length])
            for at in range(len(cut))
            for length in range(1, longest + 1)
        )
        expected = {keys[run] for run in runs if run in keys}
        if index.find(chunk) != expected:
            raise SystemExit(f"wrong names found in {chunk!r}")


def _vocabulary(rng: random.Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        if rng.random() < 0.02:
            word = "".join(chr(rng.randrange(0x4E00, 0x6000)) for _ in range(2))
        else:
            word = "".join(
                rng.choice(_BEGINNINGS) + rng.choice(_ENDINGS) for _ in range(rng.randint(1, 4))
            )
        found[word.capitalize() if rng.random() < 0.2 else word] = None
    # By Zipf's law of brevity the common words are the short ones.
    return sorted(found, key=lambda word: len(word) + rng.random() * 4)


def _text(rng: random.Random, vocabulary: Sequence[str], megabytes: float) -> str:
    weights = list(accumulate(1 / (rank + 3) for rank in range(len(vocabulary))))
    drawn: list[str] = []
    size = 0.0
    while size < megabytes * 1e6:
        sentence = rng.choices(vocabulary, cum_weights=weights, k=rng.randint(6, 24))
        drawn.append(" ".join(sentence).capitalize() + rng.choice((". ", ". ", ", ", "?\n")))
        size += len(drawn[-1].encode())
    return "".join(drawn)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; fails below the floor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--megabytes", type=float, default=8.0)
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args(arguments)
    found = {
        kind: measure(options.names, options.megabytes, hostile=kind == "hostile")
        for kind in ("typical", "hostile")
    }
    for kind, speed in found.items():
        print(
            f"{kind:8} {speed.names:,} names: {speed.megabytes_a_second:6.2f} MB/s, "
            f"{speed.share_of_cutting_words_alone:.2f} of the time of cutting words alone, "
            f"{speed.found:,} found"
        )
    if options.write:
        print(write_result("names", {kind: asdict(speed) for kind, speed in found.items()}))
    if options.names <= 100_000 and found["typical"].megabytes_a_second < FLOOR:
        print(f"below the floor of {FLOOR} MB/s", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
