"""Regions by a YOLO segmentation network of ultralytics: boxes and masks of objects."""

from __future__ import annotations

import math
import threading
from copy import copy

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ku_rag.encoders.torch_runtime import torch_device
from ku_rag.pictures import clipped
from ku_rag.plugins import extra
from ku_rag.regions.checkpoint import read
from ku_rag.regions.detector import OVERLAP, Detection, Detector
from ku_rag.types import Box
from ku_rag.weights.files import content_hash, weights_file

_MOST, _MOST_BY_CLASS = 100, 300
"""Most objects in one picture, by confidence."""
_PADDING = 114


class YoloSegmenter(Detector):
    """Proposes the objects that a YOLO segmentation network detects (KU-RAG, section 3.3.1).

    Args:
        argument: path of a segmentation checkpoint of ultralytics (.pt), or the name of a known one
            that was pulled, such as "yolov8x-seg". No code in it is run, and nothing is
            downloaded.
        confidence: minimum confidence of an object, 0 to 1. 0.25 is ultralytics' own.
    """

    name = "yolo"

    def __init__(
        self, argument: str, *, device: str = "auto", min_side: int = 50, confidence: float = 0.25
    ) -> None:
        # Where torchvision is loaded, ultralytics suppresses boxes with it: always, then.
        extra("yolo", "torchvision")
        path = weights_file(argument, "a YOLO segmentation checkpoint (.pt)")
        checkpoint = read(path)
        self._device = torch_device(device, needs="yolo")
        self._network = checkpoint.network.to(self._device)
        self._names = checkpoint.names
        self._stride = max(int(self._network.stride.max()), 32)
        side = math.ceil(checkpoint.side / self._stride) * self._stride
        super().__init__(side=side, min_side=min_side, confidence=confidence)
        self._hash = content_hash(path)
        self._lock = threading.Lock()
        self._by_class = False

    def suppressing_by_class(self) -> YoloSegmenter:
        """Return one that keeps overlapping objects of different kinds, at most 300 (KU-RAG)."""
        segmenter = copy(self)
        segmenter._by_class = True
        return segmenter

    def find(self, image: Image.Image) -> list[Detection]:
        """See `Detector`."""
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
            (output, prototypes), _ = self._network(ready)
            rows = nms.non_max_suppression(
                output,
                self._confidence,
                OVERLAP,
                agnostic=not self._by_class,
                max_det=_MOST_BY_CLASS if self._by_class else _MOST,
                nc=len(self._names),
                end2end=bool(getattr(self._network, "end2end", False)),
            )[0]
            inside = fitted.shape[:2]
            boxes = ops.scale_boxes(inside, rows[:, :4].clone(), pixels.shape)
            heat = torch.einsum("nc,chw->nhw", rows[:, 6:], prototypes[0].float())
        rows, boxes, heat = (tensor.cpu().numpy() for tensor in (rows, boxes, heat))
        # The masks are a reduced copy of the padded picture: pixel p of the picture is at position
        # start + p * step of a mask.
        size, whole = np.array(image.size), np.array([inside[1], inside[0]])
        scale = np.array([heat.shape[2], heat.shape[1]]) / whole
        part = np.maximum(np.round(size * (whole / size).min()), 1)
        start, step = np.round((whole - part) / 2 - 0.1) * scale, part / size * scale
        detections = []
        for row, box, warmth in zip(rows, boxes, heat, strict=True):
            place = clipped(box, image.size)
            mask = _mask(warmth, place, start, step)
            if mask.any():
                detections.append(Detection(place, mask, self._names[int(row[5])], float(row[4])))
        return detections


def _mask(
    heat: NDArray[np.float32], box: Box, start: NDArray[np.float64], step: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return the part of a map over a box, bool[height, width]; positive heat is the object's."""
    corners = (start + np.reshape(box, (2, 2)) * step).clip(0, heat.shape[::-1])
    x0, y0, x1, y1 = corners.ravel().tolist()
    drawn = Image.fromarray(np.ascontiguousarray(heat, np.float32)).resize(
        (box[2] - box[0], box[3] - box[1]), Image.Resampling.BILINEAR, box=(x0, y0, x1, y1)
    )
    mask: NDArray[np.bool_] = np.asarray(drawn) > 0
    return mask
