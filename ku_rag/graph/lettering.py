"""Text in a drawing whose font is not known: how wide it is at most, where it is broken, cut short.

Common letters are taken to be at least as wide as in DejaVu Sans, which is among the widest of the
fonts that viewers take for "sans-serif"; what is laid out by them has room in any of these.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

FAMILY = "DejaVu Sans, Verdana, Arial, sans-serif"

_BOLD = 1.18
_WIDTHS = (
    (0.42, "iljftrI.,;:'!()[]/\\ ·"),
    (0.56, '"-*scz°J|'),
    (0.66, "abdeghknopquvxyFLT?_{}`$€£§0123456789"),
    (0.84, "wABCDEGHKNOPQRSUVXYZ+=<>~#&^"),
    (1.02, "mMW%@—–…→←↔↻©®¼½¾æÆ"),
    (1.18, "œŒЖМФШЩЫЮжфшщыюљњЉЊΜ"),
)
"""Widths in em, each with the characters that are at most as wide."""
_OTHER = 1.0
_ACCENTED = 1.09
_FULL = 1.05
_ODD = 1.45
_BROAD = frozenset("WF")
_MARKS = frozenset({"Mn", "Me"})
_MOST_MARKS = 2
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"[^\s⺀-鿿가-힯＀-￯>/-]*(?:[\s⺀-鿿가-힯＀-￯>/-]|$)")
"""A part that a line may be broken after: a word and its space, or a character that is broad."""


@lru_cache(maxsize=4096)
def _em(char: str) -> float:
    kind = unicodedata.category(char)
    if kind in _MARKS:
        return 0.0
    if unicodedata.east_asian_width(char) in _BROAD and ord(char) < 0x1F000:
        return _FULL
    base = unicodedata.normalize("NFD", char)[0]
    for width, chars in _WIDTHS:
        if base in chars:
            return width if base == char else width * _ACCENTED
    return _OTHER if ord(base) < 0x600 and not 0x1C4 <= ord(base) <= 0x1F3 else _ODD


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels that a line takes at most.

    Args:
        text: the line.
        size: of the font, in pixels.
        bold: whether it is bold.
    """
    return sum(map(_em, text)) * size * (_BOLD if bold else 1.0)


def clean(text: str) -> str:
    """What can be drawn in one line: no control characters, few marks on a letter, single spaces.

    Marks that are piled up would reach into other lines, and characters that turn the direction of
    writing would do so with everything after them.
    """
    kept: list[str] = []
    marks = 0
    plain = (c for c in _SPACES.sub(" ", text) if unicodedata.category(c)[0] != "C")
    for char in unicodedata.normalize("NFC", "".join(plain)):
        marks = marks + 1 if unicodedata.category(char) in _MARKS else 0
        if marks <= _MOST_MARKS:
            kept.append(char)
    return _SPACES.sub(" ", "".join(kept)).strip()


def wrap(text: str, size: float, room: float, *, most: int = 2, bold: bool = False) -> list[str]:
    """A text in lines of at most `room` pixels; what does not fit into `most` is cut with "…".

    Args:
        text: of one line, see `clean`.
        size: of the font, in pixels.
        room: pixels that a line may take.
        most: lines.
        bold: whether it is bold.
    """
    lines = [""]
    for word in _WORD.findall(text):
        if width((lines[-1] + word).rstrip(), size, bold=bold) <= room:
            lines[-1] += word
        elif lines[-1]:
            lines.append(word)
        else:
            lines[-1] = word
        while width(lines[-1].rstrip(), size, bold=bold) > room and len(lines) <= most:
            fitting = max(_fitting(lines[-1], size, room, bold), 1)
            lines[-1:] = [lines[-1][:fitting], lines[-1][fitting:]]
        if len(lines) > most:
            break
    lines = [line.strip() for line in lines]
    if len(lines) <= most:
        return lines
    ended = lines[most - 1]
    ended = ended[: _fitting(ended, size, room - width("…", size, bold=bold), bold)]
    return [*lines[: most - 1], ended.rstrip(" ,;·-") + "…"]


def _fitting(text: str, size: float, room: float, bold: bool) -> int:
    """How many characters at the start of a line have room."""
    for end in range(len(text), 0, -1):
        if width(text[:end], size, bold=bold) <= room:
            return end
    return 0
