"""Sets of things with pictures to match: flags, groceries, icons and sprites."""

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
    """Stored pictures and family of each thing, and the pictures of queries with their things.

    Things of a family are in the same half.
    """

    stored: Mapping[str, Sequence[Image.Image]]
    family: Mapping[str, str]
    queries: Sequence[tuple[Image.Image, frozenset[str]]]


def load(folder: str) -> tuple[Pictures, NDArray[np.int64], NDArray[np.int64]]:
    """Return the pictures of a grocery folder, the product of each and its place among these."""
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
    """Return flags with scenes as queries; flags of the same design are a family."""
    scenes = map(benchmark_scene, range(5000, 5075) if tuning else range(1000, 1075))
    queries = [(s.image, twins(s.country) | {s.country}) for s in scenes if s.distractor is None]
    return Things(
        {c: [draw(c)] for c in COUNTRIES}, {c: min(twins(c) | {c}) for c in COUNTRIES}, queries
    )


def groceries(tuning: bool) -> Things:
    """Return products; photos at even places are for tuning, as they were for the descriptor."""
    stored: dict[str, list[Image.Image]] = {}
    for folder in ("units", "kb_photos"):
        for picture, product, _ in zip(*load(folder), strict=True):
            stored.setdefault(str(product), []).append(picture)
    photos = [
        (picture, frozenset([str(product)]))
        for picture, product, place in zip(*load("query_photos"), strict=True)
        if place % 2 != tuning
    ]
    return Things(stored, {product: product for product in stored}, photos[::4][:60])


def packs(tuning: bool) -> Things:
    """Return packaged groceries in shop photos; the base has a clean picture of each product."""
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
    """Return icons of monsters."""
    return _renders(sorted((DATA / "monster_hunter" / "icons").iterdir()), 5 if tuning else 6)


def sprites(tuning: bool) -> Things | None:
    """Return sprites of the package arcade, if it is installed."""
    package = importlib.util.find_spec("arcade")
    if package is None or package.origin is None:
        return None
    images = Path(package.origin).parent / "resources" / "assets" / "images"
    files = [file for folder in _SPRITES for file in sorted((images / folder).rglob("*.png"))]
    return _renders(files, 5 if tuning else 6)


def _renders(files: Sequence[Path], seed: int) -> Things:
    """Return icons that differ clearly, each pasted on a background.

    The family of an icon is the first word of its name.
    """
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
    queries = []
    for number, name in enumerate(list(icons)[:: max(1, len(icons) // 50)]):
        rng = np.random.default_rng([seed, number])
        queries.append((_render(icons[name], rng, photos), frozenset([name])))
    return Things(
        {n: [_on_white(i)] for n, i in icons.items()},
        {n: match[0] if (match := re.match("[a-z]+", n)) else n for n in icons},
        queries,
    )


def _on_white(icon: Image.Image) -> Image.Image:
    white = Image.new("RGBA", icon.size, "white")
    white.alpha_composite(icon)
    return white.convert("RGB")


def _render(
    icon: Image.Image, rng: np.random.Generator, photos: Sequence[Image.Image]
) -> Image.Image:
    """Return an icon on 3 to 30 % of a backdrop or photo, rotated by up to 20 degrees."""
    background = photos[rng.integers(len(photos))].resize((WIDTH, HEIGHT))
    if rng.random() < 0.5:
        background = make_backdrop(rng, str(rng.choice(list(BACKDROPS))))
    scale = (rng.uniform(0.03, 0.3) * WIDTH * HEIGHT / (icon.width * icon.height)) ** 0.5
    icon = icon.rotate(float(rng.uniform(-20, 20)), Resampling.BICUBIC, expand=True)
    size = max(8, round(scale * icon.width)), max(8, round(scale * icon.height))
    icon = icon.resize(size, Resampling.LANCZOS)
    icon.thumbnail((WIDTH - 20, HEIGHT - 20))
    corner = int(rng.integers(WIDTH - icon.width)), int(rng.integers(HEIGHT - icon.height))
    background.paste(icon, corner, icon)
    return photograph(background, draw_shot(rng), rng)


def units_of(stored: Mapping[str, Pictures], folder: Path) -> list[ku_rag.Unit]:
    """Write pictures to a folder; return a unit for each thing."""
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
    """Create a base with a unit for each thing; a recogniser reads the words in the pictures."""
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
        float64[n, 5]: Whether the thing is in the base, whether the best match is right, and the
        similarity, edges and confidence of that match.
    """
    families = np.array(sorted(set(things.family.values())))
    np.random.default_rng(7).shuffle(families)
    rows = []
    for half in np.array_split(families, 2):
        base = {n: p for n, p in things.stored.items() if things.family[n] in half}
        with base_of(base, encoder, recogniser) as kb:
            retrieval = kb._session.retrieval()
            connection, search = retrieval.database.connection, retrieval.image_search
            for image, truth in things.queries:
                words = recogniser.read(image) if recogniser else ()
                matches, _ = match_image(connection, image, "", search, words=words)
                unit, best = next(iter(matches.items()))
                right = unit_records.fields_of(connection, unit)[0] in truth
                in_base, numbers = bool(truth & base.keys()), (best.similarity, best.edges)
                rows.append((in_base, right, *numbers, best.confidence))
    return np.array(rows, np.float64)
