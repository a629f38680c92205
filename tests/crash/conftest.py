from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.trials import Player, Story

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 512 << 20


@pytest.fixture(scope="session")
def story(tmp_path_factory) -> Iterator[Story]:
    """The course of the script, on a memory file system if there is one.

    A kill does not affect the cache of the system, and power cuts are simulated: no test needs a
    real disk, which would be slower.
    """
    with Player() as player:
        if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ROOM_BYTES:
            yield Story.tell(player, tmp_path_factory.mktemp("crash"))
            return
        with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="ku-crash-") as folder:
            yield Story.tell(player, Path(folder))
