"""Import ultralytics without code in checkpoints, installations, downloads and telemetry."""

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

_ENVIRONMENT = {
    "ULTRALYTICS_SAFE_LOAD": "true",
    "YOLO_AUTOINSTALL": "false",
    "YOLO_OFFLINE": "true",
    "YOLO_VERBOSE": "false",
}
_lock = threading.Lock()


def import_ultralytics() -> Any:  # noqa: ANN401 - a module without types
    """Import the module ultralytics with safe loading, offline and silent.

    The environment variables that it reads are set first. Its settings are stored in a temporary
    folder, and its changes to the process are undone: OMP_NUM_THREADS, the print options of arrays,
    `torch.save`, and Pillow's `open`, which would try to install packages.
    """
    with _lock:
        if "ultralytics" not in sys.modules:
            folder = tempfile.mkdtemp(prefix="ku-rag-ultralytics-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            settings_file = Path(folder) / "Ultralytics" / "settings.json"
            settings_file.parent.mkdir()
            settings_file.write_text('{"sync": false}', "utf-8")
            os.environ.update(_ENVIRONMENT, YOLO_CONFIG_DIR=folder)
        threads = os.environ.get("OMP_NUM_THREADS")
        import numpy as np
        from PIL import Image

        # torch reads OMP_NUM_THREADS once, during its import; ultralytics sets it to 1.
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
