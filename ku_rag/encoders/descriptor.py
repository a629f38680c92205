"""Picture vectors without weights: colours, where they lie, and the directions of their edges.

Every box of a picture is first averaged onto a fixed grid of 24 x 24 cells, whatever its size, so
that a window and the same part cut out and described alone agree. The exposure of the box is evened
out part of the way, then five blocks are made, each of length 1, weighted, together 512 numbers:

- palette (118): how much of each of 118 colours there is. The middle counts most, and a colour
  that runs all along the border counts little: it is more likely to be the background.
- map (192): how much of 12 plain colours there is in each of 4 x 4 parts, beyond what there is of
  them in the whole: where colours lie, not which.
- outlines (64): directions of the strongest colour gradient in each of 4 x 4 parts.
- slopes (128): directions, from dark to light, of the lightness gradient in each of 4 x 4 parts,
  after the contrast is evened out (both after Dalal and Triggs, 2005).
- waves (10): the lowest cosine frequencies of lightness.

docs/decisions/0010-picture-descriptor.md says what each block is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling

from ku_rag.encoders.base import Vectors
from ku_rag.types import Box

DIM = 512
VERSION = "cells2"

Floats = NDArray[np.float32]

_GRID = 24
_PARTS = 4
_COLOURS = 118
_NAMES = 12
_WAVES = 10
_WORK_SIDE = 640
_CHUNK = 64
"""Boxes described at once: their cells stay in the processor's cache."""

# Measured on the tuning half of benchmarks/grocery_pictures.py and on scenes with flags.
_SHARES = {"palette": 0.58, "map": 0.14, "outlines": 0.11, "slopes": 0.14, "waves": 0.03}
"""What each block contributes to a cosine."""
_FAINT = {"palette": 0.0, "map": 0.25, "outlines": 0.05, "slopes": 0.05, "waves": 2.0}
"""Length at which a block counts half: a plain patch has no layout, only noise."""
_PALETTE_WIDTH, _PALETTE_NEAREST, _PALETTE_POWER = 8.0, 3, 0.4
_BACKGROUND = 12.0
_NAMES_WIDTH, _COMMON = 10.0, 0.9
_GAIN_TARGET, _GAIN_POWER = 0.45, 0.5


def describe_images(images: Sequence[Image]) -> Vectors:
    """Describe whole RGB pictures, float32[n, 512], rows of length 1."""
    cells = np.empty((len(images), _GRID, _GRID, 3), np.float32)
    for place, image in zip(cells, images, strict=True):
        place[...] = _shrink(image)
    return _describe(cells)


def describe_boxes(image: Image, boxes: Sequence[Box]) -> Vectors:
    """Describe parts of one RGB picture in one pass over its integral image.

    Args:
        image: RGB, any size.
        boxes: pixels of `image`; each is clipped to the picture and is at least one pixel.

    Returns:
        float32[len(boxes), 512], rows of length 1.
    """
    if not boxes:
        return np.zeros((0, DIM), np.float32)
    corners = _clip(boxes, image.size)
    small = (corners[:, 2:] - corners[:, :2]).min(1)
    scale = min(1.0, _WORK_SIDE / max(image.size))
    cells = np.empty((len(boxes), _GRID, _GRID, 3), np.float32)
    # Cells narrower than a pixel have no box sum; such boxes are few and are cut out instead.
    thin = small * scale < _GRID
    for i in np.flatnonzero(thin):
        cells[i] = _shrink(image.crop(tuple(corners[i].tolist())))
    if not thin.all():
        cells[~thin] = _cells(image, corners[~thin])
    return _describe(cells)


def raw_blocks(image: Image, boxes: Sequence[Box]) -> Vectors:
    """Blocks of boxes, each of length 1, before the typical ones are taken off.

    This is what descriptor_mean.txt is made from; float32[len(boxes), 512].
    """
    cells = np.stack([_shrink(image.crop(box)) for box in boxes])
    return np.hstack([_unit(block)[0] for block in _blocks(cells).values()])


def _clip(boxes: Sequence[Box], size: tuple[int, int]) -> NDArray[np.int64]:
    corners = np.asarray(boxes, np.int64).reshape(-1, 4)
    limit = np.asarray(size, np.int64)
    low = np.clip(corners[:, :2], 0, limit - 1)
    return np.hstack([low, np.clip(corners[:, 2:], low + 1, limit)])


def _shrink(image: Image) -> Floats:
    """Cell means of a whole picture, 0 to 1."""
    if image.mode != "RGB":
        image = image.convert("RGB")
    small = image.resize((_GRID, _GRID), Resampling.BOX, reducing_gap=3.0)
    return np.asarray(small, np.float32) / np.float32(255.0)


