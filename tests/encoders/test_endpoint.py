"""Encoders behind an endpoint: a real server, documented request formats of others, and faults."""

from __future__ import annotations

import base64
import io
import json
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import ku_rag
from ku_rag import BadInput, KnowledgeBase, Unit
from ku_rag.errors import Mismatch, ModelFailed
from ku_rag.settings import Settings
from tests.conftest import picture
from tests.embedding_server import (
    WIDTH,
    embeddings,
    items,
    needs_llama,
    recording,
    save_model,
    save_picture_model,
    serving_llama,
    vector,
)
from tests.endpoint import Said, fails, says

KEY = "sk-very-secret-0123456789"
TEXTS = ["A lamp gives light.", "A desk of wood.", "A fan"]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    for name in ("OPENAI_BASE_URL", "KU_ENCODER_URL", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    with serving_llama(save_model(tmp_path_factory.mktemp("llama") / "tiny.gguf")) as url:
        yield url


@pytest.fixture(scope="module")
def other_llama(tmp_path_factory):
    with serving_llama(save_model(tmp_path_factory.mktemp("llama") / "tiny.gguf", seed=1)) as url:
        yield url


@pytest.fixture(scope="module")
def llama_with_pictures(tmp_path_factory):
    with serving_llama(*save_picture_model(tmp_path_factory.mktemp("llama"))) as url:
        yield url


def encoder(spec, url, **settings):
    """The encoder of texts at an address; for openai, without the encoder of pictures."""
    options = Settings(encoder_url=url, **settings)
    loaded = ku_rag.load_encoder(spec, settings=options)
    return loaded.text if "openai" in spec else loaded


def unit(values):
    return np.float32(values) / np.linalg.norm(values)


# ---- llama.cpp ---------------------------------------------------------------------------------


@needs_llama
def test_texts_through_llama_cpp(llama):
    tiny = encoder("openai:tiny", llama)
    many = [f"text number {n}" for n in range(70)]
    vectors = tiny.encode_texts([*many, "", many[5]])
    assert vectors.shape == (72, WIDTH)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1] * 70 + [0, 1], atol=1e-5)
    np.testing.assert_array_equal(vectors[5], vectors[71])
    # Another batch size changes the order of summation.
    np.testing.assert_allclose(vectors[5], tiny.encode_texts([many[5]])[0], atol=1e-4)
    assert tiny.fingerprint == encoder("openai:tiny", llama).fingerprint


@needs_llama
def test_the_beginning_of_a_vector_is_its_short_form(llama):
    whole, short = (encoder(spec, llama) for spec in ("openai:tiny", "openai:tiny@16"))
    assert (short.dim, whole.dim) == (16, WIDTH)
    expected = whole.encode_texts(TEXTS)[:, :16]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(short.encode_texts(TEXTS), expected, atol=1e-6)


@needs_llama
def test_the_longest_chunk_fits_a_model_of_512_tokens(llama):
    tiny = encoder("openai:tiny", llama)
    for text in ("lamp " * 200, "9" * 400, "?! " * 200, "灯" * 133):
        assert tiny.count_tokens(text) <= tiny.max_tokens
    assert tiny.encode_texts(["9" * 400]).shape == (1, WIDTH)
    with pytest.raises(BadInput, match="400 at most"):
        tiny.encode_texts(["9" * 401])


@needs_llama
def test_a_base_notices_that_its_server_has_another_model(ku, llama, other_llama, monkeypatch):
    monkeypatch.setenv("KU_ENCODER_URL", llama)
    question = ("query", "-", "What is the price of the lamp?")
    assert ku("init", "--encoder", "openai:tiny").code == 0
    assert ku("add", "--name", "Lamp", "--text", "Price: 5 euros. It shines.").code == 0
    assert ku(*question).out.startswith("5 euros")
    refused = ku(*question, "--encoder-url", other_llama)
    assert refused.code == 4
    assert "is openai:tiny:32~" in refused.err
    assert "back (on the server, if it runs on one)" in refused.err
    assert ku("list").code == 0
    assert ku("reindex", "--encoder", "openai:tiny", "--encoder-url", other_llama).code == 0
    assert ku(*question, "--encoder-url", other_llama).out.startswith("5 euros")
    assert ku(*question).code == 4


@needs_llama
def test_pictures_have_the_default_encoder_where_texts_have_a_server(tmp_path, llama):
    photo = picture(tmp_path / "lamp.png", 1)
    with KnowledgeBase.open(
        tmp_path / "kb", create=True, encoder="openai:tiny", encoder_url=llama
    ) as kb:
        kb.add(Unit("Lamp", id="lamp", texts=("Price: 5 euros",), images=(photo,)))
        assert kb.query(photo, "What is the price?").answer == "5 euros"
        assert "embedded" in kb.stats().encoder


