"""Regions from torchvision's Mask R-CNN: the permissively licensed alternative to YOLO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ku_rag.encoders.torch_runtime import torch_device
from ku_rag.errors import BadInput, reason
from ku_rag.pictures import clipped
from ku_rag.plugins import extra
from ku_rag.regions.detector import OVERLAP, Detection, Detector
from ku_rag.weights.files import content_hash, weights_file
from ku_rag.weights.tensors import read_tensors

_KNOWN = "maskrcnn_resnet50_fpn_v2"
_WHAT = "weights of torchvision's maskrcnn_resnet50_fpn_v2 (a state dict)"
_LONGEST = 5 / 3
"""Maximum ratio of the longer side to `side`: 1333 to 800, torchvision's default."""
_CLASSES = "roi_heads.box_predictor.cls_score.weight"


class MaskRCNNSegmenter(Detector):
    """Proposes the objects that a Mask R-CNN detects.

    Args:
        argument: path of a state dict for torchvision's maskrcnn_resnet50_fpn_v2, with any number
            of classes; "" takes those that `ku models pull maskrcnn_resnet50_fpn_v2` brings.
            Nothing is downloaded here.
        side: pixels that a picture's shorter side is scaled to, 800 as in training.
    """

    name = "maskrcnn"

    def __init__(
        self,
        argument: str = "",
        *,
        device: str = "auto",
        min_side: int = 50,
        confidence: float = 0.5,
        side: int = 800,
    ) -> None:
        super().__init__(side=side, min_side=min_side, confidence=confidence)
        path = weights_file(argument or _KNOWN, _WHAT)
        self._device = torch_device(device, needs="maskrcnn")
        self._network = _build(path, confidence, side).to(self._device)
        self._names = _names(self._network.roi_heads.box_predictor.cls_score.out_features)
        self._hash = content_hash(path)

    def find(self, image: Image.Image) -> list[Detection]:
        """See `Detector`."""
        torch = extra("maskrcnn", "torch")
        ops = extra("maskrcnn", "torchvision.ops")
        network = self._network
        pixels = torch.from_numpy(np.asarray(image).copy()).to(self._device)
        with torch.inference_mode():
            # The network's own forward, without pasting each mask into a whole picture.
            scaled, _ = network.transform([pixels.permute(2, 0, 1).float().div(255)])
            features = network.backbone(scaled.tensors)
            places, _ = network.rpn(scaled, features)
            output = network.roi_heads(features, places, scaled.image_sizes)[0][0]
            kept = ops.nms(output["boxes"], output["scores"], OVERLAP)
            boxes, scores, labels, masks = (
                output[part][kept].cpu().numpy() for part in ("boxes", "scores", "labels", "masks")
            )
        down, across = scaled.image_sizes[0]
        boxes *= np.array([image.width / across, image.height / down] * 2, np.float32)
        detections = []
        for box, score, label, mask in zip(boxes, scores, labels, masks[:, 0], strict=True):
            place = clipped(box, image.size)
            size = (place[2] - place[0], place[3] - place[1])
            belonging = drawn(mask, size)
            if belonging.any():
                detections.append(
                    Detection(place, belonging, self._names[int(label)], float(score))
                )
        return detections


def drawn(mask: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Scale a mask of values 0 to 1 to a box of `size`, bool[height, width]."""
    scaled = Image.fromarray(mask).resize(size, Image.Resampling.BILINEAR)
    belonging: NDArray[np.bool_] = np.asarray(scaled) > 0.5
    return belonging


def _build(path: Path, confidence: float, side: int) -> Any:  # noqa: ANN401 - made by torchvision
    torch = extra("maskrcnn", "torch")
    detection = extra("maskrcnn", "torchvision.models.detection")
    tensors = read_tensors(path, _WHAT)
    if _CLASSES not in tensors:
        raise BadInput(f"{path} has no {_CLASSES}, it is for another network: expected {_WHAT}")
    classes = tensors[_CLASSES].shape[0]
    with torch.random.fork_rng(devices=[]):
        network = detection.maskrcnn_resnet50_fpn_v2(
            weights=None,
            weights_backbone=None,
            num_classes=classes,
            min_size=side,
            max_size=round(side * _LONGEST),
            box_score_thresh=confidence,
        )
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise BadInput(f"{path} does not fit ({reason(error)}): expected {_WHAT}") from error
    return network.float().eval().requires_grad_(requires_grad=False)


def _names(classes: int) -> tuple[str, ...]:
    """Return the names of the classes: those of COCO if their number is equal."""
    detection = extra("maskrcnn", "torchvision.models.detection")
    names = detection.MaskRCNN_ResNet50_FPN_V2_Weights.DEFAULT.meta["categories"]
    if classes == len(names):
        return tuple(names)
    return tuple(f"thing {number}" for number in range(classes))
