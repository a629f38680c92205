"""The formats of published datasets, each as a conversion to the project's own.

A format names the fields of an official file that become fields of the project's own format. A
function adds fields that need a conversion; its errors are reported. docs/evaluation.md
describes the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ku_rag.errors import BadInput
from ku_rag.evaluation.datasets.raw_records import RawRecord, read_okvqa, read_records, read_webqa
from ku_rag.evaluation.questions import EvaluationQuestion, read_question

Raw = Mapping[str, Any]

_SUBTASKS = dict(zip("012345", ("I", "II", "III", "IV", "V", "VI"), strict=True))
"""The sub-tasks of the MH benchmark by the column "Type" (MH-MMKG, table 1)."""


@dataclass(frozen=True, slots=True)
class DatasetFormat:
    """The format of a dataset; `fields` has places in a record, "a" or "a.b", by our names."""

    measures: tuple[str, ...]
    fields: Mapping[str, str] = field(default_factory=dict)
    more: Callable[[Raw], Raw] = lambda _: {}
    records: Callable[[Path], Iterator[RawRecord]] = read_records

    def question(self, data: Raw, number: int, folder: Path, *, ids: bool) -> EvaluationQuestion:
        """Return the question of a record; `ids`: whether pictures are named by ids."""
        try:
            fields = {name: _value(data, place) for name, place in self.fields.items()}
            for name in ("answers", "units", "picture_ids"):
                if isinstance(fields.get(name), str | int | float):
                    fields[name] = [fields[name]]
            fields |= self.more(data) if ids else {**self.more(data), "picture_ids": None}
            question = read_question(fields if self.fields else data, number, folder)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"the record is not in this format: {error!r}") from error
        if self.fields and not any(question.answers):
            raise BadInput("the record has no answer: expected at least one")
        return question


def _value(data: Raw, place: str) -> Any:  # noqa: ANN401 - any JSON value
    value: Any = data
    for key in place.split("."):
        value = [item[key] for item in value] if isinstance(value, list) else (value or {}).get(key)
    return value


def _okvqa(data: Raw) -> Raw:
    """OK-VQA (Marino et al. 2019): the answers of ten people, each with a confidence."""
    subset = data.get("data_subtype", "val2014")
    name = f"COCO_{subset}_{data['image_id']:0>12}"
    confidences = [answer.get("answer_confidence") for answer in data["answers"]]
    return {"picture_ids": [f"{subset}/{name}", name], "answer_confidence": confidences}


def _oven(data: Raw) -> Raw:
    """OVEN (Hu et al. 2023): a picture is in one folder, or as in the archives in folder 05."""
    name = data["image_id"]
    return {"picture_ids": [name, f"{name.rpartition('_')[2][:2]}/{name}"]}


def _infoseek(data: Raw) -> Raw:
    """InfoSeek (Chen et al. 2023): accepted answers are texts, or ranges of two numbers."""
    value = data["answer_eval"]
    accepted = value if isinstance(value, list) else [value]
    for answer in accepted:
        if not isinstance(answer, str):
            _least, _most = map(float, answer["range"])
    return {**_oven(data), "answer_eval": accepted}


def _encyclopedic(data: Raw) -> Raw:
    """Encyclopedic-VQA (Mensink et al. 2023): of several pictures of a question, the first."""
    name, folder = data["dataset_image_ids"].split("|")[0], data["dataset_name"]
    return {
        "picture_ids": [f"{folder}/{name}", f"{folder}/{'/'.join(name[:3])}/{name}"],
        "answers": data["answer"].split("|"),
        "units": data["wikipedia_url"].split("|"),
    }


def _dynvqa(data: Raw) -> Raw:
    """Dyn-VQA (Li et al. 2024): a picture is `FOLDER/NAME` as its address ends, or its id."""
    address = PurePosixPath(data["image_url"].partition("?")[0])
    return {"picture_ids": [f"{address.parent.name}/{address.stem}", data["question_id"]]}


def _cogbench(data: Raw) -> Raw:
    """CogBench as section 5 of the CogPlanner paper describes it; its files are not public."""
    return {"group": f"{data['hops']}-hop" if data["hops"] <= 2 else "> 2-hop"}


def _mh(data: Raw) -> Raw:
    """MH benchmark (MH-MMKG, section 3): the name of the monster replaces "{}"."""
    monster, name = data["Monster Name"], data["File"]
    question, hints = (
        " ".join(data.get(column, "").replace("{}", f" {monster}").split())
        for column in ("Question", "Extra Information")
    )
    return {
        "question": question,
        "picture_ids": [f"{name}/{data['Image']}"] if "Image" in data else [],
        "routes": [route.strip().split(">") for route in data["Search Route"].split(";")],
        "group": _SUBTASKS[data["Type"]],
        "hints": hints,
        "perception": data.get("Perception", ""),
    }


def _webqa(data: Raw) -> Raw:
    """WebQA (Chang et al. 2022): units are the positive pictures and snippets."""
    facts = {"img_posFacts": "image_id", "txt_posFacts": "snippet_id"}
    return {
        "question": data["Q"].strip('" '),
        "answers": [text.strip('" ') for text in data["A"]],
        "units": [fact[key] for name, key in facts.items() for fact in data.get(name) or ()],
    }


def _ottqa(data: Raw) -> Raw:
    """OTT-QA (Chen et al. 2021): units are `table:ID` and the titles of the gold passages."""
    nodes = data["answer-node"]
    passages = [title_of(link) for _, _, link, place in nodes if place == "passage"]
    group = "table" if len(passages) < len(nodes) else "passage"
    return {"units": [f"table:{data['table_id']}", *passages], "group": group}


def title_of(link: str) -> str:
    """Return the title of the article that a link of OTT-QA leads to."""
    return link.removeprefix("/wiki/").replace("_", " ")


def _hotpotqa(data: Raw) -> Raw:
    """HotpotQA (Yang et al. 2018): facts are pairs of title and sentence, or two lists."""
    facts = data["supporting_facts"]
    return {"units": facts["title"] if isinstance(facts, dict) else [title for title, _ in facts]}


_KURAG = ("kurag_accuracy", "em")
_TEXT = ("em", "f1", "recall@5", "mrr")
_OVEN = {"id": "data_id", "question": "question", "units": "entity_id", "group": "data_split"}
_ASKED = {"id": "question_id", "question": "question", "answers": "answer"}

DATASETS: Mapping[str, DatasetFormat] = {
    "jsonl": DatasetFormat(("f1", "em", "recall@5", "mrr")),
    "okvqa": DatasetFormat(
        ("vqa_accuracy", "kurag_accuracy"),
        _ASKED | {"answers": "answers.answer", "group": "question_type"},
        _okvqa,
        read_okvqa,
    ),
    "infoseek": DatasetFormat(
        ("infoseek", "kurag_accuracy"), _OVEN | {"answers": "answer"}, _infoseek
    ),
    "oven-entity": DatasetFormat(_KURAG, _OVEN | {"answers": "entity_text"}, _oven),
    "oven-query": DatasetFormat(_KURAG, _OVEN | {"answers": "entity_text"}, _oven),
    "evqa": DatasetFormat(_KURAG, _ASKED | {"picture_ids": "image_id"}),
    "encyclopedic-vqa": DatasetFormat(
        ("em",), {"question": "question", "group": "question_type"}, _encyclopedic
    ),
    "mh": DatasetFormat(
        ("judged", "route_recall", "route_precision", "route_overlap"),
        {"answers": "Answer", "units": "Monster Name", "topic": "Monster Name"},
        _mh,
    ),
    "multimodalqa": DatasetFormat(
        ("mmqa_f1", "mmqa_em"),
        {
            "id": "qid",
            "question": "question",
            "answers": "answers.answer",
            "units": "supporting_context.doc_id",
            "group": "metadata.type",
        },
    ),
    "webqa": DatasetFormat(
        ("webqa",),
        {"id": "Guid", "group": "Qcate", "Qcate": "Qcate", "Keywords_A": "Keywords_A"},
        _webqa,
        read_webqa,
    ),
    "ottqa": DatasetFormat(_TEXT, _ASKED | {"answers": "answer-text"}, _ottqa),
    "hotpotqa": DatasetFormat(_TEXT, _ASKED | {"id": "_id", "group": "type"}, _hotpotqa),
    "dynvqa": DatasetFormat(("f1", "judged"), _ASKED | {"golden_query": "golden_query"}, _dynvqa),
    "cogbench": DatasetFormat(
        ("claim_precision", "claim_recall", "word_f1"),
        {"id": "id", "question": "query", "image": "image", "answers": "answer"}
        | {name: name for name in ("final_queries", "steps", "domain", "answer_type")},
        _cogbench,
    ),
}
"""The known datasets by name."""

PUBLISHED_COUNTS: Mapping[tuple[str, str], int] = {
    ("okvqa", "OpenEnded_mscoco_val2014_questions.json"): 5046,
    ("mh", "question_list.xlsx"): 238,
    ("multimodalqa", "MMQA_dev.jsonl.gz"): 2441,
    ("hotpotqa", "hotpot_dev_distractor_v1.json"): 7405,
}
"""Published numbers of questions of the authors' files, by dataset and file name."""
