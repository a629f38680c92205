"""Tables of the papers: which runs make them, and the published figures.

`published.json` has a table a name: its dataset, the names of the authors' files, and a row of the
table for each run: name, options of `ku eval`, and the published figure of the measure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ku_rag.errors import BadInput, NotFound
from ku_rag.types import Serializable


@dataclass(frozen=True, slots=True)
class PublishedRow(Serializable):
    """A row of a published table beside the run in the folder of its name."""

    name: str
    published: float
    measured: float
    interval: tuple[float, float] | None
    questions: int


@dataclass(frozen=True, slots=True)
class PublishedTable(Serializable):
    """A table of a paper; see `published.json`."""

    name: str
    table: str
    dataset: str
    path: str
    images: str
    measure: str
    rows: Sequence[tuple[str, str, float]]

    def arguments(self, data: Path) -> list[str]:
        """Return the arguments of `ku eval` for the dataset in the authors' folder."""
        names = {"--path": self.path, "--images": self.images}
        files = {option: data / name for option, name in names.items() if name}
        if absent := [str(file) for file in files.values() if not file.exists()]:
            raise NotFound(
                f"{', '.join(absent)}: not there; {self.name} needs the authors' files of "
                f"{self.dataset}, see docs/evaluation.md"
            )
        return [self.dataset, *(str(word) for pair in files.items() for word in pair)]

    def compare(self, out: Path) -> list[PublishedRow]:
        """Return the rows beside the runs in the folders of `out`."""
        rows = []
        for name, _, published in self.rows:
            summary = json.loads((out / name / "summary.json").read_text("utf-8"))
            figure = summary["figures"].get(self.measure)
            if figure:
                interval = figure["interval"] and tuple(figure["interval"])
                rows.append(
                    PublishedRow(name, published, figure["value"], interval, figure["questions"])
                )
        return rows


def load_tables() -> dict[str, PublishedTable]:
    """Return the tables by name."""
    text = files("ku_rag.evaluation").joinpath("published.json").read_text("utf-8")
    return {entry["name"]: PublishedTable(**entry) for entry in json.loads(text)}


def find_table(name: str) -> PublishedTable:
    """Return a table by name; `BadInput` if there is none."""
    tables = load_tables()
    if name not in tables:
        raise BadInput(f"there is no table {name!r}: expected one of {', '.join(tables)}")
    return tables[name]
