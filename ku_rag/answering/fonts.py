"""Fonts for passage pages: Open Sans, then the fonts of the system.

Open Sans (Latin, Greek, Cyrillic) is a dependency, so that pages look the same everywhere. Other
characters are searched in the folders of KU_FONTS and in the system's font folders. A character
that no font has is drawn as its code point, [U+4E2D].
"""

from __future__ import annotations

import os
import unicodedata
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

from PIL import ImageFont

Font = ImageFont.FreeTypeFont

_FONT_FILES = (".ttf", ".otf", ".ttc", ".otc")
_FOLDERS = (
    *("~/.local/share/fonts", "~/.fonts", "/usr/local/share/fonts", "/usr/share/fonts"),
    *("~/Library/Fonts", "/Library/Fonts", "/System/Library/Fonts"),
)
"""The font folders of Linux and macOS; those that do not exist have no files."""
_OUTLINES = ("glyf", "CFF ", "CFF2")
# Words in the names of faces that are used only if no other face has a character.
_UNSUITABLE = ("italic", "oblique", "mono", "condensed", "narrow", "light", "thin", "black", "math")


def missing_characters(text: str) -> str:
    """Return the visible characters of `text` that no font has, each once, in order."""
    visible = (c for c in dict.fromkeys(text) if not _is_invisible(c) and not c.isspace())
    return "".join(c for c in visible if _face_for(c, False) is None)


def runs(text: str, size: int, bold: bool = False) -> list[tuple[str, Font]]:
    """Split a line into parts, each with a font that draws it."""
    if text and text.isascii() and text.isprintable():  # Open Sans has all of these
        return [(text, _load(_open_sans(bold), size))]
    face: Path | None = _open_sans(bold)
    parts: list[tuple[str, Path]] = []
    for char in text:
        is_drawn = face is not None and ord(char) in characters(face)
        if _is_invisible(char) and not is_drawn:
            continue
        if char.isalpha() or not is_drawn:
            face = _face_for(char, bold)
        glyphs, own = (char, face) if face else (f"[U+{ord(char):04X}]", _open_sans(bold))
        before = parts.pop()[0] if parts and parts[-1][1] == own else ""
        parts.append((before + glyphs, own))
    pieces = []
    for part, own in parts:
        # A trailing space of a right-to-left run would be drawn on its left.
        is_reversed = any(unicodedata.bidirectional(char) in ("R", "AL") for char in part)
        body = part.rstrip(" ") if is_reversed else part
        pieces += [(piece, _load(own, size)) for piece in (body, part[len(body) :]) if piece]
    return pieces


@lru_cache(maxsize=1 << 13)
def width(text: str, size: int, bold: bool = False) -> float:
    """Return the width in pixels of one line."""
    return sum(font.getlength(part) for part, font in runs(text, size, bold))


def extent(text: str, size: int, bold: bool = False) -> tuple[int, int]:
    """Return how many pixels the fonts of one line reach above and below its baseline."""
    metrics = [font.getmetrics() for _, font in runs(text, size, bold)]
    return max((up for up, _ in metrics), default=0), max((down for _, down in metrics), default=0)


@lru_cache(maxsize=1 << 14)
def _face_for(char: str, bold: bool) -> Path | None:
    if ord(char) in characters(_open_sans(bold)):
        return _open_sans(bold)
    # The system's fonts are read only if Open Sans lacks a character.
    return next((face for face in _system_faces(bold) if ord(char) in characters(face)), None)


@lru_cache(maxsize=1 << 12)
def _is_invisible(char: str) -> bool:
    """Return whether `char` is a joiner, a direction mark or a variation selector."""
    return unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f"


@lru_cache(maxsize=256)
def _load(path: Path, size: int) -> Font:
    return ImageFont.truetype(path, size)


@lru_cache(maxsize=2)
def _open_sans(bold: bool) -> Path:
    name = "OpenSans-Bold.ttf" if bold else "OpenSans-Regular.ttf"
    with as_file(files("ttf_opensans") / "ttf" / name) as path:
        return path


@lru_cache(maxsize=2)
def _system_faces(bold: bool) -> tuple[Path, ...]:
    """Return the faces of KU_FONTS and the system, the most suitable for body text first."""

    def rank(face: Path) -> tuple[bool, int, bool, str]:
        name = face.stem.lower()
        unsuitable = sum(word in name for word in _UNSUITABLE)
        return ("bold" in name) != bold, unsuitable, "sans" not in name, name

    named = [Path(part) for part in os.environ.get("KU_FONTS", "").split(os.pathsep) if part]
    folders = [*named, *(Path(part).expanduser() for part in _FOLDERS)]
    faces = {
        path.name: path
        for folder in reversed(folders)
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in _FONT_FILES
    }
    return tuple(sorted(faces.values(), key=rank))


@lru_cache(maxsize=1 << 10)
def characters(path: Path) -> frozenset[int]:
    """Return the code points that a TrueType or OpenType file has outlines for."""
    from fontTools.ttLib import TTFont

    try:
        with path.open("rb") as file, TTFont(file, fontNumber=0, lazy=True) as font:
            if any(table in font for table in _OUTLINES):
                return frozenset(font.getBestCmap() or ())
    except Exception:  # fontTools raises errors of many kinds for damaged files
        pass
    return frozenset()
