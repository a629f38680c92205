"""Read an ultralytics checkpoint without running code in it.

Such a file is a pickle of network objects. torch's restricted unpickler reads it, and a placeholder
that only stores its state replaces every class. The result is tensors, numbers and texts. The
network is built from the description of its layers, which must be known ones, and the tensors.
"""

from __future__ import annotations

import pickle
import re
import threading
import warnings
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ku_rag.errors import BadInput
from ku_rag.plugins import extra
from ku_rag.regions.ultralytics_guard import guarded
from ku_rag.weights.tensors import first_line

if TYPE_CHECKING:
    from torch import Tensor

_EXPECTED = "an ultralytics segmentation checkpoint, such as yolov8n-seg.pt"
_HARMLESS = re.compile(
    r"ultralytics\.[\w.]+|torch\.nn\.modules\.[\w.]+|builtins\.getattr|__builtin__\.getattr"
    r"|numpy\.(_?core\.multiarray\.(scalar|_reconstruct)|dtype|ndarray)"
    r"|pathlib(\._local)?\.(Pure)?(Posix|Windows)?Path|types\.SimpleNamespace"
    r"|torchvision\.transforms\.[\w.]+"
)
"""Globals in checkpoints of ultralytics. None is imported: each becomes a placeholder."""
_LAYERS = frozenset(
    [
        *("A2C2f", "ADown", "AConv", "C2", "C2f", "C2fCIB", "C2PSA", "C2fPSA", "C3", "C3k2"),
        *("CBFuse", "CBLinear", "Concat", "Conv", "DWConv", "ELAN1", "PSA", "RepNCSPELAN4"),
        *("SCDown", "SPPELAN", "SPPF", "Silence", "Segment", "Segment26"),
        *("nn.ConvTranspose2d", "nn.Identity", "nn.Upsample"),
    ]
)
"""Layers of ultralytics' segmentation networks. None of them opens a file or an address."""
_HEADS = {"Segment", "Segment26"}
_DESCRIBING = (
    *("nc", "ch", "channels", "backbone", "head", "activation", "end2end", "reg_max", "inplace"),
    *("scale", "scales", "depth_multiple", "width_multiple"),
)
"""Keys of a network's description; others are ignored."""
_WORDS = {"nc", "nearest", "bilinear", "None", "True", "False"}
_LARGEST = 8192
"""The most channels or repeats of a layer."""
_MOST_MODULES, _DEEPEST = 50_000, 40
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint.

    Args:
        path: the file.
        layers: description of the network.
        tensors: name → tensor.
        names: of the classes.
        side: the longer side of pictures in training, in pixels.
    """

    path: Path
    layers: dict[str, Any]
    tensors: dict[str, Tensor]
    names: tuple[str, ...]
    side: int

    def build(self) -> Any:  # noqa: ANN401 - a network of ultralytics, which has no types
        """Return the network for inference, on the CPU, in float32.

        Raises:
            BadInput: the tensors do not fit the description.
            MissingExtra: ultralytics is not installed.
        """
        guarded()
        torch = extra("yolo", "torch")
        tasks = extra("yolo", "ultralytics.nn.tasks")
        try:
            # Building uses the random generator and changes class attributes.
            with _lock, torch.random.fork_rng(devices=[]):
                network = tasks.SegmentationModel(
                    deepcopy(self.layers), ch=3, nc=len(self.names), verbose=False
                )
            network.load_state_dict(self.tensors)
        except (RuntimeError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise BadInput(
                f"{self.path}: the weights do not fit the network that it describes ({reason}); "
                f"expected {_EXPECTED}, as it was saved"
            ) from error
        return network.float().eval().fuse(verbose=False).requires_grad_(requires_grad=False)


def read(path: Path) -> Checkpoint:
    """Read a checkpoint; no code in it is run, and nothing that it names is imported.

    Args:
        path: an existing file.

    Raises:
        BadInput: it is damaged, contains code, or is not such a checkpoint.
        MissingExtra: torch is not installed.
    """
    loaded = _unpickle(path)
    network = (loaded.get("ema") or loaded.get("model")) if isinstance(loaded, dict) else None
    if not isinstance(network, _Placeholder):
        raise BadInput(f"{path} holds no ultralytics network: expected {_EXPECTED}")
    described, trained = network.state.get("yaml"), loaded.get("train_args")
    kind = type(network).__name__
    if not isinstance(described, dict):
        raise BadInput(f"{path} holds a {kind} without its description: expected {_EXPECTED}")
    try:
        layers = {key: described[key] for key in _DESCRIBING if key in described}
        if not _is_plain(layers):
            raise TypeError("the description holds more than words and numbers")
        _check_layers(path, kind, layers)
        classes = layers["nc"]
        names = _names(network.state.get("names"), classes)
        trained = trained if isinstance(trained, dict) else {}
        side = _side(trained.get("imgsz"))
        tensors = dict(_tensors(network))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadInput(f"{path} is damaged ({error!r}): expected {_EXPECTED}") from error
    return Checkpoint(path, layers, tensors, names, side)


# ---- unpickling --------------------------------------------------------------------------------


class _Placeholder:
    """The state of an object whose class is not imported."""

    state: dict[str, Any]

    def __new__(cls, *_: object) -> _Placeholder:
        placeholder = super().__new__(cls)
        placeholder.state = {}
        return placeholder

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        self.state = state if isinstance(state, dict) else {}


def _unpickle(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    torch = extra("yolo", "torch")
    if not zipfile.is_zipfile(path):
        raise BadInput(
            f"{path} is no checkpoint of torch, or it is cut short: expected {_EXPECTED}; "
            "copy the file again"
        )
    serialization = torch.serialization
    with _lock:
        # Globals marked as safe elsewhere would be called with arguments from the file.
        others = serialization.get_safe_globals()
        serialization.clear_safe_globals()
        try:
            named = serialization.get_unsafe_globals_in_checkpoint(path)
            foreign = sorted(name for name in named if not _HARMLESS.fullmatch(name))
            if foreign:
                raise BadInput(
                    f"{path} asks for {foreign[0]}, which no checkpoint of ultralytics needs and "
                    f"which could run code: nothing of it was run; expected {_EXPECTED}"
                )
            placeholders = [
                (type(name.rpartition(".")[2], (_Placeholder,), {}), name) for name in named
            ]
            with serialization.safe_globals(placeholders), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return torch.load(path, map_location="cpu", weights_only=True)
        except (
            *(RuntimeError, ValueError, EOFError, OSError, KeyError, IndexError, AttributeError),
            *(TypeError, AssertionError, RecursionError, pickle.UnpicklingError),
        ) as error:
            raise BadInput(
                f"{path} cannot be read as a checkpoint of torch ({first_line(error)}): "
                f"expected {_EXPECTED}; copy the file again"
            ) from error
        finally:
            serialization.clear_safe_globals()
            serialization.add_safe_globals(others)


# ---- checking ----------------------------------------------------------------------------------


def _is_plain(value: object, depth: int = 0) -> bool:
    """Return whether a value consists of dicts, lists, texts and numbers only."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict):
        return all(_is_plain(k, depth + 1) and _is_plain(v, depth + 1) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(one, depth + 1) for one in value)
    return value is None or isinstance(value, str | int | float | bool)


