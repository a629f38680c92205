"""A program works the same way with a base and with its server."""

from __future__ import annotations

import inspect
import shutil
from dataclasses import fields, is_dataclass, replace

import pytest
from PIL import Image

from ku_rag import BadInput, KnowledgeBase, KuError, NotFound, Relation, Unit, client
from ku_rag.demo.dataset import RECORDS, build
from ku_rag.errors import ReadOnly
from ku_rag.graph_view import GraphView
from ku_rag.store.stored_answers import StoredAnswers
from ku_rag.types import Cell, Table
from tests.serve.conftest import application, listening

ONLY_LOCAL = {
    # files and folders of the machine of the base
    "open", "path", "upload_root", "export", "import_", "salvage", "snapshot", "apply_increments",
    "sync", "watch", "commits",
    # maintenance, which reads or writes all of it: commands on that machine
    "compact", "extract", "reindex", "remove_extracted", "sync_index", "tune", "tune_confidence",
    "tune_texts", "upgrade", "verify",
    # objects in memory, and a change of several calls
    "encoder", "mllm", "prompts", "segmenter", "transaction",
    # a file of records that `ingest` uploads has the same effect
    "add_many",
    # deprecated
    "compare", "evaluate", "query_batch",
}  # fmt: skip
"""Methods and properties that a server does not offer."""
ONLY_LOCAL_GRAPH = {
    # units that `add` and `update` change
    "add_entity", "add_relation", "delete",
    # files of the machine of the base
    "export", "import_file",
    # work of a model on many pictures
    "caption", "captions",
    # drawings, which pages show; `neighbourhood` returns their content
    "draw", "drawing", "overview",
    # the search of a paper, which `query(strict="mhmmkg")` runs
    "search",
}  # fmt: skip
ONLY_LOCAL_ANSWERS = {
    # the sources of an answer are checked in the base that gave it; the page stores it
    "add",
    # maintenance
    "close", "compact", "remove_invalid", "replace_unit",
}  # fmt: skip
QUESTION = "What is the capital of this country?"


@pytest.fixture(scope="module")
def countries(tmp_path_factory):
    """The folder of the first twelve countries of the demo, and its base kb/."""
    folder = build(tmp_path_factory.mktemp("demo"))
    records = RECORDS.read_text("utf-8").splitlines()[:12]
    (folder / "countries.jsonl").write_text("\n".join(records), "utf-8")
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        kb.ingest(folder / "countries.jsonl")
    return folder


@pytest.fixture(scope="module")
def local(countries):
    with KnowledgeBase.open(countries / "kb", read_only=True) as kb:
        yield kb


@pytest.fixture(scope="module")
def remote(local):
    with listening(application(local)) as address, client.connect(address) as kb:
        yield kb


@pytest.fixture(scope="module", params=["local", "remote"])
def kb(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["local", "remote"])
def changed(countries, tmp_path, request):
    """A base that may be changed."""
    with KnowledgeBase.open(shutil.copytree(countries / "kb", tmp_path / "kb")) as kb:
        if request.param == "local":
            yield kb
        else:
            with listening(application(kb)) as address, client.connect(address) as remote:
                yield remote


@pytest.fixture
def flag(countries):
    return countries / "flags" / "austria.png"


def without_places(value):
    """A result without addresses of pictures, paths of sources, and times."""
    if is_dataclass(value):
        places = {"image", "images", "source", "sources", "timings_ms", "milliseconds", "file"}
        names = [f.name for f in fields(value) if f.name not in places and f.compare]
        return {"": type(value)} | {name: without_places(getattr(value, name)) for name in names}
    if isinstance(value, tuple | list):
        return type(value)(map(without_places, value))
    return value