def _cells(image: Image, corners: NDArray[np.int64]) -> Floats:
    """Cell means of many boxes of one picture, 0 to 1, by differences of its integral image."""
    if image.mode != "RGB":
        image = image.convert("RGB")
    width, height = image.size
    scale = min(1.0, _WORK_SIDE / max(width, height))
    if scale < 1.0:
        work = (max(1, round(width * scale)), max(1, round(height * scale)))
        image = image.resize(work, Resampling.BOX, reducing_gap=2.0)
    across, down = image.size
    sums = np.zeros((down + 1, across + 1, 3), np.int32)
    np.cumsum(np.asarray(image, np.int32), axis=0, out=sums[1:, 1:])
    np.cumsum(sums[1:, 1:], axis=1, out=sums[1:, 1:])
    steps = np.arange(_GRID + 1) / _GRID
    ratio = np.array([across / width, down / height])
    low, span = corners[:, :2] * ratio, (corners[:, 2:] - corners[:, :2]) * ratio
    x = np.rint(low[:, :1] + span[:, :1] * steps).astype(np.int64)
    y = np.rint(low[:, 1:] + span[:, 1:] * steps).astype(np.int64)
    flat = sums.reshape(-1, 3)
    cells = np.empty((len(corners), _GRID, _GRID, 3), np.float32)
    for start in range(0, len(corners), _CHUNK):
        part = slice(start, start + _CHUNK)
        at = y[part, :, None] * (across + 1) + x[part, None, :]
        edge = flat.take(at, axis=0)
        rows = edge[:, 1:] - edge[:, :-1]
        area = np.diff(y[part])[:, :, None] * np.diff(x[part])[:, None, :]
        cells[part] = (rows[:, :, 1:] - rows[:, :, :-1]) / (255.0 * np.maximum(area, 1))[..., None]
    return cells


# ---- from cells to vectors ---------------------------------------------------------------------


def _describe(cells: Floats) -> Vectors:
    out = np.empty((len(cells), DIM), np.float32)
    for start in range(0, len(cells), _CHUNK):
        rows = out[start : start + _CHUNK]
        for name, block in _blocks(cells[start : start + _CHUNK]).items():
            unit, strength = _unit(block)
            typical = unit - _typical()[name]
            length = np.maximum(np.linalg.norm(typical, axis=1), 1e-6)
            weight = _SHARES[name] ** 0.5 * strength / (strength + _FAINT[name]) / length
            rows[:, _PLACES[name]] = typical * weight.astype(np.float32)[:, None]
    return _unit(out)[0]


def _blocks(cells: Floats) -> dict[str, Floats]:
    light = _lightness(cells)
    codes = _codes(cells, light)
    return {
        "palette": _palette(codes),
        "map": _map(codes),
        "outlines": _outlines(codes),
        "slopes": _slopes(light),
        "waves": _low_waves(light),
    }


def _unit(rows: Floats) -> tuple[Floats, Floats]:
    """Rows of length 1, and how long they were."""
    lengths: Floats = np.sqrt((rows * rows).sum(1, dtype=np.float32))
    unit: Floats = np.divide(rows, np.maximum(lengths, 1e-6)[:, None], dtype=np.float32)
    return unit, lengths


def _lightness(cells: Floats) -> Floats:
    # A mean over the last axis, three long, takes ten times as long.
    light: Floats = (cells[..., 0] + cells[..., 1] + cells[..., 2]) * np.float32(1 / 3)
    return light


def _codes(cells: Floats, light: Floats) -> NDArray[np.int32]:
    """Colours as 15-bit numbers, five bits a channel, the exposure brought towards a common one."""
    mean = np.tensordot(light, _centre(0.6), axes=2)
    gain = (31.0 * (_GAIN_TARGET / np.maximum(mean, 0.04)) ** _GAIN_POWER).astype(np.float32)
    levels = np.minimum(cells * gain[:, None, None, None] + np.float32(0.5), 31.0).astype(np.int32)
    codes: NDArray[np.int32] = levels[..., 0] << 10 | levels[..., 1] << 5 | levels[..., 2]
    return codes


