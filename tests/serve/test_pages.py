from __future__ import annotations

import json
import re

import pytest

from ku_rag import KnowledgeBase
from tests.serve.conftest import serving

BROWSER = {"Accept": "text/html"}
HOSTILE = "<img src=x onerror=alert(1)>\"'&"
TABLE = {"name": "Sizes", "header": ["Part", "Weight"], "rows": [["Lid", "3 kg"], ["Foot", "1 kg"]]}


@pytest.fixture
def toolbox(client):
    """A unit with a text, a table and a relation."""
    relations = [{"relation": "stands in", "target": "Cellar", "target_kind": "room"}]
    record = {"name": "Toolbox", "texts": ["It is blue."], "tables": [TABLE]}
    assert client.put("/v1/units/toolbox", json={**record, "relations": relations}).is_success


def ask(client, question, **more):
    return client.post("/", files={"question": (None, question), **more})


@pytest.mark.parametrize("path", ["/", "/units", "/units?text=sweet", "/units/Mango"])
def test_pages_hold_no_script_no_style_and_no_foreign_address(client, path):
    page = client.get(path)
    assert page.status_code == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert re.findall(r"<script[^>]*>", page.text) == [
        '<script type="module" src="/static/page.js">'
    ]
    assert not re.search(r'<style| style=| on\w+=|"javascript:', page.text)
    assert "://" not in page.text.replace("http://www.w3.org/2000/svg", "")


def test_the_first_view_is_small(client):
    parts = [client.get(path) for path in ("/", "/static/page.css", "/static/page.js")]
    assert sum(len(part.content) for part in parts) < 60_000
    cached = client.get("/static/page.js", headers={"If-None-Match": parts[2].headers["etag"]})
    assert cached.status_code == 304


def test_a_form_gives_a_page_with_the_answer(client, fruit_base):
    picture = (fruit_base / "Mango" / "photo.png").read_bytes()
    page = ask(client, "Which country does it come from?", image=("a.png", picture)).text
    assert re.search(r"<h2>\s*Peru\s*</h2>", page)
    assert re.search(r"<mark>[^<]*Peru[^<]*</mark>", page)
    assert re.search(r'data-box="\[\d+, \d+, \d+, \d+\]"', page)
    assert re.search(r'<img src="/v1/images/[0-9a-f]{64}\?size=320"', page)


def test_what_is_not_known_is_said(client):
    page = ask(client, "How many moons has the Mango?", image=("", b"")).text
    assert "<h2>No certain answer was found. The closest passage:</h2>" in page


def test_a_row_is_shown_as_a_table_with_its_cell_marked(client, toolbox):
    page = ask(client, "What is the weight of the Lid of the Toolbox?").text
    assert "<caption>Sizes, row 1</caption>" in page
    assert re.search(r"Weight</th>\s*<td><mark>3 kg</mark></td>", page)


def test_a_script_gets_each_step_as_an_event(client):
    question = {"question": (None, "Which country does the Mango come from?")}
    plan = {"plan": (None, "sequential")}
    sent = client.post("/", files=question | plan, headers={"Accept": "text/event-stream"}).text
    kinds = re.findall(r"^event: (\w+)$", sent, re.M)
    assert kinds[0] == "round"
    assert kinds[-3:] == ["units", "evidence", "answer"]
    *_, last = (json.loads(data)["html"] for data in re.findall(r"^data: (.*)$", sent, re.M))
    assert "Peru" in last
    assert "<h2>Rounds</h2>" in last


def test_names_and_texts_are_escaped(client):
    record = {
        "name": HOSTILE,
        "kind": HOSTILE,
        "texts": [f"</textarea><script>{HOSTILE}"],
        "metadata": {HOSTILE: HOSTILE},
        "tables": [{"name": HOSTILE, "header": [HOSTILE], "rows": [[HOSTILE]]}],
        "relations": [{"relation": HOSTILE, "target": HOSTILE * 2}],
    }
    assert client.put("/v1/units/x%22%3Cb%3E", json=record).is_success
    pages = [
        client.get("/units/x%22%3Cb%3E"),
        client.get("/units", params={"text": HOSTILE, "kind": HOSTILE}),
        client.get(f"/units/{HOSTILE}", headers=BROWSER),
        ask(client, f"What is {HOSTILE}?"),
    ]
    for page in pages:
        assert "onerror" in page.text
        assert not re.search(r'<img src=x|[;"]<b>|<script>', page.text)