@pytest.mark.parametrize(
    "ask",
    [
        lambda kb, flag: kb.query(flag, QUESTION),
        lambda kb, flag: kb.query(flag.read_bytes(), QUESTION, k=2, kcc=False, graph=False),
        lambda kb, flag: kb.query(
            None, QUESTION, unit="Austria", where="continents contains Europe"
        ),
        lambda kb, flag: kb.query(None, "Which countries border Austria?", kind="country"),
        lambda kb, flag: kb.query(None, "Which countries border Austria?", method="evidence"),
        lambda kb, flag: kb.query(flag, QUESTION, plan="sequential"),
        lambda kb, flag: kb.plan(flag, QUESTION, "parallel"),
        lambda kb, flag: kb.search(image=flag, text="alpine", k=3),
        lambda kb, flag: kb.search(text="Vienna", where=["kind=country"]),
        lambda kb, flag: kb.list(),
        lambda kb, flag: kb.list(kind="country", limit=2, offset=3),
        lambda kb, flag: kb.list(where="capital=Vienna", limit=0),
        lambda kb, flag: kb.kinds(),
        lambda kb, flag: kb.show("austria"),
        lambda kb, flag: kb.tables("austria"),
        lambda kb, flag: kb.facts("Austria"),
        lambda kb, flag: kb.facets(where="continents=Europe"),
        lambda kb, flag: kb.examples(2),
        lambda kb, flag: kb.history("austria"),
        lambda kb, flag: kb.graph.evidence(QUESTION, image=flag),
        lambda kb, flag: kb.graph.show("Austria", most=3),
        lambda kb, flag: kb.graph.schema(),
        lambda kb, flag: kb.graph.paths("Austria", "Belgium", most=2),
        lambda kb, flag: kb.graph.neighbourhood("Austria", hops=2),
        lambda kb, flag: replace(kb.stats(), bytes=0),
    ],
)
def test_results_are_those_of_the_base(local, remote, flag, ask):
    expected, result = ask(local, flag), ask(remote, flag)
    assert type(result) is type(expected)
    assert without_places(result) == without_places(expected)


def test_a_picture_is_answered_and_its_match_can_be_used(kb, flag):
    answer = kb.query(Image.open(flag), QUESTION)
    assert (answer.answer, answer.outcome) == ("Vienna", "answered")
    match = answer.units[0]
    assert (match.id, match.sure) == ("austria", True)
    assert {*answer.citations} <= {piece.label for piece in (*answer.chunks, *answer.paths)}
    file = kb.picture(kb.picture_hash(match.image))
    assert file.read_bytes() == flag.read_bytes()
    assert kb.query(match.image, QUESTION).answer == "Vienna"
    assert kb.picture_hash(kb.show("austria").images[0]) == file.stem


def test_the_steps_of_a_query(kb, flag):
    *steps, last = kb.query_events(flag, QUESTION)
    assert [step.kind for step in steps] == ["region", "units", "evidence"]
    assert steps[1].data["units"][0]["id"] == "austria"
    assert last.answer.answer == last.data["answer"] == "Vienna"


@pytest.mark.parametrize(
    ("error", "ask"),
    [
        (NotFound, lambda kb: kb.show("atlantis")),
        (NotFound, lambda kb: kb.graph.show("atlantis")),
        (NotFound, lambda kb: kb.query("nothing.png", QUESTION)),
        (NotFound, lambda kb: kb.query(None, QUESTION, unit="atlantis")),
        (NotFound, lambda kb: kb.picture("0" * 64)),
        (NotFound, lambda kb: kb.picture_hash("nothing.png")),
        (NotFound, lambda kb: kb.page_image(1, 1)),
        (BadInput, lambda kb: kb.query(None, " ")),
        (BadInput, lambda kb: kb.query(b"no picture", QUESTION)),
        (BadInput, lambda kb: kb.search(text="x", k=0)),
        (BadInput, lambda kb: kb.search(text="x", where="capital")),
        (BadInput, lambda kb: [*kb.query_events(None, " ")]),
        (ReadOnly, lambda kb: kb.delete("austria")),
        (ReadOnly, lambda kb: kb.add(Unit("Lamp"))),
    ],
)
def test_errors_are_those_of_the_base(kb, error, ask):
    with pytest.raises(error) as caught:
        ask(kb)
    assert type(caught.value) is error


