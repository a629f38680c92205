"""The runs of `ku` whose JSON keys and exit codes are golden.

A scenario is a function that runs commands in an empty folder, and prepares files between them.
Each run has a name, which is its key in golden.json.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ku_rag import KnowledgeBase, weights
from tests.assets.schemas import Hashed
from tests.conftest import Run, picture, write_fruits, write_records
from tests.data.bases.stored import unpack
from tests.endpoint import Said, says, serving

JSON_TYPES = {
    dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number",
    type(None): "null",
}  # fmt: skip


def key_paths(value: Any, path: str = "$") -> dict[str, set[str]]:
    """Every key path of a JSON value with its JSON types; the items of a list are merged."""
    paths = {path: {JSON_TYPES[type(value)]}}
    inner = (
        [(f"{path}.{key}", item) for key, item in value.items()]
        if isinstance(value, dict)
        else [(f"{path}[]", item) for item in value]
        if isinstance(value, list)
        else []
    )
    for below, item in inner:
        for key, types in key_paths(item, below).items():
            paths.setdefault(key, set()).update(types)
    return paths


@dataclass
class Recorder:
    """Runs commands and records the exit code and the JSON keys of each."""

    ku: Callable[..., Run]
    root: Path
    monkeypatch: pytest.MonkeyPatch
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, name: str, *arguments: object) -> Any:
        """Run `ku ARGUMENTS --json` and return its JSON, or None if it printed nothing."""
        run = self.ku(*map(str, arguments), "--json")
        assert "Traceback" not in run.err
        return self._record(name, run)

    def fails(self, *arguments: object) -> None:
        """Run `ku ARGUMENTS`, which prints no data; the run is named after its arguments."""
        run = self.ku(*map(str, arguments))
        assert (run.out, "Traceback" in run.err) == ("", False)
        self._record(" ".join(["ku", *map(str, arguments)]), run)

    def _record(self, name: str, run: Run) -> Any:
        assert name not in self.results, f"two runs are called {name}"
        self.results[name] = {"exit": run.code}
        if not run.out:
            return None
        keys = key_paths(run.json)
        self.results[name]["keys"] = {
            key: " or ".join(sorted(types)) for key, types in sorted(keys.items())
        }
        return run.json


def instance(schema: dict[str, Any]) -> Any:
    """A value that fits a JSON schema."""
    if "enum" in schema:
        return schema["enum"][0]
    types = schema.get("type", "string")
    kind = types if isinstance(types, str) else types[0]
    if kind == "object":
        return {key: instance(member) for key, member in schema.get("properties", {}).items()}
    return {"array": [], "string": "Italy", "boolean": True, "integer": 1, "number": 1.0}[kind]


def reply(body: dict[str, Any]) -> Said:
    """Reply of the endpoint: an object if the request has a schema, otherwise a text."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return says(json.dumps(instance(schema)) if schema else "Italy")


