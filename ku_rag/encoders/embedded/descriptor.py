"""Picture vectors without weights: colours, their positions, and the directions of edges.

Every box of a picture is averaged onto a grid of 24 x 24 cells and sampled at 32 x 32 points, so
that a window and a crop of the same part have similar vectors. Exposure and tint are partly
normalised. A vector of 512 numbers consists of four weighted blocks, each of length 1:

- palette (128): the amounts of 128 colours among the points. The middle has the largest weight, and
  a colour along the whole border, probably the background, has a small one.
- map (192): the amounts of 12 plain colours in each of 4 x 4 parts, less their amounts in the whole
  box.
- outlines (144): directions of the strongest colour gradient in each of 6 x 6 parts (after Dalal
  and Triggs, 2005).
- waves (48): the lowest cosine frequencies of lightness.

The first two blocks have less weight in a greyer picture.
docs/decisions/0010-picture-descriptor.md measures each block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling

from ku_rag.encoders.base import Vectors
from ku_rag.types import Box

DIM = 512
VERSION = "cells3"

Floats = NDArray[np.float32]
Ints = NDArray[np.signedinteger[Any]]
Points = NDArray[np.uint8]

_GRID = 24
_POINTS = 32
_FINE = 96
"""A point is the mean of about one part in 96 x 96: smaller than a cell, so its colour is purer."""
_MAP_PARTS, _OUTLINE_PARTS, _BINS = 4, 6, 4
_WORK_SIDE = 640
_CHUNK = 128
"""Boxes per batch, so that their cells fit into the processor's cache."""

_SIZES = {"palette": 128, "map": 192, "outlines": 144, "waves": 48}
# Measured on the tuning half of the shop photos (decision 0010) and on scenes with flags.
_SHARES = {"palette": 0.46, "map": 0.15, "outlines": 0.34, "waves": 0.05}
"""Weight of each block in a cosine."""
_FAINT = {"palette": 0.0, "map": 0.25, "outlines": 0.05, "waves": 2.0}
"""Length at which a block has half its weight: the layout of a plain patch is noise."""
_GREY, _LEAST = 4.0, 0.1
"""Mean distance from grey, in L*a*b*, at which colour has half its weight; its least weight."""
_STRETCH = np.array([0.7, 1.0, 1.0], np.float32)
"""Weight of lightness, less than that of hue because illumination varies."""
_GAIN_TARGET, _GAIN_POWER, _BALANCE = 0.45, 0.4, 0.3
_PALETTE_POWER, _BACKGROUND, _COMMON = 0.4, 12.0, 0.9
_PLAIN_COLOURS = (
    *((12, 0, 0), (55, 0, 0), (95, 0, 0), (70, 14, 22), (45, 60, 38), (62, 45, 60)),
    *((82, 5, 70), (45, -38, 30), (70, -22, -18), (35, 15, -45), (35, 35, -20), (32, 14, 16)),
)
"""L*, a* and b* of black, grey, white, skin, and eight hues as they are printed."""


def describe_images(images: Sequence[Image]) -> Vectors:
    """Describe whole RGB pictures, float32[n, 512], rows of length 1."""
    cells = np.empty((3, len(images), _GRID, _GRID), np.float32)
    points = np.empty((3, len(images), _POINTS, _POINTS), np.uint8)
    for i, image in enumerate(images):
        cells[:, i], points[:, i] = _shrink(image)
    return _describe(cells, points)


