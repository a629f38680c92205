"""What callers hand over, checked once at the edge: each wrong thing is one sentence.

Nothing heavy is imported here: `ku_rag.types` is built on it.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from unicodedata import category

from ku_rag.errors import BadInput, NotFound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MAX_FILE_BYTES = 512 << 20
"""The largest single file that is read whole."""

LONGEST_NAME = 1_000
"""Characters of the longest name."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
_IGNORABLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks of Unicode that are drawn as nothing."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_DEEPEST = 100
_MOST_BITS = 4096
_CHECKED = 4096
_UNIT_LENGTH = 1e-3
"""How far from 1 the length of a ready-made vector may be."""


# ---- texts and paths ---------------------------------------------------------------------------


def text(value: object, what: str) -> str:
    """A text that can be stored, printed and used as a name.

    Args:
        value: what was handed over.
        what: what it is called in the message.

    Raises:
        BadInput: it is no str, or holds a NUL character or bytes that are not UTF-8.
    """
    if not isinstance(value, str):
        raise BadInput(f"{what} is {_shown(value)}: expected a text")
    if found := _UNSTORABLE.search(value):
        bad = "a NUL character" if found[0] == "\0" else "bytes that are not UTF-8"
        raise BadInput(f"{what} {_shown(value)} holds {bad}: write it as UTF-8 text")
    return value


def optional_text(value: object, what: str) -> str | None:
    """A text as in `text`, or None."""
    return None if value is None else text(value, what)


def identity(value: object, what: str) -> str:
    """A text as in `text` that holds a visible character.

    Raises:
        BadInput: It holds none.
    """
    given = text(value, what)
    if not any(map(_is_visible, given)):
        raise BadInput(f"{what} is empty: expected a text that is not blank")
    return given


def name(value: object, what: str) -> str:
    """A name: a text as in `identity` of at most `LONGEST_NAME` characters.

    Raises:
        BadInput: It holds no visible character, or too many.
    """
    given = text(value, what)
    if not any(map(_is_visible, given)):
        raise BadInput(f"{what} is empty: a unit needs a name that holds a visible character")
    if len(given) > LONGEST_NAME:
        raise BadInput(
            f"{what} has {len(given):,} characters, at most {LONGEST_NAME:,} are accepted: long "
            'texts belong into "text"'
        )
    return given


def _is_visible(character: str) -> bool:
    invisible = category(character) in _INVISIBLE or character in _IGNORABLE
    return not invisible and not "\ufe00" <= character <= "\ufe0f"


def texts(values: object, what: str) -> tuple[str, ...]:
    """Several texts.

    Raises:
        BadInput: it is one text where several are expected, or one of them is no text.
    """
    if isinstance(values, tuple) and not values:
        return ()
    return tuple(text(one, f"{what}[{n}]") for n, one in enumerate(several(values, what)))


def path(value: object, what: str) -> Path:
    """A path.

    Raises:
        BadInput: it is no path, is empty, or its name is not UTF-8.
    """
    if not isinstance(value, str | os.PathLike):
        raise BadInput(f"{what} is {_shown(value)}: expected a path, as a text or a Path")
    try:
        given = os.fspath(value)
    except TypeError as error:
        raise BadInput(
            f"{what} is {_shown(value)} without a text in it: expected a path, as a text or a Path"
        ) from error
    if given == "":
        raise BadInput(f"{what} is an empty path: name a file or folder")
    return Path(text(given, what))


def paths(values: object, what: str) -> tuple[Path, ...]:
    """Several paths.

    Raises:
        BadInput: it is one path where several are expected, or one of them is no path.
    """
    if isinstance(values, tuple) and not values:
        return ()
    return tuple(path(one, f"{what}[{n}]") for n, one in enumerate(several(values, what)))


def several(values: object, what: str) -> Iterable[Any]:
    """Several things, whatever they are.

    Raises:
        BadInput: it is one where several are expected.
    """
    if isinstance(values, str | bytes | os.PathLike):
        raise BadInput(
            f"{what} is {_shown(values)}, one where several are expected: "
            f"write {what}=[{_shown(values)}]"
        )
    with suppress(TypeError):  # of an array without dimensions
        if isinstance(values, Iterable) and not isinstance(values, Mapping):
            return iter(values)
    raise BadInput(f"{what} is {_shown(values)}: expected a list")


# ---- numbers and objects -----------------------------------------------------------------------


