"""Importing ultralytics so that it unpickles, installs, downloads and sends nothing (DESIGN 8)."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from ku_rag.plugins import extra

_GUARDS = {
    "ULTRALYTICS_SAFE_LOAD": "true",
    "YOLO_AUTOINSTALL": "false",
    "YOLO_OFFLINE": "true",
    "YOLO_VERBOSE": "false",
}
_lock = threading.Lock()


def guarded() -> Any:  # noqa: ANN401 - a module without types
    """The module ultralytics, imported under guard: safe loading, offline, silent, nothing in HOME.

    The guards are environment variables that ultralytics reads while it is imported, so they are
    set first; those that the user set otherwise are overruled. It keeps its settings in a folder of
    this process alone, which goes when the process ends. What it changes for the whole process by
    being imported is put back: OMP_NUM_THREADS, the printing of arrays, torch.save, and Pillow's
    own `open`, which would try to install a package whenever a file is no picture.

    Raises:
        MissingExtra: ultralytics is not installed.
    """
    with _lock:
        if "ultralytics" not in sys.modules:
            _prepare()
        threads = os.environ.get("OMP_NUM_THREADS")
        import numpy as np
        from PIL import Image

        # torch reads the number of threads once, when it is loaded: before ultralytics makes it 1.
        torch = extra("yolo", "torch")
        printing = np.get_printoptions()
        opening, saving = Image.open, torch.save
        try:
            module = extra("yolo", "ultralytics")
        finally:
            np.set_printoptions(**printing)
            Image.open, torch.save = opening, saving
            if threads is None:
                os.environ.pop("OMP_NUM_THREADS", None)
        torch.set_printoptions(profile="default")
        settings = module.settings
        if settings["sync"]:
            settings.update(sync=False)
        return module


def _prepare() -> None:
    folder = tempfile.mkdtemp(prefix="ku-rag-ultralytics-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = Path(folder) / "Ultralytics" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"sync": false}', "utf-8")
    os.environ.update(_GUARDS, YOLO_CONFIG_DIR=folder)
