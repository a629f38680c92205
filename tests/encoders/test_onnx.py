"""Encoders of ONNX files: towers that the tests export."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from PIL import Image, ImageOps

import ku_rag
from ku_rag import BadInput, KnowledgeBase, NotFound, Unit
from ku_rag.errors import MissingExtra
from tests import exports
from tests.conftest import picture
from tests.exports import DIM, MEAN, PATCH, SIDE, STD, needs_onnx, save_export

pytestmark = needs_onnx


def patches(image):
    """The vectors of the image tower for a picture of its input size, float32[4, 8]."""
    pixels = (np.asarray(image, np.float32) / 255 - np.float32(MEAN)) / np.float32(STD)
    grid = pixels.reshape(SIDE // PATCH, PATCH, SIDE // PATCH, PATCH, 3)
    kernel = exports.weights(1, DIM, 3, PATCH, PATCH)
    return np.einsum("aybxc,dcyx->abd", grid, kernel).reshape(-1, DIM)


def words(*ids, dim=DIM):
    return exports.weights(2, exports.WORDS, dim)[list(ids)].mean(0)


def unit(row):
    return row / np.linalg.norm(row)


@pytest.fixture
def photo(tmp_path):
    return Image.open(picture(tmp_path / "lamp.png", 1, (90, 60))).convert("RGB")


@pytest.mark.parametrize(
    ("settings", "prepare", "pool"),
    [
        ({}, lambda image: ImageOps.fit(image, (SIDE, SIDE)), lambda rows: rows.mean(0)),
        (
            {"resize": "stretch", "filter": "bilinear", "output": "last_hidden_state"},
            lambda image: image.resize((SIDE, SIDE), 2, reducing_gap=2.0),
            lambda rows: rows[0],
        ),
        (
            {"output": "last_hidden_state", "pooling": "mean"},
            lambda image: ImageOps.fit(image, (SIDE, SIDE)),
            lambda rows: rows.mean(0),
        ),
    ],
    ids=["crop", "stretch", "mean"],
)
def test_pictures_are_prepared_as_the_file_says(tmp_path, photo, settings, prepare, pool):
    encoder = ku_rag.load_encoder(f"onnx:{save_export(tmp_path / 'm', image=settings)}")
    np.testing.assert_allclose(
        encoder.encode_images([photo])[0], unit(pool(patches(prepare(photo)))), atol=1e-5
    )
    part = photo.crop((5, 5, 50, 40))
    np.testing.assert_allclose(
        encoder.encode_regions(photo, [(5, 5, 50, 40)])[0],
        unit(pool(patches(prepare(part)))),
        atol=1e-5,
    )


def test_texts_have_the_tokens_of_the_file(tmp_path):
    encoder = ku_rag.load_encoder(f"onnx:{save_export(tmp_path / 'm')}")
    assert (encoder.cross_modal, encoder.dim, encoder.max_tokens) == (True, DIM, 62)
    assert encoder.count_tokens("A lamp") == 5
    vectors = encoder.encode_texts(["AB", "", "ab"])
    np.testing.assert_allclose(vectors[0], unit(words(1, 4, 5, 2)), atol=1e-6)
    np.testing.assert_allclose(vectors[1], unit(words(1, 2)), atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[2])
    with pytest.raises(BadInput, match="63 tokens: onnx1 takes 62 at most"):
        encoder.encode_texts(["a" * 63])


def test_texts_are_padded_for_networks_of_one_length(tmp_path):
    folder = save_export(tmp_path / "m")
    settings = json.loads((folder / "encoder.json").read_text())
    settings["text"] |= {"tokens": 8, "pad": 0}
    (folder / "encoder.json").write_text(json.dumps(settings))
    encoder = ku_rag.load_encoder(f"onnx:{folder}")
    expected = unit(words(1, 4, 5, 2, 0, 0, 0, 0))
    np.testing.assert_allclose(encoder.encode_texts(["ab"])[0], expected, atol=1e-6)
    exports.save_text_tower(folder / "text_model.onnx", has_mask=True)
    masked = ku_rag.load_encoder(f"onnx:{folder}")
    assert masked.fingerprint != encoder.fingerprint
    tokens = unit(words(1, 4, 5, 2))
    np.testing.assert_allclose(masked.encode_texts(["ab"])[0], tokens, atol=1e-6)
    settings["text"] |= {"output": "last_hidden_state", "pooling": "mean"}
    (folder / "encoder.json").write_text(json.dumps(settings))
    pooled = ku_rag.load_encoder(f"onnx:{folder}")
    np.testing.assert_allclose(pooled.encode_texts(["ab"])[0], tokens, atol=1e-6)


def test_without_a_text_tower_texts_have_another_encoder(tmp_path):
    folder = save_export(tmp_path / "dino", has_text=False)
    photo = picture(tmp_path / "lamp.png", 1)
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=f"embedded+onnx:{folder}") as kb:
        kb.add(Unit("Lamp", id="lamp", texts=("Price: 5 euros",), images=(photo,)))
        kb.add(Unit("Fan", id="fan", images=(picture(tmp_path / "fan.png", 2),)))
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.query(photo, "What is the price?").answer == "5 euros"
    with pytest.raises(BadInput, match=r'as in "embedded\+onnx:'):
        ku_rag.load_encoder(f"onnx:{folder}")


def test_without_onnxruntime_the_extra_is_named(tmp_path, monkeypatch):
    folder = save_export(tmp_path / "dino", has_text=False)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"ku-rag\[onnx\]"):
        ku_rag.load_encoder(f"embedded+onnx:{folder}")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image": {"file": "other.onnx"}}, "other.onnx is not there"),
        ({"image": {"sise": 3}}, "unexpected keyword argument 'sise'"),
        ({"image": {"size": 17}}, "Got: 17 Expected: 16"),
        ({"image": {"output": "logits"}}, "logits"),
        ({"image": {"input": "pixels"}}, "pixels"),
        ({"image": {"resize": "pad"}}, "resize is 'pad', not stretch or crop"),
        ({"image": {"pooling": "max", "output": "last_hidden_state"}}, "KeyError: 'max'"),
        ({"image": {"file": "encoder.json"}}, "m cannot be used"),
        ({"text": {"tokenizer": "vision_model.onnx"}}, "m cannot be used"),
    ],
)
def test_settings_that_do_not_fit_the_network_are_named(tmp_path, changes, expected):
    folder = save_export(tmp_path / "m", **changes)
    with pytest.raises((BadInput, NotFound), match=expected):
        ku_rag.load_encoder(f"onnx:{folder}")


def test_files_that_are_no_settings(tmp_path):
    folder = save_export(tmp_path / "m")
    exports.save_text_tower(folder / "text_model.onnx", dim=4)
    with pytest.raises(BadInput, match="vectors of texts and pictures differ in length"):
        ku_rag.load_encoder(f"onnx:{folder}")
    (folder / "encoder.json").write_text("[]")
    with pytest.raises(BadInput, match="m cannot be used"):
        ku_rag.load_encoder(f"onnx:{folder}")
    (folder / "encoder.json").write_text("{")
    with pytest.raises(BadInput, match="JSONDecodeError"):
        ku_rag.load_encoder(f"onnx:{folder}")
    with pytest.raises(NotFound, match=r"expected a folder with encoder\.json"):
        ku_rag.load_encoder(f"onnx:{tmp_path / 'none'}")
