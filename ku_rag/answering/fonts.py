"""Fonts for passage pages: Open Sans, then the fonts of the system.

Open Sans (Latin, Greek, Cyrillic) is a dependency, so that pages look the same everywhere. Other
characters are searched in the folders of KU_FONTS and in the system's font folders. A character
that no font has is drawn as its code point in a frame.
"""

from __future__ import annotations

import math
import os
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

from PIL import ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont

_FONT_FILES = (".ttf", ".otf", ".ttc", ".otc")
_OUTLINES = ("glyf", "CFF ", "CFF2")
# Words in the names of faces that are used only if no other face has a character.
_UNSUITABLE = ("italic", "oblique", "mono", "condensed", "narrow", "light", "thin", "black", "math")


@dataclass(frozen=True, slots=True, eq=False)
class Face:
    """A font file and its characters.

    Args:
        path: the file; None for the small font inside Pillow.
        characters: the code points that it has glyphs for.
        bold: whether its strokes are bold.
    """

    path: str | None
    characters: frozenset[int]
    bold: bool = False

    def has(self, text: str) -> bool:
        """Return whether the face has a glyph for every character of `text`."""
        return all(ord(char) in self.characters for char in text)


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a line in one font; `font` None: one character that no font has."""

    text: str
    font: Font | None


def missing_characters(text: str) -> str:
    """Return the visible characters of `text` that no font has, each once, in order."""
    visible = (c for c in dict.fromkeys(text) if not _is_invisible(c) and not c.isspace())
    return "".join(c for c in visible if _face_for(c, False) is None)


def runs(text: str, size: int, bold: bool = False) -> list[Run]:
    """Split one line into parts that one font can draw.

    A mark stays with its letter if one font has both. Digits, spaces and punctuation stay in the
    font before them. Invisible characters that the font lacks are left out.
    """
    parts: list[tuple[str, Face | None]] = []
    for cluster in _clusters(text):
        visible = "".join(c for c in cluster if not _is_invisible(c))
        face = parts[-1][1] if parts else None
        if not visible:
            continue
        if face is None or visible[0].isalpha() or not face.has(visible):
            face = _face_for(visible, bold)
        if face is None:
            pieces = [(char, _face_for(char, bold)) for char in visible]
        else:
            pieces = [("".join(c for c in cluster if c in visible or face.has(c)), face)]
        for piece, piece_face in pieces:
            if parts and piece_face is not None and parts[-1][1] is piece_face:
                parts[-1] = (parts[-1][0] + piece, piece_face)
            else:
                parts.append((piece, piece_face))
    found = []
    for part, part_face in parts:
        # A trailing space of a right-to-left run would be drawn on its left.
        body = part.rstrip(" ") if _is_right_to_left(part) else part
        font = _load(part_face.path, size) if part_face is not None else None
        found += [Run(one, font) for one in (body, part[len(body) :]) if one]
    return found


@lru_cache(maxsize=1 << 13)
def width(text: str, size: int, bold: bool = False) -> float:
    """Return the width in pixels of one line as `draw_line` draws it."""
    return sum(_advance(run, size) for run in runs(text, size, bold))


def draw_line(
    draw: ImageDraw.ImageDraw,
    xy: tuple[float, float],
    text: str,
    size: int,
    *,
    bold: bool = False,
    fill: str = "black",
) -> None:
    """Draw one line with its baseline at `xy`."""
    x, y = xy
    for run in runs(text, size, bold):
        if run.font is not None:
            draw.text((x, y), run.text, font=run.font, fill=fill, anchor="ls")
        else:
            font, label = _label_font(size), _code_point(run.text)
            frame = (x + 1, y - size * 0.75, x + font.getlength(label) + 4, y + size * 0.15)
            draw.rectangle(frame, outline=fill)
            draw.text((x + 3, y - size * 0.1), label, font=font, fill=fill, anchor="ls")
        x += _advance(run, size)


def extent(text: str, size: int, bold: bool = False) -> tuple[int, int]:
    """Return how many pixels the ink of one line reaches above and below its baseline."""
    top = bottom = 0
    for run in runs(text, size, bold):
        font = run.font or _label_font(size)
        label = run.text if run.font else _code_point(run.text)
        _, above, _, below = font.getbbox(label, anchor="ls")
        top, bottom = max(top, math.ceil(-above)), max(bottom, math.ceil(below))
    return top, bottom


def is_attached(char: str) -> bool:
    """Return whether `char` belongs to the character before it, as marks and joiners do."""
    return bool(unicodedata.combining(char)) or _is_invisible(char)


def _clusters(text: str) -> Iterator[str]:
    """Yield letters with the marks and joiners that follow them."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or not is_attached(text[at]):
            if text[start:at]:
                yield text[start:at]
            start = at


