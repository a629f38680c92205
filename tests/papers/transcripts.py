"""Transcripts of scripted models, as golden files: `pytest tests/papers --update` writes them."""

from __future__ import annotations

from pathlib import Path


def transcript(mllm):
    """All requests of a scripted model and its replies, as a text that a person can read."""
    lines = []
    for number, request in enumerate(mllm.requests, 1):
        keys = ", ".join((request.schema or {}).get("properties", ())) or "text"
        lines.append(f"## Request {number}, answered with {keys}")
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