@needs_llama
def test_pictures_through_llama_cpp(llama_with_pictures, tmp_path):
    tiny = encoder("llamacpp:tiny", llama_with_pictures)
    photos = [Image.open(picture(tmp_path / f"{n}.png", n)) for n in range(20)]
    vectors = tiny.encode_images([*photos, photos[3]])
    assert (tiny.cross_modal, vectors.shape) == (True, (21, WIDTH))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(vectors[3], vectors[20])
    again = tiny.encode_images(photos)
    distances = np.linalg.norm(again[:, None] - vectors[None, :20], axis=2)
    assert distances.argmin(1).tolist() == list(range(20))
    assert distances.diagonal().max() < 1e-4 < distances[~np.eye(20, dtype=bool)].min()
    texts = tiny.encode_texts(TEXTS)
    assert texts.shape == (3, WIDTH)
    with KnowledgeBase.open(
        tmp_path / "kb", create=True, encoder="llamacpp:tiny", encoder_url=llama_with_pictures
    ) as kb:
        kb.add(Unit("Lamp", id="lamp", texts=("Price: 5 euros",), images=(tmp_path / "1.png",)))
        kb.add(Unit("Fan", id="fan", images=(tmp_path / "2.png",)))
        assert kb.query(tmp_path / "1.png", "What is the price?").answer == "5 euros"


@needs_llama
def test_a_llama_cpp_without_a_tower_takes_no_pictures(llama):
    tiny = encoder("llamacpp:tiny", llama)
    with pytest.raises(ModelFailed, match="takes no pictures: expected a current"):
        tiny.encode_images([Image.new("RGB", (8, 8))])


# ---- request formats ---------------------------------------------------------------------------


def sent_picture(url):
    kind, _, data = url.partition(",")
    assert kind == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


def test_vllm_takes_conversations(tmp_path):
    lamp = Image.open(picture(tmp_path / "lamp.png", 1, (200, 100)))
    with recording() as server:
        vllm = encoder("vllm:Qwen/Qwen3-VL-Embedding-2B", server.url, mllm_image_side=64)
        texts, images = vllm.encode_texts(TEXTS[:1]), vllm.encode_images([lamp])
        [region] = vllm.encode_regions(lamp, [(0, 0, 50, 40)])
    assert (vllm.cross_modal, set(server.paths)) == (True, {"/v1/embeddings"})
    common = {"model": "Qwen/Qwen3-VL-Embedding-2B", "encoding_format": "float"}
    _, text, image, part = server.bodies
    content = [{"type": "text", "text": TEXTS[0]}]
    assert text == common | {"messages": [{"role": "user", "content": content}]}
    [url] = items(image)
    content = [{"type": "image_url", "image_url": {"url": url}}]
    assert image == common | {"messages": [{"role": "user", "content": content}]}
    assert sent_picture(url).size == (64, 32)
    assert sent_picture(items(part)[0]).size == (50, 40)
    np.testing.assert_allclose(texts[0], unit(vector(TEXTS[0])), atol=1e-6)
    np.testing.assert_allclose(images[0], unit(vector(url)), atol=1e-6)
    np.testing.assert_allclose(region, unit(vector(items(part)[0])), atol=1e-6)


def test_infinity_takes_data_uris_with_their_modality(tmp_path):
    photos = [Image.open(picture(tmp_path / f"{n}.png", n)) for n in (1, 2)]
    with recording() as server:
        infinity = encoder("infinity:jinaai/jina-clip-v2@4", server.url)
        texts, images = infinity.encode_texts(TEXTS), infinity.encode_images([*photos, photos[0]])
    _, text, image = server.bodies
    common = {"model": "jinaai/jina-clip-v2", "encoding_format": "float", "dimensions": 4}
    assert text == common | {"input": TEXTS}
    assert image == common | {"input": items(image), "modality": "image"}
    assert [sent_picture(url).size for url in items(image)] == [(96, 64)] * 2
    np.testing.assert_allclose(texts, [unit(vector(sentence)[:4]) for sentence in TEXTS], atol=1e-6)
    np.testing.assert_array_equal(images[0], images[2])


def test_llama_cpp_takes_data_with_the_marker_of_its_process(tmp_path):
    photos = [Image.open(picture(tmp_path / f"{n}.png", n)) for n in (1, 2)]
    with recording() as server:
        llama = encoder("llamacpp:tiny@4", server.url)
        server.listed = {"media_marker": "<__media_1__>", "modalities": {"vision": True}}
        llama.encode_images(photos)
        server.listed["media_marker"] = "<__media_2__>"
        llama.encode_images(photos[:1])
    _, first, second = (body["input"] for body in server.bodies)
    assert [item["prompt_string"] for item in first] == ["<__media_1__>\n"] * 2
    assert [item["prompt_string"] for item in second] == ["<__media_2__>\n"]
    [data] = second[0]["multimodal_data"]
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (96, 64)


