"""Regions by a YOLO segmentation network of ultralytics: boxes and masks of objects."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ku_rag.devices import torch_device
from ku_rag.errors import BadInput
from ku_rag.plugins import extra
from ku_rag.regions.checkpoint import read
from ku_rag.regions.things import Thing, clipped, proposals
from ku_rag.types import Box, Region
from ku_rag.weights.files import content_hash, weights_file

_MOST = 100
"""Most objects in one picture, by confidence."""
_OVERLAP = 0.7
"""Boxes with a larger intersection over union are one object of any class: ultralytics' default."""
_PADDING = 114


class YoloSegmenter:
    """Proposes the objects that a YOLO segmentation network detects (KU-RAG, section 3.3.1).

    Args:
        argument: path of a segmentation checkpoint of ultralytics (.pt), or the name of a known one
            that was pulled, such as "yolov8x-seg". No code in it is run, and nothing is
            downloaded.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        min_side: minimum width and height of a region, in pixels of the given picture.
        confidence: minimum confidence of an object, 0 to 1. 0.25 is ultralytics' own.

    Raises:
        NotFound: there is no such file, or the known model was not pulled.
        BadInput: it is broken, brings code, or finds no masks; or an option is out of its range.
        MissingExtra: ultralytics is not installed.
    """

    def __init__(
        self,
        argument: str,
        *,
        device: str = "auto",
        min_side: int = 50,
        confidence: float = 0.25,
    ) -> None:
        if not isinstance(min_side, int) or min_side < 1:
            raise BadInput(f"yolo: min_side is {min_side!r}, expected a whole number from 1 on")
        if not 0 <= confidence <= 1:
            raise BadInput(f"yolo: confidence is {confidence!r}, expected 0 to 1")
        # Where torchvision is loaded, ultralytics suppresses boxes with it: always, then.
        extra("yolo", "torchvision")
        path = weights_file(argument, "a YOLO segmentation checkpoint (.pt)")
        checkpoint = read(path)
        self._device = torch_device(device, needs="yolo")
        self._network = checkpoint.network.to(self._device)
        self._names = checkpoint.names
        self._stride = max(int(self._network.stride.max()), 32)
        self._side = math.ceil(checkpoint.side / self._stride) * self._stride
        self._min_side, self._confidence = min_side, confidence
        self._hash = content_hash(path)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name in results."""
        return "yolo"

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and the parameters."""
        return (
            f"yolo:{self._hash} side={self._side} confidence={self._confidence:g} "
            f"overlap={_OVERLAP:g} min_side={self._min_side}"
        )

    def propose(self, image: Image.Image) -> list[Region]:
        """Return regions of an RGB picture with masks, by confidence, the whole picture excluded.

        `why` holds the class and the confidence.
        """
        return proposals(self.find(image), self.name, image.size, self._min_side)

    def find(self, image: Image.Image) -> list[Thing]:
        """Detect the objects in an RGB picture, of any size, by confidence."""
        torch = extra("yolo", "torch")
        augment, nms, ops = (
            extra("yolo", f"ultralytics.{module}")
            for module in ("data.augment", "utils.nms", "utils.ops")
        )
        pixels = np.asarray(image)
        fitted = augment.LetterBox(
            (self._side, self._side), auto=True, stride=self._stride, padding_value=_PADDING
        )(image=pixels)
        ready = torch.from_numpy(np.ascontiguousarray(fitted.transpose(2, 0, 1)))
        # A network keeps what it computed for the last size of picture.
        with self._lock, torch.inference_mode():
            ready = ready.to(self._device).float().div(255).unsqueeze(0)
            (found, prototypes), _ = self._network(ready)
            rows = nms.non_max_suppression(
                found,
                self._confidence,
                _OVERLAP,
                agnostic=True,
                max_det=_MOST,
                nc=len(self._names),
                end2end=bool(getattr(self._network, "end2end", False)),
            )[0]
            inside = fitted.shape[:2]
            boxes = ops.scale_boxes(inside, rows[:, :4].clone(), pixels.shape)
            heat = torch.einsum("nc,chw->nhw", rows[:, 6:], prototypes[0].float())
        rows, boxes, heat = (one.cpu().numpy() for one in (rows, boxes, heat))
        scale = heat.shape[2] / inside[1], heat.shape[1] / inside[0]
        frame = _Frame.of(image.size, (inside[1], inside[0]), scale)
        things = []
        for row, box, warmth in zip(rows, boxes, heat, strict=True):
            place = clipped(box, image.size)
            mask = frame.mask(warmth, place)
            if mask.any():
                things.append(Thing(place, mask, self._names[int(row[5])], float(row[4])))
        return things


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the picture lies in the network's map of masks: x and y are start + pixel * step."""

    start: tuple[float, float]
    step: tuple[float, float]

    @classmethod
    def of(
        cls, size: tuple[int, int], inside: tuple[int, int], scale: tuple[float, float]
    ) -> _Frame:
        """For a picture that was fitted into `inside`, of which a map is `scale` times as large."""
        ratio = min(inside[0] / size[0], inside[1] / size[1])
        fitted = [max(round(side * ratio), 1) for side in size]
        start = [
            round((whole - part) / 2 - 0.1) for whole, part in zip(inside, fitted, strict=True)
        ]
        step = [part / side for part, side in zip(fitted, size, strict=True)]
        return cls(
            (start[0] * scale[0], start[1] * scale[1]), (step[0] * scale[0], step[1] * scale[1])
        )

    def mask(self, heat: NDArray[np.float32], box: Box) -> NDArray[np.bool_]:
        """The part of a map over a box, bool[height, width]; positive heat belongs to the thing."""
        x0, y0, x1, y1 = box
        down, across = heat.shape
        part = [
            min(max(start + at * step, 0.0), float(most))
            for at, start, step, most in (
                (x0, self.start[0], self.step[0], across),
                (y0, self.start[1], self.step[1], down),
                (x1, self.start[0], self.step[0], across),
                (y1, self.start[1], self.step[1], down),
            )
        ]
        image = Image.fromarray(np.ascontiguousarray(heat, np.float32))
        drawn = image.resize(
            (x1 - x0, y1 - y0), Image.Resampling.BILINEAR, box=(part[0], part[1], part[2], part[3])
        )
        mask: NDArray[np.bool_] = np.asarray(drawn) > 0
        return mask
