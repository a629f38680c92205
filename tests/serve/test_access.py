from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from ku_rag.serve.access import COOKIE, ServerSettings
from ku_rag.serve.app import create_app

ASKED = {"text": "sweet"}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def test_a_key_is_needed(guarded):
    for headers in ({}, bearer("wrong"), bearer(""), {"Authorization": "Basic d3JpdGVy"}):
        found = guarded.post("/v1/search", json=ASKED, headers=headers)
        assert found.status_code == 401
        assert found.headers["www-authenticate"] == "Bearer"
        assert "writer" not in found.text
    for path in ("/metrics", "/readyz", "/openapi.json", "/v1/units", "/nothing"):
        assert guarded.get(path).status_code == 401
    assert guarded.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("key", ["writer", "reader"])
def test_a_key_may_come_in_a_cookie(guarded, key):
    asked = {"json": ASKED, "headers": {"Cookie": f"{COOKIE}={key}"}}
    assert guarded.post("/v1/search", **asked).status_code == 200


def test_a_read_only_key_reads_and_does_not_write(guarded):
    assert guarded.post("/v1/search", json=ASKED, headers=bearer("reader")).status_code == 200
    unit = {"json": {"name": "Lamp"}}
    for asked in (
        guarded.post("/v1/units", headers=bearer("reader"), **unit),
        guarded.put("/v1/units/Mango", headers=bearer("reader"), **unit),
        guarded.patch("/v1/units/Mango", headers=bearer("reader"), **unit),
        guarded.delete("/v1/units/Mango", headers=bearer("reader")),
        guarded.post("/v1/ingest", headers=bearer("reader"), files={"files": ("a.txt", b"a")}),
        guarded.delete("/v1/jobs/1", headers=bearer("reader")),
    ):
        assert (asked.status_code, asked.json()["code"]) == (403, "ReadOnly")
    assert guarded.post("/v1/units", headers=bearer("writer"), **unit).status_code == 201


def test_a_read_only_server_does_not_write(served):
    app = create_app({"default": served}, ServerSettings(read_only=True))
    with TestClient(app, base_url="http://localhost") as client:
        assert client.delete("/v1/units/Mango").status_code == 403
        assert client.post("/v1/search", json=ASKED).status_code == 200


def test_each_key_has_a_rate(guarded):
    codes = [guarded.get("/v1/models", headers=bearer("reader")).status_code for _ in range(15)]
    assert codes[0] == 200
    assert codes[-1] == 429
    refused = guarded.get("/v1/models", headers=bearer("reader"))
    assert refused.headers["retry-after"]
    assert guarded.get("/v1/models", headers=bearer("writer")).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1@evil"])
def test_other_host_names_are_refused(client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8321", "[::1]:80", "LOCALHOST:1"])
def test_own_host_names_are_accepted(client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"},
    ],
)
def test_pages_of_other_sites_change_nothing(client, headers):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        asked = client.request(method, "/v1/units/Mango", json={"name": "x"}, headers=headers)
        assert asked.status_code == 403
    assert client.get("/v1/units/Mango").json()["name"] == "Mango"


def test_the_own_page_may_write(client):
    headers = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert client.patch("/v1/units/Mango", json={"kind": "fruit"}, headers=headers).is_success


def test_every_response_has_the_headers_of_a_page(client):
    for path in ("/healthz", "/nothing"):
        headers = client.get(path, headers={"Origin": "http://evil.example"}).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert not [name for name in headers if name.startswith("access-control")]


def test_metrics_count_by_route(client):
    client.get("/v1/units/Mango")
    client.get("/v1/units/Kiwi")
    client.get("/some/unknown/path")
    found = client.get("/metrics").text
    line = 'ku_http_request_seconds_count{route="/v1/units/{unit_id:path}",status="200"} 2.0'
    assert line in found
    assert "unknown" not in found


def test_behind_a_proxy_addresses_have_the_prefix(served):
    app = create_app({"default": served}, ServerSettings(root_path="/ku", hosts=["kb.example"]))
    with TestClient(app, base_url="http://kb.example", root_path="/ku") as client:
        [image] = client.get("/v1/units/Mango").json()["images"]
        assert image.startswith("/ku/v1/images/")
        assert client.get(image).status_code == 200
        assert client.get("/ku/healthz").status_code == 200


def test_bases_are_named_by_a_parameter(served, tmp_path):
    with (
        type(served).open(tmp_path / "other", create=True) as other,
        TestClient(
            create_app({"one": served, "two": other}), base_url="http://localhost"
        ) as client,
    ):
        client.put("/v1/units/Lamp?kb=two", json={"name": "Lamp", "texts": ["It is red."]})
        assert client.get("/v1/units/Lamp").status_code == 404
        assert client.get("/v1/units/Lamp?kb=two").status_code == 200
        assert client.get("/v1/units?kb=three").status_code == 404
        asked = {"model": "two", "messages": [{"role": "user", "content": "What is red?"}]}
        found = client.post("/v1/chat/completions", json=asked).json()
        assert "It is red." in found["ku"]["chunks"][0]["text"]
