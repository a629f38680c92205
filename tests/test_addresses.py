"""The equality of servers, and the servers that get a secret, by the headers that they record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.addresses import origin
from ku_rag.errors import BadInput
from ku_rag.settings import Settings
from tests.endpoint import says, serving

KEY = "sk-a-key-of-the-user"
QUESTION = ("query", "-", "Where does the lamp come from?", "--mllm", "m-1")
MILVUS = {"http": 19530, "tcp": 19530, "https": 443}


@pytest.mark.parametrize(
    "url",
    [
        "http://host.example",
        "http://host.example:80/v1",
        "HTTP://HOST.example.:80",
        "http://user:password@host.example/a?b#c",
        "http://host.example:/",
    ],
)
def test_one_server_in_several_spellings(url):
    assert origin(url) == ("http", "host.example", 80)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://host.example", ("https", "host.example", 443)),
        ("http://host.example:8080", ("http", "host.example", 8080)),
        ("http://other.example@host.example", ("http", "host.example", 80)),
        ("http://host.example.evil.example", ("http", "host.example.evil.example", 80)),
        ("http://[::1]:80", ("http", "::1", 80)),
        ("http://[0:0:0:0:0:0:0:1]", ("http", "::1", 80)),
        ("http://Bücher.example", ("http", "xn--bcher-kva.example", 80)),
        ("http://bu\u0308cher.example", ("http", "xn--bcher-kva.example", 80)),
        ("http://xn--bcher-kva.example", ("http", "xn--bcher-kva.example", 80)),
        # IDNA 2003 writes these as fass.example, IDNA 2008 does not; IDNA 2003 as host.example.
        ("http://faß.example", ("http", "faß.example", 80)),
        ("http://ｈost。example", ("http", "ｈost。example", 80)),
        (r"http://host.example\@evil.example", ("http", "evil.example", 80)),
    ],
)
def test_servers_that_differ(url, expected):
    assert origin(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "", "host.example", "milvus.db", "null", "unix:/run/milvus", "ftp://host.example", "http://",
        "http://host.example:x", "http://host.example:99999", "http://[half", "http://a..b",
        "http://host%2eexample", "http://host.example..",
    ],
)  # fmt: skip
def test_addresses_that_name_no_server(url):
    assert origin(url) is None


def test_a_client_has_ports_of_its_own():
    assert origin("http://host", MILVUS) == origin("http://host:19530", MILVUS)
    assert origin("http://host", MILVUS) != origin("http://host:80", MILVUS)
    assert origin("tcp://host", MILVUS) != origin("http://host", MILVUS)


# ---- recipients of the key ---------------------------------------------------------------------


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    for name in ("OPENAI_BASE_URL", "KU_MLLM_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("KU_MLLM_CACHE", "false")


def plays(body):
    properties = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    reply = {"answer": "Peru", "reason": "", "citations": [], "changed": False, "correct": True}
    reply = {name: reply.get(name, "") for name in properties.get("properties", ())}
    return says(json.dumps(reply) if reply else "Peru")


@pytest.fixture
def users():
    """The server of the user."""
    with serving(by=plays) as endpoint:
        yield endpoint


@pytest.fixture
def foreign(tmp_path):
    """A server that the ku.toml of the base kb/ names."""
    with serving(by=plays) as endpoint:
        with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
            kb.add(Unit("Lamp", texts=("The lamp comes from Peru.",)))
        write(tmp_path / "kb", mllm_url=endpoint.url, mllm_judge_url=endpoint.url)
        yield endpoint


def write(folder, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
    (folder / "ku.toml").write_text("".join(lines))
    return folder / "ku.toml"


def configure(**settings):
    """Write the configuration of the user, and return its file."""
    return write(Path(os.environ["XDG_CONFIG_HOME"], "ku-rag"), **settings)


def sent(endpoint):
    """The received keys, one for each request."""
    return [headers.get("authorization") for headers in endpoint.headers]


def judge(ku, tmp_path, *options):
    """Let a model answer and another one judge."""
    record = {"question": QUESTION[2], "answers": ["Peru"]}
    (tmp_path / "q.jsonl").write_text(json.dumps(record))
    run = ku("eval", "q.jsonl", "--measure", "judged", "--mllm", "m-1", "--judge", "m-2", *options)
    assert run.code == 0, run.err


def models(endpoint):
    """The models in the requests."""
    return {body["model"] for body in endpoint.bodies}


@pytest.mark.parametrize("way", ["argument", "KU_MLLM_URL", "OPENAI_BASE_URL", "configuration"])
@pytest.mark.parametrize("by", ["command", "python"])
def test_the_server_that_the_user_names_goes_first_and_gets_the_key(
    ku, tmp_path, monkeypatch, users, foreign, way, by
):
    if way == "configuration":
        configure(mllm_url=users.url)
    elif way != "argument":
        monkeypatch.setenv(way, users.url)
    if by == "command":
        run = ku(*QUESTION, *(["--mllm-url", users.url] if way == "argument" else []))
        assert (run.code, run.out.splitlines()[0], run.err.count(foreign.url)) == (0, "Peru", 0)
    else:
        options = {"mllm_url": users.url} if way == "argument" else {}
        with KnowledgeBase.open(tmp_path / "kb", mllm="m-1", **options) as kb:
            assert kb.query(None, QUESTION[2]).answer == "Peru"
    assert set(sent(users)) == {f"Bearer {KEY}"}
    assert foreign.headers == []


def test_a_server_that_only_the_base_names_gets_no_key(ku, tmp_path, foreign, caplog):
    for _ in range(2):
        assert ku(*QUESTION).out.splitlines()[0] == "Peru"
    assert ku("models", "ping", "--mllm", "m-1").code == 0
    with KnowledgeBase.open(tmp_path / "kb", mllm="m-1") as kb:
        assert kb.query(None, QUESTION[2]).answer == "Peru"
    judge(ku, tmp_path)
    assert models(foreign) == {"m-1", "m-2"}
    assert len(sent(foreign)) >= 8
    assert set(sent(foreign)) == {None}
    [line] = [entry.getMessage() for entry in caplog.records if entry.name == "ku_rag"]
    assert line.startswith(f"'{foreign.url}' does not get OPENAI_API_KEY, because only ku.toml")


def test_a_command_of_its_own_process_says_so_on_stderr(tmp_path, foreign):
    command = [sys.executable, "-m", "ku_rag", *QUESTION, "--quiet"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stdout.splitlines()[0]) == (0, "Peru")
    [line] = run.stderr.splitlines()
    assert line.startswith(f"'{foreign.url}' does not get OPENAI_API_KEY, because only ku.toml")
    assert KEY not in run.stderr
    assert set(sent(foreign)) == {None}


@pytest.mark.parametrize("way", ["OPENAI_BASE_URL", "configuration"])
def test_the_judge_of_the_base_gets_no_key_beside_the_server_of_the_user(
    ku, tmp_path, monkeypatch, users, foreign, way
):
    if way == "configuration":
        configure(mllm_url=users.url)
    else:
        monkeypatch.setenv(way, users.url)
    judge(ku, tmp_path)
    assert (models(users), set(sent(users))) == ({"m-1"}, {f"Bearer {KEY}"})
    assert (models(foreign), set(sent(foreign))) == ({"m-2"}, {None})


def test_the_judge_that_the_user_names_gets_the_key_and_the_model_of_the_base_none(
    ku, tmp_path, users, foreign
):
    judge(ku, tmp_path, "--judge-url", users.url)
    assert (models(users), set(sent(users))) == ({"m-2"}, {f"Bearer {KEY}"})
    assert (models(foreign), set(sent(foreign))) == ({"m-1"}, {None})


def test_an_address_of_the_base_at_the_server_of_the_user_gets_the_key(
    ku, tmp_path, monkeypatch, foreign
):
    monkeypatch.setenv("OPENAI_BASE_URL", foreign.url.replace("http:", "HTTP:") + "/")
    write(tmp_path / "kb", mllm_judge_url=foreign.url.replace("/v1", "/other"))
    judge(ku, tmp_path)
    assert {path.split("/")[1] for path in foreign.paths} == {"v1", "other"}
    assert set(sent(foreign)) == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    "address", ["http://localhost:{}", "https://127.0.0.1:{}", "http://127.0.0.1"]
)
def test_another_host_scheme_or_port_is_another_server(ku, monkeypatch, foreign, address):
    configure(mllm_judge_url=address.format(foreign.url.rpartition(":")[2]))
    # The user named the same server for vectors, which need another secret.
    monkeypatch.setenv("KU_INDEX_URI", foreign.url)
    assert ku(*QUESTION).out.splitlines()[0] == "Peru"
    assert set(sent(foreign)) == {None}


def test_a_served_base_sends_no_key_to_its_own_server(tmp_path, foreign):
    testclient, app = (
        pytest.importorskip("fastapi.testclient"),
        pytest.importorskip("ku_rag.serve.app"),
    )
    with (
        KnowledgeBase.open(tmp_path / "kb", mllm="m-1") as kb,
        testclient.TestClient(
            app.create_app({"default": kb}), base_url="http://localhost"
        ) as client,
    ):
        answer = client.post("/v1/query", json={"question": "Where does the lamp come from?"})
    assert answer.json()["answer"] == "Peru"
    assert set(sent(foreign)) == {None}


# ---- the user's configuration ------------------------------------------------------------------


def test_the_configuration_of_the_user_goes_before_the_base_and_after_the_environment(
    tmp_path, monkeypatch
):
    KnowledgeBase.open(tmp_path / "kb", create=True).close()
    write(tmp_path / "kb", k_units=4, k_chunks=4, max_tokens=4, reranker_pool=4)
    configure(k_chunks=5, max_tokens=5, reranker_pool=5)
    monkeypatch.setenv("KU_MAX_TOKENS", "6")
    monkeypatch.setenv("KU_RERANKER_POOL", "6")
    names = ("k_units", "k_chunks", "max_tokens", "reranker_pool")
    with KnowledgeBase.open(tmp_path / "kb", reranker_pool=7) as kb:
        assert [getattr(kb.settings, name) for name in names] == [4, 5, 6, 7]


def test_an_error_names_the_configuration_of_the_user(tmp_path):
    file = configure(k_units=0)
    with pytest.raises(BadInput, match=rf"^{file}: k_units is 0"):
        KnowledgeBase.open(tmp_path / "kb")


def test_every_address_among_the_settings_names_its_secret():
    names = [name for name in Settings.__slots__ if name.endswith(("_url", "_uri"))]
    assert len(names) == 5
    assert all(Settings().address(name).variables for name in names)


def test_doctor_says_where_keys_are_sent(ku, tmp_path, monkeypatch, foreign):
    def configuration_line():
        [line] = [line for line in ku("doctor").out.splitlines() if "configuration:" in line]
        return line

    file = tmp_path / "config" / "ku-rag" / "ku.toml"
    assert configuration_line() == (
        f"ok  configuration: none in {file}; OPENAI_API_KEY is not sent to {foreign.url}, which "
        "only ku.toml names"
    )
    configure(mllm_url="http://127.0.0.1:1/v1", index_engine="milvus", index_uri="http://a:b@c")
    assert configuration_line() == (
        f"ok  configuration: {file}; OPENAI_API_KEY is sent to http://127.0.0.1:1/v1; "
        f"OPENAI_API_KEY is not sent to {foreign.url}, which only ku.toml names; "
        "KU_MILVUS_TOKEN is not set, and would be sent to c"
    )
    configure(mllm_url="", mllm_judge_url="")
    assert configuration_line().endswith("OPENAI_API_KEY is sent to https://api.openai.com/v1")
    configure(k_units=0)
    assert f"NO  configuration: {file}: k_units is 0" in ku("doctor").out
