"""Write docs/cli.md from the help of every command: `python docs/make_reference.py`."""

from __future__ import annotations

from pathlib import Path

import click

from ku_rag.cli import cli

PAGE = Path(__file__).with_name("cli.md")
_HEAD = """\
# The `ku` command

Written by `make docs` from the commands' own help; a test holds it up to date.

Exit codes: 0 done; 1 failed; 2 malformed usage; 3 done, but some items were left out; 4 base and
encoder or schema do not fit; 5 locked.
"""


def reference() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    above = click.Context(cli, info_name="ku", **cli.context_settings)
    for name, command in sorted(cli.commands.items()):
        context = click.Context(command, parent=above, info_name=name, terminal_width=100)
        parts.append(f"## ku {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
