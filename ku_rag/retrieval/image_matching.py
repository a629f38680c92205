"""Match the stored pictures of units with a picture: which, where, and how well.

There are three ways. Windows are guesses: they are scored, and the best matches are registered and
scored again. Regions of a model show one thing each: they are compared as they are. Where texts and
pictures are comparable, the question first chooses the one region that it is about (KU-RAG, section
3.3.1). Words printed in the picture add to the scores of units that have them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from PIL.Image import Image
from threadpoolctl import ThreadpoolController

from ku_rag.encoders.base import Encoder, Vectors, region_share
from ku_rag.encoders.embedded.registration import Floats, rescore
from ku_rag.encoders.embedded.window_matching import (
    NEAREST,
    Owners,
    RegionMatch,
    Search,
    match_windows,
)
from ku_rag.encoders.pair import side
from ku_rag.indexes.segment import Rows
from ku_rag.indexes.vector_index import VectorIndex, nearest, top
from ku_rag.recognisers import CachedRecogniser
from ku_rag.regions.base import Segmenter
from ku_rag.regions.crops import Background, crop
from ku_rag.regions.selection import choose
from ku_rag.retrieval.own_calibration import fit_unknown, unknown_leads
from ku_rag.retrieval.word_matching import add_words
from ku_rag.store.connection import Connection, as_json
from ku_rag.types import Region, Word

_STEEPNESS = 20.0
"""Scores of regions times this are comparable with scores of windows in `matching`: a difference
of 0.125 in cosine is large."""
_SIMILARITY, _EDGES, INTERCEPT = 6.5, 2.5, -6.4
"""Log odds that a match of windows is right: the first two times its similarity and its edges, plus
the third. Fitted to flags, groceries and icons; see docs/decisions/0043."""
_RARITY = 0.83
"""Log odds of the rarity of the words that were read; see docs/decisions/0067."""
THRESHOLD = 0.4
"""Confidence from which on a match is sure, where nothing else is set."""
_WHOLE = 0.65
"""Least cosine of a network at which a whole picture shows the unit of a stored one."""
_CONTRADICTED = 3.5
"""Log odds that windows which match another unit lose then."""
_NEAREST_OBJECTS = 100
"""Stored pictures that are compared with what a network sees in a picture."""
_SMALL = 1000
"""Stored pictures up to which all windows are compared with all of them."""
_SEARCHED, _PROBES = 8, 128
"""Of more, every eighth window is searched, in at most 128 lists; see docs/decisions/0011."""
_blas_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Calibration:
    """What makes a probability of the evidence for a match.

    Args:
        models: fingerprints of the encoder and the segmenter that it holds for.
        intercept: added to the evidence times the slope, it gives log odds.
        threshold: confidence from which on a match is sure, 0 to 1.
        slope: see above.
        of_lead: whether the evidence is the lead in cosine over any other unit.
    """

    models: str
    intercept: float
    threshold: float
    slope: float = 1.0
    of_lead: bool = False


@dataclass(frozen=True, slots=True)
class ImageSearch:
    """What a picture is matched with.

    Args:
        segmenter: makes what proposes regions, at the first picture.
        template_of: returns the `registration.template` of the stored picture of a row.
        threshold: cosine to the question from which on a region is meant.
        background: what becomes of the background of a region with a mask.
        tuned: what `ku tune --confidence` found, if it was run.
        by_own_pictures: returns what `calibrate` finds, for regions of a model.
        least: confidence from which on a match is sure; 0 takes the tuned or the default one.
    """

    encoder: Encoder
    segmenter: Callable[[], Segmenter]
    images: VectorIndex
    template_of: Callable[[int], Floats]
    threshold: float
    background: Background
    tuned: Calibration | None
    by_own_pictures: Callable[[], Calibration | None]
    least: float
    recogniser: Callable[[], CachedRecogniser | None]

    @property
    def models(self) -> str:
        """The fingerprints of the encoder and the segmenter."""
        return f"{self.encoder.fingerprint} {self.segmenter().fingerprint}"


def match_image(
    connection: Connection,
    image: Image,
    question: str,
    search: ImageSearch,
    *,
    words: Sequence[Word] = (),
    among: Rows | None = None,
) -> tuple[dict[int, RegionMatch], Region | None]:
    """Find the units whose pictures match an RGB picture.

    The question chooses the region where texts and pictures are comparable; then only the printed
    words in that region count. `among` are rows of the units that count; None for all.

    Returns:
        The best match of each unit by its row, the best first, and the region that the question
        chose before anything was compared, if it did.
    """
    search_rows, owners = search.images.search, partial(_owners, connection, among)
    if among is not None:
        image_rows = connection.column(
            "SELECT DISTINCT image FROM json_each(?) CROSS JOIN unit_images ON unit = value",
            (as_json(among.tolist()),),
        )
        search_rows = partial(search_rows, among=np.unique(np.array(image_rows, np.int64)))
    if not search.images.count or (among is not None and not image_rows):
        return {}, None
    encoder, segmenter = side(search.encoder, "image"), search.segmenter()
    windows = segmenter.name == "windows" and not encoder.cross_modal
    chosen = None
    objects: dict[int, float] = {}
    if windows:
        with one_blas_thread():
            proposed = segmenter.propose(image)
            pooled = partial(_search_pool, search.images, partial(search_rows, most_probes=_PROBES))
            is_small = search.images.count <= _SMALL
            matches = match_windows(
                image,
                encoder=encoder,
                windows=proposed,
                search=search_rows if is_small else pooled,
                owners=owners,
            )
            objects = match_objects(image, encoder, search_rows)
            matches = rescore(image, matches, search.template_of, objects)
    else:
        regions, background = segmenter.propose(image), search.background
        if encoder.cross_modal:
            threshold = search.threshold
            chosen = choose(
                image, question, regions, encoder, threshold=threshold, background=background
            )
        regions = [chosen] if chosen else [Region((0, 0, *image.size), "whole"), *regions]
        vectors = encoder.encode_images([crop(image, region, background) for region in regions])
        matches = match_regions(regions, vectors, search_rows, owners)
    x0, y0, x1, y1 = chosen.box if chosen else (0, 0, *image.size)
    inside = [word for word in words if x0 <= word.box[0] < x1 and y0 <= word.box[1] < y1]
    units = _by_unit(matches, owners, objects)
    units = add_words(connection, units, inside) if inside else units
    return _rated(units, search, windows=windows), chosen


def _search_pool(
    images: VectorIndex, search: Search, vectors: Vectors, k: int
) -> tuple[Rows, Vectors]:
    """Return the nearest rows of each window among those that some of the windows are nearest to.

    Windows overlap: what one of them is nearest to is found by others, too.
    """
    near, _ = search(vectors[::_SEARCHED], k)
    rows, stored = images.gather(np.unique(near[near >= 0]))
    return top([nearest(vectors, stored, rows, k)], k)


def evidence(match: RegionMatch) -> float:
    """Return the log odds that a match is right, up to a constant, the intercept."""
    odds = _SIMILARITY * match.similarity + _EDGES * match.edges + _RARITY * match.rarity
    return odds - _CONTRADICTED if match.is_contradicted else odds


def _by_unit(
    matches: Sequence[RegionMatch], owners: Owners, objects: Mapping[int, float]
) -> dict[int, RegionMatch]:
    """Return the first match of each unit, with what `match_objects` says of it."""
    whole: frozenset[int] = frozenset()  # units that the picture as a whole shows
    if objects and max(objects.values()) >= _WHOLE:
        nearest = max(objects, key=objects.__getitem__)
        whole = owners([nearest])[nearest]
    units: dict[int, RegionMatch] = {}
    units_of = owners([match.image_row for match in matches])
    for match in matches:
        is_contradicted = bool(whole) and not whole & units_of[match.image_row]
        network = objects.get(match.image_row)
        match = replace(match, network=network, is_contradicted=is_contradicted)
        for unit in units_of[match.image_row]:
            units.setdefault(unit, match)
    return units


def _rated(
    units: dict[int, RegionMatch], search: ImageSearch, *, windows: bool
) -> dict[int, RegionMatch]:
    """Return the matches of units with their confidence."""
    model: Calibration | None
    if search.tuned and search.tuned.models == search.models:
        model = search.tuned
    elif windows:
        model = Calibration("", INTERCEPT, THRESHOLD)
    else:
        model = search.by_own_pictures()
    for unit, match in units.items():
        if model:
            signal = match.similarity - match.cosine if model.of_lead else evidence(match)
            odds = model.slope * signal + model.intercept
            confidence = 1 / (1 + math.exp(min(-odds, 500.0)))
            sure = confidence >= (search.least or model.threshold)
            units[unit] = replace(match, confidence=confidence, sure=sure)
    return units


def calibrate(connection: Connection, images: VectorIndex) -> Calibration | None:
    """Return the calibration of matches of regions by the base's own pictures; None for too few."""
    owners = partial(_owners, connection, None)
    fitted = fit_unknown(unknown_leads(connection, images, owners), THRESHOLD)
    return fitted and Calibration("", fitted[1], THRESHOLD, fitted[0], of_lead=True)


