"""Write the generated pages, cli.md, decisions/README.md and site/llms.txt: `make docs`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from ku_rag.cli.commands import cli

PAGE = Path(__file__).with_name("cli.md")
DECISIONS = Path(__file__).with_name("decisions")
INDEX = Path(__file__).with_name("index.md")
LLMS = Path(__file__).with_name("site") / "llms.txt"
_HEAD = """\
# The `ku` command

Written by `make docs` from the commands' own help; a test holds it up to date.

Exit codes: 0 done; 1 failed; 2 usage error; 3 done, but some items were left out; 4 base and
encoder or schema do not fit; 5 locked.

Completion of commands and options by the Tab key: add the line of your shell to its startup file.

```sh
eval "$(_KU_COMPLETE=bash_source ku)"         # ~/.bashrc
eval "$(_KU_COMPLETE=zsh_source ku)"          # ~/.zshrc
_KU_COMPLETE=fish_source ku | source          # ~/.config/fish/config.fish
```

`make docs` also writes this page as a manual page: `man build/man/ku.1`.
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


def decisions() -> str:
    """The index of the pages in docs/decisions, from their first lines."""
    lines = ["# Decisions", "", "Why things are as they are. Written by `make docs`.", ""]
    for page in sorted(DECISIONS.glob("[0-9]*.md")):
        heading = page.read_text(encoding="utf-8").partition("\n")[0]
        title = heading.lstrip("# 0123456789.").strip()
        lines.append(f"- [{page.name[:4]}]({page.name}) {title}")
    return "\n".join(lines) + "\n"


def llms() -> str:
    """Return docs/index.md in the form of https://llmstxt.org, with addresses of the site."""
    index = re.sub(
        r"```{toctree}.*?```\n\n?", "", INDEX.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    pages = re.sub(r"\]\((.+)\.\w+\)", r"](docs/\1.html)", index).replace("docs/../", "")
    return pages.replace("\n\n", "\n\n> ", 1)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    (DECISIONS / "README.md").write_text(decisions(), encoding="utf-8")
    LLMS.write_text(llms(), encoding="utf-8")
