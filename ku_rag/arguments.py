"""Checks of what callers pass in.

Every function returns the value that it accepts, and raises `BadInput` for any other: one sentence
that says what was seen and what was expected. `what` is the argument's name in that sentence.
Nothing heavy is imported here: `ku_rag.types` is built on it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from unicodedata import category

from ku_rag.errors import BadInput, NotFound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

T = TypeVar("T")

MAX_FILE_BYTES = 512 << 20
"""The largest single file that is read whole."""

LONGEST_NAME = 1_000
"""Characters of the longest name."""

_EXPECTED: dict[type, str] = {str: "a text", bool: "True or False"}
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
_IGNORABLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks of Unicode that are drawn as nothing."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_PATH = 4_095
_LONGEST_PART = 255
_DEEPEST = 100
_MOST_BITS = 4096
_MOST_VALUES = 1_000_000
"""Of a JSON object; each takes about 60 bytes."""
_UNIT_LENGTH = 1e-3
"""How far from 1 the length of a ready-made vector may be."""


def wrong(value: object, what: str, expected: str) -> BadInput:
    """The error for a value that is not what was expected."""
    return BadInput(f"{what} is {_describe(value)}: expected {expected}")


def check(value: object, what: str, kind: type[T]) -> T:
    """A `str`, a `bool` or settings."""
    if not isinstance(value, kind):
        raise wrong(value, what, _EXPECTED.get(kind, kind.__name__))
    return value


# ---- texts and paths ---------------------------------------------------------------------------


def text(value: object, what: str) -> str:
    """A text that can be stored: without NUL characters and bytes that are not UTF-8."""
    if not isinstance(value, str):
        raise wrong(value, what, "a text")
    if is_storable(value):
        return value
    bad = "a NUL character" if "\0" in value else "bytes that are not UTF-8"
    raise BadInput(f"{what} {_describe(value)} holds {bad}: write it as UTF-8 text")


def is_storable(value: str) -> bool:
    """Whether a text holds neither NUL characters nor bytes that are not UTF-8."""
    return "\0" not in value and (value.isascii() or not _SURROGATE.search(value))


def is_visible(value: str) -> bool:
    """Whether a text has a character that is drawn."""
    return any(
        category(char) not in _INVISIBLE
        and char not in _IGNORABLE
        and not "\ufe00" <= char <= "\ufe0f"
        for char in value
    )


def optional_text(value: object, what: str) -> str | None:
    """A text as in `text`, or None."""
    return None if value is None else text(value, what)


def identity(value: object, what: str) -> str:
    """A text as in `text` that holds a visible character."""
    if is_visible(string := text(value, what)):
        return string
    raise BadInput(f"{what} is empty: expected a text that is not blank")


def name(value: object, what: str) -> str:
    """A text as in `identity` of at most `LONGEST_NAME` characters."""
    string = identity(value, what)
    if len(string) > LONGEST_NAME:
        raise BadInput(
            f"{what} has {len(string):,} characters, at most {LONGEST_NAME:,} are accepted: long "
            'texts belong into "text"'
        )
    return string


def texts(values: object, what: str) -> tuple[str, ...]:
    """Several texts as in `text`."""
    items = tuple(several(values, what))
    # One test for all of them, since a base is filled with many; the search names the wrong one.
    if not items or (set(map(type, items)) == {str} and is_storable("".join(items))):
        return items
    return tuple(text(item, f"{what}[{n}]") for n, item in enumerate(items))


def path(value: object, what: str) -> Path:
    """A path that is not empty, not too long, and UTF-8."""
    expected = "a path, as a text or a Path"
    if not isinstance(value, str | os.PathLike):
        raise wrong(value, what, expected)
    try:
        raw = os.fspath(value)
    except TypeError as error:
        raise BadInput(
            f"{what} is {_describe(value)} without a text in it: expected {expected}"
        ) from error
    if raw == "":
        raise BadInput(f"{what} is an empty path: name a file or folder")
    parts = text(raw, what).encode().split(b"/")
    if len(raw) > _LONGEST_PATH or max(map(len, parts)) > _LONGEST_PART:
        raise BadInput(
            f"{what} {_describe(raw)} is too long: expected at most {_LONGEST_PART} bytes between "
            f"slashes and {_LONGEST_PATH:,} in all"
        )
    return Path(raw)


def paths(values: object, what: str) -> tuple[Path, ...]:
    """Several paths as in `path`."""
    return tuple(path(item, f"{what}[{n}]") for n, item in enumerate(several(values, what)))


def several(values: object, what: str) -> Iterable[Any]:
    """Several things of any type, and not one text or path."""
    if isinstance(values, list | tuple):
        return values
    if isinstance(values, str | bytes | os.PathLike):
        raise BadInput(
            f"{what} is {_describe(values)}, one where several are expected: "
            f"write {what}=[{_describe(values)}]"
        )
    with suppress(TypeError):  # of an array without dimensions
        if isinstance(values, Iterable) and not isinstance(values, Mapping):
            return iter(values)
    raise wrong(values, what, "a list")


# ---- numbers and objects -----------------------------------------------------------------------


def count(value: object, what: str, *, least: int, most: int = 2**63 - 1) -> int:
    """A whole number from `least` to `most`, by default the greatest that SQLite stores."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise wrong(value, what, f"a whole number from {least:,} to {most:,}")
    return value