def describe_boxes(image: Image, boxes: Sequence[Box]) -> Vectors:
    """Describe parts of one RGB picture in one pass over its integral image, float32[n, 512].

    Boxes are clipped to the picture, to one pixel at least. The rows have length 1.
    """
    if not boxes:
        return np.zeros((0, DIM), np.float32)
    corners, limit = np.asarray(boxes, np.int64), np.asarray(image.size, np.int64)
    low = np.clip(corners[:, :2], 0, limit - 1)
    corners = np.hstack([low, np.clip(corners[:, 2:], low + 1, limit)])
    small = (corners[:, 2:] - corners[:, :2]).min(1)
    scale = min(1.0, _WORK_SIDE / max(image.size))
    cells = np.empty((3, len(boxes), _GRID, _GRID), np.float32)
    points = np.empty((3, len(boxes), _POINTS, _POINTS), np.uint8)
    # Cells narrower than a pixel have no box sum; such boxes are few and are cut out instead.
    thin = small * scale < _GRID
    for i in np.flatnonzero(thin):
        cells[:, i], points[:, i] = _shrink(image.crop(tuple(corners[i].tolist())))
    if not thin.all():
        cells[:, ~thin] = _cells(image, corners[~thin])
        points[:, ~thin] = _points(image, corners[~thin])
    return _describe(cells, points)


