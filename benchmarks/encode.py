"""Encoders that run a model: how much faster than padding, and how much of it ingest keeps?

    python -m benchmarks.encode [--pictures 2000] [--chunks 5000] [--write]

Weights, texts and pictures are generated (fixed seeds), so nothing is needed but the extra
[longclip].

- "texts": Long-CLIP-B's text tower on one core, against open_clip's own padded to 248 tokens: 16
  texts of about 70 tokens and one question. Both take turns; the ratio is the median over rounds.
- "ingest": a folder of pictures, and records with one chunk each, taken into a knowledge base with
  a smaller CLIP on one core, against the same encoder alone on pictures that are decoded and scaled
  already: half of them before and half after.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

try:
    import torch
    from open_clip import image_transform
    from open_clip.model import CLIP
    from open_clip.tokenizer import SimpleTokenizer
except ModuleNotFoundError as error:
    print(f'left out: {error.name} is not installed, pip install "ku-rag[longclip]" brings it')
    raise SystemExit(0) from error

from benchmarks.record import write_result
from ku_rag.encoders.clip import ClipEncoder, Parts
from ku_rag.encoders.torch_runtime import place
from ku_rag.knowledge_base import KnowledgeBase

SHAPES: dict[str, tuple[int, dict[str, int], dict[str, int]]] = {
    "B": (
        512,
        {"layers": 12, "width": 768, "patch_size": 16, "image_size": 224},
        {"layers": 12, "width": 512, "heads": 8},
    ),
    "small": (
        256,
        {"layers": 8, "width": 384, "patch_size": 32, "image_size": 224},
        {"layers": 6, "width": 256, "heads": 4},
    ),
}
CONTEXT = 248
FLOORS = {"texts": 2.0, "question": 3.5, "pictures_ingested": 0.90, "chunks_ingested": 0.90}
_WORDS = ("bridge", "river", "tower", "castle", "museum", "station", "harbour", "garden", "market")
_QUESTION = "Who designed the tower beside the old harbour bridge?"
_ROUNDS = 7


def make(shape: str) -> tuple[ClipEncoder, Any]:
    """Return an encoder with random weights, and its model."""
    dim, vision, text = SHAPES[shape]
    torch.manual_seed(0)
    model = CLIP(dim, vision, {**text, "context_length": CONTEXT}, quick_gelu=True)
    parts = Parts(
        model=model,
        tokenizer=SimpleTokenizer(context_length=CONTEXT),
        preprocessing=image_transform(vision["image_size"], is_train=False),
        context=CONTEXT,
        fingerprint=f"random-{shape}",
    )
    return ClipEncoder(parts, place("cpu", "auto", needs="longclip"), 0), model


# ---- texts -------------------------------------------------------------------------------------


def texts_against_padding() -> dict[str, object]:
    """Texts a second, cut to the longest of a batch and padded to the context length."""
    encoder, model = make("B")
    tokenizer = SimpleTokenizer(context_length=CONTEXT)
    texts = [text_of(encoder, tokens, seed) for seed, tokens in enumerate(range(60, 76))]

    def padded(given: Sequence[str]) -> Any:  # noqa: ANN401
        with torch.inference_mode():
            found = model.encode_text(tokenizer(list(given)))
            return torch.nn.functional.normalize(found, dim=-1).numpy()

    figures: dict[str, object] = {}
    for name, given in (("texts", texts), ("question", [_QUESTION])):
        with threads(1):
            apart = float(np.abs(encoder.encode_texts(given) - padded(given)).max())
            rounds = alternate(partial(encoder.encode_texts, given), partial(padded, given))
        if apart > 1e-5:
            raise SystemExit(f"the vectors of {name} differ by {apart}")
        lengths = [encoder.count_tokens(text) + 2 for text in given]
        figures[name] = {
            "number": len(given),
            "tokens_mean": round(statistics.mean(lengths), 1),
            "seconds": round(statistics.median(cut for cut, _ in rounds), 4),
            "seconds_padded": round(statistics.median(whole for _, whole in rounds), 4),
            "ratio": round(statistics.median(whole / cut for cut, whole in rounds), 2),
            "largest_difference": float(f"{apart:.1e}"),
        }
    return figures


def text_of(encoder: ClipEncoder, tokens: int, seed: int) -> str:
    """A text of so many tokens, without the two marks."""
    rng = random.Random(seed)
    words = [f"{seed}"]
    while encoder.count_tokens(" ".join(words)) < tokens:
        words.append(rng.choice(_WORDS))
    return " ".join(words)


def alternate(first: Callable[[], object], second: Callable[[], object]) -> list[list[float]]:
    """Return the processor seconds of both in each of several rounds, after one that warms up."""
    clock = time.process_time
    return [[timed(first, clock), timed(second, clock)] for _ in range(_ROUNDS + 1)][1:]


def timed(function: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one run."""
    started = clock()
    function()
    return clock() - started


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let torch use so many cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---- ingest ------------------------------------------------------------------------------------


