"""The data of the demo: a picture of each flag, unit records, and ten scenes.

`tools/demo_data` draws and writes them from facts.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_DATA = Path(__file__).parent / "data"
FLAGS = _DATA / "flags"
"""Folder of the flags, one ID.png for each country."""
SCENES = _DATA / "scenes"
"""Folder of the scenes of the tour, 01.jpg to 10.jpg."""
RECORDS = _DATA / "countries.jsonl"
"""A unit record for each country; paths of pictures are relative to the folder of the file."""


def build(folder: Path) -> Path:
    """Copy the records and the flags to a folder, which is created, ready to be ingested."""
    (folder / "flags").mkdir(parents=True, exist_ok=True)
    for path in (RECORDS, *FLAGS.iterdir()):
        shutil.copyfile(path, folder / path.relative_to(_DATA))
    return folder