def implementation(value: object, what: str, method: str, *, optional: bool = True) -> None:
    """Check that a value is a name, or an object with a method; None where it is optional."""
    named = isinstance(value, str) or callable(getattr(value, method, None))
    if not named and not (optional and value is None):
        raise wrong(value, what, f"a name, or an object with the method {method}")


def callback(value: object, what: str) -> None:
    """Check that a value is a function, or None."""
    if value is not None and not callable(value):
        raise wrong(value, what, "a function that takes a number, or None")


def json_object(value: object, what: str) -> Mapping[str, Any]:
    """A mapping that JSON can hold: texts as keys, finite numbers, lists and mappings of these."""
    if not isinstance(value, Mapping):
        raise wrong(value, what, 'a mapping, such as {"year": 1920}')
    count = 0
    waiting: list[tuple[object, str, int]] = [(dict(value), what, 0)]
    while waiting:
        count += 1
        inner, where, depth = waiting.pop()
        if count > _MOST_VALUES:
            raise BadInput(
                f"{what} has more than {_MOST_VALUES:,} values: store long lists as text"
            )
        if depth > _DEEPEST:
            raise BadInput(f"{what} is nested more than {_DEEPEST} deep: make it flatter")
        if isinstance(inner, dict):
            for key, item in inner.items():
                field = text(key, f"a key of {where}")
                waiting.append((item, f"{where}[{field!r}]" if depth < 3 else where, depth + 1))
        elif isinstance(inner, list | tuple):
            waiting += [(item, where, depth + 1) for item in inner]
        elif isinstance(inner, str):
            text(inner, where)
        elif isinstance(inner, float) and not math.isfinite(inner):
            raise wrong(inner, where, "a finite number, or null")
        elif isinstance(inner, int) and inner.bit_length() > _MOST_BITS:
            raise BadInput(f"{where} is a number of {inner.bit_length():,} bits: write it as text")
        elif not isinstance(inner, int | float | None):
            expected = "what JSON can hold (text, number, true, false, null, list, mapping)"
            raise wrong(inner, where, expected)
    return value


def no_constant(constant: str) -> NoReturn:
    """Refuse NaN and infinity, as `parse_constant` of a JSON decoder."""
    raise ValueError(f"{constant} is no JSON number")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {twice[:80]!r} stands more than once in an object")
    return result


STRICT_JSON = json.JSONDecoder(parse_constant=no_constant, object_pairs_hook=_without_repetition)
"""Accepts no NaN and no repeated key. `json.loads` with an option makes a decoder at each call."""


def ready_vectors(
    vectors: object, *, expected: Mapping[str, tuple[int, int]]
) -> dict[str, Vectors | None]:
    """Ready-made vectors as float32 arrays; None where there are none.

    Args:
        vectors: mapping of a part to an array or nested lists [number of items, dim], or to None.
        expected: the shape of each part: items, length of a vector.
    """
    if not isinstance(vectors, Mapping):
        raise wrong(vectors, "vectors", 'a mapping, such as {"texts": …}')
    if unknown := [part for part in vectors if part not in expected]:
        raise BadInput(f"vectors has {unknown[0]!r}: expected {' or '.join(map(repr, expected))}")
    return {
        part: _rows(vectors[part], f"vectors[{part!r}]", shape)
        if vectors.get(part) is not None
        else None
        for part, shape in expected.items()
    }