@lru_cache(maxsize=1 << 14)
def _face_for(chars: str, bold: bool) -> Face | None:
    face = _shipped_face(bold)
    if face.has(chars):
        return face
    # The system's fonts are read only if Open Sans lacks a character.
    return next((face for face in _system_faces(bold) if face.has(chars)), None)


def _is_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


@lru_cache(maxsize=1 << 12)
def _is_invisible(char: str) -> bool:
    """Return whether `char` is a joiner, a direction mark or a variation selector."""
    return unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f"


def _advance(run: Run, size: int) -> float:
    if run.font is not None:
        return run.font.getlength(run.text)
    return _label_font(size).getlength(_code_point(run.text)) + 6


def _code_point(char: str) -> str:
    return f"U+{ord(char):04X}"


def _label_font(size: int) -> Font:
    return _load(_shipped_face(False).path, max(8, round(size * 0.6)))


@lru_cache(maxsize=256)
def _load(path: str | None, size: int) -> Font:
    if path is None:
        font = ImageFont.load_default(size)
        assert isinstance(font, Font), "Pillow was built without FreeType"
        return font
    return ImageFont.truetype(path, size)


@lru_cache(maxsize=2)
def _shipped_face(bold: bool) -> Face:
    """Return Open Sans, or the small font inside Pillow if the package is not installed."""
    name = "OpenSans-Bold.ttf" if bold else "OpenSans-Regular.ttf"
    try:
        with as_file(files("ttf_opensans") / "ttf" / name) as path:
            if found := characters(path):
                return Face(str(path), found, bold)
    except (ModuleNotFoundError, FileNotFoundError):
        pass
    return Face(None, frozenset(range(0x20, 0x7F)))


@lru_cache(maxsize=2)
def _system_faces(bold: bool) -> tuple[Face, ...]:
    """Return the faces of KU_FONTS and the system, the most suitable for body text first."""

    def rank(face: Face) -> tuple[bool, int, bool, str]:
        name = Path(face.path or "").stem.lower()
        unsuitable = sum(word in name for word in _UNSUITABLE)
        return face.bold != bold, unsuitable, "sans" not in name, name

    return tuple(sorted(_read_system_faces(), key=rank))


@lru_cache(maxsize=1)
def _read_system_faces() -> tuple[Face, ...]:
    paths: dict[str, Path] = {}
    for folder in _font_folders():
        for root, _, names in os.walk(folder):
            for name in names:
                if name.lower().endswith(_FONT_FILES):
                    paths.setdefault(name, Path(root, name))
    faces = (Face(str(p), characters(p), "bold" in p.stem.lower()) for p in paths.values())
    return tuple(face for face in faces if face.characters)


def _font_folders() -> list[Path]:
    home = Path.home()
    named = [Path(part) for part in os.environ.get("KU_FONTS", "").split(os.pathsep) if part]
    if sys.platform == "darwin":
        system = [home / "Library/Fonts", Path("/Library/Fonts"), Path("/System/Library/Fonts")]
    else:
        data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
        shared = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
        system = [data / "fonts", home / ".fonts"]
        system += [Path(part, "fonts") for part in shared.split(":") if part]
    return named + system


def characters(path: Path) -> frozenset[int]:
    """Return the code points that a TrueType or OpenType file has outlines for.

    Args:
        path: the file; of a collection, the first face is read.

    Returns:
        No code points for a file that is damaged or holds bitmaps only, which Pillow draws at one
        size.
    """
    from fontTools.ttLib import TTFont

    try:
        with path.open("rb") as file, TTFont(file, fontNumber=0, lazy=True) as font:
            if any(table in font for table in _OUTLINES):
                return frozenset(font.getBestCmap() or ())
    except Exception:  # fontTools raises errors of many kinds for damaged files
        pass
    return frozenset()