def count(value: object, what: str, *, least: int, most: int) -> int:
    """A whole number from `least` to `most`.

    Raises:
        BadInput: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadInput(
            f"{what} is {_shown(value)}: expected a whole number from {least:,} to {most:,}"
        )
    return value


def flag(value: object, what: str) -> bool:
    """True or False.

    Raises:
        BadInput: it is neither.
    """
    if not isinstance(value, bool):
        raise BadInput(f"{what} is {_shown(value)}: expected True or False")
    return value


def check_callable(value: object, what: str) -> None:
    """See that something can be called, or is None.

    Raises:
        BadInput: it is neither.
    """
    if value is not None and not callable(value):
        raise BadInput(f"{what} is {_shown(value)}: expected a function, or None")


def json_object(value: object, what: str) -> Mapping[str, Any]:
    """A mapping that JSON can hold: texts as keys, finite numbers, lists and mappings of these.

    Raises:
        BadInput: it is none.
    """
    if not isinstance(value, Mapping):
        raise BadInput(f'{what} is {_shown(value)}: expected a mapping, such as {{"year": 1920}}')
    waiting: list[tuple[object, str, int]] = [(dict(value), what, 0)]
    while waiting:
        inner, where, depth = waiting.pop()
        if depth > _DEEPEST:
            raise BadInput(f"{what} is nested more than {_DEEPEST} deep: make it flatter")
        if isinstance(inner, dict):
            for key, item in inner.items():
                name = text(key, f"a key of {where}")
                waiting.append((item, f"{where}[{name!r}]" if depth < 3 else where, depth + 1))
        elif isinstance(inner, list | tuple):
            waiting += [(item, where, depth + 1) for item in inner]
        else:
            _check_scalar(inner, where)
    return value


def json_line(line: bytes, expected: str) -> Any:  # noqa: ANN401 - whatever stands there
    """The JSON value on a line of a file.

    Args:
        line: its bytes.
        expected: what a reader is told to write, "expected …".

    Raises:
        BadInput: it is not UTF-8, or no JSON.
    """
    try:
        return STRICT_JSON.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(
            f"the line is not UTF-8: byte 0x{line[error.start]:02x} at offset {error.start} of the "
            "line does not fit; save the file as UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise BadInput(
            f"the line is no JSON ({error.msg} at character {error.pos + 1}): {expected}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the line is no JSON that can be read ({error}): simplify it") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:80]!r} stands more than once in an object")
    return made


STRICT_JSON = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_without_repetition)
"""Accepts no NaN and no repeated key. `json.loads` with an option makes a decoder at each call."""


def _check_scalar(value: object, where: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        text(value, where)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadInput(f"{where} is {value}: expected a finite number, or null")
    elif isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise BadInput(f"{where} is a number of {value.bit_length():,} bits: write it as text")
    else:
        raise BadInput(
            f"{where} is {_shown(value)}: expected what JSON can hold (text, number, true, false, "
            "null, list, mapping)"
        )


def implementation(value: object, what: str, method: str, *, optional: bool = True) -> None:
    """Check that a value is a name, or an object with a method; None where it is optional.

    Raises:
        BadInput: it is something else.
    """
    named = isinstance(value, str) or callable(getattr(value, method, None))
    if not named and not (optional and value is None):
        raise wrong(value, what, f"a name, or an object with the method {method}")


def wrong(value: object, what: str, expected: str) -> BadInput:
    """The error for a value of another kind than expected."""
    return BadInput(f"{what} is {_shown(value)}: expected {expected}")


def ready_vectors(
    given: object, *, expected: Mapping[str, tuple[int, int]]
) -> dict[str, Vectors | None]:
    """Ready-made vectors as float32 arrays; None where there are none.

    Args:
        given: mapping of a part to an array or nested lists [number of items, dim], or to None.
        expected: the parts that there are, with the shape of each: items, length of a vector.

    Raises:
        BadInput: a part is unknown, or its vectors are no numbers, of a wrong shape, not finite, or
            not of length 1.
    """
    if not isinstance(given, Mapping):
        raise BadInput(f'vectors is {_shown(given)}: expected a mapping, such as {{"texts": …}}')
    if unknown := [part for part in given if part not in expected]:
        raise BadInput(f"vectors has {unknown[0]!r}: expected {' or '.join(map(repr, expected))}")
    return {
        part: _rows(given.get(part), f"vectors[{part!r}]", shape)
        for part, shape in expected.items()
    }


def _rows(given: object, what: str, shape: tuple[int, int]) -> Vectors | None:
    import numpy as np

    if given is None:
        return None
    try:
        raw = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{what} is no array ({error}): expected float32{list(shape)}") from error
    if raw.dtype.kind not in "fiu":
        raise BadInput(f"{what} holds {raw.dtype}: expected float32{list(shape)}")
    if raw.shape != shape:
        raise BadInput(
            f"{what} has shape {raw.shape}, expected {shape}: one row for each item, as long as "
            "the encoder's vectors"
        )
    lengths = np.empty(len(raw))
    for start in range(0, len(raw), _CHECKED):
        some = raw[start : start + _CHECKED]
        some = some.astype(np.float64) if some.dtype != np.float32 else some
        lengths[start : start + _CHECKED] = np.sqrt(np.einsum("nd,nd->n", some, some))
    if not (np.abs(lengths - 1) <= _UNIT_LENGTH).all():
        row = int(np.flatnonzero(~(np.abs(lengths - 1) <= _UNIT_LENGTH))[0])
        if not np.isfinite(raw[row]).all():
            raise BadInput(f"{what}[{row}] holds NaN or infinity: expected finite numbers")
        raise BadInput(
            f"{what}[{row}] has length {lengths[row]:.4g}: expected 1; "
            "divide each row by its length"
        )
    return np.ascontiguousarray(raw, np.float32)


# ---- files -------------------------------------------------------------------------------------


def regular_file(file: Path, what: str, *, most: int = MAX_FILE_BYTES) -> Path:
    """A file that can be read whole without waiting for anybody.

    Args:
        file: its path.
        what: what was expected, such as "a picture file".
        most: bytes that it may have.

    Raises:
        NotFound: it is not there.
        BadInput: it is a folder, pipe or device, too large, or out of reach.
    """
    try:
        found = file.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{file} is not there: expected {what}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read ({error}): expected {what}") from error
    if not stat.S_ISREG(found.st_mode):
        raise BadInput(f"{file} is {_kind(found.st_mode)} and cannot be read: expected {what}")
    if found.st_size > most:
        raise BadInput(
            f"{file} has {found.st_size:,} bytes: at most {most:,} are read; make it smaller"
        )
    return file


OUTPUTS = {"the passage": (".png",), "the report": (".html", ".htm"), "the svg": (".svg",)}
"""What can be written of an answer or a graph, and how the names of such files end."""


def optional_output(value: object, what: str, *, spare: object = None) -> Path | None:
    """A file as in `output_file`, or None.

    Args:
        value: the path, or None.
        what: as there.
        spare: what must not be written over, if it is a path.

    Raises:
        BadInput: nothing can be written there, or it is what is to be spared.
    """
    if value is None:
        return None
    file = output_file(value, what)
    if isinstance(spare, Path) and spare.exists() and file.exists() and file.samefile(spare):
        raise BadInput(f"{what} would be written over the picture {spare}: name another file")
    return file


def output_file(value: object, what: str) -> Path:
    """Where a file can be written: what a link leads to, never a folder, pipe or device.

    Args:
        value: the path.
        what: what is written, one of `OUTPUTS`.

    Raises:
        BadInput: nothing can be written there, or the ending is another.
    """
    given, suffixes = path(value, what), OUTPUTS[what]
    example = f"{what.rpartition(' ')[2]}{suffixes[0]}"
    try:
        real = given.resolve()
        mode = real.stat().st_mode if real.exists() else None
        above = next(folder for folder in real.parents if folder.exists())
    except (OSError, RuntimeError) as error:
        raise BadInput(f"{what} cannot be written to {given} ({error}): name another") from error
    if mode is not None and not stat.S_ISREG(mode):
        raise BadInput(
            f"{what} cannot be written to {given}, which is {_kind(mode)}: "
            f"name a file, such as {example}"
        )
    if given.suffix.lower() not in suffixes:
        raise BadInput(f"{what} is to go to {given}: expected a name ending in {suffixes[0]}")
    if not above.is_dir():
        raise BadInput(f"{what} cannot be written to {given}: {above} is a file, not a folder")
    if not os.access(above if mode is None else real, os.W_OK):
        raise BadInput(f"{what} cannot be written to {given}: {above} is not yours to write to")
    return real if given.is_symlink() else given


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a huge number"
    if isinstance(value, os.PathLike):
        try:
            value = os.fspath(value)
        except TypeError:
            return f"a {type(value).__name__}"
    if value is None or isinstance(value, str | bytes | int | float):
        given = repr(value)
        return given if len(given) <= 80 else given[:80] + "…"
    return f"a {type(value).__name__}"
