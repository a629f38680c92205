"""Load pictures safely: sizes are checked before pixels are decoded.

Every kind of file (16-bit grey, CMYK, palettes, transparency, several frames, EXIF orientation)
gives one upright RGB picture, or an error. The process decodes a bounded number of pixels at the
same time, so that concurrent requests cannot exhaust its memory.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import io
import math
import re
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ku_rag import arguments
from ku_rag.errors import BadInput, Corrupt, reason
from ku_rag.types import Box

MAX_PIXELS = 64_000_000
"""Width times height of the largest picture that is decoded, and of all that are being decoded."""

MATCHED_SIDE = 1600
"""Pictures of questions are scaled down to this; regions are in the pixels of the original."""

# Common formats that need no program outside Pillow; those that it detects without a search first.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "AVIF")
_MAX_16_BIT = 65_535.0
_BAND = 1 << 20
_DATA_URI = re.compile(r"data:[\w/.+;=-]*;base64,", re.ASCII)
_AGAIN = "save or copy it again"

T = TypeVar("T")

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


class PixelBudget:
    """Bounds the pixels that are decoded at the same time. Pictures wait in order of arrival.

    Args:
        most: pixels at the same time; a picture that has more is decoded alone.

    Attributes:
        used: pixels that are being decoded.
        waiting: one entry for each picture that waits.
    """

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self.waiting = deque[object]()
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, pixels: int) -> Iterator[None]:
        """Wait until so many pixels may be decoded; they count until the block ends.

        A block must not reserve pixels again: it could wait for itself.
        """
        pixels, ticket = min(pixels, self.most), object()
        with self._changed:
            self.waiting.append(ticket)
            try:
                self._changed.wait_for(
                    lambda: self.waiting[0] is ticket and self.used + pixels <= self.most
                )
                self.used += pixels
            finally:
                self.waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self.used -= pixels
                self._changed.notify_all()


_budget = PixelBudget(MAX_PIXELS)


def decode(
    source: Path | bytes | Image.Image,
    use: Callable[[Image.Image, tuple[int, int]], T],
    longest: int | None = None,
    *,
    digest: str | None = None,
) -> T:
    """Decode a picture to upright RGB, and return what a function makes of it.

    The pixels count as being decoded until the function returns. Transparent parts become white.
    Of an animation, the first frame is decoded.

    Args:
        source: a picture file, its content, or an RGB picture in memory.
        use: called with the picture, and the width and height of the upright original.
        longest: pixels that the longer side needs: JPEG is decoded at a reduced size, no smaller.
        digest: hexadecimal SHA-256 of the stored content; None for any content.

    Raises:
        Corrupt: the content has another SHA-256.
        NotFound: there is no such file.
        BadInput: it cannot be read, is empty, not a picture, damaged, or has more than `MAX_PIXELS`
            pixels or `MAX_FILE_BYTES` bytes.
    """
    if isinstance(source, Image.Image):
        return use(source, source.size)
    data = source if isinstance(source, bytes) else _read(source, digest)
    try:
        image = _open(data)
        size = _upright_size(image)
        message = f"the {image.format} picture is broken ({{}}): it may be truncated; {_AGAIN}"
        with _decoding(message):
            if longest:
                scale = min(1.0, longest / max(size))
                width, height = (math.ceil(side * scale) for side in image.size)
                image.draft(None, (width, height))
        # The decoder of a progressive JPEG keeps coefficients in the original size.
        pixels = math.prod(size if "progressive" in image.info else image.size)
        with _budget.reserve(pixels):
            with _decoding(message):
                image.load()
                turn = _TURNS.get(_orientation(image))
                image = _rgb(image)
                image = image if turn is None else image.transpose(turn)
            result = use(image, size)
            del image
            if pixels > _BAND:
                _release_memory()
        return result
    except BadInput as error:
        if isinstance(source, bytes):
            raise
        raise BadInput(f"{source}: {error}") from error


def load_picture(
    source: Path | bytes, longest: int | None = None, *, digest: str | None = None
) -> Image.Image:
    """Decode a picture to upright RGB; see `decode`.

    If `longest` is given, a larger picture is reduced to less than twice as many pixels a side.
    """

    def reduce(picture: Image.Image, _: tuple[int, int]) -> Image.Image:
        factor = max(picture.size) // longest if longest else 1
        return picture.reduce(factor) if factor > 1 else picture

    return decode(source, reduce, longest, digest=digest)


def fit_picture(source: Path | bytes | Image.Image) -> tuple[Image.Image, tuple[int, int]]:
    """Scale a picture down, if a side has more than `MATCHED_SIDE` pixels; see `decode`.

    Also returns the width and height of the upright original.
    """

    def resize(picture: Image.Image, size: tuple[int, int]) -> tuple[Image.Image, tuple[int, int]]:
        scale = min(1.0, MATCHED_SIDE / max(size))
        fitted = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        return (picture if picture.size == fitted else picture.resize(fitted)), size

    return decode(source, resize, MATCHED_SIDE)


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert a picture in memory to RGB; transparent parts become white.

    A picture that is RGB already is returned itself. `BadInput` if it is empty, too large, damaged,
    or in a mode without colours.
    """
    if not all(image.size):
        raise BadInput(f"the picture has {image.width} × {image.height} pixels: it is empty")
    _check(image.size)
    # The attribute belongs to pictures of files: it is empty when the pixels are decoded.
    if _is_rgb(image) and not getattr(image, "tile", ()):
        return image
    with (
        _decoding(f"the picture, of mode {image.mode!r}, cannot be converted to RGB ({{}})"),
        _budget.reserve(image.width * image.height),
    ):
        image.load()
        return _rgb(image)


