"""Sets of things with pictures to match: flags, groceries, icons and sprites, halved into bases."""

from __future__ import annotations

import csv
import importlib.util
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.Image import Resampling

import ku_rag
from benchmarks.record import DATA
from ku_rag.encoders.embedded.descriptor import describe_images
from ku_rag.recognisers import CachedRecogniser
from ku_rag.retrieval.image_matching import match_image
from ku_rag.store import unit_records
from tools.demo_data.flags import COUNTRIES, draw, twins
from tools.demo_data.scenes import benchmark_scene
from tools.demo_data.scenes.backdrops import BACKDROPS, HEIGHT, WIDTH, make_backdrop
from tools.demo_data.scenes.camera import draw_shot, photograph

_SPRITES = ("alien", "enemies", "items", "space_shooter", "topdown_tanks", "tiles", "pinball")
Pictures = Sequence[Image.Image]


@dataclass(frozen=True, slots=True)
class Things:
    """Stored pictures by thing, the family of each thing (halves share none), pictures asked."""

    stored: Mapping[str, Sequence[Image.Image]]
    family: Mapping[str, str]
    asked: Sequence[tuple[Image.Image, frozenset[str]]]


def load(folder: str) -> tuple[Pictures, NDArray[np.int64], NDArray[np.int64]]:
    """Pictures of a grocery folder, their products and their places in the product's list."""
    names = sorted(path.name for path in (DATA / "grocery" / "units").iterdir())
    pictures, products, places = [], [], []
    for number, name in enumerate(names):
        for place, file in enumerate(sorted((DATA / "grocery" / folder / name).glob("*.jpg"))):
            with Image.open(file) as image:
                pictures.append(image.convert("RGB"))
            products.append(number)
            places.append(place)
    return pictures, np.array(products), np.array(places)


def flags(tuning: bool) -> Things:
    """Flags in scenes; flags of one design are one family."""
    scenes = map(benchmark_scene, range(5000, 5075) if tuning else range(1000, 1075))
    asked = [(s.image, twins(s.country) | {s.country}) for s in scenes if s.distractor is None]
    return Things(
        {c: [draw(c)] for c in COUNTRIES}, {c: min(twins(c) | {c}) for c in COUNTRIES}, asked
    )


def groceries(tuning: bool) -> Things:
    """Products; photos at even places are for tuning, as the descriptor was."""
    stored: dict[str, list[Image.Image]] = {}
    for folder in ("units", "kb_photos"):
        for picture, product, _ in zip(*load(folder), strict=True):
            stored.setdefault(str(product), []).append(picture)
    photos = [
        (p, frozenset([str(n)]))
        for p, n, at in zip(*load("query_photos"), strict=True)
        if at % 2 != tuning
    ]
    return Things(stored, {n: n for n in stored}, photos[::4][:60])


def packs(tuning: bool) -> Things:
    """Packaged groceries in shop photos, with one clean picture of each product in the base."""
    stored = {str(n): [picture] for picture, n, _ in zip(*load("units"), strict=True)}
    with (DATA / "grocery" / "classes.csv").open(encoding="utf-8") as file:
        packed = {
            row["Class Name (str)"]
            for row in csv.DictReader(file)
            if "/Packages/" in row["Iconic Image Path (str)"]
        }
    names = sorted(path.name for path in (DATA / "grocery" / "units").iterdir())
    photos = [
        (picture, frozenset([str(n)]))
        for picture, n, at in zip(*load("query_photos"), strict=True)
        if at % 2 != tuning and names[n] in packed
    ]
    return Things(stored, {n: n for n in stored}, photos)


def icons(tuning: bool) -> Things:
    """Icons of monsters."""
    return _renders(sorted((DATA / "monster_hunter" / "icons").iterdir()), 5 if tuning else 6)


def sprites(tuning: bool) -> Things | None:
    """Sprites of the package arcade, if it is installed; a family is the first word of a name."""
    package = importlib.util.find_spec("arcade")
    if package is None or package.origin is None:
        return None
    images = Path(package.origin).parent / "resources" / "assets" / "images"
    files = [file for folder in _SPRITES for file in sorted((images / folder).rglob("*.png"))]
    return _renders(files, 5 if tuning else 6)