def _shrink(image: Image) -> tuple[Floats, Points]:
    """Return the cell means, 0 to 1, and the points, 0 to 255, of a whole picture, by channel."""
    small = image.resize((_GRID, _GRID), Resampling.BOX, reducing_gap=3.0)
    step = _FINE // _POINTS
    places = np.arange(step // 2, _FINE, step)
    if _FINE % image.width == 0 == _FINE % image.height:
        # Made finer by a whole number each pixel is only repeated.
        pixels = np.asarray(image)
        points = pixels[places * image.height // _FINE][:, places * image.width // _FINE]
    else:
        fine = image.resize((_FINE, _FINE), Resampling.BOX, reducing_gap=2.0)
        points = np.asarray(fine)[places][:, places]
    means = np.asarray(small, np.float32) / np.float32(255.0)
    return means.transpose(2, 0, 1), points.transpose(2, 0, 1)


def _cells(image: Image, corners: NDArray[np.int64]) -> Floats:
    """Return the cell means, 0 to 1, of boxes of one picture, from its integral image."""
    width, height = image.size
    scale = min(1.0, _WORK_SIDE / max(width, height))
    if scale < 1.0:
        work = (max(1, round(width * scale)), max(1, round(height * scale)))
        image = image.resize(work, Resampling.BOX, reducing_gap=2.0)
    across, down = image.size
    flat = integral(image).reshape(-1, 4)
    steps = np.arange(_GRID + 1) / _GRID
    ratio = np.array([across / width, down / height])
    low, span = corners[:, :2] * ratio, (corners[:, 2:] - corners[:, :2]) * ratio
    x = np.rint(low[:, :1] + span[:, :1] * steps).astype(np.int64)
    y = np.rint(low[:, 1:] + span[:, 1:] * steps).astype(np.int64)
    cells = np.empty((3, len(corners), _GRID, _GRID), np.float32)
    for start in range(0, len(corners), _CHUNK):
        part = slice(start, start + _CHUNK)
        edge = flat.take(y[part, :, None] + x[part, None, :] * (down + 1), axis=0)
        rows = edge[:, 1:] - edge[:, :-1]
        total = (rows[:, :, 1:] - rows[:, :, :-1]).astype(np.float32)
        area = np.diff(y[part])[:, :, None] * np.diff(x[part])[:, None, :]
        share = (1 / (255.0 * np.maximum(area, 1))).astype(np.float32)
        for channel in range(3):
            np.multiply(total[..., channel], share, out=cells[channel, part])
    return cells


def _points(image: Image, corners: NDArray[np.int64]) -> Points:
    """Return the points, 0 to 255, of boxes of one picture, from the reduction that fits each."""
    span = corners[:, 2:] - corners[:, :2]
    halvings = np.rint(np.log2(np.sqrt(span.prod(1)) / _FINE)).clip(0).astype(int)
    steps = (np.arange(_POINTS) + 0.5) / _POINTS
    points = np.empty((3, len(corners), _POINTS, _POINTS), np.uint8)
    for level in np.unique(halvings).tolist():
        # A pixel of four bytes is read faster than one of three.
        pixels = np.asarray(image.reduce(1 << level).convert("RGBX")).view(np.uint32)
        own = np.flatnonzero(halvings == level)
        at = (corners[own, :2, None] + span[own, :, None] * steps).astype(np.int64) >> level
        at = at[:, 1, :, None] * pixels.shape[1] + at[:, 0, None, :]
        colours = pixels.ravel().take(at).view(np.uint8).reshape(*at.shape, 4)
        points[:, own] = colours[..., :3].transpose(3, 0, 1, 2)
    return points


def integral(image: Image) -> Ints:
    """Return the sums of the pixels left of and above each corner, int32[width + 1, height + 1, 4].

    The last number of a pixel is a filler: 16 bytes are read faster than 12.
    """
    sums = np.zeros((image.height + 1, image.width + 1, 4), np.int32)
    sums[1:, 1:] = np.asarray(image.convert("RGBX"))
    _accumulate(sums)
    turned = transposed(sums)
    _accumulate(turned)
    return turned


def transposed(sums: NDArray[Any]) -> NDArray[Any]:
    """Swap the first two axes of an integral image; 16 bytes at once take a fifth of the time."""
    return np.ascontiguousarray(sums.view(np.complex128).transpose(1, 0, 2)).view(sums.dtype)


def _accumulate(rows: Ints) -> None:
    """Add to each row those before it; `cumsum` takes five times as long."""
    for before, row in pairwise(rows):
        row += before


# ---- from cells to vectors ---------------------------------------------------------------------


def _describe(cells: Floats, points: Points) -> Vectors:
    out = np.empty((cells.shape[1], DIM), np.float32)
    for start in range(0, len(out), _CHUNK):
        part = slice(start, start + _CHUNK)
        light, cell_colours, point_colours = _coded(cells[:, part], points[:, part])
        hue = _lab()[3].take(cell_colours).reshape(len(light), -1) @ _centre(_GRID, 0.6).ravel()
        coloured = _LEAST + (1 - _LEAST) * hue**2 / (hue**2 + np.float32(_GREY**2))
        blocks = {
            "palette": _palette(point_colours),
            "map": _map(cell_colours),
            "outlines": _outlines(cell_colours),
            "waves": light.reshape(len(light), -1) @ _waves(),
        }
        for name, block in blocks.items():
            unit, strength = _unit(block)
            # Without this step pictures in common colours are near to everything (hubs).
            typical = unit - _numbers("descriptor_mean.txt")[_PLACES[name]]
            length = np.maximum(np.sqrt((typical * typical).sum(1)), np.float32(1e-6))
            weight = _SHARES[name] ** 0.5 * strength / (strength + _FAINT[name]) / length
            if name in ("palette", "map"):
                weight *= coloured
            out[part, _PLACES[name]] = typical * weight.astype(np.float32)[:, None]
    return _unit(out)[0]


def _coded(cells: Floats, points: Points) -> tuple[Floats, Ints, Ints]:
    """Return the lightness of the cells, and the 15-bit colours of the cells and of the points.

    Pictures are adjusted partly to a common exposure and a grey average.
    """
    mean = (cells.reshape(*cells.shape[:2], -1) @ _centre(_GRID, 0.6).ravel()).T
    low = np.maximum(mean, np.float32(0.04))
    light = low.mean(1, keepdims=True)
    gains = (_GAIN_TARGET / light) ** _GAIN_POWER * (light / low) ** _BALANCE
    coded: list[Ints] = []
    for colours, unit in ((cells, 1.0), (points, 1 / 255)):
        factors = (31.0 * unit * gains).astype(np.float32).T[..., None, None]
        code = np.zeros(colours.shape[1:], np.int16)
        for channel, factor in zip(colours, factors, strict=True):
            level = np.minimum(channel * factor + np.float32(0.5), np.float32(31.0))
            code = code << 5 | level.astype(np.int16)
        coded.append(code.astype(np.intp))
    lightness: Floats = cells.sum(0) * np.float32(1 / 3)
    return lightness, coded[0], coded[1]


def _unit(rows: Floats) -> tuple[Floats, Floats]:
    """Return the rows scaled to length 1, and their former lengths."""
    lengths: Floats = np.sqrt((rows * rows).sum(1, dtype=np.float32))
    unit: Floats = np.divide(rows, np.maximum(lengths, 1e-6)[:, None], dtype=np.float32)
    return unit, lengths


def _palette(points: Ints) -> Floats:
    nearest, shares = _nearest("palette", 3, 8.0)
    n, size = len(points), _SIZES["palette"]
    first = (np.arange(n) * size)[:, None]
    flat = points.reshape(n, -1)
    bins = [colours.take(flat) + first for colours in nearest]
    main = bins[0]
    sides = main.reshape(points.shape)
    border = np.hstack([sides[:, 0], sides[:, -1], sides[:, 1:-1, 0], sides[:, 1:-1, -1]])
    around = np.bincount(border.ravel(), minlength=n * size).astype(np.float32)
    around *= np.float32(_BACKGROUND / border.shape[1])
    weights = _centre(_POINTS, 0.4).ravel() / (np.float32(1.0) + around.take(main))
    counts = np.zeros(n * size)
    for places, share in zip(bins, shares, strict=True):
        counts += np.bincount(places.ravel(), (share.take(flat) * weights).ravel(), len(counts))
    amounts = counts.reshape(n, size)
    amounts /= np.maximum(amounts.sum(1, keepdims=True), 1e-9)
    powered: Floats = amounts.astype(np.float32) ** np.float32(_PALETTE_POWER)
    return powered


def _map(cells: Ints) -> Floats:
    nearest, shares = _nearest("plain", 2, 10.0)
    pairs = [
        (near.take(cells), part.take(cells)) for near, part in zip(nearest, shares, strict=True)
    ]
    amounts = np.sqrt(_by_parts(pairs, _MAP_PARTS, len(_PLAIN_COLOURS)))
    own = amounts - np.float32(_COMMON) * amounts.mean(1, keepdims=True)
    weighted: Floats = own * _parts(_MAP_PARTS)[1]
    return weighted.reshape(len(cells), -1)


def _outlines(cells: Ints) -> Floats:
    strongest = gx = gy = np.zeros(cells.shape, np.float32)
    for channel in _lab()[:3]:
        values = channel.take(cells)
        x, y = np.zeros_like(values), np.zeros_like(values)
        np.subtract(values[:, :, 2:], values[:, :, :-2], out=x[:, :, 1:-1])
        np.subtract(values[:, 2:], values[:, :-2], out=y[:, 1:-1])
        strength = x * x + y * y
        # Products take a fifth of the time of np.where.
        new = (strength > strongest).astype(np.float32)
        old = 1 - new
        strongest = np.maximum(strongest, strength)
        gx, gy = gx * old + x * new, gy * old + y * new
    # A gradient is shared by the two directions nearest to its own.
    place = np.arctan2(gy, gx) * np.float32(_BINS / np.pi) + np.float32(_BINS)
    low = place.astype(np.int32)
    size = np.sqrt(strongest) * np.float32(0.01)
    high = size * (place - low)
    # Of a power of two, so that the remainder is a mask.
    pairs = [(low & (_BINS - 1), size - high), (low + 1 & (_BINS - 1), high)]
    weighted: Floats = _by_parts(pairs, _OUTLINE_PARTS, _BINS) * _parts(_OUTLINE_PARTS)[1]
    return weighted.reshape(len(cells), -1)


def _by_parts(pairs: Sequence[tuple[Ints, Floats]], parts: int, size: int) -> Floats:
    """Return the mean amount of each of `size` kinds in each part of the grid."""
    n = len(pairs[0][0])
    first = np.arange(n, dtype=np.int32)[:, None, None] * parts**2 + _parts(parts)[0]
    first *= size
    sums = np.zeros(n * parts**2 * size)
    for kind, amount in pairs:
        sums += np.bincount((first + kind).ravel(), amount.ravel(), len(sums))
    sums /= (_GRID // parts) ** 2
    return sums.astype(np.float32).reshape(n, parts**2, size)


_ENDS = dict(zip(_SIZES, np.cumsum(list(_SIZES.values())).tolist(), strict=True))
_PLACES = {name: slice(end - _SIZES[name], end) for name, end in _ENDS.items()}


# ---- tables ------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _numbers(name: str) -> Floats:
    """Return the numbers in a file: the mean of photographs' windows, or the palette's colours."""
    text = files("ku_rag.encoders").joinpath(name).read_text("ascii")
    return np.array(text.split(), np.float32)


@lru_cache(maxsize=8)
def _centre(grid: int, width: float) -> Floats:
    """Return a Gaussian over a grid, of sum 1; `width` is its deviation in half sides."""
    x = (np.arange(grid) + 0.5) / grid * 2 - 1
    bell = np.exp(-(x**2) / (2 * width**2))
    both = np.outer(bell, bell)
    done: Floats = (both / both.sum()).astype(np.float32)
    return done


@lru_cache(maxsize=2)
def _parts(parts: int) -> tuple[Ints, Floats]:
    """Return the index of the part that contains each cell, and the weights of the parts."""
    side = _GRID // parts
    part = np.arange(_GRID, dtype=np.int32) // side
    bell = _centre(_GRID, 0.8).reshape(parts, side, parts, side).mean((1, 3)).reshape(-1, 1)
    return part[:, None] * parts + part, np.sqrt(bell / bell.mean()).astype(np.float32)


@lru_cache(maxsize=1)
def _waves() -> Floats:
    """Return the cosine waves over the grid without the constant one, by frequency."""
    x = (np.arange(_GRID) + 0.5) / _GRID
    pairs = sorted(((u, v) for u in range(12) for v in range(12)), key=lambda p: (p[0] + p[1], p))
    waves = [np.outer(np.cos(np.pi * u * x), np.cos(np.pi * v * x)).ravel() for u, v in pairs]
    return np.stack(waves[1 : _SIZES["waves"] + 1], 1).astype(np.float32)


@lru_cache(maxsize=1)
def _lab() -> Floats:
    """Return L*, a*, b* (CIE) and the distance from grey of 15-bit colours, float32[4, 32768]."""
    code = np.arange(1 << 15)
    rgb = np.stack([code >> 10, code >> 5 & 31, code & 31], 1) / 31.0
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = linear @ to_xyz.T / to_xyz.sum(1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    a, b = 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])
    return np.stack([116 * f[:, 1] - 16, a, b, np.hypot(a, b)]).astype(np.float32)


@lru_cache(maxsize=2)
def _nearest(kind: str, count: int, width: float) -> tuple[Points, Floats]:
    """Return the nearest colours to every 15-bit colour, with shares that change smoothly.

    `kind` is "palette" for the 128 colours of descriptor_colours.txt or "plain" for 12 colours,
    `width` the scale of a distance in L*a*b*. Both results are [count, 32768].
    """
    colours = _numbers("descriptor_colours.txt") if kind == "palette" else _PLAIN_COLOURS
    anchors = np.asarray(colours, np.float32).reshape(-1, 3)
    points, targets = _lab()[:3].T * _STRETCH, anchors * _STRETCH
    far = (points**2).sum(1)[:, None] - 2 * points @ targets.T + (targets**2).sum(1)
    rows = np.arange(len(far))
    order, distances = [], []
    for _ in range(count + 1):  # sorting all 128 would take most of the time to the first answer
        best = far.argmin(1)
        order.append(best)
        distances.append(far[rows, best])
        far[rows, best] = np.inf
    away = np.stack(distances, 1)
    kept = np.exp((away[:, :1] - away) / np.float32(2 * width**2))
    kept = np.maximum(kept[:, :count] - kept[:, count:], np.float32(1e-3))
    kept /= kept.sum(1, keepdims=True)
    # Tables of bytes fit into the processor's cache.
    return np.stack(order[:count]).astype(np.uint8), np.ascontiguousarray(kept.T)