def test_texts_are_sent_in_batches_and_several_at_a_time():
    both = threading.Barrier(2, timeout=30)

    def reply(body):
        response = embeddings(map(vector, items(body)))
        response.gate = both.wait if len(items(body)) == 2 else None
        return response

    with recording(reply) as server:
        loaded = encoder("openai:m", server.url, batch_size=2, mllm_concurrency=2)
        vectors = loaded.encode_texts(["a", "b", "c", "d", "a"])
    assert sorted(map(items, server.bodies[1:])) == [["a", "b"], ["c", "d"]]
    np.testing.assert_allclose(vectors[3], unit(vector("d")), atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[4])


def test_an_interrupt_waits_for_no_request():
    over = threading.Event()

    def hang():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        over.wait(60)

    def reply(body):
        response = embeddings(map(vector, items(body)))
        response.gate = hang if items(body) == ["b"] else None
        return response

    with recording(reply) as server:
        loaded = encoder("openai:m", server.url, batch_size=1, mllm_concurrency=1)
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            loaded.encode_texts(["a", "b", "c"])
        assert time.monotonic() - begun < 30
        over.set()
    assert [items(body) for body in server.bodies[1:]] == [["a"], ["b"]]


def test_a_request_that_fails_ends_the_others():
    def reply(body):
        return fails(400, "no") if items(body) == ["b"] else embeddings(map(vector, items(body)))

    with recording(reply) as server:
        loaded = encoder("openai:m", server.url, batch_size=1, mllm_concurrency=1)
        with pytest.raises(ModelFailed, match="no"):
            loaded.encode_texts(["a", "b", *map(str, range(200))])
    assert len(server.bodies) < 100


# ---- keys --------------------------------------------------------------------------------------


def keys(server):
    return {headers.get("authorization") for headers in server.headers}


def test_the_key_is_sent_where_the_environment_or_an_argument_says(tmp_path, monkeypatch):
    with recording() as server:
        with KnowledgeBase.open(
            tmp_path / "kb", create=True, encoder="openai:m", encoder_url=server.url
        ) as kb:
            kb.add(Unit("Lamp", texts=("It shines.",)))
        assert keys(server) == {f"Bearer {KEY}"}
        server.headers.clear()
        # Now only the base's own ku.toml names the server.
        with KnowledgeBase.open(tmp_path / "kb") as kb:
            kb.add(Unit("Fan", texts=("It blows.",)))
        assert keys(server) == {None}
        server.headers.clear()
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with KnowledgeBase.open(tmp_path / "kb") as kb:
            kb.add(Unit("Desk", texts=("Of wood.",)))
        assert keys(server) == {f"Bearer {KEY}"}


def test_doctor_names_the_server_that_gets_the_key(ku, monkeypatch):
    monkeypatch.setenv("KU_ENCODER_URL", "http://127.0.0.1:9/v1")
    assert "OPENAI_API_KEY is sent to http://127.0.0.1:9/v1" in ku("doctor").out


def test_doctor_names_the_default_server_of_the_encoder(ku, monkeypatch):
    openai = "OPENAI_API_KEY is sent to https://api.openai.com/v1"
    with recording() as server:
        assert ku("init", "--encoder", "openai:m", "--encoder-url", server.url).code == 0
        monkeypatch.setenv("KU_MLLM_URL", "http://127.0.0.1:9/v1")
        assert openai not in ku("doctor").out
        (Path("kb") / "ku.toml").write_text("")
        assert openai in ku("doctor").out
        monkeypatch.setenv("KU_ENCODER_URL", server.url)
        assert openai not in ku("doctor").out
    monkeypatch.delenv("KU_ENCODER_URL")
    monkeypatch.setenv("KU_DEFAULT_ENCODER", "openai:m")
    assert openai in ku("doctor", "--kb", "none").out


def test_without_address_and_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelFailed, match="OPENAI_API_KEY to use OpenAI, or encoder_url"):
        ku_rag.load_encoder("openai:m")


def test_an_encoder_of_pictures_is_never_that_of_openai():
    for server in ("vllm", "infinity", "llamacpp"):
        with pytest.raises(ModelFailed, match=f"no endpoint for {server}:m: set encoder_url"):
            ku_rag.load_encoder(f"{server}:m")


# ---- faults ------------------------------------------------------------------------------------


