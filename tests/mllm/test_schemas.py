"""The schemas of replies: every text, list and choice in them is bounded."""

from __future__ import annotations

import json

import pytest

from ku_rag import KnowledgeBase, Relation, ScriptedMLLM, Unit
from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.mllm.structured_output import choice, extract_object, list_of, object_schema
from ku_rag.types import Table
from tests.conftest import picture

ROLES = {
    "reason citations answer changed",
    "reason citations answer changed believed",
    "reason citations answer",
    "reason answer changed",
    "reason topic",
    "reason useful",
    "reason enough",
    "caption reason enough",
    "entity_types relations keywords",
    "entities relations",
    "descriptions",
    "reason picture",
    "reason candidate",
    "questions",
    "entities",
    "reason queries clear",
    "reason action region",
    "reason relevant",
    "facts",
    "claims",
    "supported",
}
"""The properties of each role's reply."""


def unbounded(schema, path="$"):
    """The paths of a schema at which the length of a reply is not limited."""
    kind = schema["type"]
    if kind == "string" and "enum" not in schema and not schema.get("maxLength", 9_999) <= 2_000:
        yield path
    if kind == "array":
        if not schema.get("maxItems", 9_999) <= 50:
            yield path
        yield from unbounded(schema["items"], f"{path}[]")
    if kind == "object":
        if schema["additionalProperties"]:
            yield path
        for name, field in schema["properties"].items():
            yield from unbounded(field, f"{path}.{name}")


def fitting(schema, name=""):
    """A reply that fits a schema and lets the search or query continue."""
    kind = schema["type"]
    if "enum" in schema:
        return schema["enum"][-1] if name in ("picture", "relation") else schema["enum"][0]
    if kind == "object":
        return {key: fitting(field, key) for key, field in schema["properties"].items()}
    if kind == "array":
        return [fitting(schema["items"], name)] * schema.get("minItems", 1)
    return {"string": "Brass lamp", "boolean": False, "number": 1.0}[kind]


def requested_schemas(tmp_path):
    """The schemas of all roles, as sent to a model."""
    lamp = picture(tmp_path / "lamp.png", 1)
    mllm = ScriptedMLLM(lambda request: fitting(request.schema) if request.schema else "Brass lamp")
    with KnowledgeBase.open(tmp_path / "kb", create=True, mllm=mllm, reranker="mllm") as kb:
        kb.add(
            Unit(
                "Brass lamp",
                id="lamp",
                texts=("The brass lamp comes from Peru.",),
                images=(lamp,),
                tables=(Table(("Lamp", "Price"), (("Brass lamp", "9 euros"),), "Brass lamp"),),
                metadata={"topic": True},
                relations=(Relation("hangs beside", "Oak door"), Relation("made by", "Lumen")),
            )
        )
        kb.add(Unit("Oak door", texts=("It is of oak.",), images=(picture(tmp_path / "b.png", 2),)))
        question = "What hangs beside the brass lamp with a blue shade?"
        kb.query(lamp, "What is this?")
        kb.query(lamp, "Where does it come from?", kcc=False)
        kb.query(lamp, question)
        kb.query(lamp, question, strict="kurag")
        kb.query(None, question, method="evidence")
        kb.plan(lamp, question)
        kb.graph.search(question, setting="unaided-online")
        kb.extract()
    unsure = {"confidence_threshold": 1.0, "read_only": True}
    with KnowledgeBase.open(tmp_path / "kb", mllm=mllm, **unsure) as kb:
        kb.query(lamp, "What is this?")
    evaluation_question = EvaluationQuestion("1", "What is it?", answers=("A lamp.",))
    measure("claim_recall", mllm).score(evaluation_question, Prediction("It is a lamp."))
    return [request.schema for request in mllm.requests if request.schema]


def test_every_schema_is_bounded(tmp_path):
    schemas = requested_schemas(tmp_path)
    assert {" ".join(schema["properties"]) for schema in schemas} == ROLES
    assert {place for schema in schemas for place in unbounded(schema)} == set()


@pytest.mark.parametrize(
    ("replied", "expected"),
    [
        ({"name": "brass  LAMP.", "others": []}, {"name": "Brass lamp", "others": []}),
        (
            {"name": "", "others": ["Moon", "Brass lamp"]},
            {"name": "", "others": ["Moon", "Brass lamp"]},
        ),
        ({"name": "Moon", "others": []}, None),
    ],
)
def test_one_unknown_choice_in_a_list_costs_no_other(replied, expected):
    names = choice(["Brass lamp", "Brass lamp", ""])
    assert names["enum"] == ["Brass lamp", ""]
    schema = object_schema("name", "others", name=names, others=list_of(names))
    data, problem = extract_object(json.dumps(replied), schema)
    assert data == expected
    assert bool(problem) == (expected is None)
