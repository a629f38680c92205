"""Which stored pictures are seen in a picture, where, and how clearly.

1. Every proposed region is compared with the stored pictures. What makes a region worth a second
   look is a good match, a match that stands above those of other units (a patch of sky looks a
   little like everything), a border that stands out, and size: part of a thing looks like other
   things, the whole of it only like itself.
2. The best regions, taken apart from each other, are looked at again: cut out a little shifted,
   stretched, turned and slanted, in a few rounds, each around the best cut so far (an evolution
   strategy with a frozen seed).
3. The best cuts are judged by their cosine, their lead over other units, whether all four borders
   stand out, and how much there is in them to see. Each stored picture is reported at the place
   where it is seen most clearly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.regions.base import Segmenter
from ku_rag.regions.windows import contrast
from ku_rag.retrieval.cutting import Cutter, Frames, borders, boxes_of, overlap, variety
from ku_rag.types import Region

Search = Callable[[Vectors, int], tuple[NDArray[np.int64], NDArray[np.float32]]]
"""(queries float32[n, d], k) → rows int64[n, k] and cosines float32[n, k]; row -1 is a miss."""

Owner = Callable[[int], frozenset[int]]
"""The units that a stored picture belongs to."""

FLOOR = 0.15
"""Lowest cosine reported: it only keeps noise out, nothing here tells the unknown apart. With the
embedded encoder 31 shop photos shown to a base of flags found regions of cosine 0.54 and score 1.69
in the median; the true flags of 37 tuning scenes had 0.86 and 1.72. A floor of 0.65 would keep 95 %
of those flags and stop three in four of the photos, but also most products: half of the shop photos
have a whole-picture cosine under 0.28 to the clean picture of theirs."""

_NEAR = 24
_RIVAL = 10
_PLACES = 24
_APART = 0.45
_FIRST = (0.5, 0.12, 0.5)
_THEN = (0.25, 0.06, 0.3)
"""What a border that stands out, the logarithm of the size and clarity count, beside the cosine."""
_LAST = {
    "border": 0.4,
    "proposal": 0.2,
    "variety": 0.15,
    "lead": 0.5,
    "clear": 0.2,
    "size": 0.015,
    "whole": 2.0,
}
_SURE, _UNSURE = 2.30, 0.14
"""Score and cosine of the clearest view, added: from here down, within so much, the whole picture
gains a say in what each part is. 84 % of 38 scenes with flags reach 2.3, 24 % of 38 shop photos."""
_UNREFINED = 0.1
"""What a region loses that was not looked at again."""
_JUDGED, _SAME = 70, 12
"""Views judged last; boxes whose sides are this near, in pixels, count as the same."""
_CROWD, _NEARBY = 20, 0.2
"""Views judged that overlap one another by more than this, so that other places have their say."""
_WHOLE = 0.3
"""The whole picture has no border; it counts as one that stands out this much."""
_ROUNDS = ((24, 20, 1.0), (16, 20, 0.7), (12, 20, 0.4))
"""Places kept, cuts of each, and how far they stray from the best so far."""
_STRAY = np.array([0.08, 0.08, 0.10, 0.10, 0.14, 0.08])
_MOST_TURN, _MOST_SLANT = 0.45, 0.25
_SEED = 20240229


@dataclass(frozen=True, slots=True)
class Sighting:
    """A stored picture that is seen in the picture.

    Args:
        image_row: the stored picture.
        cosine: of its vector and that of the region, as it was cut out.
        score: how clearly it is seen; comparable within one picture only.
        region: where.
        frame: the same place as it was cut out: centre x and y, width, height, turn, slant.
        whole: cosine of its vector and that of the whole picture; 0 if it is not among the nearest.
    """

    image_row: int
    cosine: float
    score: float
    region: Region
    frame: tuple[float, ...]
    whole: float = 0.0


@dataclass(frozen=True, slots=True)
class _Views:
    """Parts of the picture, looked at, with what was found in each.

    Args:
        frames: float64[n, 6], where they are.
        regions: int64[n], the proposal that each started from.
        rows: int64[n, near], stored pictures, best first.
        cosines: float32[n, near].
        lead: float32[n], how far the best hit stands above that of the next unit.
        clear: float32[n], how far it stands above the tenth.
    """

    frames: Frames
    regions: NDArray[np.int64]
    rows: NDArray[np.int64]
    cosines: NDArray[np.float32]
    lead: NDArray[np.float32]
    clear: NDArray[np.float32]

    def take(self, kept: NDArray[np.int64]) -> _Views:
        return _Views(
            self.frames[kept],
            self.regions[kept],
            self.rows[kept],
            self.cosines[kept],
            self.lead[kept],
            self.clear[kept],
        )


def look(
    image: Image,
    *,
    encoder: Encoder,
    segmenter: Segmenter,
    search: Search,
    owner: Owner,
    k: int = 10,
    floor: float = FLOOR,
    refine: bool = True,
) -> list[Sighting]:
    """Find stored pictures in an RGB picture, the clearest first, each at its best region.

    Args:
        image: RGB, upright.
        encoder: the one that made the stored vectors.
        segmenter: proposes regions; the whole picture is always looked at too.
        search: finds stored pictures for vectors.
        owner: the units of a stored picture; pictures that share one are no rivals.
        k: the most sightings returned.
        floor: lowest cosine that counts as a match.
        refine: whether the best regions are looked at again, about 1,000 cuts more.
    """
    whole = Region(box=(0, 0, *image.size), source="whole")
    regions = [whole, *segmenter.propose(image)]
    boxes = np.array([region.box for region in regions], np.int64)
    vectors = encoder.encode_regions(image, [region.box for region in regions])
    views = _search(vectors, _frames(boxes), np.arange(len(regions)), search, owner)
    if not (views.rows >= 0).any():
        return []
    outstanding = contrast(image, boxes)
    outstanding[0] = _WHOLE
    size = float(image.width * image.height)
    cutter = Cutter(image)
    seen = [views]
    if refine:
        worth = _worth(views, outstanding, size, _FIRST)
        views = views.take(_apart(boxes, worth, _PLACES))
        random = np.random.default_rng(_SEED)
        for places, cuts, stray in _ROUNDS:
            reached = boxes_of(views.frames, image.size)
            best = _apart(reached, _worth(views, outstanding, size, _THEN), places)
            tried = _try_around(views.take(best), cuts, stray, random)
            parts = [cutter.cut(frame) for frame in tried.frames]
            found = _search(
                encoder.encode_images(parts), tried.frames, tried.regions, search, owner
            )
            seen.append(found)
            ahead = found.cosines[:, 0].reshape(-1, cuts).argmax(1)
            views = found.take(np.arange(len(best)) * cuts + ahead)
    return _sightings(seen, regions, outstanding, cutter, floor)[:k]


def _search(
    vectors: Vectors,
    frames: Frames,
    regions: NDArray[np.int64],
    search: Search,
    owner: Owner,
) -> _Views:
    rows, cosines = search(vectors, _NEAR)
    cosines = np.where(rows >= 0, cosines, np.float32(-1))
    known, at = np.unique(rows, return_inverse=True)
    units = np.array([min(owner(int(row)), default=-1) if row >= 0 else -1 for row in known])
    # Pictures of no unit are each a unit of their own.
    units = np.where(units < 0, -2 - known, units)[at.reshape(rows.shape)]
    distinct = np.zeros(len(rows), np.int64)
    second = np.zeros(len(rows), np.float32)
    rival = np.zeros(len(rows), np.float32)
    for j in range(rows.shape[1]):
        new = (rows[:, j] >= 0) & ~(units[:, :j] == units[:, j : j + 1]).any(1)
        distinct += new
        counted = new & (distinct > 1) & (distinct <= _RIVAL)
        rival[counted] = cosines[counted, j]
        runner_up = counted & (distinct == 2)
        second[runner_up] = cosines[runner_up, j]
    alone = distinct < 2
    lead = np.where(alone, np.float32(0), cosines[:, 0] - second)
    clear = np.where(alone, np.float32(0), cosines[:, 0] - rival)
    return _Views(frames, regions, rows, cosines, lead, clear)


def _worth(
    views: _Views,
    outstanding: NDArray[np.float32],
    size: float,
    weights: tuple[float, float, float],
) -> NDArray[np.float64]:
    """How much each view promises: its best cosine and what speaks for the view itself."""
    return views.cosines[:, 0] + _bonus(views, outstanding, size, weights)


def _bonus(
    views: _Views,
    outstanding: NDArray[np.float32],
    size: float,
    weights: tuple[float, float, float],
) -> NDArray[np.float64]:
    border, large, clear = weights
    share = np.minimum(views.frames[:, 2] * views.frames[:, 3] / size, 1.0)
    bonus: NDArray[np.float64] = (
        border * outstanding[views.regions] + large * np.log(share) + clear * views.clear
    )
    return bonus


def _apart(boxes: NDArray[np.int64], worth: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """The most promising boxes of which no two overlap much, best first."""
    left = np.argsort(-worth, kind="stable")
    kept: list[int] = []
    while len(left) and len(kept) < most:
        first = int(left[0])
        kept.append(first)
        left = left[overlap(boxes[left], boxes[first]) < _APART]
    return np.array(kept, np.int64)


# ---- cutting out -------------------------------------------------------------------------------


def _frames(boxes: NDArray[np.int64]) -> Frames:
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    return np.hstack([middle, boxes[:, 2:] - boxes[:, :2], np.zeros((len(boxes), 2))])


def _try_around(views: _Views, cuts: int, stray: float, random: np.random.Generator) -> _Views:
    """Frames around each view's own, which comes first."""
    frames = np.repeat(views.frames, cuts, axis=0)
    step = random.normal(size=frames.shape) * _STRAY * stray
    step[::cuts] = 0
    frames[:, :2] += step[:, :2] * frames[:, 2:4]
    frames[:, 2:4] *= np.exp(step[:, 2:4])
    frames[:, 4] = np.clip(frames[:, 4] + step[:, 4], -_MOST_TURN, _MOST_TURN)
    frames[:, 5] = np.clip(frames[:, 5] + step[:, 5], -_MOST_SLANT, _MOST_SLANT)
    again = views.take(np.repeat(np.arange(len(views.frames)), cuts))
    return replace(again, frames=frames)