def _renders(files: Sequence[Path], seed: int) -> Things:
    """Icons that differ clearly, each pasted on a place."""
    photos = load("kb_photos")[0][::5]
    icons: dict[str, Image.Image] = {}
    vectors = np.zeros((0, 512), np.float32)
    for file in files:
        with Image.open(file) as image:
            icon = image.convert("RGBA")
        icon = icon.crop(icon.getbbox())
        if min(icon.size) >= 24:
            icon = icon.resize(
                (256 * icon.width // max(icon.size), 256 * icon.height // max(icon.size))
            )
            vector = describe_images([_on_white(icon)])
            if (vectors @ vector[0]).max(initial=0) <= 0.9:
                vectors = np.vstack([vectors, vector])
                icons[f"{file.stem} {len(icons)}"] = icon
    asked = []
    for number, name in enumerate(list(icons)[:: max(1, len(icons) // 50)]):
        rng = np.random.default_rng([seed, number])
        asked.append((_render(icons[name], rng, photos), frozenset([name])))
    return Things(
        {n: [_on_white(i)] for n, i in icons.items()},
        {n: found[0] if (found := re.match("[a-z]+", n)) else n for n in icons},
        asked,
    )


def _on_white(icon: Image.Image) -> Image.Image:
    white = Image.new("RGBA", icon.size, "white")
    white.alpha_composite(icon)
    return white.convert("RGB")


def _render(
    icon: Image.Image, rng: np.random.Generator, photos: Sequence[Image.Image]
) -> Image.Image:
    """An icon at 3 to 30 % of a drawn place or of a photo, turned by up to 20 degrees."""
    place = photos[rng.integers(len(photos))].resize((WIDTH, HEIGHT))
    if rng.random() < 0.5:
        place = make_backdrop(rng, str(rng.choice(list(BACKDROPS))))
    scale = (rng.uniform(0.03, 0.3) * WIDTH * HEIGHT / (icon.width * icon.height)) ** 0.5
    icon = icon.rotate(float(rng.uniform(-20, 20)), Resampling.BICUBIC, expand=True)
    size = max(8, round(scale * icon.width)), max(8, round(scale * icon.height))
    icon = icon.resize(size, Resampling.LANCZOS)
    icon.thumbnail((WIDTH - 20, HEIGHT - 20))
    at = int(rng.integers(WIDTH - icon.width)), int(rng.integers(HEIGHT - icon.height))
    place.paste(icon, at, icon)
    return photograph(place, draw_shot(rng), rng)


def units_of(stored: Mapping[str, Pictures], folder: Path) -> list[ku_rag.Unit]:
    """Write pictures to a folder, and return a unit for each thing."""
    units = []
    for name, pictures in stored.items():
        files = [folder / f"{len(units)}-{k}.png" for k in range(len(pictures))]
        for file, picture in zip(files, pictures, strict=True):
            picture.save(file)
        units.append(ku_rag.Unit(name, id=name, images=tuple(files)))
    return units


@contextmanager
def base_of(
    stored: Mapping[str, Pictures], encoder: str, recogniser: CachedRecogniser | None
) -> Iterator[ku_rag.KnowledgeBase]:
    """A base with a unit for each thing, whose words are read if there is a recogniser."""
    with tempfile.TemporaryDirectory() as folder:
        units = units_of(stored, Path(folder))
        options = {"encoder": encoder, "recogniser": "rapidocr" if recogniser else "none"}
        with ku_rag.KnowledgeBase.open(Path(folder, "kb"), create=True, **options) as kb:
            if recogniser:
                kb._session._recogniser = recogniser
            kb.add_many(units)
            yield kb


def match_halves(
    things: Things, encoder: str = "embedded", recogniser: CachedRecogniser | None = None
) -> NDArray[np.float64]:
    """Match each picture with each half as the base.

    Returns:
        float64[n, 5]: whether the thing is in the base, whether the best match is right, and the
        similarity, the edges and the confidence of that match.
    """
    families = np.array(sorted(set(things.family.values())))
    np.random.default_rng(7).shuffle(families)
    rows = []
    for half in np.array_split(families, 2):
        base = {n: p for n, p in things.stored.items() if things.family[n] in half}
        with base_of(base, encoder, recogniser) as kb:
            retrieval = kb._session.retrieval()
            connection, search = retrieval.database.connection, retrieval.image_search
            for image, truth in things.asked:
                words = recogniser.read(image) if recogniser else ()
                found, _ = match_image(connection, image, "", search, words=words)
                unit, best = next(iter(found.items()))
                right = unit_records.fields_of(connection, unit)[0] in truth
                known, numbers = bool(truth & base.keys()), (best.similarity, best.edges)
                rows.append((known, right, *numbers, best.confidence))
    return np.array(rows, np.float64)
