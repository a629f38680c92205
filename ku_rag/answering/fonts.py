"""Fonts that have the characters: one shipped as a dependency, then those of the system.

Open Sans (Latin, Greek, Cyrillic) comes with the package, so that a page looks the same everywhere.
A character that it lacks is looked for in the folders named by KU_FONTS and in the system's font
folders; one that no font has is drawn as its code point in a frame, never dropped.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import BinaryIO

from PIL import ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont
Ranges = tuple[tuple[int, int], ...]

_FONT_FILES = (".ttf", ".otf", ".ttc", ".otc")
_OUTLINES = {b"glyf", b"CFF ", b"CFF2"}
_CMAP_LIMIT = 1 << 24
_ASCII: Ranges = ((0x20, 0x7E),)
# Faces that make poor body text come last among those that have a character.
_AWKWARD = ("italic", "oblique", "mono", "condensed", "narrow", "light", "thin", "black", "math")


@dataclass(frozen=True, slots=True)
class Face:
    """A font file and the characters that it has.

    Args:
        path: the file; None stands for the small font inside Pillow.
        covers: ranges of code points, both ends included, sorted.
        bold: whether its strokes are bold.
    """

    path: str | None
    covers: Ranges
    bold: bool = False

    def has(self, char: str) -> bool:
        """Whether the face has a glyph for `char`."""
        code = ord(char)
        at = bisect_right(self.covers, (code, sys.maxunicode)) - 1
        return at >= 0 and self.covers[at][0] <= code <= self.covers[at][1]


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of a line set in one font; `font` None: characters that no font has."""

    text: str
    font: Font | None


def font_for(text: str, size: int, bold: bool = False) -> Font:
    """The first font that has every character of `text`, or else the one that has most of them.

    Args:
        text: what is to be set.
        size: pixels to the em.
        bold: prefer bold strokes.
    """
    chars = {c for c in text if not _invisible(c)}
    best = max(_faces(bold), key=lambda face: sum(map(face.has, chars)))
    if not all(map(best.has, chars)):
        # The system's fonts are read only when the shipped one is not enough.
        best = max((best, *_system_faces(bold)), key=lambda face: sum(map(face.has, chars)))
    return _load(best.path, size)


def missing_characters(text: str) -> str:
    """The visible characters of `text` that no font has, each once, in order."""
    visible = (c for c in dict.fromkeys(text) if not _invisible(c) and not c.isspace())
    return "".join(c for c in visible if _face_of(c, False) is None)


def runs(text: str, size: int, bold: bool = False) -> list[Run]:
    """Cut one line into stretches that one font can set.

    A mark stays with its letter where one font has both, and neutral characters stay with the
    font before them, so that a line in one script is one run. Characters that show nothing and
    that the font lacks are left out.
    """
    found: list[tuple[list[str], Face | None]] = []
    for cluster in _clusters(text):
        before = found[-1][1] if found else None
        for piece, face in _place(cluster, before, bold):
            if found and found[-1][1] == face and face is not None:
                found[-1][0].append(piece)
            else:
                found.append(([piece], face))
    set_runs = []
    for pieces, face in found:
        joined = "".join(pieces)
        # A space that ends a right-to-left run would be drawn on its left.
        ends = joined.rstrip(" ") if _right_to_left(joined) else joined
        font = _load(face.path, size) if face is not None else None
        set_runs += [Run(part, font) for part in (ends, joined[len(ends) :]) if part]
    return set_runs


@lru_cache(maxsize=1 << 13)
def width(text: str, size: int, bold: bool = False) -> float:
    """How many pixels wide one line of `text` is when drawn by `draw_line`."""
    return sum(_advance(run, size) for run in runs(text, size, bold))


def draw_line(
    draw: ImageDraw.ImageDraw,
    xy: tuple[float, float],
    text: str,
    size: int,
    *,
    bold: bool = False,
    fill: str = "black",
) -> float:
    """Draw one line with its baseline at `xy` and return its width in pixels."""
    x, y = xy
    for run in runs(text, size, bold):
        if run.font is None:
            _draw_code_point(draw, x, y, run.text, size, fill)
        else:
            draw.text((x, y), run.text, font=run.font, fill=fill, anchor="ls")
        x += _advance(run, size)
    return x - xy[0]


