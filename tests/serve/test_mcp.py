from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Iterator
from functools import partial

import anyio
import pytest
from mcp import StdioServerParameters, stdio_client
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from PIL import Image

from ku_rag import KnowledgeBase
from ku_rag.serve.mcp import create_server
from ku_rag.serve.served_base import ServedBase, WorkerPool
from tests.serve.conftest import data_uri, serving

QUESTION = "Which country does it come from?"
READING = ["ask", "look", "search", "unit", "graph_paths"]


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(threads=2, waiting=2)
    yield pool
    pool.close()


@pytest.fixture
def create(served, pool):
    """Create an MCP server of the fruit base with options."""
    return partial(create_server, ServedBase("default", served, pool))


@pytest.fixture
def server(create):
    """The MCP server of the fruit base; clients may add units."""
    return create(may_add=True)


@pytest.fixture
def mango(fruit_base):
    return fruit_base / "Mango" / "photo.png"


def talk(server, function, *arguments):
    """Run an async function with a client of a server, and return its result."""

    async def run():
        async with Client(server) as client:
            return await function(client, *arguments)

    return anyio.run(run)


def call(server, tool, **arguments):
    """The result of a tool."""
    return talk(server, lambda client: client.call_tool(tool, arguments))


def refusal(server, tool, **arguments):
    """The message of a tool that fails."""
    result = call(server, tool, **arguments)
    assert result.is_error
    return result.content[0].text


def pictures_of(result):
    return [block for block in result.content if block.type == "image"]