def ingest_against_encoder(pictures: int, chunks: int) -> dict[str, object]:
    """How much of the encoder's own speed is left when a knowledge base is filled with it."""
    encoder, _ = make("small")
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = list(draw(folder / "pictures", pictures))
        texts = [text_of(encoder, 50 + seed % 40, seed) for seed in range(chunks)]
        records = folder / "records.jsonl"
        with records.open("w", encoding="utf-8") as file:
            for number, text in enumerate(texts):
                unit = {"id": f"t{number}", "name": f"Text {number}", "text": text}
                file.write(json.dumps(unit) + "\n")
        fitted = [encoder.fit(opened(path)) for path in paths]
        with threads(1):
            for kind, source, items, encode in (
                ("pictures_ingested", folder / "pictures", fitted, encoder.encode_images),
                ("chunks_ingested", records, texts, encoder.encode_texts),
            ):
                figures[kind] = share(encoder, folder / kind, source, items, encode)
    return figures


def share(
    encoder: ClipEncoder,
    base: Path,
    source: Path,
    items: Sequence[Any],
    encode: Callable[[Any], object],
) -> dict[str, object]:
    """Seconds of an ingest, and of the encoder alone."""
    encode(items[:64])
    half = len(items) // 2
    own = timed(lambda: encode(items[:half]))
    with KnowledgeBase.open(base, create=True, encoder=encoder) as kb:
        seconds = timed(lambda: kb.ingest(source))
        counts = kb.stats().counts
    own += timed(lambda: encode(items[half:]))
    if len(items) not in (counts["images"], counts["chunks"]):
        raise SystemExit(f"{len(items)} were given, the base has {counts}")
    return {
        "number": len(items),
        "seconds": round(seconds, 2),
        "seconds_of_encoder_alone": round(own, 2),
        "ratio": round(own / seconds, 3),
    }


def draw(folder: Path, number: int) -> Iterator[Path]:
    """Pictures of 480 x 360 pixels, a unit each."""
    rng = np.random.default_rng(0)
    for n in range(number):
        path = folder / f"unit {n:05}" / "picture.jpg"
        path.parent.mkdir(parents=True)
        blocks = rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)
        Image.fromarray(blocks).resize((480, 360), Image.Resampling.BICUBIC).save(path)
        yield path


def opened(path: Path) -> Image.Image:
    """A decoded picture whose file is closed."""
    with Image.open(path) as image:
        return image.convert("RGB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; fails below the floors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args(arguments)
    figures = texts_against_padding()
    figures |= ingest_against_encoder(options.pictures, options.chunks)
    low = []
    for name, floor in FLOORS.items():
        figure: Any = figures[name]
        print(f"{name:18} ratio {figure['ratio']:6.2f} (floor {floor:.2f})  {figure}")
        low += [name] if figure["ratio"] < floor else []
    if options.write:
        print(write_result("encode", figures))
    if low:
        print(f"below the floor: {', '.join(low)}", file=sys.stderr)
    return int(bool(low))


if __name__ == "__main__":
    sys.exit(main())
