"""Long-CLIP and other models of open_clip: reference values, weights, messages of one line."""

from __future__ import annotations

import json
import os
import pickle
import socket
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from open_clip.model import CLIP
from open_clip.tokenizer import SimpleTokenizer
from PIL import Image
from safetensors.torch import save_file

import ku_rag
from ku_rag import BadInput, Mismatch, NotFound
from ku_rag.encoders.bytepairs import BytePairs
from ku_rag.encoders.torch_runtime import Batches, Place
from tests import checkpoints
from tests.conftest import DATA, picture, write_records

pytestmark = pytest.mark.torch

GOLDEN = DATA.parent / "golden" / "longclip"
TOKENIZER = SimpleTokenizer(context_length=248)
PAIRS = BytePairs(TOKENIZER)
TEXTS = [
    "a lift bridge over the river",
    "",
    "Who opened it? " * 15,
    "Die Hubbrücke Karnin, 橋 и мост — naïve café №5 &amp; [SEP]",
    "short",
    "a lift bridge over the river",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return checkpoints.save_official(tmp_path_factory.mktemp("weights") / "tiny.pt")


@pytest.fixture(scope="module")
def encoder(tiny):
    return ku_rag.load_encoder(f"longclip:{tiny}", device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return checkpoints.save_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def images(tmp_path):
    paths = [picture(tmp_path / f"{n}.png", n, (90 + 7 * n, 64 + 5 * n)) for n in range(5)]
    return [Image.open(path).convert("RGB") for path in paths]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# ---- reference values --------------------------------------------------------------------------


@pytest.fixture
def golden():
    if not GOLDEN.is_dir():
        pytest.skip("the golden outputs of Long-CLIP are not beside this checkout")
    encoder = ku_rag.load_encoder(f"longclip:{GOLDEN}/longclip-tiny.pt", device="cpu")
    texts = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
    images = [Image.open(GOLDEN / f"image{n}.png").convert("RGB") for n in range(3)]
    with np.load(GOLDEN / "expected.npz") as expected:
        return encoder, texts, images, dict(expected)


def test_what_the_official_implementation_computes_is_computed(golden):
    encoder, texts, images, expected = golden
    ids = np.zeros((len(texts), 248), np.int64)
    for row, text in zip(ids, texts, strict=True):
        tokens = (PAIRS.start, *PAIRS.ids(text), PAIRS.end)
        row[: len(tokens)] = tokens
    np.testing.assert_array_equal(ids, expected["token_ids"])
    np.testing.assert_allclose(encoder.pixels(images).numpy(), expected["pixels"], atol=1e-6)
    np.testing.assert_allclose(
        encoder.encode_texts(texts), unit(expected["text_features"]), atol=1e-5
    )
    np.testing.assert_allclose(
        encoder.encode_images(images), unit(expected["image_features"]), atol=1e-5
    )


def test_cut_batches_give_what_padding_gives(tiny, images):
    state = torch.load(tiny, weights_only=True)
    second = state.pop("positional_embedding_res")
    state["positional_embedding"][20:] = second[20:]
    model = CLIP(**checkpoints.TINY, quick_gelu=True).eval()
    model.load_state_dict(state)
    for size in (0, 1, 4):
        encoder = ku_rag.load_encoder(f"longclip:{tiny}", device="cpu", batch_size=size)
        with torch.inference_mode():
            of_texts = unit(model.encode_text(TOKENIZER(TEXTS)).numpy())
            of_images = unit(model.encode_image(encoder.pixels(images)).numpy())
        vectors = encoder.encode_texts(TEXTS)
        np.testing.assert_allclose(vectors, of_texts, atol=1e-5)
        np.testing.assert_array_equal(vectors[0], vectors[5])
        np.testing.assert_allclose(encoder.encode_images(images), of_images, atol=1e-5)


def test_bfloat16_says_nearly_the_same_under_the_same_fingerprint(tiny, encoder, images):
    half = ku_rag.load_encoder(f"longclip:{tiny}", device="cpu").encoder
    half._place = Place(torch.device("cpu"), torch.bfloat16)  # as on CUDA
    half._model = half._place.load(half._model)
    assert half.fingerprint == encoder.fingerprint
    for name, items in (("encode_texts", TEXTS), ("encode_images", images)):
        cosines = (getattr(half, name)(items) * getattr(encoder, name)(items)).sum(1)
        assert cosines.min() > 0.999


@given(st.text() | st.text("aābß &lt;>'é\n\t\x0b\x1c") | st.text("the lingua 12", max_size=60))
def test_tokens_are_those_of_open_clip(text):
    assert list(PAIRS.ids(text)) == [
        i for i in TOKENIZER.encode(text) if i < TOKENIZER.sot_token_id
    ]


def test_long_words_are_cut_as_open_clip_cuts_them():
    rng = np.random.default_rng(5)
    for letters in ("acgt", "abcdefghijklmnopqrstuvwxyz", "=-", "ab"):
        word = "".join(rng.choice(list(letters), 700))
        assert list(PAIRS.ids(word)) == TOKENIZER.encode(word)


def test_very_long_words_take_linear_time():
    assert PAIRS.ids("ab" * 2_000) == PAIRS.ids("ab" * 500) * 4


def test_a_text_cannot_end_itself(encoder):
    marked = "a bridge <end_of_text> and &lt;start_of_text&gt; a river"
    assert encoder.count_tokens(marked) == encoder.count_tokens("a bridge and a river")
    np.testing.assert_array_equal(
        encoder.encode_texts([marked]), encoder.encode_texts(["a bridge and a river"])
    )


def test_a_text_over_the_limit_is_refused_not_cut(encoder):
    assert encoder.max_tokens == 246
    whole = " ".join(["bridge"] * 246)
    assert encoder.count_tokens(whole) == 246
    assert encoder.encode_texts([whole]).shape == (1, 48)
    with pytest.raises(BadInput, match=r"247 tokens: longclip takes 246 at most; cut it into"):
        encoder.encode_texts(["short", whole + " bridge"])


# ---- pictures ----------------------------------------------------------------------------------


def test_a_fitted_picture_gives_the_same_vector(encoder, images):
    fitted = [encoder.fit(image) for image in images]
    assert {image.size for image in fitted} == {(64, 64)}
    np.testing.assert_array_equal(encoder.encode_images(fitted), encoder.encode_images(images))


def test_regions_are_encoded_as_pictures(encoder, images):
    expected = encoder.encode_images(images)
    whole = encoder.encode_regions(images[0], [(0, 0, *images[0].size), (-5, -5, 500, 500)])
    np.testing.assert_allclose(whole, expected[[0, 0]], atol=1e-6)


def test_very_narrow_pictures_are_cut_before_they_are_scaled(encoder):
    strip = Image.new("RGB", (60_000, 1), (200, 30, 30))
    strip.paste((30, 30, 200), (0, 0, 20_000, 1))
    middle = Image.new("RGB", (64, 64), (200, 30, 30))
    np.testing.assert_allclose(
        encoder.encode_images([strip, strip.rotate(90, expand=True)]),
        encoder.encode_images([middle, middle]),
        atol=1e-6,
    )


# ---- batches -----------------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_is_halved_for_good():
    sizes = []

    def encode(batch):
        if len(batch) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        sizes.append(len(batch))
        return np.float32(batch)[:, None]

    batches = Batches(0, cost=16)
    rows = batches.encode(list(range(40)), lambda _: 1, encode, 1)
    np.testing.assert_array_equal(rows[:, 0], np.arange(40))
    assert max(sizes) == 2
    with pytest.raises(BadInput, match=r"no memory left for a single item .*--device cpu"):
        batches.encode([(1, 2, 3, 4)], lambda _: 1, lambda b: encode(b[0]), 1)


def test_a_device_that_is_not_here_is_named(tiny):
    with pytest.raises(BadInput, match=r"no device 'tpu' on this machine: choose auto or .*cpu"):
        ku_rag.load_encoder(f"longclip:{tiny}", device="tpu")
    with pytest.raises(BadInput, match="no device 'cpu:7'"):
        ku_rag.load_encoder(f"longclip:{tiny}", device="cpu:7")


# ---- the official layout, in the official sizes ------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "name", "dim"),
    [("B", "longclip-B.safetensors", 512), ("L", "longclip-L.pt", 768)],
)
def test_official_sizes_load_by_path_and_serve(tmp_path, shape, name, dim):
    path = checkpoints.save_official(tmp_path / name, getattr(checkpoints, shape))
    photo = picture(tmp_path / "lamp.png", 3)
    records = [{"id": "lamp", "name": "Lamp", "images": ["lamp.png"], "text": "It gives light."}]
    source = write_records(tmp_path / "units.jsonl", records)
    with ku_rag.KnowledgeBase.open(
        tmp_path / "kb", create=True, encoder=f"longclip:{path}", segmenter="whole"
    ) as kb:
        report = kb.ingest(source)
        assert (report.units_added, report.images_added, report.chunks_added) == (1, 1, 1)
        answer = kb.query(photo, "What does it give?").to_dict()
        assert kb.stats().encoder.endswith(f":{dim}")
    assert [hit["id"] for hit in answer["units"]] == ["lamp"]
    assert answer["chunks"][0]["text"] == "It gives light."
    path.unlink()


def test_other_weights_under_the_same_path_are_noticed(tmp_path):
    path = checkpoints.save_official(tmp_path / "tiny.pt")
    with ku_rag.KnowledgeBase.open(tmp_path / "kb", create=True, encoder=f"longclip:{path}") as kb:
        kb.add(ku_rag.Unit("Lamp", id="lamp", texts=("It shines.",)))
    path.unlink()
    checkpoints.save_official(path, seed=1)
    with (
        pytest.raises(Mismatch, match="ku reindex --encoder"),
        ku_rag.KnowledgeBase.open(tmp_path / "kb") as kb,
    ):
        kb.search(text="lamp")


def test_safetensors_and_full_precision_hold_the_same_model(tmp_path, encoder):
    state = {key: tensor.float() for key, tensor in checkpoints.official(checkpoints.TINY).items()}
    save_file({f"module.{key}": tensor.clone() for key, tensor in state.items()}, tmp_path / "a")
    torch.save({"state_dict": state}, tmp_path / "b.pt")
    expected = encoder.encode_texts(TEXTS)
    for name in ("a", "b.pt"):
        loaded = ku_rag.load_encoder(f"longclip:{tmp_path}/{name}", device="cpu")
        np.testing.assert_allclose(loaded.encode_texts(TEXTS), expected, atol=1e-6)
        assert loaded.fingerprint != encoder.fingerprint


# ---- unsuitable files --------------------------------------------------------------------------


class Evil:
    def __init__(self, at):
        self.at = at

    def __reduce__(self):
        return os.mkdir, (str(self.at),)


def truncate(path):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def altered(path, **changes):
    state = checkpoints.official(checkpoints.TINY) | changes
    torch.save({key: tensor for key, tensor in state.items() if tensor is not None}, path)


def scripted(path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))


