"""Finding an implementation of a seam by name: those of the project, then installed ones."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ku_rag.errors import BadInput, NotFound


def load(seam: str, own: Mapping[str, str], spec: str) -> Any:  # noqa: ANN401 - the caller knows
    """Make the implementation that `spec` names: "name", or "name:argument".

    Args:
        seam: "encoder" or "segmenter"; installed packages offer theirs under the entry points
            `ku_rag.<seam>s`.
        own: the project's own, name → "module:class".
        spec: the name, with what the class is called with after a colon.

    Raises:
        NotFound: nobody offers that name.
        BadInput: it cannot be called so.
    """
    name, _, argument = spec.partition(":")
    if name in own:
        module, _, attribute = own[name].partition(":")
        made = getattr(import_module(module), attribute)
    else:
        from importlib.metadata import entry_points

        offered = {point.name: point for point in entry_points(group=f"ku_rag.{seam}s")}
        if name not in offered:
            known = ", ".join(sorted({*own, *offered}))
            raise NotFound(
                f"there is no {seam} {name!r}; there are: {known}. "
                "Install the package that brings it, or choose one of these"
            )
        made = offered[name].load()
    try:
        return made(argument) if argument else made()
    except TypeError as error:
        raise BadInput(
            f'{seam} {spec!r} cannot be made ({error}): write "{name}:argument" where it takes an '
            f'argument, "{name}" where it takes none'
        ) from error
