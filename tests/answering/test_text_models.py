"""Models that see no pictures: their requests, and a model for vision in their place."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import ModelFailed
from ku_rag.mllm import Message, Picture, Request
from ku_rag.mllm.call_errors import PicturesNotSeen
from tests.conftest import picture
from tests.endpoint import fails, model_at, says, serving

QUESTION = "Where does it come from?"
REFUSALS = [
    fails(500, "image input is not supported - hint: you may need to provide the mmproj"),
    fails(400, "lamp-7b is not a multimodal model"),
    fails(400, "At most 0 image(s) may be provided in one request."),
    fails(400, "Invalid content type. image_url is only supported by certain models."),
    fails(422, "messages[0]: unknown variant `image_url`, expected `text`"),
    fails(400, "this model does not support image input"),
    fails(400, "messages.0.content must be a string", param="messages"),
    fails(500, "this model is missing data required for image input"),
]
pytestmark = pytest.mark.usefixtures("own_surroundings")

NOTE = "the model was sent no pictures: the evidence was sent as text"


@pytest.fixture
def photo(tmp_path):
    return picture(tmp_path / "lamp.png", 3, size=(240, 160))


@pytest.fixture
def lamp(tmp_path, photo):
    """Returns a function that opens a base of a lamp with a model behind an endpoint."""
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Desk lamp", id="lamp", images=(photo,), texts=("It comes from Peru.",)))

    def open_base(endpoint, mllm="m-1", **settings):
        return KnowledgeBase.open(tmp_path / "kb", mllm=mllm, mllm_url=endpoint.url, **settings)

    return open_base


def has_picture(body):
    return '"image_url"' in json.dumps(body)


def replies(body, draft="Italy"):
    verdict = {"reason": "So.", "citations": ["E1"], "answer": "Peru", "changed": True}
    return says(json.dumps(verdict) if "response_format" in body else draft)


def reads(body):
    """A model of text, which refuses pictures."""
    return REFUSALS[0] if has_picture(body) else replies(body)


def sees(_):
    return says("A green desk lamp.")


# ---- refusals of pictures ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "refusal", REFUSALS, ids=lambda response: response.body["error"]["message"][:30]
)
def test_a_refusal_of_pictures_is_recognised_and_remembered(lamp, photo, refusal):
    with serving(by=lambda body: refusal if has_picture(body) else reads(body)) as endpoint:
        for model in ("m-1", "m-1", "m-2"):
            with lamp(endpoint, model, mllm_cache=False) as kb:
                assert kb.query(photo, QUESTION, kcc=False).answer == "Peru"
    pictured = [has_picture(body) for body in endpoint.bodies]
    assert pictured == [True, False, False, False, True, False, False]
    assert "You see no pictures" in endpoint.texts(1)[0]


def test_a_refusal_is_remembered_where_the_cache_cannot_be_written(lamp, photo, tmp_path):
    (tmp_path / "cache").write_text("a file in place of the folder")
    with serving(by=reads) as endpoint, lamp(endpoint) as kb:
        assert [kb.query(photo, QUESTION).answer for _ in range(2)] == ["Peru", "Peru"]
    pictured = [has_picture(body) for body in endpoint.bodies]
    assert pictured == [True] + [False] * (len(pictured) - 1)


@pytest.mark.parametrize("reason", ["images larger than 20 MB", "image/webp"])
def test_a_refusal_of_one_picture_is_not_one_of_all(lamp, photo, reason):
    with serving(by=lambda _: fails(400, f"we do not support {reason}")) as endpoint:
        for _ in range(2):
            with lamp(endpoint) as kb, pytest.raises(ModelFailed):
                kb.query(photo, QUESTION)
    assert list(map(has_picture, endpoint.bodies)) == [True, True]


def test_a_request_that_needs_its_pictures_fails_on_a_model_that_sees_none():
    looked = [Picture(Image.new("RGB", (8, width))) for width in (8, 9)]
    request = Request((Message("user", (*looked, "Which?")),), needed_pictures=2)
    for refusal in (REFUSALS[0], fails(400, "at most 1 image(s) may be provided")):
        with serving(refusal) as endpoint:
            mllm = model_at(endpoint.url)
            with pytest.raises(PicturesNotSeen, match="ku models ping"):
                mllm.chat(request)
            assert mllm.sees_pictures == (refusal is not REFUSALS[0])


def test_pictures_of_an_entity_are_not_captioned_by_a_model_that_sees_none(lamp):
    with serving(by=reads) as endpoint, lamp(endpoint) as kb:
        report = kb.graph.caption()
    assert (report.units_updated, len(endpoint.bodies)) == (0, 1)
    assert "sees no pictures" in report.quarantined[0].reason


def test_a_ping_learns_whether_a_model_sees(lamp, ku, photo):
    sees_red = [True]

    def model(body):
        return replies(body, "Red.") if has_picture(body) and sees_red else reads(body)

    with serving(by=model) as endpoint, lamp(endpoint) as kb:
        ping = ("models", "ping", "--mllm", "m-1", "--mllm-url", endpoint.url)
        assert ku(*ping, "--json").json["pictures"]
        sees_red.clear()
        assert "pictures: not seen" in ku(*ping).out
        sent = len(endpoint.bodies)
        run = ku("query", str(photo), QUESTION, *ping[2:])
        assert run.out.startswith("Peru\n")
        assert f"  note: {NOTE}\n" in run.out
        assert kb.query(photo, QUESTION).answer == "Peru"
        assert not any(map(has_picture, endpoint.bodies[sent:]))
        # What a later ping learns applies to running clients and cached replies, too.
        sees_red.append(True)
        assert ku(*ping, "--json").json["pictures"]
        sent = len(endpoint.bodies)
        assert kb.query(photo, QUESTION).draft == "Red."
        assert has_picture(endpoint.bodies[sent])


# ---- the evidence as text ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"strict": "kurag"}, {"kcc": False}, {"strict": "kurag", "kcc": False}]
)
def test_the_same_evidence_is_sent_as_text(lamp, photo, options):
    with serving(by=reads) as endpoint:
        for _ in range(2):
            with lamp(endpoint, mllm_cache=False) as kb:
                answer = kb.query(photo, QUESTION, **options)
            assert (answer.answer, answer.citations) == ("Peru", ("E1",))
            assert answer.correction.notes == (NOTE,)
            assert answer.correction.caption is None
        last = endpoint.texts(len(endpoint.bodies) - 1)
        assert '"text": "It comes from Peru."' in last[-1]
        assert "a picture that you cannot see" in last[0]
        assert "pages" not in last[-1]
    assert sum(map(has_picture, endpoint.bodies)) == 1


def test_without_units_nothing_is_captioned_by_a_model_that_sees_nothing(lamp, photo):
    with serving(by=reads) as endpoint, lamp(endpoint) as kb:
        answer = kb.query(photo, QUESTION, units=False)
    assert answer.correction.caption is None
    assert "sees no pictures" in answer.correction.notes[0]


# ---- a model for vision ------------------------------------------------------------------------


def test_a_model_for_vision_describes_the_region(lamp, tmp_path, photo):
    scene = Image.new("RGB", (900, 600), "white")
    with Image.open(photo) as image:
        scene.paste(image, (300, 200))
    scene.save(tmp_path / "scene.png")
    with serving(by=reads) as endpoint, serving(by=sees) as vision:
        eyes = {"vision_mllm": "v-1", "vision_mllm_url": vision.url}
        with lamp(endpoint, **eyes) as kb:
            answer = kb.query(tmp_path / "scene.png", QUESTION)
    x0, y0, x1, y1 = answer.region.box
    assert [region.size for region in vision.pictures(0)] == [(x1 - x0, y1 - y0)]
    assert x1 - x0 < 900
    assert not any(map(has_picture, endpoint.bodies))
    assert '{"shown": "A green desk lamp."}' in endpoint.texts(0)[0]
    assert (answer.answer, answer.correction.caption) == ("Peru", "A green desk lamp.")
    assert answer.correction.usage["replies"] == 3
    assert answer.models["prompts"].startswith("caption 1, draft 1")


def test_the_command_names_it(lamp, ku, photo, monkeypatch):
    with serving(by=reads) as endpoint, serving(by=sees) as vision:
        monkeypatch.setenv("KU_VISION_MLLM_URL", vision.url)
        command = ("query", photo, QUESTION, "--mllm", "m-1", "--mllm-url", endpoint.url)
        run = ku(*map(str, command), "--vision-mllm", "v-1", "--json")
        assert run.json["caption"] == "A green desk lamp."
        assert run.json["notes"] == [NOTE]


def test_a_model_for_vision_that_fails_is_not_replaced_in_silence(lamp, photo):
    with serving(by=reads) as endpoint, serving(fails(401, "no key")) as vision:
        kb = lamp(endpoint, vision_mllm="v-1", vision_mllm_url=vision.url)
        with kb, pytest.raises(ModelFailed, match="401"):
            kb.query(photo, QUESTION)
