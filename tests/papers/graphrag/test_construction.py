"""Evidence graphs of whole questions, stage by stage, with a scripted model in all eight roles."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.errors import BadInput, ModelFailed
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.types import Cell, Table
from tests.conftest import picture
from tests.endpoint import model_at, says, serving
from tests.papers.mhmmkg.test_mllm_agents import data

DIXON = (
    "To show that he is happy, what does the person do who was the theme of the episode where "
    "Colton Dixon chose Piano Man?"
)
PIAZZA = (
    "Which film did Ben Piazza appear in first: Nightwing, or the one that shows half of a "
    "woman's face on the poster?"
)
FACE = "half of a woman's face on the poster"
MARKS = {
    "answer": "correction",
    "entity_types": "pattern",
    "relations": "extraction",
    "descriptions": "descriptions",
    "picture": "choice",
    "enough": "sufficiency",
    "questions": "picture questions",
    "entities": "table entities",
}


def role(schema, pictures):
    """The role of a request, by the schema of its reply and its pictures."""
    if schema is None:
        return "picture answer" if pictures else "draft"
    return next(MARKS[name] for name in MARKS if name in schema["properties"])


def role_of(request):
    return role(request.schema, request.messages[-1].pictures)


class Cast:
    """A model in all roles: a reply, or a function of the lines of data, for each role."""

    def __init__(self, **replies):
        self.replies = {name.replace("_", " "): reply for name, reply in replies.items()}
        self.model = ScriptedMLLM(self.reply)

    def reply(self, request):
        text = request.messages[-1].text
        reply = self.replies.get(role_of(request), {})
        return reply(data(text)) if callable(reply) else reply

    def roles(self):
        return [role_of(request) for request in self.model.requests]


def base(folder, units):
    with KnowledgeBase.open(folder, create=True) as kb:
        kb.add_many([replace(unit, id=unit.name) for unit in units])
    return folder


@pytest.fixture
def songs(tmp_path):
    table = Table(
        ("Week", "Theme", "Song"),
        (
            ("Top 11", "Year of Birth", "Broken Heart"),
            ("Top 10", "Billy Joel", "Piano Man"),
            ("Top 9", "Their Idols", "Everything"),
        ),
        "Colton Dixon performances",
    )
    return base(
        tmp_path / "kb",
        [
            Unit(
                "Colton Dixon",
                texts=("Colton Dixon is a singer who sang on a television show in 2012.",),
                tables=(table,),
            ),
            Unit(
                "Billy Joel",
                texts=("He plays the keys.",),
                images=(picture(tmp_path / "joel.png", 1),),
            ),
            Unit(
                "Elton John",
                texts=("Elton John is happy.",),
                images=(picture(tmp_path / "john.png", 2),),
            ),
        ],
    )


def dixon_cast(**replies):
    def extract(lines):
        if "Colton Dixon is a singer" not in lines[-1]["text"]:
            return {"entities": [], "relations": []}
        person = {"name": "Colton Dixon", "type": "person", "description": "A singer."}
        return {"entities": [person], "relations": []}

    def judge(lines):
        return {"reason": "", "enough": any("smiling" in str(line) for line in lines)}

    def ask(lines):
        pictures = [line["node"] for line in lines if line.get("type") == "image"]
        return {
            "questions": [{"picture": name, "question": "What does he do?"} for name in pictures]
        }

    roles = {
        "pattern": {
            "entity_types": ["person", "song"],
            "relations": [{"source": "person", "relation": "chose", "target": "song"}],
            "keywords": ["Colton Dixon", "Piano Man"],
        },
        "extraction": extract,
        "descriptions": {"descriptions": []},
        "sufficiency": judge,
        "picture_questions": ask,
        "picture_answer": "Billy Joel is smiling.",
        "table_entities": {"entities": ["Piano Man", "Billy Joel"]},
    }
    return Cast(**roles | replies)


def build(folder, cast, question=DIXON, encoder=None, **settings):
    with KnowledgeBase.open(folder, read_only=True, mllm=cast.model, encoder=encoder) as kb:
        return kb.graph.evidence(question, construction=EvidenceSettings(**settings))


def names(graph, modality):
    return [node.name for node in graph.of(modality)]


def test_a_table_leads_to_a_person_and_the_person_to_a_picture(songs):
    cast = dixon_cast()
    result = build(songs, cast)
    assert result.enough
    assert result.sizes == {
        "retrieval": {"nodes": 2, "edges": 1},
        "clue": {"nodes": 2, "edges": 1},
        "evidence": {"nodes": 6, "edges": 5},
    }
    assert names(result.graph, "text") == ["Colton Dixon", "Billy Joel", "Piano Man"]
    assert names(result.graph, "row") == ["Colton Dixon performances, row 2"]
    (joel,) = result.graph.of("image")
    assert (joel.name, joel.description) == ("Billy Joel", "Billy Joel is smiling.")
    assert [result.graph.edge_text(edge) for edge in result.graph.edges] == [
        "Colton Dixon performances —related_to→ Colton Dixon",
        "Colton Dixon performances —has row→ Colton Dixon performances, row 2",
        "Colton Dixon performances, row 2 —Theme→ Billy Joel",
        "Colton Dixon performances, row 2 —Song→ Piano Man",
        "Billy Joel —related_to→ Billy Joel",
    ]
    # The graph is judged first; the table is read once, before the picture is in the graph.
    stage_3 = [stage for stage in cast.roles() if stage not in ("pattern", "extraction")]
    assert stage_3 == [
        "sufficiency",
        "table entities",
        "sufficiency",
        "picture questions",
        "picture answer",
        "sufficiency",
    ]
    assert [entry.round for entry in result.trace if entry.agent == "sufficiency"] == [1, 2, 3]
    assert result.usage["calls"] == len(cast.model.requests)


def test_a_description_in_the_question_chooses_a_picture(tmp_path):
    films = ("Nightwing", "A Dangerous Age", "Tell Me")
    units = [
        Unit(film, texts=(f"{film} is a film.",), images=(picture(tmp_path / f"{n}.png", n),))
        for n, film in enumerate(films)
    ]
    actor = "Ben Piazza acted in A Dangerous Age in 1958, in Tell Me in 1970, in Nightwing in 1979."
    folder = base(tmp_path / "kb", [Unit("Ben Piazza", texts=(actor,)), *units])

    def extract(lines):
        present = [film for film in films if film in lines[-1]["text"]]
        acted = [
            {"source": "Ben Piazza", "relation": "acted in", "target": film, "description": ""}
            for film in present
        ]
        entities = [{"name": film, "type": "Film", "description": ""} for film in present]
        entities += [{"name": "Ben Piazza", "type": "actor", "description": "An actor."}]
        return {"entities": entities, "relations": acted}

    def choose(lines):
        titles = [line["title"] for line in lines if "title" in line]
        return {"reason": "", "picture": titles.index("Tell Me") + 1}

    def judge(lines):
        return {"enough": any(FACE in line.get("description", "") for line in lines)}

    cast = Cast(
        pattern={
            "entity_types": ["actor", "film"],
            "relations": [{"source": "actor", "relation": "acted in", "target": "film"}],
            "keywords": ["Ben Piazza", "Nightwing"],
        },
        extraction=extract,
        descriptions={"descriptions": [FACE]},
        choice=choose,
        sufficiency=judge,
    )
    result = build(folder, cast, PIAZZA, k=2)
    assert result.enough
    assert result.stopped == "the graph is enough"
    (poster,) = (node for node in result.graph.of("image") if node.description)
    assert (poster.name, poster.description) == ("Tell Me", f"It shows {FACE}.")
    # A film without the actor's name beside it states no relation; the pictures are anchored.
    assert result.sizes["retrieval"] == {"nodes": 7, "edges": 6}
    (chosen,) = (r for r in cast.model.requests if role_of(r) == "choice")
    assert len(chosen.messages[-1].pictures) == 3
    without = build(folder, cast, PIAZZA, k=2, image_matching=False, t_max=1)
    assert not without.enough
    assert "choice" not in [entry.agent for entry in without.trace]


def test_without_table_mining_the_picture_is_not_reached(songs):
    result = build(songs, dixon_cast(), table_mining=False)
    assert (result.enough, names(result.graph, "image")) == (False, [])
    assert result.stopped == "nothing was left to add, and the graph was not enough"


def test_a_cell_that_links_to_a_unit_leads_to_its_picture(tmp_path):
    row = ("Top 10", Cell("The man at the keys", "Billy Joel"), "Piano Man", "x" * 1_000_000)
    table = Table(("Week", "Theme", "Song", "Notes"), (row, *[("", "", "")] * 200), "Songs")
    texts = ("Colton Dixon is a singer.",)
    folder = base(
        tmp_path / "kb",
        [
            Unit("Colton Dixon", texts=texts, tables=(table,)),
            Unit("Billy Joel", images=(picture(tmp_path / "joel.png", 1),)),
        ],
    )
    cast = dixon_cast(table_entities={"entities": ["Piano Man", "", "-"]})
    result = build(folder, cast)
    assert result.enough
    assert names(result.graph, "text") == ["Colton Dixon", "The man at the keys", "Piano Man"]
    assert max(len(request.messages[-1].text) for request in cast.model.requests) < 10_000


def test_without_visual_evidence_no_picture_is_asked(songs):
    cast = dixon_cast()
    result = build(songs, cast, visual_evidence=False)
    assert (result.enough, names(result.graph, "image")) == (False, ["Billy Joel"])
    assert "picture questions" not in cast.roles()


def test_a_judge_that_never_says_enough_is_asked_t_max_times(songs):
    calls = []

    def ask(lines):
        calls.append(lines)
        pictures = [line["node"] for line in lines if line.get("type") == "image"]
        number = str(len(calls))
        return {"questions": [{"picture": name, "question": number} for name in pictures]}

    def answer(lines):
        return f"Seen {lines[-1]['question']}."

    cast = dixon_cast(sufficiency={"enough": False}, picture_questions=ask, picture_answer=answer)
    result = build(songs, cast, t_max=3)
    assert cast.roles().count("sufficiency") == 3
    # The last round augments the graph too, and is not judged.
    assert cast.roles()[-1] == "picture answer"
    assert result.graph.of("image")[0].description == "Seen 1. Seen 2."
    assert result.stopped == "the graph was not enough in 3 judgements"


@pytest.mark.parametrize(
    "broken",
    [
        "no JSON at all",
        {"entities": "Colton Dixon", "relations": 3},
        {"entities": [{"name": None, "type": []}, {}], "relations": [{}]},
        {"entities": [{"name": "Elvis Presley", "type": "person", "description": "A singer."}]},
        {"entities": [{"name": "Colton Dixon", "type": "planet", "description": ""}]},
        {"entities": [{"name": "Colton Dix", "type": "person", "description": ""}]},
    ],
)
def test_facts_that_the_text_does_not_state_are_dropped(songs, broken):
    result = build(songs, dixon_cast(extraction=broken))
    assert result.sizes["retrieval"] == {"nodes": 0, "edges": 0}
    assert not result.enough


def test_a_relation_that_the_pattern_lacks_is_dropped(songs):
    entities = [
        {"name": name, "type": "person", "description": ""} for name in ("Colton Dixon", "singer")
    ]
    relation = {"source": "Colton Dixon", "target": "singer", "description": "He is one."}
    for word, edges in (("is a", 0), ("Chose", 1)):
        facts = {"entities": entities, "relations": [{**relation, "relation": word}]}
        result = build(songs, dixon_cast(extraction=facts, sufficiency={"enough": True}))
        assert [e.relation for e in result.graph.edges if e.chunk] == ["chose"] * edges


def test_a_pattern_is_needed(songs):
    with pytest.raises(ModelFailed, match="schema"):
        build(songs, dixon_cast(pattern={"entity_types": {}}))


def test_a_spent_budget_ends_the_construction(songs):
    cast = dixon_cast()
    with serving(by=lambda body: says(json.dumps(cast.replies["pattern"]))) as endpoint:
        cast.model = model_at(endpoint.url, retries=0, max_calls=1)
        result = build(songs, cast)
    assert (result.enough, result.usage["calls"]) == (False, 1)
    assert "budget" in result.stopped


def test_what_is_wrong_is_said(songs):
    empty = pytest.raises(BadInput, match="the question is empty")
    with KnowledgeBase.open(songs, read_only=True) as kb, empty:
        kb.graph.evidence(" ")
    for wrong in ({"k": 0}, {"t_max": 11}, {"image_distance": 2}, {"table_mining": 1}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            EvidenceSettings(**wrong)


def test_graphml_holds_nodes_and_edges(songs):
    result = build(songs, dixon_cast())
    root = ElementTree.fromstring(result.graph.graphml())
    space = "{http://graphml.graphdrawing.org/xmlns}"
    ids = {node.get("id") for node in root.iter(f"{space}node")}
    assert ids == set(result.graph.nodes)
    edges = [(tag.get("source"), tag.get("target")) for tag in root.iter(f"{space}edge")]
    assert edges == [(edge.source, edge.target) for edge in result.graph.edges]
    assert "Billy Joel is smiling." in [tag.text for tag in root.iter(f"{space}data")]
    assert json.loads(json.dumps(result.to_dict()))["sizes"] == result.sizes


def answers(lines):
    """The verdict of the correction chain, which cites the evidence that he smiles."""
    (label,) = (line["evidence"] for line in lines if "smiling" in line.get("text", ""))
    return {"reason": "The picture shows it.", "citations": [label], "answer": "smiling"}


def test_a_query_is_answered_from_the_graph(songs, tmp_path):
    cast = dixon_cast(draft="He waves.", correction=answers)
    with KnowledgeBase.open(songs, read_only=True, mllm=cast.model) as kb:
        answer = kb.query(None, DIXON, method="evidence", report=tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert "The construction ended: the graph is enough." in page
    assert "<title>Colton Dixon performances, row 2 —Theme→ Billy Joel</title>" in page
    document = answer.to_dict()
    (cited,) = (path for path in answer.paths if path.label in answer.citations)
    assert (answer.answer, cited.text) == (
        "smiling",
        "Billy Joel (image): Billy Joel is smiling.",
    )
    labels = [item.label for item in (*answer.chunks, *answer.paths)]
    assert len(labels) == len(set(labels))
    assert document["evidence_graph"]["sizes"]["evidence"] == {"nodes": 6, "edges": 5}
    assert document["evidence_graph"]["enough"] is True
    # The draft and its correction are calls beyond those for the graph.
    assert document["usage"]["replies"] == document["evidence_graph"]["usage"]["calls"] + 2
    assert "evidence graph" in document["timings_ms"]
    with KnowledgeBase.open(songs, read_only=True) as kb:
        assert "evidence_graph" not in kb.query(None, DIXON).to_dict()
        for wrong in (
            {"method": "paths"},
            {"method": "evidence", "strict": "kurag"},
            {"construction": EvidenceSettings()},
        ):
            with pytest.raises(BadInput, match="method"):
                kb.query(None, DIXON, **wrong)


def test_units_of_another_kind_bring_no_pictures(songs):
    with KnowledgeBase.open(songs) as kb:
        kb.update("Billy Joel", kind="composer")
        kb.update("Colton Dixon", kind="singer")
    for kind, pictures in (("singer", []), (None, ["Billy Joel"])):
        cast = dixon_cast(draft="He waves.", correction={"answer": "He waves."})
        with KnowledgeBase.open(songs, read_only=True, mllm=cast.model) as kb:
            answer = kb.query(None, DIXON, method="evidence", kind=kind)
        assert names(answer.evidence_graph.graph, "image") == pictures


def test_the_command_builds_the_graph_and_leaves_out_steps(songs, ku):
    cast = dixon_cast(draft="He waves.", correction={"answer": "He waves."})

    def say(body):
        parts = body["messages"][-1]["content"]
        texts = [parts] if isinstance(parts, str) else [p.get("text", "") for p in parts]
        pictures = [] if isinstance(parts, str) else [p for p in parts if p["type"] == "image_url"]
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        scripted = cast.replies[role(schema, pictures)]
        reply = scripted(data("\n".join(texts))) if callable(scripted) else scripted
        return says(reply if isinstance(reply, str) else json.dumps(reply))

    with serving(by=say) as endpoint:
        model = ("--mllm", "m", "--mllm-url", endpoint.url, "--no-cache", "--json")
        command = ("query", "-", DIXON, "--kb", songs, "--method", "evidence", *model)
        whole = ku(*command).json["evidence_graph"]
        part = ku(*command, "--no-table-mining").json["evidence_graph"]
        few = ku(*command, "--evidence-limit", "tables=0").json["evidence_graph"]
    assert [whole["enough"], part["enough"], few["enough"]] == [True, False, False]
    tables = [sum(n["type"] == "table" for n in g["nodes"]) for g in (whole, few)]
    assert tables == [1, 0]
    for option in (("--no-table-mining",), ("--evidence-limit", "k=2")):
        run = ku("query", "-", DIXON, "--kb", songs, *option)
        assert (run.code, 'need method="evidence"' in run.err) == (1, True)


@pytest.mark.parametrize(
    ("limit", "code", "message"),
    [
        ("colour=1", 2, "'colour=1': expected k=N, passages=N, tables=N, image_distance=N"),
        ("k=many", 2, "'k=many': expected k=N"),
        ("k=nan", 1, "k"),
        ("k=2.5", 1, "k"),
        ("t_max=11", 1, "t_max"),
        ("table_distance=1.5", 1, "a number from 0 to 1"),
    ],
)
def test_limits_of_the_construction_are_checked(songs, ku, limit, code, message):
    options = ("--method", "evidence", "--evidence-limit", limit)
    run = ku("query", "-", DIXON, "--kb", songs, *options)
    assert (run.code, message in run.err) == (code, True)
