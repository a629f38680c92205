"""All commands, and how their errors are reported."""

from __future__ import annotations

import io
import os
import sys

import click

import ku_rag
from ku_rag import arguments
from ku_rag.cli import encode, evaluation, graph, ingest, inspect, maintenance, models, query, serve
from ku_rag.cli.output import say
from ku_rag.errors import KuError

_COMMANDS = (
    ingest.init,
    ingest.ingest,
    ingest.extract,
    ingest.sync,
    ingest.add,
    ingest.update,
    ingest.delete,
    encode.encode,
    query.query,
    query.search,
    query.plan_group,
    evaluation.compare_methods,
    evaluation.evaluate,
    evaluation.export_feedback,
    inspect.list_units,
    inspect.show,
    inspect.stats,
    inspect.doctor,
    inspect.demo,
    models.models,
    maintenance.verify,
    maintenance.compact,
    maintenance.upgrade,
    maintenance.tune,
    maintenance.index_group,
    maintenance.reindex,
    maintenance.export,
    maintenance.import_,
    maintenance.snapshot,
    graph.graph,
    serve.serve,
    serve.mcp,
)


@click.group(
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    # A backspace alone on its line keeps click from filling the lines below it.
    help="Answer questions about pictures from a private knowledge base.\n\n"
    "\b\nBegin with:  ku demo\n"
    "or:          ku ingest FOLDER\n"
    '             ku query picture.jpg "Which country does it come from?"',
)
@click.version_option(ku_rag.__version__, prog_name="ku")
def cli() -> None:
    """Run a command; see `ku --help`."""


def run() -> int:
    """Run the command of `sys.argv`, print an error as one sentence, and return the exit code."""
    try:
        for argument in sys.argv[1:]:
            arguments.text(argument, "the argument")
        arguments.text(os.environ.get("KU_KB", ""), "KU_KB")
        # Without standalone mode click returns what a command exits with.
        return int(cli(prog_name="ku", standalone_mode=False) or 0)
    except click.ClickException as error:
        buffer = io.StringIO()
        error.show(buffer)
        say(buffer.getvalue().rstrip("\n"))
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except KuError as error:
        say(f"error: {error}")
        return error.exit_code
    except MemoryError:
        say("error: not enough memory: lower --max-memory or --batch-size, or scale pictures down")
        return 1
    except SystemExit:  # by click: a completion is printed, or nobody reads the output
        raise BrokenPipeError from None
    except BrokenPipeError:
        raise
    except OSError as error:
        say(f"error: {error.strerror}: {error.filename}" if error.filename else f"error: {error}")
        return 1
