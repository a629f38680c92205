"""The examples of docs/writing-knowledge.md have the documented answers."""

import json
import re
from pathlib import Path

from ku_rag import KnowledgeBase

PAGE = (Path(__file__).parents[1] / "docs" / "writing-knowledge.md").read_text("utf-8")
ANSWERS = {
    "Which country does it come from?": "Peru",
    "Where does it come from?": "Peru",
    "What is the price of the Aurora lamp?": "49 euros",
    "How much does it cost?": "49 euros",
    "Who designed it?": "Ana Reyes",
    "Is it waterproof?": "no",
    "When was it presented?": "1964",
    "Is it made of brass?": "yes",
    "What is it made of?": "brass",
    "What does the Aurora lamp stand in?": "North Hall",
    "What is the Aurora lamp?": "The Aurora lamp was presented in 1964.",
}


def test_every_example_is_answered(tmp_path):
    record = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1].replace("\n ", " "))
    del record["images"]
    (tmp_path / "units.jsonl").write_text(json.dumps(record), encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| [^|]*`[^|]+ \| ([^|]+\?) \|$", PAGE, re.MULTILINE)
    questions = [question for row in rows for question in re.findall(r"[A-Z][^?]*\?", row)]
    assert set(questions) == set(ANSWERS)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "units.jsonl")
        for question in questions:
            text = re.sub(r"\bit\b", "the Aurora lamp", question)
            assert kb.query(None, text).answer == ANSWERS[question], question
        answer = kb.query(None, "What did the Aurora lamp replace when it was presented?")
        assert answer.answer == ""
        assert answer.reading.closest.text == "The Aurora lamp was presented in 1964."
