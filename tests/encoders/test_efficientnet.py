"""The network for pictures: its graph, its cache, and bases that use it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import ku_rag
from ku_rag import BadInput, KnowledgeBase, Unit
from ku_rag.encoders.efficientnet import EfficientNetEncoder
from ku_rag.encoders.efficientnet_model import load_model, weights_file
from ku_rag.weights.state_dict import read_arrays
from tests.conftest import needs_pictures, picture

pytestmark = needs_pictures


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty folder for caches."""
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


def reference_features(weights, pixels):
    """Features of a picture, computed by torch from the description of the network."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    tensors = {name: torch.from_numpy(np.array(array)).float() for name, array in weights.items()}

    def convolve(x, name, norm, stride=1, groups=1):
        kernel = tensors[f"{name}.weight"]
        size = kernel.shape[-1]
        missing = [max((-(-n // stride) - 1) * stride + size - n, 0) for n in x.shape[-2:]]
        top, left = (total // 2 for total in missing)
        x = functional.pad(x, (left, missing[1] - left, top, missing[0] - top))
        x = functional.conv2d(x, kernel, stride=stride, groups=groups)
        statistics = (tensors[f"{norm}.{part}"] for part in ("running_mean", "running_var"))
        scale = (tensors[f"{norm}.{part}"] for part in ("weight", "bias"))
        return functional.batch_norm(x, *statistics, *scale, eps=1e-3)

    x = functional.relu6(convolve(pixels, "_conv_stem", "_bn0", 2))
    # Expansion, channels, repetitions, stride of each stage; repetitions are scaled by 1.2.
    stages = [(1, 1), (3, 2), (3, 2), (4, 2), (4, 1), (5, 2), (1, 1)]
    number = 0
    for repeated, stride in stages:
        for at in range(repeated):
            block, before = f"_blocks.{number}", x
            if f"{block}._expand_conv.weight" in tensors:
                x = functional.relu6(convolve(x, f"{block}._expand_conv", f"{block}._bn0"))
            step = 1 if at else stride
            x = convolve(x, f"{block}._depthwise_conv", f"{block}._bn1", step, x.shape[1])
            x = convolve(functional.relu6(x), f"{block}._project_conv", f"{block}._bn2")
            x = x + before if at else x
            number += 1
    x = functional.relu6(convolve(x, "_conv_head", "_bn1"))
    return x.mean((2, 3))


@pytest.mark.torch
def test_the_network_is_the_one_that_the_weights_are_of():
    torch = pytest.importorskip("torch")
    image = Image.effect_noise((260, 260), 80).convert("RGB")
    pixels = (np.asarray(image, np.float32) - 127) / 128
    weights = read_arrays(weights_file("lite2"), "weights")
    with torch.no_grad():
        tensor = torch.from_numpy(pixels.transpose(2, 0, 1)[None].copy())
        expected = reference_features(weights, tensor).numpy()[0]
    encoder = EfficientNetEncoder("lite2")
    features = encoder.encode_objects([image])[0, 512:]
    np.testing.assert_allclose(features, expected / np.linalg.norm(expected), atol=1e-5)


def test_the_converted_network_is_kept_and_a_damaged_one_is_made_again(cache):
    model = load_model("lite2")
    [file] = cache.iterdir()
    assert file.read_bytes() == model
    created = file.stat().st_mtime_ns
    assert load_model("lite2") == model
    assert file.stat().st_mtime_ns == created
    file.write_bytes(model[:-1])
    assert load_model("lite2") == model
    assert file.read_bytes() == model


def test_a_cache_that_cannot_be_written_is_not_needed(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "file"))
    assert len(load_model("lite2")) > 1 << 20


def test_an_unknown_network_and_texts_are_refused():
    with pytest.raises(BadInput, match="expected lite0 or lite2"):
        ku_rag.load_encoder("efficientnet:lite9")
    with pytest.raises(BadInput, match="embedded\\+efficientnet:lite2"):
        ku_rag.load_encoder("efficientnet:lite2+embedded")


def test_the_network_alone_has_the_default_encoder_for_texts():
    alone = ku_rag.load_encoder("efficientnet:lite2")
    assert alone.fingerprint == ku_rag.load_encoder("embedded+efficientnet:lite2").fingerprint


def test_a_new_base_has_the_network_where_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.delenv("KU_DEFAULT_ENCODER")
    photo = picture(tmp_path / "lamp.png", 1)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp", texts=("Price: 5 euros",), images=(photo,)))
        kb.add(Unit("Fan", id="fan", images=(picture(tmp_path / "fan.png", 2),)))
        assert "efficientnet:lite2" in kb.stats().encoder
        answer = kb.query(photo, "What is the price?")
        assert (answer.answer, answer.units[0].id) == ("5 euros", "lamp")


def test_a_base_opens_and_answers_by_text_without_the_extra(tmp_path):
    photo = picture(tmp_path / "lamp.png", 1)
    with KnowledgeBase.open(
        tmp_path / "kb", create=True, encoder="embedded+efficientnet:lite2"
    ) as kb:
        kb.add(Unit("Lamp", id="lamp", texts=("Price: 5 euros",), images=(photo,)))
    script = f"""
import sys
from importlib.machinery import PathFinder
class WithoutExtra(PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        is_extra = name.startswith(("onnx", "efficientnet_"))
        return None if is_extra else PathFinder.find_spec(name, *rest)
sys.meta_path[:] = [WithoutExtra if one is PathFinder else one for one in sys.meta_path]
from ku_rag import KnowledgeBase
from ku_rag.errors import MissingExtra
with KnowledgeBase.open({str(tmp_path / "kb")!r}) as kb:
    print(kb.query(None, "What is the price of the lamp?").answer)
    try:
        kb.query({str(photo)!r}, "What is the price?")
    except MissingExtra as error:
        print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    answer, message = run.stdout.splitlines()
    assert answer == "5 euros"
    assert 'pip install "ku-rag[pictures]"' in message


def test_windows_are_believed_less_where_the_whole_picture_shows_another_unit(tmp_path):
    files = [picture(tmp_path / f"{seed}.png", seed, (320, 240)) for seed in range(2)]
    with KnowledgeBase.open(
        tmp_path / "kb", create=True, encoder="embedded+efficientnet:lite2"
    ) as kb:
        kb.add_many(Unit(f"Wall {n}", id=f"{n}", images=(file,)) for n, file in enumerate(files))
        with Image.open(files[0]) as wall, Image.open(files[1]) as poster:
            wall.paste(poster.resize((120, 90)), (20, 20))
            scene = wall.copy()
        answer = kb.query(scene, "What is this?")
    contradiction = "as a whole looks more like that of another unit"
    assert [contradiction in unit.why for unit in answer.units] == [False, True]
    assert answer.units[0].id == "0"
    assert answer.units[1].confidence < 0.4 < answer.units[0].confidence