def _palette(codes: NDArray[np.int32]) -> Floats:
    nearest, shares = _palette_table()
    n = len(codes)
    first = (np.arange(n, dtype=np.int32) * _COLOURS)[:, None]
    flat = codes.reshape(n, -1)
    main = nearest[:, 0].take(flat) + first
    border = main[:, _border()]
    around = np.bincount(border.ravel(), minlength=n * _COLOURS).astype(np.float32)
    around /= np.float32(border.shape[1])
    weights = _centre(0.4).ravel() / (1 + np.float32(_BACKGROUND) * around.take(main))
    counts = np.zeros(n * _COLOURS)
    for i in range(_PALETTE_NEAREST):
        bins = main if i == 0 else nearest[:, i].take(flat) + first
        share = shares[:, i].take(flat) * weights
        counts += np.bincount(bins.ravel(), share.ravel(), n * _COLOURS)
    amounts = counts.reshape(n, _COLOURS)
    amounts /= np.maximum(amounts.sum(1, keepdims=True), 1e-9)
    powered: Floats = (amounts**_PALETTE_POWER).astype(np.float32)
    return powered


def _map(codes: NDArray[np.int32]) -> Floats:
    amounts = np.sqrt(_by_parts(_names_table().take(codes, axis=0)))
    own = amounts - np.float32(_COMMON) * amounts.mean((1, 2), keepdims=True)
    weighted: Floats = own * _centre_of_parts()[:, :, None]
    return weighted.reshape(len(codes), -1)


def _outlines(codes: NDArray[np.int32]) -> Floats:
    lab = _lab_table().take(codes, axis=0)
    x, y = _gradient(lab)
    strength = x * x + y * y
    best = strength.argmax(3)[..., None]
    gx, gy = np.take_along_axis(x, best, 3)[..., 0], np.take_along_axis(y, best, 3)[..., 0]
    return _directions(gx, gy, 4, np.float32(np.pi))


def _slopes(light: Floats) -> Floats:
    spread = light.std((1, 2), keepdims=True) + np.float32(0.05)
    x, y = _gradient((light / spread)[..., None])
    sums = _directions(x[..., 0], y[..., 0], 8, np.float32(2 * np.pi))
    lengths = np.linalg.norm(sums, axis=1, keepdims=True).astype(np.float32)
    damped: Floats = (sums / (lengths + np.float32(0.1))) ** np.float32(0.7)
    return damped


def _gradient(values: Floats) -> tuple[Floats, Floats]:
    across, down = np.zeros_like(values), np.zeros_like(values)
    np.subtract(values[:, :, 2:], values[:, :, :-2], out=across[:, :, 1:-1])
    np.subtract(values[:, 2:], values[:, :-2], out=down[:, 1:-1])
    return across, down