def test_units_are_added_changed_and_deleted(changed, flag, countries):
    kb = changed
    table = Table(("Year", "Size"), (("1920", "small"), (Cell("1930", "austria"), Cell("big"))))
    unit = Unit(
        "Lamp", id="a/lamp ü", kind="thing", aliases=("Light",), texts=("It is red.",),
        images=(flag,), metadata={"price": 10**25}, tables=(table,),
        relations=(Relation("stands in", "austria", information="often"),), match=False,
    )  # fmt: skip
    added = kb.add(unit)
    assert (added.id, added.action, added.images) == ("a/lamp ü", "added", 1)
    record = kb.show("a/lamp ü")
    assert (record.name, record.kind, record.aliases) == ("Lamp", "thing", ("Light",))
    assert (record.metadata, record.relations) == (unit.metadata, unit.relations)
    assert record.match is False
    assert kb.tables("a/lamp ü") == [table]
    assert kb.update("a/lamp ü", name="Lantern", images=[countries / "flags/benin.png"]).images == 1
    assert kb.show("a/lamp ü").name == "Lantern"
    assert kb.add(Unit("Austria", texts=("It has lakes.",))).matched[0] == "austria"
    with pytest.raises(NotFound):
        kb.delete(["austria", "atlantis"])
    assert kb.delete(["austria", "a/lamp ü"]).units == ("austria", "a/lamp ü")
    assert len(kb.list()) == 11


def test_changes_are_listed_and_undone(changed, flag):
    kb = changed
    kb.update("austria", name="Republic of Austria", images=[])
    [change] = kb.history("austria")
    assert tuple(change.fields["name"]) == ("Austria", "Republic of Austria")
    assert kb.undo("austria", change.number).action == "updated"
    assert (kb.show("austria").name, len(kb.show("austria").images)) == ("Austria", 1)
    with pytest.raises(NotFound, match="no such change"):
        kb.undo("austria", 10**6)
    with pytest.raises(NotFound):
        kb.history("atlantis")


def test_two_units_are_merged(changed):
    kb = changed
    before = without_places(kb.show("belgium"))
    preview = kb.merge("austria", "Belgium", dry_run=True)
    assert without_places(kb.show("belgium")) == before
    assert without_places(kb.merge("austria", "Belgium")) == without_places(preview)
    assert kb.show("Belgium").id == "austria"
    assert "belgium" not in {unit.id for unit in kb.list()}
    with pytest.raises(BadInput, match="are the same unit"):
        kb.merge("austria", "Austria")


def test_stored_answers_are_read_judged_and_exported(countries, flag, tmp_path):
    with KnowledgeBase.open(shutil.copytree(countries / "kb", tmp_path / "kb")) as base:
        for question in (QUESTION, "What is the currency of this country?"):
            id = base.answers.add(base.query(flag, question), flag)
        with listening(application(base)) as address, client.connect(address) as kb:
            assert kb.answers.list() == base.answers.list()
            stored, expected = kb.answers.get(id), base.answers.get(id)
            assert (stored.picture, stored.answer) == (expected.picture, "euro")
            assert kb.picture_hash(stored.data["units"][0]["image"])
            kb.answers.judge(id, "wrong", right_answer="shilling", unit="Austria")
            assert base.answers.get(id).right_answer == "shilling"
            for answers, name in ((kb.answers, "remote"), (base.answers, "local")):
                assert answers.export(tmp_path / name / "feedback.jsonl") == 1
            files = [tmp_path / name / "feedback.jsonl" for name in ("remote", "local")]
            assert files[0].read_bytes() == files[1].read_bytes()
            kb.answers.delete(id)
            with pytest.raises(NotFound):
                kb.answers.get(id)
            with pytest.raises(BadInput):
                kb.answers.judge(kb.answers.list()[0].id, "maybe")


