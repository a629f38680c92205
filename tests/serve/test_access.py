from __future__ import annotations

import asyncio
import time
from collections import Counter

import httpx
import pytest
from fastapi.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from ku_rag.errors import BadInput
from ku_rag.serve.keys import Key, Keys
from tests.serve.conftest import application, serving

ASKED = {"text": "sweet"}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def test_a_key_is_needed(guarded):
    for headers in ({}, bearer("wrong"), bearer(""), {"Authorization": "Basic d3JpdGVy"}):
        response = guarded.post("/v1/search", json=ASKED, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert "writer" not in response.text
    for path in ("/metrics", "/readyz", "/openapi.json", "/v1/units", "/nothing"):
        assert guarded.get(path).status_code == 401
    assert guarded.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("key", ["writer", "reader"])
def test_a_key_may_come_in_a_cookie(guarded, key):
    options = {"json": ASKED, "headers": {"Cookie": f"ku_key={key}"}}
    assert guarded.post("/v1/search", **options).status_code == 200


def test_wrong_keys_are_answered_later_and_later():
    keys = Keys({"right": Key("right", "read")})
    delays = [keys.delay("10.0.0.1", 0.0) for _ in range(13)]
    assert delays == [0, 0, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2, 2]
    assert keys.delay("10.0.0.2", 0.0) == 0
    # Each is forgotten after ten seconds.
    assert keys.delay("10.0.0.1", 100.0) == 0.25
    assert keys.delay("10.0.0.1", 1000.0) == 0


def test_wrong_keys_of_many_addresses_are_slowed_together():
    keys = Keys({"right": Key("right", "read")})
    delays = [keys.delay(f"10.{n >> 8}.{n & 255}.1", 0.0) for n in range(5000)]
    assert set(delays[:60]) == {0}
    assert delays[69] == 0.125
    assert set(delays[300:]) == {2}
    # The first addresses are forgotten, the last are not.
    assert [keys.delay("10.0.0.1", 10_000.0), keys.delay("10.1.1.1", 10_000.0)] == [0, 0]


def test_wrong_keys_lock_no_right_key_out(served):
    """At most 64 wrong keys wait; all come from the address of the right one."""
    app = application(served, keys=["right"])

    async def ask():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            wrong = [
                asyncio.create_task(client.get("/v1/models", headers=bearer(f"wrong {n}")))
                for n in range(200)
            ]
            right = [
                (await client.get("/v1/models", headers=bearer("right"))).status_code
                for _ in range(20)
            ]
            waiting = not all(task.done() for task in wrong)
            missing = (await client.get("/v1/models")).status_code
            refused = Counter([response.status_code for response in await asyncio.gather(*wrong)])
            return refused, right, waiting, missing

    refused, right, waiting, missing = asyncio.run(ask())
    assert right == [200] * 20
    assert waiting
    assert missing == 401
    assert refused == {401: 3 + 64, 429: 200 - 3 - 64}


@pytest.mark.parametrize("key", ["€", "schlüssel", "a\nb", "\x00"])
def test_a_key_that_no_header_can_carry_is_refused_at_the_start(served, key):
    with pytest.raises(BadInput, match="expected printable ASCII") as caught:
        application(served, read_only_keys=[key])
    assert key not in str(caught.value)


def test_a_read_only_key_reads_and_does_not_write(guarded):
    assert guarded.post("/v1/search", json=ASKED, headers=bearer("reader")).status_code == 200
    unit = {"json": {"name": "Lamp"}}
    for response in (
        guarded.post("/v1/units", headers=bearer("reader"), **unit),
        guarded.put("/v1/units/Mango", headers=bearer("reader"), **unit),
        guarded.patch("/v1/units/Mango", headers=bearer("reader"), **unit),
        guarded.delete("/v1/units/Mango", headers=bearer("reader")),
        guarded.post("/v1/ingest", headers=bearer("reader"), files={"files": ("a.txt", b"a")}),
        guarded.delete("/v1/jobs/1", headers=bearer("reader")),
    ):
        assert (response.status_code, response.json()["code"]) == (403, "ReadOnly")
    assert guarded.post("/v1/units", headers=bearer("writer"), **unit).status_code == 201


def test_a_read_only_server_does_not_write(served):
    with serving(served, read_only=True) as client:
        assert client.delete("/v1/units/Mango").status_code == 403
        assert client.post("/v1/search", json=ASKED).status_code == 200


def test_each_key_has_a_rate(guarded):
    codes = [guarded.get("/v1/models", headers=bearer("reader")).status_code for _ in range(15)]
    assert codes == [200] * 10 + [429] * 5
    refused = guarded.get("/v1/models", headers=bearer("reader"))
    assert 1 <= int(refused.headers["retry-after"]) <= 6
    assert refused.json()["detail"].startswith("more than 10 requests a minute: try again in")
    assert guarded.get("/v1/models", headers=bearer("writer")).status_code == 200
    assert guarded.get("/healthz").status_code == 200


def test_without_keys_each_address_has_a_rate(served):
    app = application(served, rate=600)

    async def ask(address, count):
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return Counter([(await client.get("/v1/models")).status_code for _ in range(count)])

    first = asyncio.run(ask("10.0.0.1", 700))
    assert first[429] > 0
    assert 600 <= first[200] < 700
    assert asyncio.run(ask("10.0.0.2", 10)) == {200: 10}
    time.sleep(0.2)  # two tokens
    assert asyncio.run(ask("10.0.0.1", 1)) == {200: 1}


def test_there_is_no_rate_by_default(client):
    assert {client.get("/v1/models").status_code for _ in range(200)} == {200}


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
        {"Origin": "http://localhost:8322"},
        {"Origin": "https://localhost"},
        {"Origin": "https://localhost:80"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://localhost:x"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"},
    ],
)
def test_pages_of_other_sites_change_nothing(client, headers):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        response = client.request(method, "/v1/units/Mango", json={"name": "x"}, headers=headers)
        assert response.status_code == 403
    assert client.get("/v1/units/Mango").json()["name"] == "Mango"


