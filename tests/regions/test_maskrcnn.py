from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.models import detection

import ku_rag
from ku_rag import BadInput, NotFound
from ku_rag.regions.base import Segmenter
from ku_rag.regions.detector import Detection, Detector
from ku_rag.regions.maskrcnn import MaskRCNNSegmenter, drawn
from ku_rag.types import Region
from tests.assets.shapes import scene

pytestmark = pytest.mark.torch

SIDE = 32
"""Side of the pictures: small, so that a network of 44 million random weights is fast."""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Use one thread: several that wait for each other on a busy machine are 20 times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def saved_network(tmp_path_factory):
    """A network of torchvision with random weights, and the path of its saved weights."""
    torch.manual_seed(3)
    network = detection.maskrcnn_resnet50_fpn_v2(
        weights=None,
        weights_backbone=None,
        num_classes=5,
        min_size=SIDE,
        max_size=SIDE * 5 // 3,
        box_score_thresh=0.0,
    )
    path = tmp_path_factory.mktemp("maskrcnn") / "weights.pth"
    torch.save(network.state_dict(), path)
    yield network.eval(), path
    path.unlink()


def test_it_finds_what_torchvision_finds(saved_network):
    network, path = saved_network
    segmenter = MaskRCNNSegmenter(str(path), device="cpu", confidence=0.0, side=SIDE, min_side=1)
    image, _ = scene(np.random.default_rng(5), (160, 100))
    with torch.inference_mode():
        pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255
        expected = network([pixels])[0]
    detections = segmenter.find(image)
    assert 0 < len(detections) <= len(expected["boxes"])
    scores = [instance.confidence for instance in detections]
    assert scores == sorted(scores, reverse=True)
    for instance in detections[:20]:
        at = int((expected["scores"] - instance.confidence).abs().argmin())
        np.testing.assert_allclose(instance.box, expected["boxes"][at].numpy(), atol=1.01)
        assert instance.name == f"thing {int(expected['labels'][at])}"
        x0, y0, x1, y1 = instance.box
        assert instance.mask.shape == (y1 - y0, x1 - x0)
    assert isinstance(segmenter, Segmenter)
    regions = segmenter.propose(image)
    assert [region.box for region in regions] == [
        instance.box for instance in detections if instance.box != (0, 0, 160, 100)
    ]
    for region in regions:
        assert (region.source, region.score) == ("maskrcnn", None)
        assert any(np.array_equal(region.mask, instance.mask) for instance in detections)


def test_only_what_is_large_enough_and_not_the_whole_is_proposed():
    boxes = [(0, 0, 90, 70), (5, 5, 35, 34), (5, 5, 35, 35), (0, 1, 90, 70), (0, 0, 29, 70)]
    detections = [
        Detection(box, np.ones((box[3] - box[1], box[2] - box[0]), bool), "lamp", 0.875)
        for box in boxes
    ]

    class Lamps(Detector):
        name = "lamps"

        def find(self, image):
            return detections

    regions = Lamps(side=1, min_side=30, confidence=0).propose(Image.new("RGB", (90, 70)))
    assert [region.box for region in regions] == [(5, 5, 35, 35), (0, 1, 90, 70)]
    assert regions[0] == Region((5, 5, 35, 35), "lamps", None, "lamp, confidence 0.88")
    assert regions[0].mask is detections[2].mask


def test_the_fingerprint_names_weights_and_parameters(saved_network):
    _, path = saved_network
    segmenter = ku_rag.load_segmenter(f"maskrcnn:{path}", device="cpu", min_side=30)
    assert segmenter.fingerprint.startswith("maskrcnn:")
    assert segmenter.fingerprint.endswith(" side=800 confidence=0.5 overlap=0.7 min_side=30")


def test_masks_lie_where_the_network_put_them():
    """A disc in a mask of 28 x 28 becomes the disc that torchvision pastes, to a pixel."""
    from torchvision.models.detection.roi_heads import paste_masks_in_image

    down, across = np.mgrid[:28, :28]
    disc = (1 / (1 + np.exp(np.hypot(down - 13.5, across - 15) - 10))).astype(np.float32)
    box = (10, 20, 90, 140)
    pasted = paste_masks_in_image(
        torch.from_numpy(disc)[None, None], torch.tensor([box]).float(), (200, 320)
    )
    expected = pasted[0, 0].numpy()[20:140, 10:90] > 0.5
    mask = drawn(disc, (80, 120))
    assert (mask & expected).sum() / (mask | expected).sum() > 0.98


# ---- damaged and unsuitable files --------------------------------------------------------------


def refused(path, message, error=BadInput):
    with pytest.raises(error, match=message) as caught:
        MaskRCNNSegmenter(str(path), device="cpu")
    assert "\n" not in str(caught.value)


class Touches:
    """Pickles as a command that creates a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_weights_that_do_not_fit_are_refused(tmp_path):
    file = tmp_path / "weights.pth"
    refused(file, "weights.pth is not there: expected weights of torchvision", NotFound)
    refused(tmp_path, "is a folder and cannot be read: expected weights of torchvision")
    file.touch()
    refused(file, "is empty .0 bytes.: expected weights of torchvision")
    torch.save({"positional_embedding": torch.zeros(77, 8)}, file)
    refused(file, "has no roi_heads.box_predictor.cls_score.weight, it is for another network")
    torch.save({"model": {"a": 1}}, file)
    refused(file, "holds no state dict but 'model'")
    torch.save({"roi_heads.box_predictor.cls_score.weight": torch.zeros(5, 1024)}, file)
    refused(file, r"does not fit .*Missing key.s. in state_dict: .backbone")
    torch.save({"roi_heads.box_predictor.cls_score.weight": torch.zeros(5, 7)}, file)
    refused(file, "does not fit .*: expected weights of torchvision")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    refused(file, "cannot be read as weights")


def test_code_in_the_weights_is_not_run(tmp_path):
    marker = tmp_path / "ran"
    for zipped in (True, False):
        torch.save(
            {"roi_heads.box_predictor.cls_score.weight": Touches(marker)},
            tmp_path / "evil.pth",
            _use_new_zipfile_serialization=zipped,
        )
        refused(tmp_path / "evil.pth", "nothing of it was run|TorchScript")
    assert not marker.exists()


def test_without_weights_the_message_says_how_to_get_them(tmp_path, monkeypatch):
    for name in ("HOME", "KU_CACHE", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(NotFound, match="ku models pull maskrcnn_resnet50_fpn_v2"):
        ku_rag.load_segmenter("maskrcnn")


def test_options_out_of_range_are_refused():
    for options, message in (
        ({"min_side": 0}, "min_side is 0, expected a whole number from 1 on"),
        ({"side": "big"}, "side is 'big', expected a whole number from 1 on"),
        ({"confidence": -1}, "confidence is -1, expected 0 to 1"),
    ):
        with pytest.raises(BadInput, match=message):
            MaskRCNNSegmenter("x", **options)
