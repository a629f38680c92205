"""Load pictures safely: sizes are checked before pixels are decoded.

Every kind of file (16-bit grey, CMYK, palettes, transparency, several frames, EXIF orientation)
gives one upright RGB picture, or an error.
"""

from __future__ import annotations

import hashlib
import io
import math
import ntpath
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ku_rag import arguments
from ku_rag.errors import BadInput, Corrupt, reason
from ku_rag.types import Box

PICTURE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".avif"}
    | {".ppm", ".pgm", ".pbm", ".pnm"}
)
"""Suffixes, in lower case, of picture files."""

MAX_PIXELS = 64_000_000
"""Width times height of the largest picture that is decoded."""

# Common formats that need no program outside Pillow; those that it detects without a search first.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "AVIF")
_MAX_16_BIT = 65_535.0

_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Before Python 3.14, warning filters belong to the process: one thread changes them at a time.
_filters = threading.Lock()


def open_picture(data: bytes, longest: int | None = None) -> Image.Image:
    """Decode a picture to upright RGB.

    Transparent parts become white. Of an animation, the first frame is decoded.

    Args:
        data: the bytes of a picture file.
        longest: pixels that the longer side needs; a larger picture is decoded at a reduced size,
            less than twice that. None keeps the size.

    Raises:
        BadInput: the file is empty, not a picture, damaged, or has more than `MAX_PIXELS` pixels.
    """
    image = _open(data)
    with _decoding(
        f"the {image.format} picture is broken ({{}}): it may be truncated; save or copy it again"
    ):
        if longest:
            scale = min(1.0, longest / max(image.size))
            image.draft(None, (math.ceil(image.width * scale), math.ceil(image.height * scale)))
        image.load()
        picture = _rgb(image)
        if longest and (factor := max(picture.size) // longest) > 1:
            picture = picture.reduce(factor)
        turn = _TURNS.get(_orientation(image))
        return picture if turn is None else picture.transpose(turn)


def load_picture(
    path: Path, longest: int | None = None, *, digest: str | None = None
) -> Image.Image:
    """Read and decode a picture file; see `open_picture`.

    Args:
        path: the file.
        longest: pixels that the longer side needs.
        digest: hexadecimal SHA-256 of the stored content; None for any content.

    Raises:
        Corrupt: the content has another SHA-256.
        NotFound: there is no such file.
        BadInput: it cannot be read or decoded, or is larger than `MAX_FILE_BYTES`.
    """
    try:
        data = arguments.regular_file(path, "a picture file").read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}): expected a picture") from error
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise Corrupt(
            f"{path} is not the picture that was stored: its content has changed; run `ku verify` "
            "for the extent, put it back, or ingest its source again"
        )
    try:
        return open_picture(data, longest)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert a picture in memory to RGB; transparent parts become white.

    Raises:
        BadInput: it is empty, too large, damaged, or in a mode without colours.
    """
    if not all(image.size):
        raise BadInput(f"the picture has {image.width} × {image.height} pixels: it is empty")
    _check(image.size)
    with _decoding(f"the picture, of mode {image.mode!r}, cannot be converted to RGB ({{}})"):
        # Pillow converts premultiplied alpha to straight alpha only.
        return _rgb(image.convert("LA") if image.mode == "La" else image)


def given(image: object) -> Path | Image.Image | None:
    """Check a picture argument: a path, a picture in memory, or None.

    Raises:
        BadInput: it is none of these, or cannot be converted; see `to_rgb`.
    """
    if image is None:
        return None
    return to_rgb(image) if isinstance(image, Image.Image) else arguments.path(image, "the picture")


def check_files(images: Iterable[Path]) -> None:
    """Check that every path is a readable file.

    Raises:
        NotFound: a file does not exist.
        BadInput: a path is a folder, pipe or device, or a file is too large.
    """
    for image in images:
        arguments.regular_file(image, "a picture file")


def check_all_differ(images: Iterable[Path]) -> None:
    """Check that no two files have the same content, which identifies a picture.

    Raises:
        BadInput: two files are equal.
    """
    first: dict[str, int] = {}
    for number, image in enumerate(images):
        if (before := first.setdefault(arguments.file_hash(image), number)) != number:
            raise BadInput(f"images {before} and {number} are the same picture: give it once")


def probe(data: bytes) -> tuple[int, int, str]:
    """Read the header of a picture.

    Returns:
        (width, height, format): pixels of the upright picture, and a name such as "JPEG".

    Raises:
        BadInput: the file is empty, not a picture, or has more than `MAX_PIXELS` pixels.
    """
    image = _open(data)
    width, height = image.size
    # Pillow rotates TIFF itself.
    if image.format != "TIFF" and _orientation(image) in _SIDEWAYS:
        width, height = height, width
    kind = image.format or ""
    return width, height, "JPEG" if kind == "MPO" else kind


def locate_picture(folder: Path, given: str) -> Path:
    """Resolve the path of a picture in a record, which must be in the record's folder.

    Args:
        folder: resolved folder of the record's file.
        given: the path in the record.

    Raises:
        BadInput: it is an address, absolute, outside the folder (links followed), or missing.
    """
    if "://" in given or given.startswith("data:"):
        raise BadInput(f"{_short(given)} is an address: nothing is fetched; give a local file")
    drive, path = ntpath.splitdrive(given)
    if drive or path.startswith(("/", "\\")):
        raise BadInput(f"{_short(given)} is absolute: give a path relative to the record's file")
    try:
        # `resolve` and `is_relative_to` of pathlib take several times as long.
        real = os.path.realpath(f"{folder}/{given}")
        inside = os.path.join(real, "").startswith(os.path.join(folder, ""))
        there = inside and Path(real).is_file()
    except (OSError, ValueError) as error:
        raise BadInput(f"{_short(given)} is not the path of a file ({reason(error)})") from error
    if not inside:
        raise BadInput(f"{_short(given)} leads out of the record's folder: put the picture into it")
    if not there:
        raise BadInput(f"{_short(given)} is not there: expected a picture file in {folder}")
    return Path(real)


def clipped(box: Sequence[float] | NDArray[np.float32], size: tuple[int, int]) -> Box:
    """Round a box to whole pixels inside a picture of `size`, at least one pixel wide and high."""
    width, height = size
    x0 = min(max(round(float(box[0])), 0), width - 1)
    y0 = min(max(round(float(box[1])), 0), height - 1)
    x1 = min(max(round(float(box[2])), x0 + 1), width)
    y1 = min(max(round(float(box[3])), y0 + 1), height)
    return x0, y0, x1, y1


# ---- headers -----------------------------------------------------------------------------------


def _open(data: bytes) -> Image.Image:
    """Read the header of a picture and check its size."""
    if not data:
        raise BadInput("the picture is empty (0 bytes): save or copy it again")
    with _decoding("the picture's header is broken ({}): save or copy it again"):
        try:
            with _filters, warnings.catch_warnings(action="ignore"):
                image = Image.open(io.BytesIO(data), formats=_FORMATS)
        except UnidentifiedImageError as error:
            raise BadInput(
                f"the file is not a readable picture (it starts with {data[:8]!r}): expected one "
                f"of {', '.join(_FORMATS)}; convert it or save it again"
            ) from error
        except Image.DecompressionBombError as error:
            raise BadInput(
                f"the picture is too large: at most {MAX_PIXELS:,} pixels are decoded; scale it "
                "down"
            ) from error
    _check(image.size)
    return image


@contextmanager
def _decoding(message: str) -> Iterator[None]:
    """Turn the errors of decoders, which are of many kinds, into BadInput with this message."""
    try:
        yield
    except (BadInput, MemoryError):
        raise
    except Exception as error:
        raise BadInput(message.format(reason(error))) from error


def _check(size: tuple[int, int]) -> None:
    width, height = size
    if width * height > MAX_PIXELS:
        raise BadInput(
            f"the picture has {width:,} × {height:,} pixels: at most {MAX_PIXELS:,} are decoded; "
            "scale it down"
        )


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; 1 if there is none or it cannot be read."""
    try:
        with _filters, warnings.catch_warnings(action="ignore"):
            # Not image.getexif(): for PNG that decodes the picture.
            found = Image.Image.getexif(image).get(_ORIENTATION, 1)
    except MemoryError:
        raise
    except Exception:  # a picture with damaged EXIF data can be decoded
        return 1
    return found if isinstance(found, int) else 1


# ---- pixels ------------------------------------------------------------------------------------


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_to_8_bit(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(layered, mask=layered.getchannel("A"))
        return white
    return image.convert("RGB")


def _to_8_bit(grey: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale grey values of more than 8 bits: integers of 16 bits, floats by their maximum."""
    values = np.nan_to_num(grey.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    top = float(values.max(initial=0.0))
    if grey.dtype.kind == "f":
        white = next((w for w in (1.0, 255.0) if top <= w), max(top, _MAX_16_BIT))
    else:
        white = max(top, _MAX_16_BIT)
    return np.rint(values.clip(0) * (255.0 / white)).astype(np.uint8)


# ---- messages ----------------------------------------------------------------------------------


def _short(given: str) -> str:
    return repr(given if len(given) <= 200 else given[:200] + "…")