def units(run: Recorder) -> None:
    """Ingesting, changing and listing units."""
    folder = write_fruits(run.root)
    run("init", "init")
    run("init, existing base", "init")
    run("list, empty base", "list")
    run("stats, empty base", "stats")
    run("ingest, folder", "ingest", folder)
    run("ingest, unchanged", "ingest", folder, "--max-memory", 256)
    (folder / "Kiwi" / "broken.jpg").write_bytes(b"")
    run("ingest, item left out", "ingest", folder)
    (folder / "Kiwi" / "broken.jpg").unlink()
    records = [
        {
            **{"id": "river", "name": "Oker", "kind": "river", "aliases": ["Oker River"]},
            **{"texts": ["The Oker flows through Goslar."], "metadata": {"length": 128}},
            "relations": [
                {"relation": "crosses", "target": "Goslar", "target_kind": "town"},
                {"relation": "near", "target": "Kiwi", "information": "?", "condition": "dry"},
            ],
        }
    ]
    run("ingest, JSON lines", "ingest", write_records(run.root / "units.jsonl", records))
    (run.root / "units.csv").write_text("id,name,text\nharz,Harz,It is a range.\n")
    run("ingest, CSV", "ingest", run.root / "units.csv")
    (run.root / "broken.jsonl").write_text('{"id": "a"}\n{"x\n')
    run("ingest, broken JSON lines", "ingest", run.root / "broken.jsonl")
    picture(run.root / "lamp.png", 3)
    (run.root / "more.txt").write_text("It hangs.", encoding="utf-8")
    run(
        "add", "add", "--name", "Lamp", "--id", "lamp", "--kind", "thing", "--alias", "Light",
        "--image", "lamp.png", "--text", "It shines.", "--text-file", "more.txt",
        "--metadata", '{"year": 1920}',
    )  # fmt: skip
    run("add, joined", "add", "--name", "light", "--text", "Bright.")
    run("update", "update", "lamp", "--kind", "device", "--text", "It is bright.")
    run("list", "list")
    run("list, kind and limit", "list", "--kind", "device", "--limit", 1)
    run("list, where", "list", "--where", "year<1930")
    run("show", "show", "lamp")
    run("show, with relations", "show", "river")
    run("stats", "stats")
    run("verify", "verify")
    run("upgrade, up to date", "upgrade")
    run("tune", "tune")
    run("tune, kind", "tune", "--kind", "flat", "--recall", 0.9)
    run("reindex", "reindex", "--encoder", "embedded")
    run("delete", "delete", "lamp", "river")
    run("compact", "compact")
    run("feedback, none", "feedback", "feedback.jsonl")
    shutil.rmtree(folder / "Kiwi")
    (folder / "Mango" / "about.txt").write_text("It is sour.", encoding="utf-8")
    run("sync, dry run", "sync", folder, "--dry-run")
    run("sync", "sync", folder)
    for stored in (run.root / "kb" / "images").rglob("*.*"):
        stored.unlink()
    run("verify, pictures missing", "verify")
    run("doctor", "doctor")
    run("doctor, no base", "doctor", "--kb", "nowhere")


def questions(run: Recorder) -> None:
    """Searching and asking, with and without a picture and a model."""
    photo = write_fruits(run.root) / "Kiwi" / "photo.png"
    records = [
        {"entity": "Kiwi", "kind": "fruit"},
        {"head": "Kiwi", "relation": "grows in", "tail": "Italy", "tail_kind": "country"},
    ]
    write_records(run.root / "graph.jsonl", records)
    run("ingest", "ingest", run.root / "fruits")
    run("graph import", "graph", "import", run.root / "graph.jsonl")
    question = "Which country does it come from?"
    run("search, text", "search", "--text", "sweet")
    run("search, where", "search", "--text", "sweet", "--where", "calories<100")
    run("search, picture", "search", "--image", photo, "-k", 1)
    run("search, both", "search", "--image", photo, "--text", "sweet")
    run("search, nothing found", "search", "--text", "xyzzy")
    run("query, picture", "query", photo, question)
    run("query, no picture", "query", "-", "Which country does the Mango come from?", "-k", 1)
    run("query, no answer", "query", photo, "Who painted it?")
    run("query, graph path", "query", photo, "Where does it grow?")
    run("query, plan", "query", photo, question, "--plan", "parallel")
    run("query, plan only", "query", photo, question, "--plan", "sequential", "--plan-only")
    run("query, plan limit", "query", photo, question, "--plan-limit", "rounds=1")
    run("query, no graph and no units", "query", photo, question, "--no-graph", "--no-units")
    pages = ("--passage", "pages.png", "--report", "why.html")
    run("query, passage and report", "query", photo, question, *pages)
    with serving(by=reply) as endpoint:
        run.monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        run.monkeypatch.setenv("OPENAI_API_KEY", "none")
        model = ("--mllm", "m-1")
        run("query, model", "query", photo, question, *model)
        run("query, model, no correction", "query", photo, question, *model, "--no-kcc")
        run("query, model, no picture", "query", "-", "Where do kiwis grow?", *model)
        run("query, strict kurag", "query", photo, question, *model, "--strict", "kurag")
        run("query, model, no units", "query", photo, question, *model, "--no-units")
        run("graph search, model", "graph", "search", "Where does the Kiwi grow?", *model)
        run("graph caption", "graph", "caption", *model)
        run("extract, dry run", "extract", *model, "--dry-run")
        run("extract", "extract", *model)
        run("extract, removed", "extract", *model, "--remove")
        run("models ping", "models", "ping", *model)
    run("graph search, endpoint gone", "graph", "search", "What is it made of?", *model)
    run("models ping, endpoint gone", "models", "ping", *model)
    run("query, endpoint gone", "query", photo, "What is it made of?", *model)
    run("graph caption, endpoint gone", "graph", "caption", "Mango", "--mllm", "m-2")