def _rows(value: object, what: str, shape: tuple[int, int]) -> Vectors:
    import numpy as np

    try:
        raw = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{what} is no array ({error}): expected float32{list(shape)}") from error
    if raw.dtype.kind not in "fiu":
        raise BadInput(f"{what} holds {raw.dtype}: expected float32{list(shape)}")
    if raw.shape != shape:
        raise BadInput(
            f"{what} has shape {raw.shape}, expected {shape}: one row for each item, as long as "
            "the encoder's vectors"
        )
    numbers = raw if raw.dtype == np.float32 else raw.astype(np.float64)
    lengths = np.sqrt(np.einsum("nd,nd->n", numbers, numbers))
    if (wrong_rows := np.flatnonzero(~(np.abs(lengths - 1) <= _UNIT_LENGTH))).size:
        row = int(wrong_rows[0])
        if not np.isfinite(raw[row]).all():
            raise BadInput(f"{what}[{row}] holds NaN or infinity: expected finite numbers")
        raise BadInput(
            f"{what}[{row}] has length {lengths[row]:.4g}: expected 1; "
            "divide each row by its length"
        )
    return np.ascontiguousarray(raw, np.float32)


# ---- files -------------------------------------------------------------------------------------


def regular_file(file: Path, what: str, *, most: int = MAX_FILE_BYTES) -> Path:
    """A file that can be read whole without waiting for another process.

    Args:
        file: its path.
        what: what was expected, such as "a picture file".
        most: bytes that it may have.

    Raises:
        NotFound: it does not exist.
        BadInput: it is a folder, pipe or device, too large, or out of reach.
    """
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        if file.parts[:1] in (("http:",), ("https:",)):
            what += "; nothing is fetched from an address"
        raise NotFound(f"{file} is not there: expected {what}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read ({error}): expected {what}") from error
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{file} is {_kind(status.st_mode)} and cannot be read: expected {what}")
    if status.st_size > most:
        raise BadInput(
            f"{file} has {status.st_size:,} bytes: at most {most:,} are read; make it smaller"
        )
    return file


def file_hash(file: Path) -> str:
    """The SHA-256 of a file, 64 hexadecimal digits."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


OUTPUTS = {
    "the passage": (".png",),
    "the report": (".html", ".htm"),
    "the svg": (".svg",),
    "the records": (".json",),
}
"""What can be written of an answer, a graph or plans, and how the names of such files end."""


def output_file(value: object, what: str, *, spare: object = None) -> Path:
    """Return a path where a file can be written, for one of `OUTPUTS`; a link is followed.

    `spare` is a picture that must not be overwritten, if it is a path.
    """
    file, suffixes = path(value, what), OUTPUTS[what]
    if file.suffix.lower() not in suffixes:
        seen = f"{file}, which is a folder" if file.is_dir() else str(file)
        raise BadInput(f"{what} cannot be written to {seen}: name a file ending in {suffixes[0]}")
    try:
        real = file.resolve()
        there = next(place for place in (real, *real.parents) if place.exists())
        if isinstance(spare, Path) and there == real and spare.exists() and real.samefile(spare):
            raise BadInput(f"{what} would be written over the picture {spare}: name another file")
        fits = there.is_file() if there == real else there.is_dir()
        kind = "file" if there == real else "folder"
        writable = fits and os.access(there, os.W_OK)
        refused = "" if writable else f"{there} is not a {kind} that is writable"
    except (OSError, RuntimeError) as error:
        refused = str(error)
    if refused:
        raise BadInput(
            f"{what} cannot be written to {file} ({refused}): name a file, such as "
            f"{what.rpartition(' ')[2]}{suffixes[0]}"
        )
    return real if file.is_symlink() else file


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _describe(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a huge number"
    with suppress(TypeError):  # of a path without a text in it
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if value is None or isinstance(value, str | bytes | int | float):
        literal = repr(value)
        return literal if len(literal) <= 80 else literal[:80] + "…"
    return f"a {type(value).__name__}"