def extent(text: str, size: int, bold: bool = False) -> tuple[int, int]:
    """How many pixels the ink of one line reaches above and below its baseline."""
    top = bottom = 0
    for run in runs(text, size, bold):
        if run.font is None:
            run = Run(_code_point(run.text), _code_point_font(size))
        assert run.font is not None
        _, above, _, below = run.font.getbbox(run.text, anchor="ls")
        top, bottom = max(top, math.ceil(-above)), max(bottom, math.ceil(below))
    return top, bottom


def joins(char: str) -> bool:
    """Whether `char` belongs to the character before it, as a mark or a joiner does."""
    return bool(unicodedata.combining(char)) or _invisible(char)


# ---- choosing a face ---------------------------------------------------------------------------


def _clusters(text: str) -> Iterator[str]:
    """Letters with the marks and joiners that follow them."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or not joins(text[at]):
            if text[start:at]:
                yield text[start:at]
            start = at


def _place(cluster: str, before: Face | None, bold: bool) -> list[tuple[str, Face | None]]:
    needed = [c for c in cluster if not _invisible(c)]
    if not needed:
        return []
    if before is not None and _neutral(needed[0]) and all(map(before.has, needed)):
        return [(_settable(cluster, before), before)]
    whole = _face_of("".join(needed), bold)
    if whole is not None:
        return [(_settable(cluster, whole), whole)]
    if len(needed) == 1:
        return [(needed[0], None)]
    return [(c, _face_of(c, bold)) for c in needed]


def _settable(cluster: str, face: Face) -> str:
    return "".join(c for c in cluster if not _invisible(c) or face.has(c))


@lru_cache(maxsize=1 << 14)
def _face_of(chars: str, bold: bool) -> Face | None:
    for face in _faces(bold):
        if all(map(face.has, chars)):
            return face
    for face in _system_faces(bold):
        if all(map(face.has, chars)):
            return face
    return None


def _right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def _neutral(char: str) -> bool:
    return not char.isalpha()


@lru_cache(maxsize=1 << 12)
def _invisible(char: str) -> bool:
    """Joiners, direction marks, variation selectors: they steer others and show nothing."""
    return unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f"


# ---- drawing -----------------------------------------------------------------------------------


def _advance(run: Run, size: int) -> float:
    if run.font is not None:
        return run.font.getlength(run.text)
    return _code_point_font(size).getlength(_code_point(run.text)) + 6


def _code_point(char: str) -> str:
    return f"U+{ord(char):04X}"


def _code_point_font(size: int) -> Font:
    return _load(_faces(False)[0].path, max(8, round(size * 0.6)))


def _draw_code_point(
    draw: ImageDraw.ImageDraw, x: float, y: float, char: str, size: int, fill: str
) -> None:
    font = _code_point_font(size)
    label = _code_point(char)
    frame = (x + 1, y - size * 0.75, x + font.getlength(label) + 4, y + size * 0.15)
    draw.rectangle(frame, outline=fill)
    draw.text((x + 3, y - size * 0.1), label, font=font, fill=fill, anchor="ls")


@lru_cache(maxsize=256)
def _load(path: str | None, size: int) -> Font:
    if path is None:
        font = ImageFont.load_default(size)
        assert isinstance(font, Font), "Pillow was built without FreeType"
        return font
    return ImageFont.truetype(path, size)


# ---- finding fonts -----------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _faces(bold: bool) -> tuple[Face, ...]:
    """The shipped face; the small one inside Pillow where the package was left out."""
    name = "OpenSans-Bold.ttf" if bold else "OpenSans-Regular.ttf"
    try:
        with as_file(files("ttf_opensans") / "ttf" / name) as path:
            covers = coverage(path)
            return (Face(str(path), covers, bold),) if covers else (Face(None, _ASCII),)
    except (ModuleNotFoundError, FileNotFoundError):
        return (Face(None, _ASCII),)


@lru_cache(maxsize=2)
def _system_faces(bold: bool) -> tuple[Face, ...]:
    ranked = sorted(_all_system_faces(), key=lambda face: (face.bold != bold, _rank(face)))
    return tuple(ranked)


@lru_cache(maxsize=1)
def _all_system_faces() -> tuple[Face, ...]:
    faces = []
    for path in _font_files():
        covers = coverage(path)
        if covers:
            faces.append(Face(str(path), covers, "bold" in path.stem.lower()))
    return tuple(faces)


def _rank(face: Face) -> tuple[int, int, str]:
    name = Path(face.path or "").stem.lower()
    return sum(word in name for word in _AWKWARD), "sans" not in name, name


def _font_files() -> list[Path]:
    found: dict[str, Path] = {}
    for folder in _font_folders():
        for root, _, names in os.walk(folder):
            for name in names:
                if name.lower().endswith(_FONT_FILES):
                    found.setdefault(name, Path(root, name))
    return [found[name] for name in sorted(found)]


def _font_folders() -> list[Path]:
    home = Path.home()
    named = [Path(part) for part in os.environ.get("KU_FONTS", "").split(os.pathsep) if part]
    if sys.platform == "darwin":
        system = [home / "Library/Fonts", Path("/Library/Fonts"), Path("/System/Library/Fonts")]
    elif sys.platform == "win32":
        system = [Path(os.environ.get("WINDIR", "C:/Windows"), "Fonts")]
    else:
        data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
        shared = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
        system = [data / "fonts", home / ".fonts"]
        system += [Path(part, "fonts") for part in shared.split(":") if part]
    return named + system


# ---- what a font file has ----------------------------------------------------------------------


def coverage(path: Path) -> Ranges:
    """The code points that a TrueType or OpenType file has outlines for, as sorted ranges.

    Args:
        path: the file; of a collection, the first face counts.

    Returns:
        Ranges with both ends included; empty for a file that is broken or that holds only
        bitmaps, which Pillow draws at one size alone.
    """
    try:
        with path.open("rb") as file:
            return _read_cmap(file)
    except (OSError, struct.error, ValueError):
        return ()


def _read_cmap(file: BinaryIO) -> Ranges:
    start = 0
    if file.read(4) == b"ttcf":
        file.seek(12)
        (start,) = struct.unpack(">L", file.read(4))
    file.seek(start + 4)
    (count,) = struct.unpack(">H", file.read(2))
    file.seek(start + 12)
    tables = dict(_table(file.read(16)) for _ in range(count))
    if b"cmap" not in tables or not _OUTLINES & tables.keys():
        return ()
    offset, length = tables[b"cmap"]
    file.seek(offset)
    data = file.read(min(length, _CMAP_LIMIT))
    (count,) = struct.unpack_from(">H", data, 2)
    ranges: set[tuple[int, int]] = set()
    for record in range(count):
        platform, encoding, at = struct.unpack_from(">HHL", data, 4 + 8 * record)
        if platform == 0 or (platform == 3 and encoding in (1, 10)):
            ranges |= _subtable(data, at)
    return _merge(ranges)


def _table(entry: bytes) -> tuple[bytes, tuple[int, int]]:
    tag, _, offset, length = struct.unpack(">4sLLL", entry)
    return tag, (offset, length)


def _subtable(data: bytes, at: int) -> set[tuple[int, int]]:
    (kind,) = struct.unpack_from(">H", data, at)
    if kind == 4:
        return _segments(data, at)
    if kind == 12:
        (count,) = struct.unpack_from(">L", data, at + 12)
        groups = (struct.unpack_from(">LLL", data, at + 16 + 12 * i) for i in range(count))
        return {(first, last) for first, last, glyph in groups if glyph or last > first}
    return set()


def _segments(data: bytes, at: int) -> set[tuple[int, int]]:
    (doubled,) = struct.unpack_from(">H", data, at + 6)
    count = doubled // 2
    ends = struct.unpack_from(f">{count}H", data, at + 14)
    starts = struct.unpack_from(f">{count}H", data, at + 16 + doubled)
    base = at + 16 + 3 * doubled
    offsets = struct.unpack_from(f">{count}H", data, base)
    ranges = set()
    for i, (first, last, offset) in enumerate(zip(starts, ends, offsets, strict=True)):
        if first == 0xFFFF:
            continue
        if not offset:
            ranges.add((first, last))
            continue
        glyphs = struct.unpack_from(f">{last - first + 1}H", data, base + 2 * i + offset)
        ranges |= {(first + n, first + n) for n, glyph in enumerate(glyphs) if glyph}
    return ranges


def _merge(ranges: set[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