def check_picture(image: object) -> Path | bytes | Image.Image | None:
    """Check a picture argument: a path, the content of a file, a picture in memory, or None.

    Raises:
        BadInput: it is none of these, or cannot be converted; see `to_rgb` and `probe`.
    """
    if image is None:
        return None
    if isinstance(image, bytes):
        probe(image)
        return image
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
    """Refuse, by `BadInput`, files with the same content, which identifies a picture."""
    first: dict[str, int] = {}
    for number, image in enumerate(images):
        if (before := first.setdefault(arguments.file_hash(image), number)) != number:
            raise BadInput(f"images {before} and {number} are the same picture: give it once")


def probe(data: bytes) -> tuple[int, int, str]:
    """Return width, height and format, such as "JPEG", of an upright picture, by its header.

    Raises:
        BadInput: the file is empty, not a picture, or has more than `MAX_PIXELS` pixels.
    """
    image = _open(data)
    kind = image.format or ""
    return *_upright_size(image), "JPEG" if kind == "MPO" else kind


def read_data_uri(uri: str) -> bytes:
    """Return the content of a picture in a data URI, or raise `BadInput`."""
    if (start := _DATA_URI.match(uri)) is None:
        expected = "a data URI, such as data:image/png;base64,…"
        refused = "no address is fetched and no path is read"
        raise BadInput(f"the picture is {uri[:40]!r}: expected {expected}; {refused}")
    try:
        return base64.b64decode(uri[start.end() :], validate=True)
    except ValueError as error:
        raise BadInput(f"the data URI of the picture is not base64 ({error})") from error


def clipped(box: Sequence[float] | NDArray[np.float32], size: tuple[int, int]) -> Box:
    """Round a box to whole pixels inside a picture of `size`, at least one pixel wide and high."""
    width, height = size
    x0 = min(max(round(float(box[0])), 0), width - 1)
    y0 = min(max(round(float(box[1])), 0), height - 1)
    x1 = min(max(round(float(box[2])), x0 + 1), width)
    y1 = min(max(round(float(box[3])), y0 + 1), height)
    return x0, y0, x1, y1


def scaled(box: Box, scale: float) -> Box:
    """Return a box with its edges multiplied by `scale`, in whole pixels."""
    x0, y0, x1, y1 = (round(edge * scale) for edge in box)
    return x0, y0, x1, y1


def _release_memory() -> None:
    """Return freed memory to the system: glibc keeps that of blocks below 32 MiB, per thread."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


# ---- files -------------------------------------------------------------------------------------


def _read(path: Path, digest: str | None) -> bytes:
    try:
        data = arguments.regular_file(path, "a picture file").read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}): expected a picture") from error
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise Corrupt(
            f"{path} is not the picture that was stored: its content has changed; run `ku verify` "
            "for the extent, put it back, or ingest its source again"
        )
    return data


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


def _upright_size(image: Image.Image) -> tuple[int, int]:
    """Return the width and height of a picture whose header was read."""
    width, height = image.size
    # Pillow rotates TIFF itself.
    is_sideways = image.format != "TIFF" and _orientation(image) in _SIDEWAYS
    return (height, width) if is_sideways else (width, height)


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; 1 if there is none or it cannot be read."""
    try:
        with _filters, warnings.catch_warnings(action="ignore"):
            # Not image.getexif(): for PNG that decodes the picture.
            orientation = Image.Image.getexif(image).get(_ORIENTATION, 1)
    except MemoryError:
        raise
    except Exception:  # a picture with damaged EXIF data can be decoded
        return 1
    return orientation if isinstance(orientation, int) else 1


# ---- pixels ------------------------------------------------------------------------------------


def _is_rgb(image: Image.Image) -> bool:
    return image.mode == "RGB" and not image.has_transparency_data


def _rgb(image: Image.Image) -> Image.Image:
    """Convert a decoded picture to RGB, in bands that need little memory beside the result."""
    # These decoders keep several buffers of the picture's size.
    if _is_rgb(image):
        return image.copy() if image.format in ("WEBP", "AVIF") else image
    # Pillow converts premultiplied alpha to straight alpha only.
    straight = {"La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode)
    is_deep = image.mode == "F" or image.mode.startswith("I")
    white = max(map(_white, _bands(image))) if is_deep else 0.0
    picture = Image.new("RGB", image.size, "white")
    top = 0
    for band in _bands(image):
        if is_deep:
            picture.paste(_to_8_bit(band, white), (0, top))
        elif band.has_transparency_data:
            layered = band.convert(straight).convert("RGBA")
            picture.paste(layered, (0, top), layered)
        else:
            picture.paste(band.convert("RGB"), (0, top))
        top += band.height
    return picture


def _bands(image: Image.Image) -> Iterator[Image.Image]:
    """Cut a picture into strips of about a megapixel, from the top."""
    height = max(1, _BAND // image.width)
    for top in range(0, image.height, height):
        yield image.crop((0, top, image.width, min(top + height, image.height)))


def _values(band: Image.Image) -> NDArray[np.float32]:
    return np.nan_to_num(np.asarray(band, np.float32), nan=0.0, posinf=0.0, neginf=0.0)


def _white(band: Image.Image) -> float:
    """Return the value of white: that of integers of 16 bits, or of floats by their maximum."""
    top = float(_values(band).max(initial=0.0))
    lower = (1.0, 255.0) if band.mode == "F" else ()
    return next((white for white in lower if top <= white), max(top, _MAX_16_BIT))


def _to_8_bit(band: Image.Image, white: float) -> Image.Image:
    """Scale grey values of more than 8 bits; the transparent value becomes white."""
    values = _values(band)
    if isinstance(clear := band.info.get("transparency"), int):
        values[values == clear] = white
    scaled = np.rint(values.clip(0) * (255.0 / white)).astype(np.uint8)
    return Image.fromarray(scaled)