def test_an_entity_without_a_unit_has_a_page(client, toolbox):
    page = client.get("/units/Cellar (room)").text
    assert '<a href="/units/toolbox">' in page
    assert "Edit" not in page
    assert '<a href="/units/Cellar%20%28room%29">' in client.get("/units/toolbox").text


def test_browsers_get_problems_as_pages(client):
    missing = client.get("/units/nope", headers=BROWSER)
    assert missing.status_code == 404
    assert "<h1>Not Found</h1>" in missing.text
    assert client.get("/units?offset=x", headers=BROWSER).status_code == 422
    assert client.get("/units/nope").headers["content-type"] == "application/problem+json"


def test_a_browser_is_asked_for_a_key_once(guarded):
    login = guarded.get("/", headers=BROWSER)
    assert (login.url.path, "A key is required" in login.text) == ("/login", True)
    wrong = guarded.post("/login", data={"key": "guess"}, headers=BROWSER)
    assert "Unknown key" in wrong.text
    response = guarded.post("/login", data={"key": "reader"}, follow_redirects=False)
    assert re.search("HttpOnly.*SameSite=strict", response.headers["set-cookie"])
    unit = guarded.get("/units/Mango", headers=BROWSER).text
    assert "<h1>Mango" in unit
    assert "<form" not in unit
    assert "Add" not in guarded.get("/units", headers=BROWSER).text


@pytest.mark.parametrize("key", ["€", "wrong", "\x00", "x" * 10_000, "a; b=c", ""])
def test_a_login_with_another_key_stores_nothing(guarded, key):
    answer = guarded.post("/login", data={"key": key}, headers=BROWSER, follow_redirects=False)
    assert answer.status_code == (401 if key else 422)
    assert "set-cookie" not in answer.headers
    assert ('<input type="password"' in answer.text) == bool(key)
    assert ("Unknown key." in answer.text) == bool(key)


def test_a_server_without_keys_stores_none(client):
    answer = client.post("/login", data={"key": "€"}, follow_redirects=False)
    assert (answer.status_code, "set-cookie" in answer.headers) == (303, False)


def test_addresses_name_the_base(served, fruit_base):
    with (
        KnowledgeBase.open(fruit_base.with_name("other"), create=True) as second,
        serving({"a": served, "b c": second}) as client,
    ):
        page = client.get("/units", params={"kb": "b c"}).text
    assert 'href="/units?kb=b%20c"' in page
    assert re.search(r'<a href="/"\s*>a</a>', page)
    assert '"/static/page.js"' in page


def test_a_form_that_cannot_be_read_changes_nothing(client, served):
    form = {"operation": "edit", "name": "Mango", "kind": "", "texts": "It is sour."}
    for wrong, message in [
        ({"relations": "grows in Peru"}, "is no relation"),
        ({"metadata": "{"}, "metadata: invalid JSON"),
        ({"metadata": "[" * 100_000}, "metadata: invalid JSON"),
        ({"operation": "undo", "number": "7" * 5000}, "number: "),
        ({"operation": "undo", "number": "7" * 40}, "has no such change"),
        ({"tag": '"old"'}, "was changed meanwhile"),
        ({"operation": "undo", "number": "7"}, "has no such change"),
        ({"metadata": "[1]"}, "metadata: input should be a valid dictionary"),
        ({"operation": "undo", "number": "x"}, "number: input should be a valid integer"),
        ({"operation": "x"}, "operation: input should be"),
    ]:
        page = client.post("/units/Mango", data={**form, **wrong}, headers=BROWSER)
        assert page.is_client_error
        assert message in page.text
    assert "It is sweet." in served.show("Mango").texts[0]


def test_a_read_only_key_sees_changes_and_cannot_undo(guarded, served):
    served.update("Mango", kind="fruit")
    headers = {"Authorization": "Bearer reader", **BROWSER}
    page = guarded.get("/units/Mango?changed=1&other=Kiwi", headers=headers).text
    assert "<ins>fruit</ins>" in page
    assert "<form" not in page
    undo = {"operation": "undo", "number": "1"}
    assert guarded.post("/units/Mango", data=undo, headers=headers).status_code == 403
    assert served.show("Mango").kind == "fruit"
    assert guarded.post("/units", data={"text": "sweet"}, headers=headers).status_code == 200