def test_the_address_of_a_new_encoder_is_recorded(ku):
    with recording() as server:
        assert ku("add", "--name", "Lamp", "--text", "It shines.").code == 0
        assert ku("reindex", "--encoder", "openai:m", "--encoder-url", server.url).code == 0
        settings = Path("kb") / "ku.toml"
        assert f'\nencoder_url = "{server.url}"\n' in settings.read_text()
        assert "# encoder_url" not in settings.read_text()
        assert ku("search", "--text", "shines").code == 0
        for text in ("k_units = 5", 'encoder_url = "http://127.0.0.1:9/v1"\nk_units = 5\n'):
            settings.write_text(text)
            assert ku("reindex", "--encoder-url", server.url).code == 0
            assert sorted(settings.read_text().splitlines()) == [
                f'encoder_url = "{server.url}"',
                "k_units = 5",
            ]
        settings.unlink()
        assert ku("reindex", "--encoder-url", server.url).code == 0
        assert f'\nencoder_url = "{server.url}"\n' in settings.read_text()


def test_a_busy_server_is_asked_again():
    replies = [embeddings([vector("probe")])]
    replies += [fails(429, "too many", {"Retry-After": "0"}), fails(503, "loading")]
    with recording(
        lambda body: replies.pop(0) if replies else embeddings([[3.0] + [0.0] * 7])
    ) as s:
        assert encoder("openai:m", s.url).encode_texts(["a"]).tolist() == [[1.0] + [0.0] * 7]
    assert len(s.bodies) == 4


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (embeddings([[1.0, 2.0]]), r"the shape \(1, 2\), expected \(1, 8\)"),
        (embeddings([[1.0] * 8, [1.0] * 8]), r"the shape \(2, 8\), expected \(1, 8\)"),
        (embeddings([["x"] * 8]), r"the shape \(0, 0\)"),
        (embeddings([[[1.0] * 8]]), r"the shape \(1, 1, 8\)"),
        (Said(b'{"data": [{"index": 0, "embedding": [NaN,1,1,1,1,1,1,1]}]}'), "all finite"),
        (Said({"data": [{"embedding": [1.0] * 8}]}), r"the shape \(0, 0\)"),
        (says("I am a chat model."), r"the shape \(0, 0\)"),
        (Said([]), r"the shape \(0, 0\)"),
        (fails(401, f"Incorrect API key: {KEY}"), "set OPENAI_API_KEY to a valid key"),
        (fails(400, "this model does not support pictures"), "does not support pictures"),
        (Said(b"", status=301, headers={"Location": "/"}), "set encoder_url to the final address"),
    ],
)
def test_replies_that_are_no_vectors(reply, expected):
    replies = [embeddings([vector("probe")]), reply]
    with recording(lambda body: replies.pop(0)) as server:
        loaded = encoder("openai:m", server.url)
        with pytest.raises(ModelFailed, match=expected) as failure:
            loaded.encode_texts(["a"])
        assert server.url in str(failure.value)
        assert KEY not in str(failure.value)


def test_a_server_that_is_gone_leaves_the_base_readable(ku):
    with recording() as server:
        assert ku("init", "--encoder", "openai:m", "--encoder-url", server.url).code == 0
        assert ku("add", "--name", "Lamp", "--text", "It shines.").code == 0
    assert json.loads(ku("list", "--json").out)
    failed = ku("query", "-", "What shines?")
    assert failed.code == 1
    assert (
        f"nothing answers at {server.url} (connection refused): start it, or set encoder_url"
        in (failed.err)
    )


def test_pictures_and_names_that_an_encoder_of_texts_refuses():
    with recording() as server:
        texts = encoder("openai:m", server.url)
        with pytest.raises(BadInput, match=r"write openai:NAME\+embedded or vllm:NAME"):
            texts.encode_images([Image.new("RGB", (8, 8))])
        with pytest.raises(BadInput, match="write it first"):
            ku_rag.load_encoder("embedded+openai:m")
        with pytest.raises(BadInput, match='write "openai:argument"'):
            ku_rag.load_encoder("openai")


def test_a_little_noise_is_no_other_model(tmp_path):
    noise = np.random.default_rng(0)

    def noisy(body):
        rows = [np.float32(vector(item, 64)) for item in items(body)]
        return embeddings([(row + noise.normal(0, 0.02, 64)).tolist() for row in rows])

    with recording(noisy) as server:
        options = {"encoder": "openai:m", "encoder_url": server.url}
        with KnowledgeBase.open(tmp_path / "kb", create=True, **options) as kb:
            kb.add(Unit("Lamp", texts=("It shines.",)))
        fingerprints = {encoder("openai:m", server.url).fingerprint for _ in range(5)}
        assert len(fingerprints) > 1
        with KnowledgeBase.open(tmp_path / "kb", **options) as kb:
            assert kb.search(text="What shines?").chunks
            assert [kb.reindex("openai:m").chunks for _ in range(8)] == [0] * 8
        server.says = lambda body: embeddings([vector(f"2 {item}", 64) for item in items(body)])
        with (
            KnowledgeBase.open(tmp_path / "kb", **options) as kb,
            pytest.raises(Mismatch, match="put the old weights back"),
        ):
            kb.search(text="What shines?")
