"""Read a segmentation checkpoint of ultralytics without running code in it."""

from __future__ import annotations

import re
import threading
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ku_rag.errors import BadInput, reason
from ku_rag.plugins import extra
from ku_rag.regions.ultralytics_guard import import_ultralytics

_EXPECTED = "an ultralytics segmentation checkpoint, such as yolov8n-seg.pt"
_LAYERS = re.compile(r"ultralytics\.nn\.(modules\.\w+|tasks)\.\w+|torch\.nn\.modules\.\w+\.\w+")
_OTHER = re.compile(
    r"ultralytics\.[\w.]+|torchvision\.transforms\.[\w.]+|(builtins|__builtin__)\.getattr"
    r"|numpy\.(_?core\.multiarray\.(scalar|_reconstruct)|dtype|ndarray)"
    r"|pathlib(\._local)?\.(Pure)?(Posix|Windows)?Path|types\.SimpleNamespace"
)
"""Names in checkpoints of ultralytics that a network does not need for inference."""
_PROBE_SIDE = 64
_DEFAULT_SIDE, _MAX_SIDE = 640, 8192
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A `SegmentationModel` of ultralytics, and the longer side of its training pictures, px."""

    network: Any
    names: tuple[str, ...]
    side: int


class _Ignored:
    """Stands for an object that is not created; accepts any arguments and state."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass


def read(path: Path) -> Checkpoint:
    """Read a checkpoint by torch's restricted unpickler.

    It creates layers of networks without calling their constructors, and refuses a file that names
    classes or functions of other kinds. A forward pass on a small picture tests the network.
    """
    import_ultralytics()
    torch = extra("yolo", "torch")
    segmentation = extra("yolo", "ultralytics.nn.tasks").SegmentationModel
    try:
        content = _unpickle(path, torch)
        network = (content.get("ema") or content.get("model")) if type(content) is dict else None
        if not isinstance(network, segmentation):
            kind = type(network or content).__name__
            raise BadInput(f"{path} holds a {kind}, which finds no masks: expected {_EXPECTED}")
        for module in network.modules():
            module.__class__ = type(module).__base__
        network = network.float().eval().fuse(verbose=False).requires_grad_(requires_grad=False)
        with torch.inference_mode():
            (_, _), _ = network(torch.zeros(1, 3, _PROBE_SIDE, _PROBE_SIDE))
        side = content.get("train_args", {}).get("imgsz", _DEFAULT_SIDE)
        side = min(int(max(side) if isinstance(side, list | tuple) else side), _MAX_SIDE)
        classes = tuple(str(network.names[number]) for number in range(len(network.names)))
    except BadInput:
        raise
    except Exception as error:  # torch, and the layers of a damaged network, raise many kinds
        raise BadInput(
            f"{path} cannot be read as a checkpoint ({reason(error)}): expected {_EXPECTED}; "
            "copy the file again"
        ) from error
    return Checkpoint(network, classes, side)


def _unpickle(path: Path, torch: Any) -> Any:  # noqa: ANN401 - torch has no types here
    serialization = torch.serialization
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # What other code of the process marked as safe would be called with arguments of the file.
        others = serialization.get_safe_globals()
        serialization.clear_safe_globals()
        try:
            names = serialization.get_unsafe_globals_in_checkpoint(path)
            classes = [(_placeholder(name), name) for name in names]
            if foreign := sorted(name for kind, name in classes if kind is None):
                raise BadInput(
                    f"{path} asks for {foreign[0]}, which no checkpoint of ultralytics needs and "
                    f"which could run code: nothing of it was run; expected {_EXPECTED}"
                )
            serialization.add_safe_globals(classes)
            return torch.load(path, map_location="cpu", weights_only=True)
        finally:
            serialization.clear_safe_globals()
            serialization.add_safe_globals(others)


def _placeholder(name: str) -> type | None:
    """Return an uncallable child of the layer for a name in a checkpoint; None if refused."""
    module, _, attribute = name.rpartition(".")
    if _LAYERS.fullmatch(name):
        layer = getattr(import_module(module), attribute, None)
        if isinstance(layer, type) and issubclass(layer, extra("yolo", "torch").nn.Module):
            return type(attribute, (layer,), {"__init__": None})
    return type(attribute, (_Ignored,), {}) if _OTHER.fullmatch(name) else None