def evaluation(run: Recorder) -> None:
    """Runs over questions, and comparisons of runs and methods."""
    photo = write_fruits(run.root) / "Kiwi" / "photo.png"
    records = [
        {"id": "a", "question": "Which country does it come from?", "image": str(photo)},
        {"id": "b", "question": "Is Mango sweet?", "answers": ["yes"], "units": ["Mango"]},
        {"id": "c", "question": 5},
    ]
    write_records(run.root / "asked.jsonl", records)
    run("ingest", "ingest", run.root / "fruits")
    run("eval", "eval", "asked.jsonl", "--out", "ku")
    run("eval, plain", "eval", "asked.jsonl", "--out", "plain", "--method", "plain")
    run("eval, plan", "eval", "asked.jsonl", "--method", "plan", "--out", "plan")
    run("plan export", "plan", "export", "plan", "--out", "records.json", "--least", "f1=0")
    run("plan export, none", "plan", "export", "plan", "--out", "records.json")
    run("eval, run that exists", "eval", "asked.jsonl", "--out", "ku")
    run("eval compare", "eval", "compare", "ku", "plain")
    run("eval, no questions", "eval", "nothing.jsonl")
    run("compare", "compare", photo, "Which country does it come from?", "--method", "ku")
    run("query, batch", "query", "--batch", "asked.jsonl", "--out", "answers.jsonl")


def graph(run: Recorder) -> None:
    """The commands of `ku graph`."""
    picture(run.root / "wolf.png", 1)
    records = [
        {"entity": "Zinogre", "kind": "monster", "topic": True, "caption": "A wolf.",
         "aliases": ["Wolf"], "text": "It howls.", "images": ["wolf.png"],
         "metadata": {"stars": 5}},
        {"head": "Zinogre", "relation": "phase", "tail": "Charged", "condition": "angry"},
        {"head": "Charged", "relation": "attack", "tail": "Slam", "information": "hurts"},
        {"head": "Slam", "relation": "back to", "tail": "Zinogre"},
    ]  # fmt: skip
    path = write_records(run.root / "g.jsonl", records)
    run("graph import", "graph", "import", path)
    run("graph import, unchanged", "graph", "import", path)
    (run.root / "broken.jsonl").write_text('{"head": "A", "relation": "to", "tail": "B"}\n{"x"\n')
    run("graph import, item left out", "graph", "import", run.root / "broken.jsonl")
    described = ("--kind", "monster", "--topic", "--caption", "A dog.", "--text", "It barks.")
    image = ("--image", "wolf.png", "--alias", "Hound")
    run("graph add", "graph", "add", "Barioth", *described, *image)
    run("graph add, existing", "graph", "add", "Barioth", "--kind", "beast")
    relation = ("--relation", "Barioth", "fears", "Zinogre")
    notes = ("--information", "a lot", "--condition", "wet")
    run("graph add, relation", "graph", "add", *relation, *notes)
    run("graph add, existing relation", "graph", "add", *relation, *notes)
    run("graph show", "graph", "show", "Wolf")
    run("graph show, only named", "graph", "show", "B")
    run("graph show, drawing", "graph", "show", "Barioth", "--svg", "b.svg", "--hops", 2)
    run("graph schema", "graph", "schema")
    run("graph paths", "graph", "paths", "Zinogre", "Slam")
    run("graph paths, anywhere", "graph", "paths", "Zinogre", "--longest", 2)
    run("graph paths, none", "graph", "paths", "Slam", "Barioth")
    question = "Which attack follows when the Zinogre is charged?"
    run("graph search", "graph", "search", question)
    options = ("--hints", "It is angry.", "--topic", "Zinogre", "--image", "wolf.png")
    bounds = ("--most", 2, "--rounds", 3, "--depth-first")
    run("graph search, options", "graph", "search", question, *options, *bounds)
    run("graph search, nothing found", "graph", "search", "Who painted it?")
    run("graph export, JSON lines", "graph", "export", "out.jsonl")
    run("graph export, GraphML", "graph", "export", "out.graphml")
    run("graph export, workbooks", "graph", "export", "out")
    for exported in ("out.jsonl", "out.graphml", "out"):
        run(f"graph import, {exported}", "graph", "import", exported, "--kb", f"kb of {exported}")
    run("graph delete, relation", "graph", "delete", *relation, "--condition", "wet")
    run("graph delete", "graph", "delete", "Barioth")
    run("show", "show", "Zinogre")
    run("query, path", "query", "-", "What attack does Zinogre have when it is charged?")
    for wrong in (
        ("graph", "import", "none.jsonl"),
        ("graph", "show", "nobody"),
        ("graph", "paths", "Zinogre", "nobody"),
        ("graph", "export", "out.csv"),
        ("graph", "delete", "nobody"),
        ("graph", "add"),
        ("graph", "add", "A", "--condition", "x"),
        ("graph", "paths", "A", "--most", "0"),
        ("graph", "show", "Zinogre", "--svg", "a.png"),
        ("graph", "caption", "nobody"),
        ("graph", "fly"),
    ):
        run.fails(*wrong)


