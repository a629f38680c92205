from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from PIL import Image

import ku_rag
from ku_rag import BadInput, NotFound
from ku_rag.errors import MissingExtra
from ku_rag.regions.ultralytics_guard import import_ultralytics
from ku_rag.regions.yolo import YoloSegmenter
from tests.assets.shapes import KINDS, scene

pytestmark = pytest.mark.torch

import_ultralytics()  # before a test imports ultralytics itself

WEIGHTS = Path(__file__).parents[1] / "assets" / "shapes-seg.pt"
HELD_OUT = 90210
"""Seed of the drawings; training uses other seeds."""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Use one thread: several that wait for each other on a busy machine are 20 times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def segmenter():
    return ku_rag.load_segmenter(f"yolo:{WEIGHTS}", device="cpu", min_side=20)


@pytest.fixture(scope="module")
def checkpoint():
    """Loads the weights file for tests that alter it; it is our own, so unpickling it is safe."""
    return lambda: torch.load(WEIGHTS, map_location="cpu", weights_only=False)


def drawings(count, size=(160, 160)):
    random = np.random.default_rng(HELD_OUT)
    return [scene(random, size) for _ in range(count)]


def pasted(detection, size):
    whole = np.zeros((size[1], size[0]), bool)
    x0, y0, x1, y1 = detection.box
    whole[y0:y1, x0:x1] = detection.mask
    return whole


def shared(first, second):
    return (first & second).sum() / (first | second).sum()


def average_precision(detections, truths):
    """Area under the precision-recall curve; a mask matches at an IoU of 0.5.

    detections: (confidence, picture, mask) of one kind; truths: picture → masks.
    """
    unmatched = {picture: list(masks) for picture, masks in truths.items()}
    hits = []
    for _, picture, mask in sorted(detections, key=lambda detection: -detection[0]):
        overlaps = [shared(mask, truth) for truth in unmatched[picture]]
        hit = bool(overlaps) and max(overlaps) >= 0.5
        if hit:
            unmatched[picture].pop(int(np.argmax(overlaps)))
        hits.append(hit)
    total = sum(len(masks) for masks in truths.values())
    true = np.cumsum(hits)
    precision = true / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((best * np.array(hits)).sum() / total)


def test_masks_are_found_in_drawings_that_training_did_not_see():
    unsure = YoloSegmenter(str(WEIGHTS), device="cpu", confidence=0.001)
    detections = {kind: [] for kind in KINDS}
    truths = {kind: {} for kind in KINDS}
    for number, (image, shapes) in enumerate(drawings(80)):
        for kind in KINDS:
            truths[kind][number] = [shape.mask for shape in shapes if shape.look.kind == kind]
        for detection in unsure.find(image):
            detections[detection.name].append(
                (detection.confidence, number, pasted(detection, image.size))
            )
    precisions = [average_precision(detections[kind], truths[kind]) for kind in KINDS]
    assert min(len(detections[kind]) for kind in KINDS) > 20
    assert np.mean(precisions) >= 0.8


def test_regions_have_boxes_and_masks_of_the_picture_as_given(segmenter):
    covered, total = 0, 0
    for image, shapes in drawings(12, (400, 260)):
        regions = segmenter.propose(image)
        for region in regions:
            x0, y0, x1, y1 = region.box
            assert 0 <= x0 < x1 <= 400
            assert 0 <= y0 < y1 <= 260
            assert min(x1 - x0, y1 - y0) >= 20
            assert region.mask.shape == (y1 - y0, x1 - x0)
            assert region.mask.dtype == bool
            assert region.mask.any()
            assert (region.source, region.score) == ("yolo", None)
            assert re.fullmatch(rf"({'|'.join(KINDS)}), confidence [01]\.\d\d", region.why)
        masks = [pasted(region, image.size) for region in regions]
        total += len(shapes)
        covered += sum(any(shared(shape.mask, mask) > 0.7 for mask in masks) for shape in shapes)
    assert covered / total > 0.7


def test_the_same_picture_gives_the_same_regions(segmenter):
    image, _ = drawings(1, (300, 200))[0]
    first, again = segmenter.propose(image), segmenter.propose(image)
    assert first
    assert first == again
    for region, repeated in zip(first, again, strict=True):
        np.testing.assert_array_equal(region.mask, repeated.mask)


def test_it_finds_what_ultralytics_itself_finds(segmenter):
    from ultralytics.models.yolo.segment import SegmentationPredictor

    predictor = SegmentationPredictor(
        overrides={
            **{"model": str(WEIGHTS), "device": "cpu", "imgsz": 160, "rect": True},
            **{"retina_masks": True, "agnostic_nms": True, "verbose": False, "save": False},
        }
    )
    for (image, _), size in zip(
        drawings(3, (333, 217)), [(333, 217), (160, 160), (90, 400)], strict=True
    ):
        picture = image.resize(size)
        (expected,) = predictor(np.asarray(picture)[..., ::-1].copy())
        detections = segmenter.find(picture)
        assert len(detections) == len(expected.boxes)
        for detection, box in zip(detections, expected.boxes, strict=True):
            np.testing.assert_allclose(detection.box, box.xyxy[0].numpy(), atol=0.51)
            assert detection.confidence == pytest.approx(float(box.conf), abs=1e-5)
            assert detection.name == expected.names[int(box.cls)]
        masks = [] if expected.masks is None else expected.masks.data.numpy() > 0
        for detection, mask in zip(detections, masks, strict=True):
            assert shared(pasted(detection, size), mask) > 0.94


