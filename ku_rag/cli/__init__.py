"""The `ku` command: parse, call, print. Every command is a `KnowledgeBase` method as well.

Data goes to stdout, everything else to stderr. Exit codes: 0 done; 1 failed; 2 malformed usage;
3 done, but some items were quarantined; 4 base and encoder or schema do not fit; 5 locked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

import ku_rag
from ku_rag import arguments
from ku_rag.cli import graph, graph_search, ingest, inspect, maintenance, models, query, transfer
from ku_rag.cli.output import say
from ku_rag.errors import KuError

_COMMANDS = (
    ingest.init,
    ingest.ingest,
    ingest.sync,
    ingest.add,
    ingest.update,
    ingest.delete,
    query.query,
    query.search,
    inspect.list_units,
    inspect.show,
    inspect.stats,
    inspect.doctor,
    inspect.demo,
    models.models,
    maintenance.verify,
    maintenance.compact,
    maintenance.tune,
    maintenance.reindex,
    transfer.export,
    transfer.import_,
    transfer.snapshot,
    graph.graph,
)

_INTERRUPTED = 130


class _NobodyReads(Exception):
    """Whoever read the output has gone."""


class _Commands(click.Group):
    """Commands that end quietly when nobody reads on: click itself exits with 1 then."""

    def make_context(self, *how: Any, **more: Any) -> click.Context:  # noqa: ANN401 - passed on
        with _until_nobody_reads():
            return super().make_context(*how, **more)

    def invoke(self, ctx: click.Context) -> object:
        with _until_nobody_reads():
            return super().invoke(ctx)


@contextmanager
def _until_nobody_reads() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _NobodyReads from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    # A backspace alone in its line keeps click from filling the lines below it.
    help="Questions about your own pictures, answered from your own knowledge.\n\n"
    "\b\nBegin with:  ku demo\n"
    "or:          ku ingest FOLDER\n"
    '             ku query picture.jpg "Which country does it come from?"',
)
@click.version_option(ku_rag.__version__, prog_name="ku")
def cli() -> None:
    """Run a command; see `ku --help`."""


for _command in _COMMANDS:
    cli.add_command(_command)
for _command in (graph_search.search, graph_search.caption):
    graph.graph.add_command(_command)


def main() -> None:
    """Run `ku`, turning what goes wrong into one sentence and an exit code."""
    try:
        code = _run()
        sys.stdout.flush()
    except (BrokenPipeError, _NobodyReads):
        # Whoever read our output has enough; a second write at exit would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run() -> int:
    try:
        for given in sys.argv[1:]:
            arguments.text(given, "the argument")
        arguments.text(os.environ.get("KU_KB", ""), "KU_KB")
        # With standalone_mode off, what a command exits with is returned.
        return int(cli(prog_name="ku", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("stopped: what was committed is kept, and the same command goes on from there")
        return _INTERRUPTED
    except KuError as error:
        say(f"error: {error}")
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        say(f"error: {error.strerror}: {error.filename}" if error.filename else f"error: {error}")
        return 1
