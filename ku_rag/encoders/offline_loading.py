"""Loading models of other libraries without a network, progress bars or chatter."""

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
def offline_and_quiet(needs: str) -> Iterator[None]:
    """Keep what is called inside from the network and from the terminal.

    The switches of the Hugging Face libraries, of logging and of warnings hold for the whole
    process, so one thread loads at a time, and they are put back. A handler that does nothing keeps
    `logging.info` and its like from setting up the root logger.

    Args:
        needs: the extra that brings the libraries.
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
        talk = sys.modules.get("transformers.utils.logging")
        if talk and talk.is_progress_bar_enabled():
            talk.disable_progress_bar()
            after.callback(talk.enable_progress_bar)
        yield