@pytest.mark.parametrize("family", ["yolov8n-seg", "yolov9c-seg", "yolo11n-seg", "yolo26n-seg"])
def test_networks_of_every_family_are_read(tmp_path, family):
    """The architectures are those of ultralytics, the weights random."""
    from ultralytics.nn.tasks import SegmentationModel

    torch.manual_seed(0)  # random weights may find nothing at all
    network = SegmentationModel(f"{family}.yaml", nc=3, verbose=False).half()
    network.names = {0: "ant", 1: "bee", 2: "cow"}
    trained = {"imgsz": 64, "data": PurePosixPath("coco.yaml")}
    saved = {"model": None, "ema": network, "train_args": trained, "best_fitness": np.float64(0.5)}
    torch.save(saved, tmp_path / "saved.pt")
    segmenter = YoloSegmenter(str(tmp_path / "saved.pt"), device="cpu", confidence=0.0)
    detections = segmenter.find(drawings(1)[0][0])
    assert detections
    assert {detection.name for detection in detections} <= {"ant", "bee", "cow"}
    assert " side=64 " in segmenter.fingerprint


def test_small_things_are_left_out():
    image, _ = drawings(1)[0]
    unsure = YoloSegmenter(str(WEIGHTS), device="cpu", min_side=30, confidence=0.001)
    boxes = [detection.box for detection in unsure.find(image)]
    proposed = [region.box for region in unsure.propose(image)]
    assert proposed == [box for box in boxes if min(box[2] - box[0], box[3] - box[1]) >= 30]
    assert 0 < len(proposed) < len(boxes)