def _directions(gx: Floats, gy: Floats, bins: int, turn: np.float32) -> Floats:
    """Strength of each direction in each part; a gradient is shared by its two nearest bins."""
    n = len(gx)
    place = np.arctan2(gy, gx) * np.float32(bins / turn) + np.float32(bins)
    low = place.astype(np.int32)
    share = place - low
    size = np.sqrt(gx * gx + gy * gy)
    cell = (np.arange(n, dtype=np.int32)[:, None, None] * _PARTS**2 + _part_of_cell()) * bins
    length = n * _PARTS**2 * bins
    sums = np.bincount((cell + low % bins).ravel(), (size * (1 - share)).ravel(), length)
    sums += np.bincount((cell + (low + 1) % bins).ravel(), (size * share).ravel(), length)
    return (sums / (_GRID // _PARTS) ** 2).astype(np.float32).reshape(n, -1)


def _low_waves(light: Floats) -> Floats:
    low: Floats = light.reshape(len(light), -1) @ _waves()
    return low


def _by_parts(values: Floats) -> Floats:
    n, side = len(values), _GRID // _PARTS
    split = values.reshape(n, _PARTS, side, _PARTS, side, -1)
    means: Floats = split.mean(4, dtype=np.float32).mean(2, dtype=np.float32)
    return means


_SIZES = {"palette": 118, "map": 192, "outlines": 64, "slopes": 128, "waves": 10}
_ENDS = dict(zip(_SIZES, np.cumsum(list(_SIZES.values())).tolist(), strict=True))
_PLACES = {name: slice(end - _SIZES[name], end) for name, end in _ENDS.items()}


@lru_cache(maxsize=1)
def _typical() -> dict[str, Floats]:
    """The mean of each block over many windows of photographs.

    Without it pictures in common colours are near to everything (hubs). descriptor_mean.txt is
    written by benchmarks/grocery_pictures.py --mean.
    """
    text = files("ku_rag.encoders").joinpath("descriptor_mean.txt").read_text("ascii")
    numbers = np.array(text.split(), np.float32)
    return {name: numbers[place] for name, place in _PLACES.items()}


# ---- tables ------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _centre(width: float) -> Floats:
    """A bell over the grid, of sum 1; `width` is its deviation in half sides."""
    x = (np.arange(_GRID) + 0.5) / _GRID * 2 - 1
    bell = np.exp(-(x**2) / (2 * width**2))
    both = np.outer(bell, bell)
    done: Floats = (both / both.sum()).astype(np.float32)
    return done


@lru_cache(maxsize=1)
def _border() -> NDArray[np.int64]:
    """Flat places of the cells along the border."""
    inner = np.zeros((_GRID, _GRID), bool)
    inner[1:-1, 1:-1] = True
    return np.flatnonzero(~inner)


@lru_cache(maxsize=1)
def _part_of_cell() -> NDArray[np.int32]:
    part = np.arange(_GRID, dtype=np.int32) // (_GRID // _PARTS)
    return part[:, None] * _PARTS + part


@lru_cache(maxsize=1)
def _centre_of_parts() -> Floats:
    side = _GRID // _PARTS
    bell = _centre(0.8).reshape(_PARTS, side, _PARTS, side).mean((1, 3))
    done: Floats = np.sqrt(bell / bell.mean()).astype(np.float32)
    return done


@lru_cache(maxsize=1)
def _lab_table() -> Floats:
    """CIE L*a*b* over 100 of every 15-bit colour."""
    code = np.arange(1 << 15)
    rgb = np.stack([code >> 10, code >> 5 & 31, code & 31], 1) / 31.0
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = linear @ to_xyz.T / to_xyz.sum(1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    lab = [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])]
    return (np.stack(lab, 1) / 100).astype(np.float32)


@lru_cache(maxsize=1)
def _palette_colours() -> Floats:
    """118 anchors in L*a*b*: six greys and three rings of hues on four lightnesses."""
    colours = [(light, 0.0, 0.0) for light in (8, 25, 45, 65, 82, 97)]
    for light in (25, 45, 62, 80):
        for radius, hues, shift in ((18, 6, 0.0), (40, 10, 0.5), (65, 12, 0.0)):
            turns = 2 * np.pi * (np.arange(hues) + shift) / hues
            colours += [(light, radius * np.cos(t), radius * np.sin(t)) for t in turns]
    return np.asarray(colours, np.float32)


@lru_cache(maxsize=1)
def _name_colours() -> Floats:
    """12 anchors in L*a*b*: black, grey, white, skin, and eight hues as they are printed."""
    return np.asarray(
        [
            (12, 0, 0),
            (55, 0, 0),
            (95, 0, 0),
            (70, 14, 22),
            (45, 60, 38),
            (62, 45, 60),
            (82, 5, 70),
            (45, -38, 30),
            (70, -22, -18),
            (35, 15, -45),
            (35, 35, -20),
            (32, 14, 16),
        ],
        np.float32,
    )


def _distances(anchors: Floats) -> Floats:
    """Squared distances of every 15-bit colour from anchors, lightness counting less."""
    stretch = np.array([0.7, 1.0, 1.0], np.float32)
    points, targets = _lab_table() * 100 * stretch, anchors * stretch
    far: Floats = (points**2).sum(1)[:, None] - 2 * points @ targets.T + (targets**2).sum(1)
    return far


@lru_cache(maxsize=1)
def _palette_table() -> tuple[NDArray[np.int32], Floats]:
    """For every 15-bit colour its nearest palette colours, the first being nearest, and shares."""
    far = _distances(_palette_colours())
    rows = np.arange(len(far))
    found = []
    for _ in range(_PALETTE_NEAREST):
        best = far.argmin(1)
        found.append((best.astype(np.int32), far[rows, best]))
        far[rows, best] = np.inf
    nearest = np.stack([best for best, _ in found], 1)
    away = np.stack([distance for _, distance in found], 1)
    kept = np.exp((away[:, :1] - away) / np.float32(2 * _PALETTE_WIDTH**2))
    kept /= kept.sum(1, keepdims=True)
    return np.asfortranarray(nearest), np.asfortranarray(kept)


@lru_cache(maxsize=1)
def _names_table() -> Floats:
    far = _distances(_name_colours())
    near = np.exp((far.min(1, keepdims=True) - far) / np.float32(2 * _NAMES_WIDTH**2))
    shares: Floats = near / near.sum(1, keepdims=True)
    return shares


@lru_cache(maxsize=1)
def _waves() -> Floats:
    """Cosine waves over the grid but for the constant one, lowest first."""
    x = (np.arange(_GRID) + 0.5) / _GRID
    pairs = sorted(((u, v) for u in range(5) for v in range(5)), key=lambda p: (p[0] + p[1], p))
    waves = [np.outer(np.cos(np.pi * u * x), np.cos(np.pi * v * x)).ravel() for u, v in pairs]
    return np.stack(waves[1 : _WAVES + 1], 1).astype(np.float32)