def transfer(run: Recorder) -> None:
    """Export, import, snapshot and salvage."""
    run("ingest", "ingest", write_fruits(run.root))
    run("graph add", "graph", "add", "--relation", "Kiwi", "grows in", "Italy")
    run("export", "export", "moved")
    run("import", "import", "moved", "--kb", "kb2")
    run("import, unchanged", "import", "moved", "--kb", "kb2")
    run("encode", "encode", "fruits", "--out", "shards")
    run("encode, unchanged", "encode", "fruits", "--out", "shards", "--workers", 2)
    run("import, shards", "import", "shards", "--kb", "of shards")
    run.fails("encode", "fruits", "--out", "fruits/shards")
    run.fails("encode", "fruits")
    run("snapshot", "snapshot", "copy")
    run("snapshot, links", "snapshot", "linked", "--link")
    run("add, since snapshot", "add", "--name", "Pear", "--text", "Pears are green.")
    run("snapshot, since", "snapshot", "increment", "--since", "copy")
    run("snapshot, apply", "snapshot", "increment", "--apply", "--kb", "copy")
    run("snapshot, no increments", "snapshot", "fruits", "--apply", "--kb", "copy")
    run("snapshot, unchanged", "snapshot", "unchanged", "--since", "copy")
    run("list, snapshot", "list", "--kb", "copy")
    run("export, salvage", "export", "saved", "--salvage")
    run("import, salvaged", "import", "saved", "--kb", "kb3")
    next((run.root / "copy" / "images").rglob("*.*")).unlink()
    run("export, picture missing", "export", "partial", "--kb", "copy")
    run("snapshot, picture missing", "snapshot", "copy of copy", "--kb", "copy")
    for version in ("0.1.0", "0.2.0"):
        unpack(version, run.root / version)
    run("upgrade", "upgrade", "--kb", "0.1.0/kb")
    for wrong in (
        ("export", "moved", "--kb", "nowhere"),
        ("export", "fruits"),
        ("import", "nowhere"),
        ("import", "fruits", "--kb", "kb4"),
        ("snapshot", "fruits"),
        ("snapshot", "increment", "--apply", "--kb", "kb2"),
        ("snapshot", "nowhere", "--apply"),
        ("compact", "--kb", "copy"),
        ("list", "--kb", "0.2.0/kb"),
        ("upgrade", "--kb", "nowhere"),
        ("snapshot", "new", "--since", "nowhere"),
        ("export", "x", "--salvage", "--kb", "nowhere"),
        ("export",),
    ):
        run.fails(*wrong)