def test_tools_are_described_and_only_add_writes(server, create):
    tools = talk(server, lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == [*READING, "add"]
    for tool in tools:
        assert tool.description.endswith(".")
        assert tool.output_schema["type"] == "object"
        assert tool.annotations.read_only_hint == (tool.name != "add")
    without = create()
    tools = talk(without, lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == READING
    assert "add" in refusal(without, "add", record={"name": "Lamp"})


def test_ask_gives_the_answer_of_the_method_with_its_evidence(server, served, mango):
    expected = served.query(mango, QUESTION)
    result = call(server, "ask", question=QUESTION, picture=data_uri(mango))
    reply = result.structured_content
    assert reply["answer"] == expected.answer == "Peru"
    assert reply["citations"] == list(expected.citations)
    assert [chunk["text"] for chunk in reply["chunks"]] == [chunk.text for chunk in expected.chunks]
    assert reply["units"][0]["confidence"] == expected.units[0].confidence
    assert reply["chunks"][0]["origin"] == "Mango"
    assert json.loads(result.content[0].text) == reply
    assert call(server, "ask", question="Who wrote it?").structured_content["answer"] == ""


def test_look_and_unit_show_pictures_that_are_resources(server, mango):
    for tool, arguments in (("look", {"picture": data_uri(mango)}), ("unit", {"id": "Mango"})):
        result = call(server, tool, **arguments)
        reply = result.structured_content
        uri = reply["units"][0]["image"] if tool == "look" else reply["images"][0]
        [content] = talk(server, lambda client, uri: client.read_resource(uri), uri).contents
        for data in (pictures_of(result)[0].data, content.blob):
            picture = Image.open(io.BytesIO(base64.b64decode(data)))
            assert (picture.format, picture.size) == ("JPEG", (96, 64))


def test_search_and_paths(server, served, mango):
    served.graph.add_relation("Mango", "grown in", "Peru")
    reply = call(server, "search", text="sweet", k=1).structured_content
    assert [chunk["origin"] for chunk in reply["chunks"]] == ["Mango"]
    for tool, arguments in (
        ("search", {"text": "sweet"}),
        ("look", {"picture": data_uri(mango)}),
        ("ask", {"question": QUESTION, "picture": data_uri(mango)}),
    ):
        assert call(server, tool, **arguments, kind="tree").structured_content["units"] == []
        assert call(server, tool, **arguments, where=["price<3"]).structured_content["chunks"] == []
    with_graph = call(
        server, "ask", question="Which country does the Mango come from?", method="evidence"
    ).structured_content
    assert (with_graph["answer"], with_graph["outcome"]) == ("Peru", "answered")
    paths = call(server, "graph_paths", start="Mango", end="Peru").structured_content
    assert paths == {"result": ["Mango —grown in→ Peru"]}


def test_a_unit_is_a_resource(server, served):
    name = "a/../b c?#ü"
    call(server, "add", record={"id": name, "name": "Lamp", "texts": ["It is red."]})

    async def read_resources(client):
        resource = await client.read_resource("ku://unit/a%2F..%2Fb%20c%3F%23%C3%BC")
        with pytest.raises(MCPError, match="there is no unit 'none'") as refused:
            await client.read_resource("ku://unit/none")
        assert refused.value.error.code == INVALID_PARAMS
        return json.loads(resource.contents[0].text)

    assert talk(server, read_resources)["id"] == name == served.show("Lamp").id


def test_add_takes_pictures_and_joins(server, served, mango):
    record = {"name": "Lamp", "texts": ["It is red."], "images": [data_uri(mango)], "id": "lamp"}
    record["metadata"] = {"x": 1 << 70, "image": "/a/b"}
    added = call(server, "add", record=record)
    assert added.structured_content["metadata"] == record["metadata"]
    assert added.structured_content["texts"] == ["It is red."]
    assert len(pictures_of(added)) == len(served.show("lamp").images) == 1
    assert "name" in refusal(server, "add", record={"texts": ["It is red."]})


@pytest.mark.parametrize(
    "picture",
    ["http://localhost/x.png", "file:///etc/passwd", "/etc/passwd", "data:image/png;base64,AAAA"],
)
def test_no_address_is_fetched_and_no_path_is_read(server, picture):
    message = refusal(server, "look", picture=picture)
    assert "root:" not in message
    assert "data" in message or "picture" in message


def test_pictures_are_read_below_the_folders_that_the_user_names(create, fruit_base):
    server = create(folders=[fruit_base / "Mango"])
    inside, outside = fruit_base / "Mango" / "photo.png", fruit_base / "Kiwi" / "photo.png"
    reply = call(server, "look", picture=str(inside)).structured_content
    assert reply["units"][0]["id"] == "Mango"
    reply = call(server, "look", picture="photo.png").structured_content
    assert reply["units"][0]["id"] == "Mango"
    assert "--pictures" in refusal(server, "look", picture="../Kiwi/photo.png")
    link = inside.with_name("link.png")
    link.symlink_to(outside)
    for path in (outside, link, inside.parent / ".." / "Kiwi" / "photo.png"):
        assert "--pictures" in refusal(server, "look", picture=str(path))
    assert str(fruit_base) not in refusal(server, "look", picture=str(inside.with_name("none.png")))
    assert call(server, "look", picture=data_uri(outside)).structured_content["units"]


def test_errors_name_no_folder_of_this_machine(server, served):
    served.close()
    assert str(served.path.parent) not in refusal(server, "search", text="sweet")


def test_the_prompt_holds_the_question(server):
    arguments = {"question": QUESTION}
    prompt = talk(server, lambda client: client.get_prompt("answer_from_evidence", arguments))
    assert QUESTION in prompt.messages[0].content.text


# ---- over HTTP and stdio -----------------------------------------------------------------------


def post(client, method, params=None, path="/mcp", key="", session=""):
    """The response to a message of JSON-RPC, and its JSON."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Session-Id": session}
    headers |= {"Authorization": f"Bearer {key}"}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    response = client.post(path, json=message, headers={k: v for k, v in headers.items() if v})
    _, separator, data = response.text.partition("data: ")
    return response, json.loads(data.partition("\n")[0]) if separator else None


def start(client, **options):
    """The id of a new session."""
    about = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
    response, data = post(client, "initialize", params, **options)
    assert data["result"]["serverInfo"]["name"] == "ku-rag"
    return response.headers["mcp-session-id"]


def test_keys_and_hosts_hold_for_mcp(served):
    added = {"name": "add", "arguments": {"record": {"name": "Lamp", "id": "lamp"}}}
    keys = {"keys": ["writer"], "read_only_keys": ["reader"]}
    with serving(served, mcp_add=True, **keys) as client:
        assert post(client, "ping")[0].status_code == 401
        evil = client.post("/mcp", headers={"Host": "evil.example", "Authorization": "writer"})
        assert evil.status_code == 421
        session = start(client, key="writer")
        reply = post(client, "tools/call", added, key="reader", session=session)[1]["result"]
        assert "read-only" in reply["content"][0]["text"]
        assert reply["isError"]
        reply = post(client, "tools/call", added, key="writer", session=session)[1]["result"]
        assert reply["structuredContent"]["id"] == "lamp"
        assert post(client, "ping", key="reader", session="another")[0].status_code == 404
        large = client.post(
            "/mcp", content=b" " * (33 << 20), headers={"Authorization": "Bearer writer"}
        )
        assert large.status_code == 413


def test_the_number_of_sessions_is_bounded(served):
    with serving(served) as client:
        sessions = [start(client) for _ in range(256)]
        refused, _ = post(client, "initialize", {})
        assert (refused.status_code, "Too many open sessions" in refused.text) == (503, True)
        assert post(client, "ping", session=sessions[0])[0].status_code == 200
        assert client.delete("/mcp", headers={"MCP-Session-Id": sessions[1]}).status_code == 200
        assert post(client, "ping", session=start(client))[0].status_code == 200


def test_each_base_has_a_path(served, tmp_path):
    with KnowledgeBase.open(tmp_path / "other", create=True) as second:
        params = {"name": "unit", "arguments": {"id": "Mango"}}
        with serving({"fruits": served, "other": second}) as client:
            for path, is_error in (("/mcp", False), ("/mcp/other", True)):
                session = start(client, path=path)
                reply = post(client, "tools/call", params, path=path, session=session)[1]["result"]
                assert reply.get("isError", False) == is_error
            assert client.post("/mcp/none").status_code == 404


def test_ku_mcp_answers_over_stdin_and_stdout(served, mango):
    served.close()
    command = ["-m", "ku_rag", "mcp", "--kb", str(served.path), "--pictures", str(mango.parent)]
    process = StdioServerParameters(command=sys.executable, args=command)
    result = call(stdio_client(process), "ask", question=QUESTION, picture=str(mango))
    assert result.structured_content["answer"] == "Peru"
