from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from tests.serve.conftest import data_uri

QUESTION = "Which country does it come from?"


def conversation(*content):
    return {"model": "default", "messages": [{"role": "user", "content": [*content]}]}


@pytest.fixture
def photo(fruit_base):
    return {"type": "image_url", "image_url": {"url": data_uri(fruit_base / "Mango/photo.png")}}


def test_a_picture_and_a_question_are_answered_with_evidence(client, photo):
    body = conversation(photo, {"type": "text", "text": QUESTION}) | {"temperature": 0.2, "n": 1}
    reply = client.post("/v1/chat/completions", json=body).json()
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": "Peru"}
    assert reply["ku"]["citations"]
    assert reply["ku"]["region"]["box"]


def test_a_later_question_is_about_the_same_picture(client, photo):
    body = conversation(photo, {"type": "text", "text": "What is this?"})
    body["messages"] += [
        {"role": "assistant", "content": "A fruit."},
        {"role": "user", "content": QUESTION},
    ]
    reply = client.post("/v1/chat/completions", json=body).json()
    assert reply["choices"][0]["message"]["content"] == "Peru"


def test_the_stream_ends_with_the_evidence(client, photo):
    body = conversation(photo, {"type": "text", "text": QUESTION}) | {"stream": True}
    lines = client.post("/v1/chat/completions", json=body).text.strip().split("\n\n")
    *chunks, end = [line.removeprefix("data: ") for line in lines]
    first, last = map(json.loads, chunks)
    assert end == "[DONE]"
    assert first["choices"][0]["delta"]["content"] == "Peru"
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["ku"]["units"][0]["image"].startswith("/v1/images/")


def test_what_is_not_known_is_said(client):
    body = conversation({"type": "text", "text": "How tall is the Eiffel Tower?"})
    reply = client.post("/v1/chat/completions", json=body).json()
    assert "No answer was found in the knowledge base" in reply["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/a.png", "file:///etc/passwd", "/etc/passwd", "data:,x", ""]
)
def test_no_address_is_fetched(client, url):
    photo = {"type": "image_url", "image_url": {"url": url}}
    body = conversation(photo, {"type": "text", "text": QUESTION})
    response = client.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.json()["code"]) == (422, "BadInput")


def test_the_client_of_openai(client, served, photo, fruit_base):
    openai = pytest.importorskip("openai")
    api = openai.OpenAI(base_url="http://localhost/v1", api_key="none", http_client=client)
    assert [model.id for model in api.models.list()] == ["default"]
    body = conversation(photo, {"type": "text", "text": QUESTION})
    completion = api.chat.completions.create(**body)
    assert completion.choices[0].message.content == "Peru"
    assert completion.ku["citations"]
    parts = [*api.chat.completions.create(**body, stream=True)]
    assert "".join(part.choices[0].delta.content or "" for part in parts) == "Peru"
    with pytest.raises(openai.NotFoundError):
        api.chat.completions.create(**body | {"model": "gpt"})
    texts = ["stone bridge", "a lamp"]
    reply = api.embeddings.create(model="default", input=[*texts, photo["image_url"]["url"]])
    vectors = [item.embedding for item in reply.data]
    assert (reply.model, [item.index for item in reply.data]) == ("default", [0, 1, 2])
    assert np.array_equal(vectors[:2], served.encoder.encode_texts(texts))
    picture = Image.open(fruit_base / "Mango" / "photo.png").convert("RGB")
    assert np.array_equal(vectors[2], served.encoder.encode_images([picture])[0])
    count = sum(map(served.encoder.count_tokens, texts))
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (count, count)
    plain = api.embeddings.create(model="default", input=texts[0], encoding_format="float")
    assert np.allclose(plain.data[0].embedding, vectors[0], atol=1e-7)
    with pytest.raises(openai.NotFoundError):
        api.embeddings.create(model="gpt", input="x")
    with pytest.raises(openai.UnprocessableEntityError):
        api.embeddings.create(model="default", input="data:image/png;base64,AAAA")
    with pytest.raises(openai.UnprocessableEntityError):
        api.embeddings.create(model="default", input=[1, 2, 3])


def test_options_of_a_question(client):
    conversation_about = conversation({"type": "text", "text": QUESTION})
    for options, content in (({"unit": "Mango"}, "Peru"), ({"where": ["kind=tree"]}, "No answer")):
        reply = client.post("/v1/chat/completions", json=conversation_about | options).json()
        assert content in reply["choices"][0]["message"]["content"]
    refused = client.post("/v1/chat/completions", json=conversation_about | {"k": 0})
    assert (refused.status_code, refused.json()["code"]) == (422, "BadInput")
