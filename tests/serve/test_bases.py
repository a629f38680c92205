"""Bases, keys and the log of changes of a server that was started with --bases."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from fastapi.testclient import TestClient

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import ModelFailed
from ku_rag.mllm.scripted import ScriptedMLLM
from ku_rag.serve.access import ServerSettings
from ku_rag.serve.app import create_app

MANAGER = {"Authorization": "Bearer manager"}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "bases"


@pytest.fixture
def clock():
    """The current time, in a list."""
    return [1_000_000.0]


def create(path):
    return KnowledgeBase.open(path, create=True, encoder="embedded")


@pytest.fixture
def server(folder, clock):
    """A client of a server with one base; its key "manager" has all permissions."""
    with create(folder / "tools") as tools:
        tools.add(Unit("Hammer"))
        app = create_app(
            {"tools": tools},
            ServerSettings(keys=["manager"], read_only_keys=["reader"], mcp_add=True),
            clock=lambda: clock[0],
            folder=folder,
            open_base=create,
        )
        with TestClient(app, base_url="http://localhost", headers=MANAGER) as client:
            yield client


def create_key(server, **fields):
    """Create a key, and return the header with it."""
    created = server.post("/v1/keys", json=fields)
    assert created.status_code == 201
    return {"Authorization": f"Bearer {created.json()['secret']}"}


def test_a_base_is_created_renamed_and_deleted(server, folder):
    assert server.post("/v1/bases", json={"name": "plants"}).status_code == 201
    assert server.post("/v1/units?kb=plants", json={"name": "Rose"}).status_code == 201
    assert server.patch("/v1/bases/plants", json={"name": "flowers"}).json() == {"name": "flowers"}
    names = [unit["name"] for unit in server.get("/v1/units?kb=flowers").json()["items"]]
    assert names == ["Rose"]
    assert server.get("/v1/units?kb=plants").status_code == 404
    listed = {
        base["name"]: base["counts"]["units"] for base in server.get("/v1/bases").json()["items"]
    }
    assert listed == {"tools": 1, "flowers": 1}
    assert server.delete("/v1/bases/flowers").status_code == 200
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["tools"]


def test_wrong_names_and_the_last_base_are_refused(server, folder):
    for name in ("", "../up", "a b", "tools", ".hidden", "x" * 61):
        assert server.post("/v1/bases", json={"name": name}).status_code == 422
    assert server.patch("/v1/bases/nothing", json={"name": "other"}).status_code == 404
    assert server.delete("/v1/bases/nothing").status_code == 404
    assert server.delete("/v1/bases/tools").status_code == 409
    assert (folder / "tools" / "ku.sqlite").exists()


def test_a_base_that_cannot_be_deleted_is_served_again(server, folder):
    server.post("/v1/bases", json={"name": "plants"})
    server.post("/v1/units?kb=plants", json={"name": "Rose"})
    (folder / ".deleted-plants").touch()
    assert server.delete("/v1/bases/plants").status_code == 403
    assert server.get("/v1/stats?kb=plants").json()["counts"]["units"] == 1
    (folder / "plants").rename(folder / "moved")  # by another process
    assert server.patch("/v1/bases/plants", json={"name": "flowers"}).status_code == 503
    assert not (folder / "plants").exists()


def test_what_an_interrupted_deletion_left_is_deleted(server, folder):
    (folder / ".deleted-plants" / "images").mkdir(parents=True)
    server.post("/v1/bases", json={"name": "plants"})
    assert server.delete("/v1/bases/plants").status_code == 200
    assert not list(folder.glob(".deleted-*"))
    (folder / ".deleted-other").mkdir()
    with create(folder / "more") as kb:
        app = create_app({"more": kb}, folder=folder, open_base=create)
        with TestClient(app, base_url="http://localhost"):
            assert not list(folder.glob(".deleted-*"))


def test_a_key_of_a_base_whose_deletion_was_interrupted_opens_no_new_base(server, folder):
    server.post("/v1/bases", json={"name": "plants"})
    key = create_key(server, name="Office", bases=["plants"])
    keys = (folder / "keys.sqlite").read_bytes(), (folder / "keys.sqlite-wal").read_bytes()
    restarted = folder.with_name("restarted")
    with create(restarted / "tools") as kb:
        (restarted / "keys.sqlite").write_bytes(keys[0])
        (restarted / "keys.sqlite-wal").write_bytes(keys[1])
        app = create_app(
            {"tools": kb}, ServerSettings(keys=["manager"]), folder=restarted, open_base=create
        )
        with TestClient(app, base_url="http://localhost", headers=MANAGER) as client:
            assert client.post("/v1/bases", json={"name": "plants"}).status_code == 201
            assert client.get("/v1/units", headers=key).status_code == 401


def test_a_base_is_renamed_when_its_calls_have_ended(folder):
    is_asked, may_reply = Event(), Event()

    def wait(_):
        is_asked.set()
        assert may_reply.wait(20)
        raise ModelFailed("the model is out of order")

    with KnowledgeBase.open(folder / "tools", create=True, mllm=ScriptedMLLM(wait)) as tools:
        tools.add(Unit("Hammer", texts=("A hammer is red.",)))
        app = create_app({"tools": tools}, folder=folder, open_base=create)
        with (
            TestClient(app, base_url="http://localhost") as server,
            ThreadPoolExecutor(2) as threads,
        ):
            question = {"question": "Which colour is the hammer?"}
            query = threads.submit(server.post, "/v1/query", json=question)
            assert is_asked.wait(20)
            renamed = threads.submit(server.patch, "/v1/bases/tools", json={"name": "saws"})
            while server.get("/v1/stats?kb=tools").status_code == 200:
                time.sleep(0.01)
            upload = {"files": ("a.txt", b"Red.")}
            assert server.post("/v1/ingest?kb=tools", files=upload).status_code == 404
            assert (folder / "tools").exists()
            may_reply.set()
            assert query.result().json()["code"] == "ModelFailed"
            assert renamed.result().status_code == 200
            assert server.get("/v1/stats?kb=saws").status_code == 200


def test_a_created_base_ingests_and_speaks_mcp(server):
    server.post("/v1/bases", json={"name": "plants"})
    upload = {"files": ("about.txt", b"Roses are red.")}
    job = server.post("/v1/ingest?kb=plants", files=upload).json()
    events = server.get(f"/v1/jobs/{job['id']}/events").text
    assert '"state":"done"' in events
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    accept = {"Accept": "application/json, text/event-stream"}
    started = server.post("/mcp/plants", json=initialize, headers=accept)
    assert started.status_code == 200
    session = accept | {"MCP-Session-Id": started.headers["MCP-Session-Id"]}
    added = {"name": "add", "arguments": {"record": {"name": "Rose"}}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": added}
    assert "Rose" in server.post("/mcp/plants", json=call, headers=session).text
    change = server.get("/v1/changes").json()["items"][0]
    assert (change["base"], change["request"]) == ("plants", "POST MCP add")
    assert server.post("/mcp/nothing", json=initialize, headers=accept).status_code == 404


def test_a_key_may_use_its_bases_only(server):
    server.post("/v1/bases", json={"name": "plants"})
    key = create_key(server, name="Office", role="write", bases=["plants"])
    models = server.get("/v1/models", headers=key).json()["data"]
    assert [model["id"] for model in models] == ["plants"]
    assert server.post("/v1/units", json={"name": "Rose"}, headers=key).status_code == 201
    assert server.get("/v1/units/rose?kb=plants", headers=key).status_code == 200
    assert server.get("/v1/units?kb=tools", headers=key).status_code == 404
    chat = {"model": "tools", "messages": [{"role": "user", "content": "What is it?"}]}
    assert server.post("/v1/chat/completions", json=chat, headers=key).status_code == 404
    page = server.get("/", headers={**key, "Accept": "text/html"})
    assert "tools" not in page.text


def test_roles_bound_what_a_key_may_do(server):
    reader = create_key(server, name="Guest", role="read")
    writer = create_key(server, name="Editor", role="write")
    manager = create_key(server, name="Boss", role="manage")
    unit = {"name": "Saw"}
    statuses = [
        [
            server.get("/v1/units", headers=key).status_code,
            server.post("/v1/units", json=unit, headers=key).status_code,
            server.get("/v1/keys", headers=key).status_code,
            server.post("/v1/bases", json={"name": "plants"}, headers=key).status_code,
        ]
        for key in (reader, writer, manager, {"Authorization": "Bearer reader"})
    ]
    assert statuses == [
        [200, 403, 403, 403],
        [200, 201, 403, 403],
        [200, 201, 200, 201],
        [200, 403, 403, 403],
    ]


def test_a_key_expires_and_is_revoked(server, clock):
    key = create_key(server, name="Fair", role="read", days=2)
    clock[0] += 1.9 * 86_400
    assert server.get("/v1/units", headers=key).status_code == 200
    (listed,) = server.get("/v1/keys").json()["items"]
    assert listed["used"] == clock[0]
    clock[0] += 0.2 * 86_400
    assert server.get("/v1/units", headers=key).status_code == 401
    second_key = create_key(server, name="Other/2", role="read")
    assert server.delete("/v1/keys/Other%2F2").status_code == 200
    assert server.get("/v1/units", headers=second_key).status_code == 401
    assert server.delete("/v1/keys/Other%2F2").status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "Twice"},
        {"name": "X", "role": "own"},
        {"name": "X", "bases": ["nothing"]},
        {"name": "X", "role": "manage", "bases": ["tools"]},
        {"name": "X", "days": 0},
    ],
)
def test_wrong_keys_are_not_created(server, wrong):
    create_key(server, name="Twice")
    assert server.post("/v1/keys", json=wrong).status_code == 422
    assert len(server.get("/v1/keys").json()["items"]) == 1


def test_keys_follow_their_bases(server):
    server.post("/v1/bases", json={"name": "plants"})
    key = create_key(server, name="Office", role="read", bases=["plants"])
    server.patch("/v1/bases/plants", json={"name": "flowers"})
    assert server.get("/v1/units?kb=flowers", headers=key).status_code == 200
    server.delete("/v1/bases/flowers")
    assert server.get("/v1/units", headers=key).status_code == 401
    assert server.get("/v1/keys").json()["items"] == []


def test_only_hashes_of_keys_are_stored(server, folder):
    secret = create_key(server, name="Office")["Authorization"].removeprefix("Bearer ")
    files = [path for path in folder.glob("keys.sqlite*")]
    assert files
    assert not any(secret.encode() in path.read_bytes() for path in files)


def test_changes_are_listed_by_key_without_names_of_units(server):
    key = create_key(server, name="Office", role="write")
    server.post("/v1/units", json={"name": "Saw"}, headers=key)
    server.delete("/v1/units/saw", headers=key)
    server.delete("/v1/units/saw", headers=key)  # fails: there is no such unit
    server.get("/v1/units", headers=key)
    changes = server.get("/v1/changes").json()["items"]
    assert [(change["key"], change["base"], change["request"]) for change in changes] == [
        ("Office", "tools", "DELETE /v1/units/{unit_id:path}"),
        ("Office", "tools", "POST /v1/units"),
        ("key 1", "", "POST /v1/keys"),
    ]


def test_the_page_creates_bases_and_keys(server):
    page = server.post("/bases", data={"action": "create", "name": "plants"})
    assert ">plants</a>" in page.text
    form = {
        "action": "create key",
        "name": "Office",
        "role": "write",
        "bases": "plants",
        "days": "7",
    }
    page = server.post("/bases", data=form)
    (secret,) = re.findall("<code>([0-9a-f]{64})</code>", page.text)
    office = {"Authorization": f"Bearer {secret}"}
    assert server.get("/v1/units?kb=plants", headers=office).status_code == 200
    assert secret not in server.get("/bases").text
    refused = server.post(
        "/bases", data={"action": "delete", "name": "plants", "new_name": "plant"}
    )
    assert "type plants to delete it" in refused.text
    assert refused.status_code == 422
    latest = server.get("/v1/changes").json()["items"][0]["request"]
    assert latest == "POST /bases create key"
    renamed = {"action": "rename", "name": "plants", "new_name": "flowers"}
    assert ">flowers</a>" in server.post("/bases", data=renamed).text
    server.post("/bases", data={"action": "revoke", "name": "Office"})
    assert server.get("/v1/units", headers=office).status_code == 401
    deleted = server.post(
        "/bases", data={"action": "delete", "name": "flowers", "new_name": "flowers"}
    )
    assert ">flowers</a>" not in deleted.text
    assert server.get("/bases", headers=office).status_code == 401
    assert 'href="/bases"' in server.get("/").text


def test_a_server_without_the_option_has_fixed_bases(client):
    assert client.get("/v1/bases").status_code == 409
    assert client.post("/v1/bases", json={"name": "plants"}).status_code == 409
    assert "/bases" not in client.get("/").text