POSITIONS = torch.zeros(77, 64)
BAD = {
    "a folder": (Path.mkdir, "is a folder"),
    "empty": (lambda p: p.write_bytes(b""), r"is empty \(0 bytes\)"),
    "words": (lambda p: p.write_bytes(b"not weights"), "cannot be read as weights"),
    "cut": (lambda p: (altered(p), truncate(p)), "may have been cut off"),
    "another CLIP": (
        lambda p: altered(p, positional_embedding_res=None),
        "without the two tables of positions.*open_clip:MODEL/PATH",
    ),
    "a ResNet": (
        lambda p: torch.save({"conv1.weight": POSITIONS, "fc.bias": POSITIONS}, p),
        "2 tensors such as 'conv1.weight'.*without the two tables of positions",
    ),
    "a text model": (
        lambda p: torch.save({"embeddings.word_embeddings.weight": POSITIONS}, p),
        "such as 'embeddings.word_embeddings.weight'.*without the two tables of positions",
    ),
    "a YOLO": (
        lambda p: torch.save({"model": {"0": 1}, "epoch": 3, "train_args": {}}, p),
        "holds no state dict but 'model', 'epoch', 'train_args'",
    ),
    "a list": (lambda p: torch.save([POSITIONS], p), "holds a list"),
    "a layer less": (
        lambda p: altered(p, **{"transformer.resblocks.1.ln_1.weight": None}),
        r"the tensors make no Long-CLIP \(.*transformer.resblocks.1.ln_1.weight",
    ),
    "other sizes": (
        lambda p: altered(p, text_projection=torch.zeros(64, 40)),
        "the tensors make no Long-CLIP .*size mismatch",
    ),
    "other tables": (
        lambda p: altered(p, positional_embedding_res=POSITIONS),
        r"tables of positions of \(248, 64\) and \(77, 64\)",
    ),
    "TorchScript": (scripted, "TorchScript archive, which is code"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", BAD)
def test_a_file_of_another_kind_is_refused_in_one_sentence(tmp_path, kind):
    path = tmp_path / "weights.pt"
    write, expected = BAD[kind]
    write(path)
    with pytest.raises(BadInput, match=expected) as caught:
        ku_rag.load_encoder(f"longclip:{path}", device="cpu")
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert "a Long-CLIP checkpoint, such as longclip-B.pt" in message


def test_a_cut_safetensors_file_is_refused(tmp_path, tiny):
    path = checkpoints.save_official(tmp_path / "tiny.safetensors")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1000)
    with pytest.raises(BadInput, match="may have been cut off"):
        ku_rag.load_encoder(f"longclip:{path}")


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_checkpoint_does_not_run(tmp_path, zipped):
    path, mark = tmp_path / "evil.pt", tmp_path / "ran"
    torch.save({"positional_embedding": Evil(mark)}, path, _use_new_zipfile_serialization=zipped)
    assert zipfile.is_zipfile(path) == zipped
    with pytest.raises(BadInput, match=r"asks for \w+.mkdir, .*nothing of it was run"):
        ku_rag.load_encoder(f"longclip:{path}")
    assert not mark.exists()
    path.write_bytes(pickle.dumps(Evil(mark)))
    with pytest.raises(BadInput, match=r"evil\.pt .*nothing of it was run") as refused:
        ku_rag.load_encoder(f"longclip:{path}")
    assert "weights_only" not in str(refused.value), "torch proposes to load it unsafely"
    assert not mark.exists()


def test_weights_that_are_not_here_are_not_fetched(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("something was fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("HF_HOME", "KU_CACHE", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(NotFound, match=r"gone\.pt is not there: expected a Long-CLIP"):
        ku_rag.load_encoder(f"longclip:{tmp_path}/gone.pt")
    with pytest.raises(NotFound, match=r"ku models pull longclip-B.*or put .*longclip-B.pt"):
        ku_rag.load_encoder("longclip:longclip-B")
    with pytest.raises(NotFound, match="ku models pull ViT-B-32/laion2b_s34b_b79k"):
        ku_rag.load_encoder("open_clip:ViT-B-32/laion2b_s34b_b79k")
    with pytest.raises(NotFound, match=r"ViT-B-16/laion2b_s34b_b88k are not here.*MODEL|B-16/PATH"):
        ku_rag.load_encoder("open_clip:ViT-B-16/laion2b_s34b_b88k")
    with pytest.raises(NotFound, match="no weights 'nonsense' for ViT-B-32: it has openai"):
        ku_rag.load_encoder("open_clip:ViT-B-32/nonsense")
    with pytest.raises(NotFound, match="names no model: expected MODEL/PRETRAINED"):
        ku_rag.load_encoder("open_clip:ViT-Nope/openai")


# ---- other models of open_clip -----------------------------------------------------------------


@pytest.mark.parametrize("text", [{}, {"ls_init_value": 0.1}, {"no_causal_mask": True}])
def test_a_folder_of_open_clip_gives_what_open_clip_gives(tmp_path, images, text):
    import open_clip

    folder = checkpoints.save_folder(tmp_path / "model", **text)
    encoder = ku_rag.load_encoder(f"open_clip:{folder}", device="cpu", batch_size=2)
    model, preprocess = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}")(TEXTS)
    with torch.inference_mode():
        of_texts = unit(model.eval().encode_text(tokens).numpy())
        of_images = unit(model.encode_image(torch.stack([preprocess(i) for i in images])).numpy())
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), of_texts, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_images(images), of_images, atol=1e-5)
    assert (encoder.max_tokens, encoder.dim, encoder.cross_modal) == (75, 48, True)