def test_files_are_ingested(changed, tmp_path):
    folder = tmp_path / "things"
    (folder / "Lamp").mkdir(parents=True)
    (folder / "Lamp" / "about.txt").write_text("The lamp is red.")
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / ".hidden.txt").write_text("Nobody reads this.")
    (folder / "units.jsonl").write_text('{"name": "Desk", "texts": ["It is wide."]}')
    counts = []
    report = changed.ingest(folder, progress=counts.append)
    assert report.units_added == 2
    assert [item.reason for item in report.quarantined] != []
    assert counts
    (tmp_path / "chair.txt").write_text("A chair has four legs.")
    assert changed.ingest(tmp_path / "chair.txt").chunks_added == 1
    with pytest.raises(NotFound):
        changed.ingest(tmp_path / "nothing")
    assert len(changed.list()) == 15
    assert changed.search(text="nobody reads this").chunks[0].text != "Nobody reads this."


def test_a_kind_may_be_called_items(changed):
    changed.delete({unit.id for unit in changed.list()})
    changed.add(Unit("Lamp", kind="items"))
    assert changed.kinds() == {"items": 1}


def test_an_ingest_ends_if_its_progress_raises_an_error(changed, tmp_path):
    (tmp_path / "a.txt").write_text("A chair has four legs.")

    def stop(_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        changed.ingest(tmp_path / "a.txt", progress=stop)


def test_a_key_and_the_name_of_a_base(local, countries, tmp_path):
    with KnowledgeBase.open(tmp_path / "empty", create=True) as empty:
        app = application({"countries": local, "empty": empty}, keys=["secret"])
        with listening(app) as address:
            with client.connect(address, key="secret", kb="empty") as kb:
                assert kb.list() == []
                assert kb.tables
            with client.connect(f"{address}/", key="secret") as kb:
                match = kb.query(countries / "flags/benin.png", QUESTION).units[0]
                assert match.id == "benin"
            with client.connect(address, key="wrong") as kb, pytest.raises(KuError, match="key"):
                kb.list()


def test_what_a_server_cannot_do(remote, flag, tmp_path):
    with pytest.raises(AttributeError, match="does not offer 'compact'"):
        remote.compact()
    with pytest.raises(AttributeError, match="does not offer 'import_file'"):
        remote.graph.import_file("graph.jsonl")
    for options in ({"passage": tmp_path / "page.png"}, {"report": "a.html"}):
        with pytest.raises(BadInput, match="extra inputs are not permitted"):
            remote.query(flag, QUESTION, **options)
    with pytest.raises(TypeError, match="unexpected keyword"):
        remote.search(words="x")
    with pytest.raises(KuError, match="vectors"):
        remote.add(Unit("Lamp"), vectors={"texts": []})
    with client.connect("http://127.0.0.1:9") as nobody, pytest.raises(KuError, match="answer"):
        nobody.stats()


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", b"<h1>Proxy</h1>"),
        (200, "application/json", b"[]"),
        (200, "application/json", b'{"items": [{"name": 3}]}'),
        (200, "application/json", b"[" * 100_000),
        (502, "application/problem+json", b"{"),
        (502, "application/problem+json", b"[1]"),
        (404, "application/problem+json", b'{"code": "annotations"}'),
        (200, "text/event-stream", b"data: 1\n\n"),
    ],
)
def test_replies_that_are_not_of_this_version_are_errors(status, kind, body):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            headers = [(b"content-type", kind.encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    with listening(app) as address, client.connect(address) as kb:
        for call in (kb.stats, kb.list, lambda: kb.query(None, QUESTION)):
            with pytest.raises(KuError):
                call()


@pytest.mark.parametrize(
    ("facade", "remote", "missing"),
    [
        (KnowledgeBase, client.RemoteKnowledgeBase, ONLY_LOCAL),
        (GraphView, client.RemoteGraph, ONLY_LOCAL_GRAPH),
        (StoredAnswers, client.RemoteAnswers, ONLY_LOCAL_ANSWERS),
    ],
)
def test_the_methods_that_a_server_does_not_offer_are_known(facade, remote, missing):
    names = {name for name in vars(facade) if not name.startswith("_")}
    names -= {"graph", "answers"}
    assert {name for name in names if not hasattr(remote, name)} == missing
    for name in names - missing - {"close"}:
        expected = [*inspect.signature(getattr(facade, name)).parameters]
        assert [*inspect.signature(getattr(remote, name)).parameters] == expected, name