def models(run: Recorder) -> None:
    """Weights of models, none of which is downloaded."""
    run("models list", "models", "list")
    run("models verify, none", "models", "verify")
    model = weights.models()["yolov8n-seg"]
    run.monkeypatch.setenv("KU_CACHE", str(run.root / "cache"))
    file = run.root / "cache" / model.local
    file.parent.mkdir(parents=True)
    file.touch()
    os.truncate(file, model.size)
    run("models list, damaged", "models", "list")
    run("models path", "models", "path", "yolov8n-seg")
    run("models verify, damaged", "models", "verify")
    for wrong in (
        ("models", "path", "longclip-L"),
        ("models", "path", "nothing"),
        ("models", "pull", "nothing"),
        ("models", "pull"),
        ("models", "verify", "longclip-L"),
    ):
        run.fails(*wrong)


def demo(run: Recorder) -> None:
    """The demonstration."""
    run("demo", "demo", "tour")


def errors(run: Recorder) -> None:
    """Exit codes of commands that fail."""
    run("ingest", "ingest", write_fruits(run.root))
    photo = "fruits/Kiwi/photo.png"
    for wrong in (
        ("query", "nowhere.png", "What?"),
        ("query", photo, "  "),
        ("query", photo, "What?", "--passage", "a.jpg"),
        ("query", photo, "What?", "--report", "fruits"),
        ("query", photo),
        ("show", "nobody"),
        ("delete", "nobody"),
        ("delete",),
        ("update", "nobody", "--name", "x"),
        ("ingest", "nowhere"),
        ("sync", "nowhere"),
        ("sync", photo),
        ("stats", "--kb", "nowhere"),
        ("list", "--kb", "fruits"),
        ("list", "--limit", "0"),
        ("list", "--where", "calories"),
        ("add", "--name", " "),
        ("add",),
        ("add", "--name", "x", "--metadata", "{"),
        ("search",),
        ("fly",),
        ("tune", "--recall", "2"),
        ("tune", "--kind", "magic"),
        ("index", "sync"),
        ("reindex", "--encoder", "magic"),
        ("init", "--kb", "fruits"),
        ("init", "--kb", "new", "--encoder", "magic"),
        ("init", "--kb", "new", "--profile", "magic"),
        ("verify", "--kb", "nowhere"),
        ("compact", "--kb", "nowhere"),
        ("serve", "--kb", "nowhere"),
        ("serve", "--host", "0.0.0.0"),
        ("mcp", "--kb", "nowhere"),
    ):
        run.fails(*wrong)
    (run.root / "foreign").mkdir()
    (run.root / "foreign" / "ku.sqlite").write_bytes(b"not a database at all, " * 1000)
    run.fails("stats", "--kb", "foreign")
    KnowledgeBase.open(run.root / "hashed", create=True, encoder=Hashed()).close()
    run.fails("stats", "--kb", "hashed")
    (run.root / "kb" / "ku.toml").write_text('encoder = "embedded"\nk_chunk = 4\n')
    run.fails("stats")


def locked(run: Recorder) -> None:
    """A write while another connection writes."""
    waiting = ["while locked"]

    def meanwhile(_: int) -> None:
        if waiting:
            waiting.pop()
            run.fails("add", "--name", "x")
            run("list, while locked", "list")

    run("init", "init")
    run.monkeypatch.setenv("KU_LOCK_WAIT_S", "0.1")
    with KnowledgeBase.open(run.root / "kb") as kb:
        kb.ingest(write_fruits(run.root), progress=meanwhile)


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (units, questions, evaluation, graph, transfer, models, demo, errors, locked)
}
