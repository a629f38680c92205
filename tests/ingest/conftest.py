from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ku_rag import KnowledgeBase
from ku_rag.types import Quarantined, Table


@dataclass(frozen=True)
class Contents:
    """The content stored by an ingest, by unit name, and the items left out."""

    units: dict[str, Any]
    tables: dict[str, list[Table]]
    left_out: list[Quarantined]


@pytest.fixture
def contents(empty_base: Path) -> Callable[..., Contents]:
    """Ingest a path into a new base with linked pictures, and return its contents."""

    def ingest(path: Path, **settings: Any) -> Contents:
        with TemporaryDirectory(dir=empty_base.parent) as folder:
            base = shutil.copytree(empty_base, Path(folder) / "kb")
            with KnowledgeBase.open(base, images="link", **settings) as kb:
                left_out = kb.ingest(path).quarantined
                units = {unit.name: kb.show(unit.id) for unit in kb.list()}
                tables = {name: kb.tables(unit.id) for name, unit in units.items()}
        return Contents(units, tables, left_out)

    return ingest
