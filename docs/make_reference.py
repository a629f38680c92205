"""Write docs/cli.md from the help of every command: `python docs/make_reference.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ku_rag.cli.commands import cli

PAGE = Path(__file__).with_name("cli.md")
_HEAD = """\
# The `ku` command

Written by `make docs` from the commands' own help; a test holds it up to date.

Exit codes: 0 done; 1 failed; 2 malformed usage; 3 done, but some items were left out; 4 base and
encoder or schema do not fit; 5 locked.
"""


def reference() -> str:
    """The page as it should be."""
    above = click.Context(cli, info_name="ku", **cli.context_settings)
    return "\n".join([_HEAD, *_sections(cli, above)])


def _sections(group: click.Group, above: click.Context) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        context = click.Context(command, parent=above, info_name=name, terminal_width=100)
        yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            yield from _sections(command, context)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
