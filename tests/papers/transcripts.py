"""Transcripts of scripted models, as golden files: `pytest tests/papers --update` writes them."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path


def keys_of(request):
    """The properties of the reply to a request."""
    return ", ".join((request.schema or {}).get("properties", ())) or "text"


def requests_of(mllm):
    """The requests of a scripted model; concurrent requests of one prompt are sorted by text."""
    for _, together in groupby(mllm.requests, lambda r: r.messages[-1].text[:30]):
        yield from sorted(together, key=lambda request: request.messages[-1].text)


def transcript(mllm):
    """All requests of a scripted model, as readable text."""
    lines = []
    for number, request in enumerate(requests_of(mllm), 1):
        lines.append(f"## Request {number}, answered with {keys_of(request)}")
        for message in request.messages:
            count = len(message.pictures)
            lines += [f"[{message.role}{f', pictures: {count}' if count else ''}]", message.text]
    return "\n".join(lines) + "\n"


def check_transcript(mllm, file, request):
    """Compare a transcript with its golden file; with --update, write it."""
    path = Path(file)
    if request.config.getoption("--update"):
        path.write_text(transcript(mllm), encoding="utf-8")
    assert transcript(mllm) == path.read_text(encoding="utf-8")
