"""Load models of other libraries without network access, progress bars or log messages."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ku_rag.plugins import extra

_switches = threading.Lock()


@contextmanager
def offline_and_silent(needs: str) -> Iterator[None]:
    """Disable network access, logging, warnings and progress bars inside the block.

    The switches of the Hugging Face libraries, of logging and of warnings belong to the process, so
    one thread loads at a time, and they are restored. A null handler prevents `logging.info` from
    configuring the root logger. `needs` is the extra of the libraries.
    """
    constants = extra(needs, "huggingface_hub.constants")
    root = logging.getLogger()
    with _switches, ExitStack() as after, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        after.callback(setattr, constants, "HF_HUB_OFFLINE", constants.HF_HUB_OFFLINE)
        constants.HF_HUB_OFFLINE = True
        after.callback(logging.disable, root.manager.disable)
        logging.disable(logging.WARNING)
        handler = logging.NullHandler()
        root.addHandler(handler)
        after.callback(root.removeHandler, handler)
        transformers_logging = sys.modules.get("transformers.utils.logging")
        if transformers_logging and transformers_logging.is_progress_bar_enabled():
            transformers_logging.disable_progress_bar()
            after.callback(transformers_logging.enable_progress_bar)
        yield