# ---- judging -----------------------------------------------------------------------------------


def _sightings(
    seen: list[_Views],
    regions: list[Region],
    outstanding: NDArray[np.float32],
    cutter: Cutter,
    floor: float,
) -> list[Sighting]:
    size = cutter.levels[0].size
    area = float(size[0] * size[1])
    views = _Views(
        *(np.concatenate([getattr(part, name) for part in seen]) for name in _Views.__slots__)
    )
    first = np.arange(len(views.frames)) < len(seen[0].frames)
    boxes = boxes_of(views.frames, size)
    worth = _worth(views, outstanding, area, _THEN)
    worth[0] = np.inf
    kept = _different(boxes, worth)
    views, boxes = views.take(kept), boxes[kept]
    share = np.minimum(views.frames[:, 2] * views.frames[:, 3] / area, 1.0)
    bonus = (
        _LAST["border"] * borders(cutter, views.frames)
        + _LAST["proposal"] * outstanding[views.regions]
        + _LAST["variety"] * variety(cutter, views.frames)
        + _LAST["clear"] * views.clear
        + _LAST["size"] * np.log(share)
        - (_UNREFINED * first[kept] if len(seen) > 1 else 0.0)
    )
    # What falls behind the best hit of its own view has no lead and is less clear by as much.
    behind = views.cosines - views.cosines[:, :1]
    lead = np.where(np.arange(behind.shape[1]) == 0, views.lead[:, None], behind)
    scores = views.cosines + bonus[:, None] + _LAST["lead"] * lead + _LAST["clear"] * behind
    clearest = int((scores[:, 0] + views.cosines[:, 0]).argmax())
    doubt = (_SURE - scores[clearest, 0] - views.cosines[clearest, 0]) / _UNSURE
    trust = _LAST["whole"] * min(max(float(doubt), 0.0), 1.0)
    scores += trust * _above_rest(views.rows, views.rows[0], views.cosines[0])
    whole = dict(zip(views.rows[0].tolist(), views.cosines[0].tolist(), strict=True))
    found: dict[int, Sighting] = {}
    for i in np.argsort(-scores, axis=None, kind="stable").tolist():
        at, nth = divmod(i, scores.shape[1])
        row, cosine = int(views.rows[at, nth]), round(float(views.cosines[at, nth]), 4)
        if row < 0 or row in found or cosine < floor:
            continue
        x0, y0, x1, y1 = boxes[at].tolist()
        score = round(float(scores[at, nth]), 4)
        source = regions[int(views.regions[at])].source
        region = Region((x0, y0, x1, y1), source, score)
        frame = tuple(views.frames[at].tolist())
        found[row] = Sighting(row, cosine, score, region, frame, whole.get(row, 0.0))
    return list(found.values())


def _above_rest(
    rows: NDArray[np.int64], whole: NDArray[np.int64], cosines: NDArray[np.float32]
) -> NDArray[np.float64]:
    """How far each row's cosine to the whole picture stands above that of the last one found."""
    found = whole >= 0
    order = np.argsort(whole[found], kind="stable")
    names, above = whole[found][order], (cosines[found] - cosines[found].min())[order]
    at = np.minimum(np.searchsorted(names, rows), len(names) - 1)
    return np.where(names[at] == rows, above[at], 0.0).astype(np.float64)


def _different(boxes: NDArray[np.int64], worth: NDArray[np.float64]) -> NDArray[np.int64]:
    """The most promising views, best first, no two nearly the same and not all in one place."""
    kept: list[int] = []
    for i in np.argsort(-worth, kind="stable")[: 12 * _JUDGED].tolist():
        before = boxes[kept]
        if kept and (np.abs(before - boxes[i]).max(1) <= _SAME).any():
            continue
        if not kept or (overlap(before, boxes[i]) > _NEARBY).sum() < _CROWD:
            kept.append(i)
        if len(kept) == _JUDGED:
            break
    return np.array(kept, np.int64)
