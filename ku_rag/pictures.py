"""Opening pictures safely: sizes are read and bounded before anything is decoded.

Whatever the file holds (16-bit grey, CMYK, palettes, transparency, several frames, a turned
camera), what comes out is one upright RGB picture, or one sentence on what is wrong.
"""

from __future__ import annotations

import hashlib
import io
import math
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ku_rag import arguments
from ku_rag.errors import BadInput, Corrupt

PICTURE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".avif"}
    | {".ppm", ".pgm", ".pbm", ".pnm"}
)
"""Suffixes, in lower case, of the files that are taken for pictures."""

MAX_PIXELS = 64_000_000
"""Width times height of the largest picture that is decoded."""

# Common formats that need no program outside Pillow; those first that it knows without searching.
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

# Python before 3.14 keeps warning filters for the whole process, so one thread sets them at a time.
_filters = threading.Lock()


def open_picture(data: bytes, longest: int | None = None) -> Image.Image:
    """Decode a picture to upright RGB: transparent parts white, of an animation the first frame.

    Args:
        data: the bytes of a picture file.
        longest: pixels that the longer side should have at least; a larger picture is decoded
            smaller, down to less than twice that, which saves time. None keeps the size.

    Raises:
        BadInput: it is empty, no picture, broken, or has more than `MAX_PIXELS` pixels.
    """
    image = _open(data)
    try:
        if longest:
            image.draft(None, _shrunk(image.size, longest))
        image.load()
        picture = _rgb(image)
        if longest and (factor := max(picture.size) // longest) > 1:
            picture = picture.reduce(factor)
        turn = _TURNS.get(_orientation(image))
        return picture if turn is None else picture.transpose(turn)
    except Exception as error:  # decoders raise whatever they trip over
        raise BadInput(
            f"the {image.format} picture is broken ({_reason(error)}): it may have been cut off; "
            "save or copy it again"
        ) from error


def load_picture(
    path: Path, longest: int | None = None, *, digest: str | None = None
) -> Image.Image:
    """Read and decode a picture file; see `open_picture`.

    Args:
        path: the file.
        longest: pixels that the longer side should have at least.
        digest: SHA-256 in hexadecimal of what it held when it was stored; None for any content.

    Raises:
        Corrupt: it holds something else now.
        NotFound: there is no such file.
        BadInput: it cannot be read, is larger than `MAX_FILE_BYTES`, or is no picture that can be
            decoded.
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
    """A picture in memory as RGB, transparent parts white.

    Raises:
        BadInput: it is empty, too large, broken, or in a mode that no colours follow from.
    """
    if not all(image.size):
        raise BadInput(f"the picture has {image.width} × {image.height} pixels: it is empty")
    _check(image.size)
    try:
        # Pillow turns alpha that is multiplied in into nothing but alpha that is not.
        return _rgb(image.convert("LA") if image.mode == "La" else image)
    except Exception as error:  # decoders raise whatever they trip over
        raise BadInput(
            f"the picture, of mode {image.mode!r}, gives no RGB ({_reason(error)}): convert it"
        ) from error


def given(image: object) -> Path | Image.Image | None:
    """A picture as a caller may hand it over: a path, a picture in memory, or None.

    Raises:
        BadInput: it is neither, or gives no RGB; see `to_rgb`.
    """
    if image is None:
        return None
    return to_rgb(image) if isinstance(image, Image.Image) else arguments.path(image, "the picture")


def check_files(images: Iterable[Path]) -> None:
    """See that each is a file that can be read.

    Raises:
        NotFound: one is not there.
        BadInput: one is a folder, pipe or device, or too large.
    """
    for image in images:
        arguments.regular_file(image, "a picture file")


def check_all_differ(images: Iterable[Path]) -> None:
    """See that no two files have the same bytes: pictures are told apart by these.

    Raises:
        BadInput: two have.
    """
    first: dict[bytes, int] = {}
    for number, image in enumerate(images):
        with image.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        if (before := first.setdefault(digest, number)) != number:
            raise BadInput(f"images {before} and {number} are the same picture: give it once")


def probe(data: bytes) -> tuple[int, int, str]:
    """Read the header of a picture.

    Returns:
        (width, height, format): pixels of the upright picture, and a name such as "JPEG".

    Raises:
        BadInput: it is empty, no picture, or has more than `MAX_PIXELS` pixels.
    """
    image = _open(data)
    width, height = image.size
    # TIFF sizes are upright already.
    if image.format != "TIFF" and _orientation(image) in _SIDEWAYS:
        width, height = height, width
    kind = image.format or ""
    return width, height, "JPEG" if kind == "MPO" else kind


def locate_picture(folder: Path, given: str) -> Path:
    """The picture that a record names, which must lie in the record's own folder.

    Args:
        folder: resolved folder of the file that holds the record.
        given: path as written there.

    Raises:
        BadInput: it is an address, absolute, outside the folder (links followed), or not there.
    """
    if "://" in given or given.startswith("data:"):
        raise BadInput(f"{_short(given)} is an address: nothing is fetched; give a local file")
    path = PurePosixPath(given)
    if path.is_absolute() or PureWindowsPath(given).anchor:
        raise BadInput(f"{_short(given)} is absolute: give a path relative to the record's file")
    try:
        real = (folder / path).resolve()
        inside = real.is_relative_to(folder)
        there = inside and real.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise BadInput(f"{_short(given)} is no path of a file ({_reason(error)})") from error
    if not inside:
        raise BadInput(f"{_short(given)} leads out of the record's folder: put the picture into it")
    if not there:
        raise BadInput(f"{_short(given)} is not there: expected a picture file in {folder}")
    return real


# ---- headers -----------------------------------------------------------------------------------


def _open(data: bytes) -> Image.Image:
    """The picture with its header read and its size found bearable."""
    if not data:
        raise BadInput("the picture is empty (0 bytes): save or copy it again")
    if size := _declared_size(data):
        _check(size)
    try:
        with _quiet():
            image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:
        raise BadInput(
            f"the file is no readable picture (it starts with {data[:8]!r}): expected one of "
            f"{', '.join(_FORMATS)}; convert it or save it again"
        ) from error
    except Image.DecompressionBombError as error:
        raise BadInput(
            f"the picture is far too large: at most {MAX_PIXELS:,} pixels are decoded; "
            "scale it down"
        ) from error
    except Exception as error:  # parsers raise whatever they trip over
        raise BadInput(
            f"the picture's header is broken ({_reason(error)}): save or copy it again"
        ) from error
    _check(image.size)
    return image


def _check(size: tuple[int, int]) -> None:
    width, height = size
    if width * height > MAX_PIXELS:
        raise BadInput(
            f"the picture has {width:,} × {height:,} pixels: at most {MAX_PIXELS:,} are decoded; "
            "scale it down"
        )


def _declared_size(data: bytes) -> tuple[int, int] | None:
    """The size in a PNG or WebP header.

    Pillow refuses a very large PNG without saying its size, and sets room for a whole WebP picture
    aside before it knows whether it is wanted.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    match data[12:16]:
        case b"VP8X":
            return 1 + _little(data[24:27]), 1 + _little(data[27:30])
        case b"VP8L":
            bits = _little(data[21:25])
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case _:
            return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8; 1 when there is none or it cannot be read."""
    try:
        with _quiet():
            # Not image.getexif(): for PNG that decodes the picture.
            found = Image.Image.getexif(image).get(_ORIENTATION, 1)
    except Exception:  # a picture with broken EXIF data is still a picture
        return 1
    return found if isinstance(found, int) else 1


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Pillow's warnings to itself: what matters is raised."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ---- pixels ------------------------------------------------------------------------------------


def _shrunk(size: tuple[int, int], longest: int) -> tuple[int, int]:
    scale = min(1.0, longest / max(size))
    return math.ceil(size[0] * scale), math.ceil(size[1] * scale)


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
    """Scale grey values of more than 8 bits: integers of 16 bits, floats as far as they reach."""
    values = np.nan_to_num(grey.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    top = float(values.max(initial=0.0))
    if grey.dtype.kind == "f":
        white = next((w for w in (1.0, 255.0) if top <= w), max(top, _MAX_16_BIT))
    else:
        white = max(top, _MAX_16_BIT)
    return np.rint(values.clip(0) * (255.0 / white)).astype(np.uint8)


# ---- messages ----------------------------------------------------------------------------------


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _short(given: str) -> str:
    return repr(given if len(given) <= 200 else given[:200] + "…")
