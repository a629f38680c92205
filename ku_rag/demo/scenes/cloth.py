"""A flag as cloth in space: turned, seen in perspective, waving, lit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Floats = NDArray[np.float64]
Quad = tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]
"""Corners in pixels: top hoist, top fly, bottom fly, bottom hoist."""


@dataclass(frozen=True, slots=True)
class Wave:
    """How the cloth moves.

    Args:
        height: of the waves, as a part of the flag's height (0 to 0.12).
        count: waves along the flag (0.6 to 2.5).
        phase: where they start, in turns.
        slant: how far the crests lean, in turns from top to bottom.
        shading: how much darker and lighter the slopes are (0 to 0.4).
    """

    height: float
    count: float
    phase: float
    slant: float
    shading: float


def turned_quad(proportions: float, yaw: float, pitch: float, tilt: float) -> Floats:
    """Corners of a flag one unit high, turned in space and seen in perspective, float64[4, 2].

    Args:
        proportions: width over height.
        yaw: turn about the upright axis, degrees.
        pitch: turn about the level axis, degrees.
        tilt: turn in the picture's plane, degrees, clockwise.
    """
    half = proportions / 2
    corners = np.array([[-half, -0.5, 0], [half, -0.5, 0], [half, 0.5, 0], [-half, 0.5, 0]])
    a, b, t = math.radians(yaw), math.radians(pitch), math.radians(tilt)
    about_y = np.array([[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]])
    about_x = np.array([[1, 0, 0], [0, math.cos(b), -math.sin(b)], [0, math.sin(b), math.cos(b)]])
    placed = corners @ about_y.T @ about_x.T
    flat = placed[:, :2] / (1 + placed[:, 2:] / 3.2)
    turn = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
    return np.asarray(flat @ turn.T)


def polygon_area(corners: Floats) -> float:
    """Area of a polygon, by the shoelace formula."""
    x, y = corners[:, 0], corners[:, 1]
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


def homography(quad: Floats) -> Floats:
    """The matrix that takes the unit square to `quad` in homogeneous coordinates, float64[3, 3]."""
    rows, right = [], []
    for (u, v), (x, y) in zip(((0, 0), (1, 0), (1, 1), (0, 1)), quad, strict=True):
        rows += [[u, v, 1, 0, 0, 0, -u * x, -v * x], [0, 0, 0, u, v, 1, -u * y, -v * y]]
        right += [x, y]
    solved = np.linalg.solve(np.array(rows, dtype=np.float64), np.array(right, dtype=np.float64))
    return np.append(solved, 1.0).reshape(3, 3)


def hang(
    picture: Image.Image, texture: Image.Image, quad: Floats, wave: Wave, light: float
) -> NDArray[np.float32]:
    """Paint the flag into `picture`, in place.

    Args:
        picture: RGB.
        texture: the flag, flat, RGB, about as wide as it will be seen.
        quad: where its corners would be without waves, pixels, float64[4, 2].
        wave: how it moves.
        light: brightness of the cloth, about 1.

    Returns:
        How much of each pixel the cloth covers, 0 to 1, float32[height, width].
    """
    width, height = picture.size
    cover = np.zeros((height, width), dtype=np.float32)
    side = float(np.linalg.norm(quad[3] - quad[0]))
    reach = wave.height * side * 1.3 + 2
    x0 = max(0, int(quad[:, 0].min() - reach))
    x1 = min(width, int(quad[:, 0].max() + reach) + 1)
    y0 = max(0, int(quad[:, 1].min() - reach))
    y1 = min(height, int(quad[:, 1].max() + reach) + 1)
    if x1 <= x0 or y1 <= y0:
        return cover
    back = np.linalg.inv(homography(quad)).astype(np.float32)
    xs = np.arange(x0, x1, dtype=np.float32)[None, :] + np.float32(0.5)
    ys = np.arange(y0, y1, dtype=np.float32)[:, None] + np.float32(0.5)
    depth = back[2, 0] * xs + back[2, 1] * ys + back[2, 2]
    u = (back[0, 0] * xs + back[0, 1] * ys + back[0, 2]) / depth
    v = (back[1, 0] * xs + back[1, 1] * ys + back[1, 2]) / depth
    turn = np.float32(2 * np.pi) * (wave.count * u + wave.phase + wave.slant * v)
    # The hoist is held: waves grow towards the fly.
    grip = np.clip(u * 1.6 + 0.12, 0, 1)
    v = v - np.float32(wave.height) * grip * np.sin(turn)
    u = u + np.float32(0.25 * wave.height) * grip * np.cos(turn)

    long = (float(np.linalg.norm(quad[1] - quad[0])) + float(np.linalg.norm(quad[2] - quad[3]))) / 2
    edge = np.minimum(np.minimum(u, 1 - u) * long, np.minimum(v, 1 - v) * side)
    alpha = np.clip(edge + np.float32(0.5), 0, 1)
    rows, columns = np.nonzero(alpha > 0)
    if not len(rows):
        return cover
    colour = _sample(texture, u[rows, columns], v[rows, columns])
    slope = np.cos(turn[rows, columns]) * grip[rows, columns]
    fine = np.float32(0.25) * np.sin(np.float32(2.7) * turn[rows, columns] + 1)
    lit = np.float32(light) * (1 + np.float32(wave.shading) * (slope + fine * grip[rows, columns]))
    part = np.array(picture.crop((x0, y0, x1, y1)), dtype=np.float32)
    mix = alpha[rows, columns][:, None]
    part[rows, columns] = part[rows, columns] * (1 - mix) + colour * lit[:, None] * mix
    picture.paste(Image.fromarray(np.clip(part, 0, 255).astype(np.uint8)), (x0, y0))
    cover[y0:y1, x0:x1] = alpha
    return cover


def _sample(
    texture: Image.Image, u: NDArray[np.float32], v: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Bilinear colours of the texture at (u, v) in the unit square, float32[n, 3]."""
    pixels = np.asarray(texture, dtype=np.float32)
    rows, columns = pixels.shape[:2]
    x = np.clip(u * columns - 0.5, 0, columns - 1.001)
    y = np.clip(v * rows - 0.5, 0, rows - 1.001)
    left, top = x.astype(np.int32), y.astype(np.int32)
    dx, dy = (x - left)[:, None], (y - top)[:, None]
    flat = pixels.reshape(-1, 3)
    at = top * columns + left
    upper = flat[at] * (1 - dx) + flat[at + 1] * dx
    lower = flat[at + columns] * (1 - dx) + flat[at + columns + 1] * dx
    return np.asarray(upper * (1 - dy) + lower * dy, dtype=np.float32)
