"""The commands that serve knowledge bases over HTTP and MCP."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ku_rag import arguments
from ku_rag.cli.options import (
    PATH,
    common,
    general,
    mllm_option,
    model_options,
    number_option,
    open_base,
)
from ku_rag.cli.output import remark
from ku_rag.errors import KuError
from ku_rag.plugins import extra

if TYPE_CHECKING:
    from ku_rag.knowledge_base import KnowledgeBase

_KEEP_ALIVE_S = 75
"""Longer than clients and reverse proxies keep connections, so that they close them first."""
_SHUTDOWN_S = 1
"""Seconds that requests may take to end; with what `create_app` waits, less than 3 in all."""
_NAMED = re.compile(r"([\w-]+)=(.+)", re.ASCII)
_WILDCARDS = frozenset({"0.0.0.0", "::"})


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@number_option("--port", "Port to listen on.", 8321, 1, 65_535)
@click.option(
    "--kb",
    "bases",
    multiple=True,
    metavar="[NAME=]DIR",
    help="A knowledge base; repeat it with names for several.  [env var: KU_KB; default: kb]",
)
@click.option(
    "--bases",
    "folder",
    type=PATH,
    help="Serve the bases in this folder. The running server can create bases and keys.",
)
@click.option("--read-only", is_flag=True, help="Refuse all changes.")
@click.option("--api-key-file", type=PATH, help="File with one key per line; see also KU_API_KEYS.")
@click.option(
    "--read-only-key-file", type=PATH, help="Keys that may only read; see also KU_READ_ONLY_KEYS."
)
@click.option("--root-path", default="", help="Path prefix that a reverse proxy strips.")
@click.option(
    "--allowed-host",
    "hosts",
    multiple=True,
    help="Additional host name of this server; may be repeated.",
)
@number_option("--rate", "Maximum requests a minute, by key or address.", 0, 0, 1_000_000)
@number_option("--workers", "Processes that read; above 1, another one writes.", 1, 1, 64)
@number_option("--threads", "Number of worker threads of each process.", 8, 1, 1000)
@number_option("--answers", "Answers of the page to store for each base.", 1000, 0, 1_000_000)
@click.option("--mcp-add", is_flag=True, help="Let clients of /mcp add units.")
@mllm_option("answers; '' for none")
@general
def serve(
    host: str,
    port: int,
    bases: tuple[str, ...],
    folder: Path | None,
    api_key_file: Path | None,
    read_only_key_file: Path | None,
    hosts: tuple[str, ...],
    **options: Any,  # noqa: ANN401 - fields of the settings
) -> None:
    """Serve pages, a REST API and a chat endpoint over HTTP; see docs/serving.md.

    Without --host only this machine can connect; other addresses require a key. KU_API_KEYS and
    KU_READ_ONLY_KEYS hold keys separated by commas.
    """
    keys = _keys(api_key_file, "KU_API_KEYS")
    reading = _keys(read_only_key_file, "KU_READ_ONLY_KEYS")
    if not _is_loopback(host) and not (keys or reading):
        raise click.UsageError(
            f"{host} can be reached from other machines: set KU_API_KEYS, or give --api-key-file"
        )
    extra("serve", "uvicorn")
    if folder is not None and bases:
        raise click.UsageError("--bases and --kb exclude each other")
    if options["workers"] > 1 and (folder is not None or os.name == "nt"):
        where = "on Windows" if folder is None else "with --bases, whose bases change: use --kb"
        raise click.UsageError(f"--workers above 1 does not work {where}")
    names = {"localhost", "127.0.0.1", "::1", host.lower(), *map(str.lower, hosts)} - _WILDCARDS
    options |= {"keys": keys, "read_only_keys": reading, "hosts": names}
    options["root_path"] = options["root_path"].rstrip("/")
    folders = _named(bases) if folder is None else _in_folder(folder)
    with _open(folders, read_only=options["read_only"], create=folder is not None) as opened:
        address = f"[{host}]" if ":" in host else host
        remark(f"serving {', '.join(opened)} at http://{address}:{port}{options['root_path']}/")
        try:
            _run(opened, host, port, folder, **options)
        except SystemExit:  # by uvicorn, which has logged the reason
            raise KuError(f"the server did not start at {address}:{port}") from None


def _run(
    bases: Mapping[str, KnowledgeBase],
    host: str,
    port: int,
    folder: Path | None,
    *,
    workers: int,
    **options: Any,  # noqa: ANN401 - fields of the settings
) -> None:
    """Serve open bases until a signal ends the process."""
    models = model_options()
    with TemporaryDirectory(prefix="ku-") if workers > 1 else nullcontext() as shared:
        if shared:  # before prometheus_client is imported
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = shared
        import uvicorn

        from ku_rag.knowledge_base import KnowledgeBase
        from ku_rag.serve.access import ServerSettings
        from ku_rag.serve.app import create_app

        create = partial(KnowledgeBase.open, create=True, **models)
        rates = f"{shared}/rates" if shared else ":memory:"
        settings = ServerSettings(**options)
        app = create_app(bases, settings, folder=folder, open_base=create, rates=rates)
        server: dict[str, Any] = {
            "access_log": False,  # it would hold questions
            "log_level": "warning",
            "server_header": False,
            "root_path": settings.root_path,
            "timeout_keep_alive": _KEEP_ALIVE_S,
            "timeout_graceful_shutdown": _SHUTDOWN_S,
        }
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # like SIGTERM: wait for no thread
        if not shared:
            uvicorn.run(app, host=host, port=port, **server)
            return
        extra("serve", "httpx")
        from ku_rag.serve.workers import Writer

        Writer(app, (host, port), workers, Path(shared), models, server).run()


@click.command()
@click.option("--allow-add", is_flag=True, help="Let the client add units.")
@click.option(
    "--pictures",
    "folders",
    multiple=True,
    type=PATH,
    metavar="DIR",
    help="Let the client open pictures below this folder by path; may be repeated.",
)
@mllm_option("answers; '' for none")
@common
def mcp(allow_add: bool, folders: tuple[Path, ...]) -> None:
    """Serve the knowledge base to an MCP client over stdin and stdout; see docs/mcp.md."""
    extra("serve", "mcp")
    from ku_rag.serve.mcp import create_server
    from ku_rag.serve.served_base import ServedBase, WorkerPool

    with open_base(read_only=not allow_add) as base:
        served = ServedBase("default", base, WorkerPool(threads=8, waiting=64))
        create_server(served, may_add=allow_add, folders=folders).run()


def _keys(file: Path | None, variable: str) -> tuple[str, ...]:
    keys = os.environ.get(variable, "").split(",")
    if file is not None:
        keys += arguments.regular_file(file, "a file of keys").read_text("utf-8").splitlines()
    return tuple(filter(None, map(str.strip, keys)))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_folder(folder: Path) -> list[tuple[str, Path]]:
    """Return the bases in the folder of --bases by name; the first one may be new."""
    files = sorted(folder.glob("*/ku.sqlite"))
    bases = [(file.parent.name, file.parent) for file in files]
    # The name of a folder that is being deleted begins with a dot.
    return [base for base in bases if base[0][0] != "."] or [("kb", folder / "kb")]


def _named(bases: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Return the bases of --kb by name; the name is "default" if none is given."""
    for kb in bases or [os.environ.get("KU_KB", "kb")]:
        name, path = match.groups() if (match := _NAMED.fullmatch(kb)) else ("default", kb)
        yield name, Path(path)


@contextmanager
def _open(
    bases: Iterable[tuple[str, Path]], *, read_only: bool, create: bool
) -> Iterator[dict[str, KnowledgeBase]]:
    with ExitStack() as stack:
        opened: dict[str, KnowledgeBase] = {}
        for name, path in bases:
            if name in opened:
                raise click.UsageError(f"two knowledge bases are called {name}: --kb NAME=DIR")
            base = open_base(path, read_only=read_only, create=create)
            opened[name] = stack.enter_context(base)
        yield opened
