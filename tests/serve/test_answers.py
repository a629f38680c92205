"""Stored answers on pages and in the API."""

from __future__ import annotations

import re

import pytest

from ku_rag import KnowledgeBase
from tests.serve.conftest import serving

QUESTION = "Which country does the Mango come from?"
BROWSER = {"Accept": "text/html"}


def ask(client, question=QUESTION, **more):
    """Submit the form; the page after the redirect."""
    return client.post("/", files={"question": (None, question), **more})


def test_an_answer_has_an_address_that_survives_a_restart(served, fruit_base):
    photo = (fruit_base / "Mango" / "photo.png").read_bytes()
    fields = {"question": "Which country does it come from?"}
    with serving(served) as client:
        sent = client.post("/", data=fields, files={"image": photo}, follow_redirects=False)
        assert sent.status_code == 303
        page = client.get(sent.headers["location"])
    with serving(served) as client:
        again = client.get(sent.headers["location"])
        assert again.text == page.text
        assert "<h2>Peru</h2>" in again.text
        assert re.search(r"<mark>[^<]*Peru[^<]*</mark>", again.text)
        [picture] = re.findall(r'<img src="(/v1/answers/[^"]+)"', again.text)
        response = client.get(picture)
        assert response.headers["content-type"] == "image/jpeg"
        assert response.content.startswith(b"\xff\xd8")
        [report] = re.findall(r'href="(/report[^"]+)"', again.text)
        assert "Peru" in client.get(report).text
        listed = client.get("/answers")
        assert f'<a href="{sent.headers["location"]}">Which country' in listed.text


def test_a_script_gets_the_address_and_the_api_the_answer(client):
    events = client.post("/", data={"question": QUESTION}, headers={"Accept": "text/event-stream"})
    [id] = set(re.findall(r"/answers/([0-9a-f]{16})", events.text))
    stored = client.get(f"/v1/answers/{id}").json()
    assert (stored["answer"], stored["outcome"], stored["verdict"]) == ("Peru", "answered", "")
    assert "/" not in stored["chunks"][0]["source"].replace("Mango/about.txt", "")
    answered = client.post("/v1/query", json={"question": QUESTION}).json()
    assert stored["chunks"] == answered["chunks"]
    assert client.get(f"/v1/answers/{id}/picture").status_code == 404
    assert client.delete(f"/v1/answers/{id}").status_code == 204
    assert client.get(f"/v1/answers/{id}").status_code == 404
    assert client.get(f"/answers/{id}", headers=BROWSER).status_code == 404


def test_answers_are_listed_page_by_page(client):
    for _ in range(3):
        ask(client)
    first = client.get("/v1/answers", params={"limit": 2}).json()
    rest = client.get("/v1/answers", params={"limit": 2, "offset": first["next_offset"]}).json()
    ids = [item["id"] for item in first["items"] + rest["items"]]
    assert (len({*ids}), rest["next_offset"]) == (3, None)


def test_feedback_by_a_form_and_by_the_api(client, served):
    [page, declined] = ask(client), ask(client, "How many moons has the Mango?")
    address = page.url.path
    form = re.search(r'<form class="line" method="post" action="([^"]+)"', page.text)[1]
    judged = client.post(form, data={"verdict": "right"}, headers=BROWSER)
    assert judged.url.path == address
    assert "Feedback: right." in judged.text
    corrected = {"verdict": "wrong", "right_answer": "<b>Chile</b>", "unit": "Kiwi"}
    page = client.post(form, data=corrected, headers=BROWSER).text
    assert "Feedback: wrong, the right answer is &lt;b&gt;Chile&lt;/b&gt;, about" in page
    stored = client.post(form, json={"verdict": "wrong", "right_answer": "Chile"}).json()
    assert (stored["verdict"], stored["right_answer"], stored["unit"]) == ("wrong", "Chile", "")
    assert client.post(form, json={"verdict": "maybe"}).status_code == 422
    assert client.post(form, json={"unit": "Lamp"}).status_code == 404
    [row] = re.findall(r"<tr><th scope=\"row\">.*?</tr>", client.get("/answers").text, re.S)
    assert re.findall(r"<td>(\d+)</td>", row) == ["2", "0", "1", "1"]
    gone = client.post(f"/v1{declined.url.path}", data={"delete": "true"}, headers=BROWSER)
    assert gone.url.path == "/answers"
    assert [stored.question for stored in served.answers.list()] == [QUESTION]


def test_who_may_not_write_stores_nothing(served, guarded):
    guarded.headers["Authorization"] = "Bearer writer"
    address = ask(guarded).url.path
    guarded.headers["Authorization"] = "Bearer reader"
    page = ask(guarded)
    assert page.url.path == "/"
    assert "Is this answer right?" not in page.text
    assert "Link to this answer" in page.text  # asks again
    assert "<h2>Peru</h2>" in guarded.get(address).text
    assert guarded.post(f"/v1{address}", json={"verdict": "right"}).status_code == 403
    assert guarded.delete(f"/v1{address}").status_code == 403
    with (
        KnowledgeBase.open(served.path, read_only=True) as base,
        serving(base, read_only=True) as client,
    ):
        assert ask(client).url.path == "/"
        assert "<h2>Peru</h2>" in client.get(address).text
    assert len(served.answers.list()) == 1


@pytest.mark.parametrize(("site", "count"), [("same-origin", 1), ("cross-site", 0), ("", 0)])
def test_an_address_stores_only_what_a_page_of_the_server_asks(client, served, site, count):
    headers = {"Sec-Fetch-Site": site} if site else {}
    page = client.get("/", params={"question": QUESTION}, headers=headers)
    assert "<h2>Peru</h2>" in page.text
    assert len(served.answers.list()) == count


def test_answers_are_bounded_and_can_be_switched_off(served):
    with serving(served, answers=2) as client:
        for _ in range(4):
            ask(client)
        assert len(served.answers.list()) == 2
    with serving(served, answers=0) as client:
        assert ask(client).url.path == "/"
    assert len(served.answers.list()) == 2


def test_a_deleted_unit_takes_its_answers(client):
    page = ask(client)
    assert client.delete("/v1/units/Mango").is_success
    assert client.get(page.url.path, headers=BROWSER).status_code == 404
    assert client.get("/v1/answers").json()["items"] == []


def test_an_answer_that_cannot_be_stored_is_still_shown(client, served):
    (served.path / "answers.sqlite").write_bytes(b"something else" * 100)
    page = ask(client)
    assert "<h2>Peru</h2>" in page.text
    assert "note: this answer was not stored: answers.sqlite is damaged" in page.text