def _check_layers(path: Path, kind: str, layers: dict[str, Any]) -> None:
    described = [*layers["backbone"], *layers["head"]]
    head = described[-1][2]
    if head not in _HEADS:
        raise BadInput(
            f"{path} is a {kind} whose last layer is {head}: it finds no masks; "
            f"expected {_EXPECTED}"
        )
    for _, repeats, layer, arguments in described:
        if unusual := _unusual(repeats, layer, arguments):
            raise BadInput(
                f"{path} describes a network with {unusual}, which segmentation networks of "
                f"ultralytics do not have: expected {_EXPECTED}"
            )
    if layers.get("activation") and not re.fullmatch(
        r"(torch\.)?nn\.(SiLU|ReLU|ReLU6|LeakyReLU|Hardswish|GELU|Mish)\([\w.=, ]*\)",
        str(layers["activation"]),
    ):
        raise BadInput(f"{path} has an activation {layers['activation']!r}: expected nn.SiLU()")
    if layers.get("channels", layers.get("ch", 3)) != 3:
        raise BadInput(f"{path} looks at pictures of other than three colours: expected RGB")


def _unusual(repeats: object, layer: object, arguments: list[Any]) -> str:
    """Return what is unknown in a layer, else "". ultralytics evaluates unknown texts."""
    if layer not in _LAYERS:
        return f"the layer {layer}"
    for one in arguments:
        if isinstance(one, list | tuple):
            if unusual := _unusual(1, layer, list(one)):
                return unusual
        elif one not in _WORDS if isinstance(one, str) else one and abs(one) > _LARGEST:
            return f"the argument {one!r} of a layer {layer}"
    if not isinstance(repeats, int) or not 0 < repeats <= _LARGEST:
        return f"{repeats!r} repeats of a layer {layer}"
    return ""


def _names(given: object, classes: int) -> tuple[str, ...]:
    if not isinstance(classes, int) or not 0 < classes <= _LARGEST:
        raise ValueError(f"{classes!r} classes")
    named = given if isinstance(given, dict) else {}
    return tuple(str(named.get(number, f"thing {number}")) for number in range(classes))


def _side(given: object) -> int:
    if isinstance(given, list | tuple) and given:
        given = max(given)
    return given if isinstance(given, int) and 32 <= given <= _LARGEST else 640


def _tensors(placeholder: _Placeholder) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters and buffers of a network with their names in `state_dict`."""
    torch = extra("yolo", "torch")
    left: list[tuple[str, _Placeholder]] = [("", placeholder)]
    seen = 0
    while left:
        prefix, module = left.pop()
        seen += 1
        if seen > _MOST_MODULES or prefix.count(".") > _DEEPEST:
            raise ValueError("its parts contain one another")
        passing = module.state.get("_non_persistent_buffers_set") or ()
        for group in ("_parameters", "_buffers"):
            for name, tensor in module.state.get(group, {}).items():
                if tensor is not None and name not in passing:
                    if not isinstance(tensor, torch.Tensor):
                        raise TypeError(f"{prefix}{name} is no tensor")
                    yield f"{prefix}{name}", tensor
        for name, part in module.state.get("_modules", {}).items():
            if isinstance(part, _Placeholder):
                left.append((f"{prefix}{name}.", part))