@pytest.mark.parametrize(
    ("host", "page"),
    [
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("LOCALHOST:8321", "http://localhost:8321"),
        ("[::1]:8321", "http://[::1]:8321"),
    ],
)
def test_the_own_page_may_write(client, host, page):
    headers = {"Host": host, "Origin": page, "Sec-Fetch-Site": "same-origin"}
    assert client.patch("/v1/units/Mango", json={"kind": "fruit"}, headers=headers).is_success
    foreign = headers | {"Host": "localhost:8000"}
    assert client.patch("/v1/units/Mango", json={}, headers=foreign).status_code == 403


@pytest.mark.parametrize(
    ("proxy", "status"),
    [({}, 403), ({"X-Forwarded-Proto": "https"}, 200), ({"Host": "other"}, 421)],
)
def test_behind_a_proxy_the_page_is_at_the_address_that_the_proxy_states(served, proxy, status):
    app = application(served, root_path="/ku", hosts=["kb.example"])
    app = ProxyHeadersMiddleware(app, "testclient")  # as `ku serve` runs it
    with TestClient(app, base_url="http://kb.example:8443", root_path="/ku") as client:
        headers = {"Origin": "https://kb.example:8443", **proxy}
        response = client.patch("/v1/units/Mango", json={"kind": "fruit"}, headers=headers)
    assert response.status_code == status


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
    text = client.get("/metrics").text
    line = 'ku_http_request_seconds_count{route="/v1/units/{unit_id:path}",status="200"} 2.0'
    assert line in text
    assert "unknown" not in text


def test_behind_a_proxy_addresses_have_the_prefix(served):
    app = application(served, root_path="/ku", hosts=["kb.example"])
    with TestClient(app, base_url="http://kb.example", root_path="/ku") as client:
        [image] = client.get("/v1/units/Mango").json()["images"]
        assert image.startswith("/ku/v1/images/")
        assert client.get(image).status_code == 200
        assert client.get("/ku/healthz").status_code == 200


def test_bases_are_named_by_a_parameter(served, tmp_path):
    with (
        type(served).open(tmp_path / "other", create=True) as second,
        serving({"one": served, "two": second}) as client,
    ):
        client.put("/v1/units/Lamp?kb=two", json={"name": "Lamp", "texts": ["It is red."]})
        assert client.get("/v1/units/Lamp").status_code == 404
        assert client.get("/v1/units/Lamp?kb=two").status_code == 200
        assert client.get("/v1/units?kb=three").status_code == 404
        body = {"model": "two", "messages": [{"role": "user", "content": "What is red?"}]}
        reply = client.post("/v1/chat/completions", json=body).json()
        assert "It is red." in reply["ku"]["chunks"][0]["text"]