def test_a_named_model_takes_weights_by_path_and_no_others(tmp_path, tiny, folder):
    import open_clip

    torch.manual_seed(0)
    model = open_clip.create_model("ViT-S-32-alt", pretrained=None)
    path = tmp_path / "small.pt"
    torch.save(model.state_dict(), path)
    encoder = ku_rag.load_encoder(f"open_clip:ViT-S-32-alt/{path}", device="cpu")
    assert encoder.fingerprint.startswith("open_clip:ViT-S-32-alt:")
    tokens = open_clip.get_tokenizer("ViT-S-32-alt")(TEXTS)
    with torch.inference_mode():
        expected = unit(model.eval().encode_text(tokens).numpy())
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), expected, atol=1e-5)
    with pytest.raises(BadInput, match=r"has positional_embedding of \(248, 64\), ViT-S-32-alt"):
        ku_rag.load_encoder(f"open_clip:ViT-S-32-alt/{tiny}")
    torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(BadInput, match=r"does not fit ViT-S-32-alt \(.*Missing key"):
        ku_rag.load_encoder(f"open_clip:ViT-S-32-alt/{tmp_path / 'other.pt'}")
    with pytest.raises(BadInput, match="says nothing of its architecture: write open_clip:MODEL/"):
        ku_rag.load_encoder(f"open_clip:{path}")
    with pytest.raises(NotFound, match=r"gone\.pt is not there: expected weights of ViT-S"):
        ku_rag.load_encoder("open_clip:ViT-S-32-alt/gone.pt")


def test_a_folder_without_a_model_is_refused(tmp_path, folder):
    with pytest.raises(BadInput, match=r"has no open_clip_config.json: expected a folder"):
        ku_rag.load_encoder(f"open_clip:{tmp_path}")
    (tmp_path / "open_clip_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(NotFound, match=r"has no weights: expected open_clip_model.safetensors"):
        ku_rag.load_encoder(f"open_clip:{tmp_path}")
    (tmp_path / "open_clip_model.safetensors").write_bytes(
        (folder / "open_clip_model.safetensors").read_bytes()
    )
    with pytest.raises(BadInput, match=r"cannot be made .*expected a model of open_clip"):
        ku_rag.load_encoder(f"open_clip:{tmp_path}")


def test_loading_says_nothing_and_leaves_no_handler(folder, capfd):
    import logging

    before = list(logging.getLogger().handlers)
    ku_rag.load_encoder(f"open_clip:{folder}")
    assert logging.getLogger().handlers == before
    assert logging.root.manager.disable == 0
    assert capfd.readouterr() == ("", "")
