"""Load implementations of an interface by name: the project's own, then installed plug-ins."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ku_rag.errors import BadInput, MissingExtra, NotFound


def extra(name: str, module: str) -> Any:  # noqa: ANN401 - a module, of any content
    """Import a module of an optional dependency, which an extra of ku-rag brings.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and not module.startswith(error.name):
            raise
        raise MissingExtra(
            f'{module} is not installed, and this needs it: pip install "ku-rag[{name}]"'
        ) from error


def load(seam: str, own: Mapping[str, str], spec: str, **options: object) -> Any:  # noqa: ANN401 - the caller knows what it asked for
    """Make the implementation that `spec` names: "name", or "name:argument".

    Args:
        seam: "encoder", "segmenter", "recogniser", "reranker" or "index"; installed packages offer
            theirs under the entry points `ku_rag.<seam>s`.
        own: the project's own, name → "module:class".
        spec: the name, with what the class is called with after a colon.
        **options: given to those that take an argument of that name, such as `device`.

    Raises:
        NotFound: there is no implementation of that name.
        BadInput: it cannot be created with this argument.
    """
    name, _, argument = spec.partition(":")
    factory = find(seam, own, name)
    takes = inspect.signature(factory).parameters
    used = {key: value for key, value in options.items() if key in takes}
    try:
        return factory(argument, **used) if argument else factory(**used)
    except TypeError as error:
        raise BadInput(
            f'{seam} {spec!r} cannot be made ({error}): write "{name}:argument" where it takes an '
            f'argument, "{name}" where it takes none'
        ) from error


def find(seam: str, own: Mapping[str, str], name: str) -> Any:  # noqa: ANN401 - a class
    """Return the implementation of a name, before it is made; see `load`."""
    entries = own if name in own else offered(seam, own)
    if name not in entries:
        raise NotFound(
            f"there is no {seam} {name!r}; there are: {', '.join(sorted(entries))}. "
            "Install the package that brings it, or choose one of these"
        )
    module, _, attribute = entries[name].partition(":")
    return getattr(import_module(module), attribute)


def offered(seam: str, own: Mapping[str, str]) -> dict[str, str]:
    """What can be loaded: name → "module:class"; the project's own come first."""
    from importlib.metadata import entry_points

    installed = {point.name: point.value for point in entry_points(group=f"ku_rag.{seam}s")}
    return {**installed, **own}


def absolute(spec: str) -> str:
    """A spec whose argument, if it is a path that exists, is absolute: it holds in any folder."""
    name, _, argument = spec.partition(":")
    if argument and Path(argument).exists():
        return f"{name}:{Path(argument).resolve()}"
    return spec