def _owners(
    connection: Connection, among: Rows | None, rows: Collection[int]
) -> dict[int, frozenset[int]]:
    """The units of stored pictures, those of `among` only if it is given."""
    stored = connection.execute(
        "SELECT w.value, l.unit FROM json_each(?) w LEFT JOIN unit_images l ON l.image = w.value",
        (as_json(rows),),
    )
    owners: dict[int, frozenset[int]] = dict.fromkeys(rows, frozenset())
    for row, unit in stored:
        if unit is not None and (among is None or unit in among):
            owners[row] |= {unit}
    return owners


def match_objects(image: Image, encoder: Encoder, search: Search) -> dict[int, float]:
    """Return cosines of what a network sees in a picture and in the nearest stored ones, by row.

    {} if the encoder has no network beside what it compares regions by.
    """
    encode_objects = getattr(encoder, "encode_objects", None)
    if encode_objects is None:
        return {}
    rows, cosines = search(encode_objects([image]), _NEAREST_OBJECTS)
    share = math.sqrt(1 - region_share(encoder) ** 2)
    pairs = zip(rows[0].tolist(), cosines[0].tolist(), strict=True)
    return {row: cosine / share for row, cosine in pairs if row >= 0}


def match_regions(
    regions: Sequence[Region], vectors: Vectors, search: Search, owners: Owners
) -> list[RegionMatch]:
    """Match stored pictures with regions that a model proposed, each of which shows one thing.

    Such a region is compared as it is. The similarity is the cosine plus its lead over the best
    picture of any other unit in the same region, because a region that resembles many units shows
    none of them. Their confidence is that of `calibrate`, unless labelled pictures set it.

    `vectors` are float32[n, d], of the crops of the regions. The matches are sorted, the best
    first, each at its best region.
    """
    rows, cosines = search(vectors, NEAREST)
    units = owners(np.unique(rows[rows >= 0]).tolist())
    matches: dict[int, RegionMatch] = {}
    for region, near, similar in zip(regions, rows.tolist(), cosines.tolist(), strict=True):
        pairs = [pair for pair in zip(near, similar, strict=True) if pair[0] >= 0]
        for row, cosine in pairs:
            rivals = [c for other, c in pairs if other != row and not units[other] & units[row]]
            similarity = round(cosine + (cosine - max(rivals) if rivals else 0.0), 4)
            if row not in matches or similarity > matches[row].similarity:
                matches[row] = RegionMatch(
                    image_row=row,
                    cosine=round(cosine, 4),
                    score=round(_STEEPNESS * similarity, 4),
                    region=replace(region, score=similarity),
                    similarity=similarity,
                )
    return sorted(matches.values(), key=lambda match: (-match.score, match.image_row))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread; only one thread of the process is in such a block at a time.

    The matrices of a picture are small: a second BLAS thread only waits, at full load. The limit
    holds for the whole process. Concurrent questions wait, because side by side they take longer.
    """
    with _blas_lock, _blas_libraries().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _blas_libraries() -> ThreadpoolController:
    """Return the libraries of the process; looking for them takes milliseconds."""
    return ThreadpoolController()
