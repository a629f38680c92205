"""A flag as cloth in space: turned, seen in perspective, waving, lit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True)
class Pose:
    """Where a flag is.

    Args:
        quad: corners without waves, in pixels, float64[4, 2]: top hoist, top fly, bottom fly,
            bottom hoist.
        wave: how the cloth moves.
    """

    quad: Floats
    wave: Wave


def turned_quad(proportions: float, yaw: float, pitch: float, tilt: float) -> Floats:
    """Corners of a flag one unit high, `proportions` wide, turned and seen in perspective.

    The angles in degrees are about the upright axis, the level axis and in the picture's plane.
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
    picture: Image.Image, texture: Image.Image, pose: Pose, light: float
) -> NDArray[np.float64]:
    """Paint a flag into `picture`, in place.

    Args:
        picture: RGB.
        texture: the flag, flat, RGB, about as wide as it will be seen.
        pose: where it is and how it is turned.
        light: brightness of the cloth, about 1.

    Returns:
        How much of each pixel the cloth covers, 0 to 1, float64[height, width].
    """
    quad, wave = pose.quad, pose.wave
    back = np.linalg.inv(homography(quad))
    ys, xs = np.mgrid[0.5 : picture.height, 0.5 : picture.width]
    depth = back[2, 0] * xs + back[2, 1] * ys + back[2, 2]
    u = (back[0, 0] * xs + back[0, 1] * ys + back[0, 2]) / depth
    v = (back[1, 0] * xs + back[1, 1] * ys + back[1, 2]) / depth
    turn = 2 * np.pi * (wave.count * u + wave.phase + wave.slant * v)
    # The hoist is held: waves grow towards the fly.
    grip = np.clip(u * 1.6 + 0.12, 0, 1)
    v = v - wave.height * grip * np.sin(turn)
    u = u + 0.25 * wave.height * grip * np.cos(turn)

    long = np.linalg.norm(quad[1] - quad[0] + quad[2] - quad[3]) / 2
    high = np.linalg.norm(quad[3] - quad[0])
    edge = np.minimum(np.minimum(u, 1 - u) * long, np.minimum(v, 1 - v) * high)
    cover: NDArray[np.float64] = np.where(depth > 0, np.clip(edge + 0.5, 0, 1), 0.0)
    seen = cover > 0
    u, v, turn, grip, mix = u[seen], v[seen], turn[seen], grip[seen], cover[seen][:, None]
    slope = grip * (np.cos(turn) + 0.25 * np.sin(2.7 * turn + 1))
    colour = _sample(texture, u, v) * (light * (1 + wave.shading * slope))[:, None]
    pixels = np.array(picture, dtype=np.float64)
    pixels[seen] = pixels[seen] * (1 - mix) + colour * mix
    picture.paste(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))
    return cover


def _sample(texture: Image.Image, u: Floats, v: Floats) -> Floats:
    """Bilinear colours of the texture at (u, v) in the unit square, float64[n, 3]."""
    pixels = np.asarray(texture, dtype=np.float64)
    rows, columns = pixels.shape[:2]
    x, y = np.clip(u * columns - 0.5, 0, columns - 1.001), np.clip(v * rows - 0.5, 0, rows - 1.001)
    left, top = x.astype(int), y.astype(int)
    dx, dy = (x - left)[:, None], (y - top)[:, None]
    upper = pixels[top, left] * (1 - dx) + pixels[top, left + 1] * dx
    lower = pixels[top + 1, left] * (1 - dx) + pixels[top + 1, left + 1] * dx
    return np.asarray(upper * (1 - dy) + lower * dy)