def test_the_fingerprint_names_weights_and_parameters(segmenter, tmp_path, checkpoint):
    altered = checkpoint()
    altered["model"].model[0].conv.weight[0, 0, 0, 0] += 1
    torch.save(altered, tmp_path / "other.pt")
    variants = [
        segmenter,
        ku_rag.load_segmenter(f"yolo:{WEIGHTS}", device="cpu"),
        YoloSegmenter(str(WEIGHTS), device="cpu", min_side=20, confidence=0.4),
        ku_rag.load_segmenter(f"yolo:{tmp_path}/other.pt", device="cpu", min_side=20),
    ]
    assert len({variant.fingerprint for variant in variants}) == 4
    assert all(variant.fingerprint.startswith("yolo:") for variant in variants)
    again = ku_rag.load_segmenter(f"yolo:{WEIGHTS}", device="cpu", min_side=20)
    assert again.fingerprint == segmenter.fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_side": 0}, "min_side is 0, expected a whole number from 1 on"),
        ({"confidence": 1.5}, "confidence is 1.5, expected 0 to 1"),
        ({"device": "abacus"}, "no device 'abacus' on this machine: choose auto or"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(BadInput, match=message):
        YoloSegmenter(str(WEIGHTS), **options)


# ---- damaged and unsuitable files --------------------------------------------------------------


def refused(path, message, error=BadInput):
    with pytest.raises(error, match=message) as caught:
        ku_rag.load_segmenter(f"yolo:{path}", device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_or_damaged_file_is_refused(tmp_path):
    refused(tmp_path / "no.pt", "no.pt is not there: expected a YOLO", NotFound)
    refused(tmp_path, "is a folder and cannot be read: expected a YOLO segmentation checkpoint")
    (tmp_path / "empty.pt").touch()
    refused(tmp_path / "empty.pt", "empty.pt is empty .0 bytes.: expected a YOLO")
    (tmp_path / "text.pt").write_text("weights, honestly")
    refused(tmp_path / "text.pt", "cannot be read as a checkpoint")
    content = WEIGHTS.read_bytes()
    for share in (0.3, 0.9, 0.999):
        (tmp_path / "cut.pt").write_bytes(content[: int(len(content) * share)])
        refused(tmp_path / "cut.pt", "cannot be read as a checkpoint")
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    refused(tmp_path / "zip.pt", "cannot be read as a checkpoint")


def test_a_checkpoint_of_another_kind_is_refused(tmp_path, checkpoint):
    from ultralytics.nn.tasks import DetectionModel

    for name, content in (
        ("dict", {"positional_embedding": torch.zeros(77, 8)}),
        ("list", [torch.zeros(3)]),
        ("Linear", {"model": torch.nn.Linear(2, 2)}),
        ("DetectionModel", {"model": DetectionModel("yolov8n.yaml", nc=4, verbose=False)}),
    ):
        torch.save(content, tmp_path / f"{name}.pt")
        refused(tmp_path / f"{name}.pt", f"holds a {name}, which finds no masks: expected an ultra")
    spoilt = checkpoint()
    spoilt["model"].model[0] = torch.nn.Identity()
    torch.save(spoilt, tmp_path / "other.pt")
    refused(tmp_path / "other.pt", "cannot be read as a checkpoint")


class Calls:
    """Pickles as a call of `function` with `arguments`."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def test_a_checkpoint_that_brings_code_is_refused_and_nothing_runs(tmp_path, checkpoint):
    from ultralytics.nn.modules.block import TorchVision
    from ultralytics.utils import checks

    marker = tmp_path / "ran"
    touching = f"open({str(marker)!r}, 'w')"
    evil = {
        "posix.system": Calls(os.system, f"touch {marker}"),
        "builtins.eval": Calls(eval, touching),
        "builtins.exec": Calls(exec, touching),
        "shutil.copy": Calls(shutil.copy, str(WEIGHTS), str(marker)),
    }
    for name, call in evil.items():
        for place in ("model", "extra", "inside"):
            spoilt = checkpoint()
            if place == "inside":
                spoilt["model"].model[0].conv.note = call
            else:
                spoilt[place] = call
            torch.save(spoilt, tmp_path / "evil.pt")
            message = refused(tmp_path / "evil.pt", "which could run code: nothing of it was run")
            assert name in message
    # In the older file format, a plain pickle.
    torch.save(evil["builtins.eval"], tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    refused(tmp_path / "old.pt", "cannot be read as a checkpoint")
    # A constructor of a layer that would download weights.
    spoilt = checkpoint()
    spoilt["model"].note = Calls(TorchVision, "resnet18", "DEFAULT")
    torch.save(spoilt, tmp_path / "downloads.pt")
    refused(tmp_path / "downloads.pt", "cannot be read as a checkpoint")
    # Functions of ultralytics itself, which would install or download.
    spoilt = checkpoint()
    spoilt["model"].note = Calls(checks.check_requirements, "a-package-that-is-not-there")
    torch.save(spoilt, tmp_path / "installs.pt")
    assert ku_rag.load_segmenter(f"yolo:{tmp_path}/installs.pt", device="cpu").propose(
        drawings(1)[0][0]
    )
    assert not marker.exists()


# ---- isolation of ultralytics ------------------------------------------------------------------

GUARDED = """
import os, socket, sys
from pathlib import Path

def refuse(*_, **__):
    raise SystemExit("the network was asked for")

class Refusing(socket.socket):
    __init__ = refuse

socket.socket, socket.create_connection, socket.getaddrinfo = Refusing, refuse, refuse
import numpy as np
import torch
from PIL import Image
import ku_rag
from tests.assets.shapes import scene

printed, opening, saving = np.get_printoptions(), Image.open, torch.save
segmenter = ku_rag.load_segmenter("yolo:" + sys.argv[1], device="cpu", min_side=20)
image, shapes = scene(np.random.default_rng(4), (200, 160))
assert len(segmenter.propose(image)) >= 1
from ultralytics import utils

settings = Path(utils.SETTINGS.file)
assert settings.is_relative_to(os.environ["TMPDIR"]), settings
assert settings.parents[1].stat().st_mode & 0o777 == 0o700
assert utils.SETTINGS["sync"] is False
assert utils.SAFE_LOAD
assert not (utils.AUTOINSTALL or utils.ONLINE or utils.VERBOSE)
assert np.get_printoptions() == printed
assert (Image.open, torch.save) == (opening, saving)
assert "OMP_NUM_THREADS" not in os.environ
assert torch.get_num_threads() > 1 or len(os.sched_getaffinity(0)) == 1
"""


def test_ultralytics_runs_without_network_and_leaves_nothing_behind(tmp_path):
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    hostile = {"YOLO_AUTOINSTALL": "true", "YOLO_OFFLINE": "false", "ULTRALYTICS_SAFE_LOAD": "0"}
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", GUARDED, str(WEIGHTS)],
        cwd=Path(__file__).parents[2],
        env={**inherited, **hostile, "HOME": str(home), "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert (process.stdout, process.stderr) == ("", "")
    assert list(home.rglob("*")) == []
    assert [path for path in scratch.iterdir() if "ltralytics" in path.name] == []


def test_without_ultralytics_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ultralytics", None)
    with pytest.raises(MissingExtra, match=r'pip install "ku-rag\[yolo\]"'):
        ku_rag.load_segmenter(f"yolo:{WEIGHTS}", device="cpu")


def test_large_thin_and_tiny_pictures_are_looked_at(segmenter):
    for size in ((1, 1), (7, 400), (1600, 1200)):
        for region in segmenter.propose(Image.new("RGB", size, (9, 120, 40))):
            assert region.box != (0, 0, *size)


def test_suppression_by_class_keeps_objects_of_other_kinds_at_one_place():
    unsure = YoloSegmenter(str(WEIGHTS), device="cpu", confidence=0.001)
    by_class = unsure.suppressing_by_class()
    counts = [(len(by_class.find(i)), len(unsure.find(i))) for i, _ in drawings(6)]
    assert all(many >= few for many, few in counts)
    assert any(many > few for many, few in counts)
    assert unsure.suppressing_by_class().fingerprint == unsure.fingerprint
