"""Facts that a model reads from the texts of units, each with the sentence that states it.

A model proposes facts of each chunk. A fact is stored only if the chunk belongs to its unit or
names it, the chunk contains its sentence, and the sentence contains its value. The base records
which chunks a model has read: an interrupted run continues, and a later run reads new chunks only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from ku_rag.graph.mllm_calls import WORKERS, AgentQuestion, Outcome, ask_all
from ku_rag.mllm.base import MLLM, Reply, usage
from ku_rag.mllm.prompts import Prompt, fenced
from ku_rag.mllm.structured_output import LINE, TEXT, choice, list_of, object_schema
from ku_rag.store import facts
from ku_rag.store.connection import as_json
from ku_rag.store.database import Database
from ku_rag.store.facts import ExtractedFact
from ku_rag.text.statements import Statement, locate
from ku_rag.text.tokens import name_key
from ku_rag.types import Progress, Quarantined, Serializable

_LONGEST_LABEL, _LONGEST_VALUE = 60, 300
_MOST_UNITS = 40
"""Most units that a request names, owners of the chunk first."""
_TOKEN_CHARACTERS = 4
_REPLY_TOKENS = 150
"""Estimates for a dry run: characters of a token, and tokens of a reply."""
_CHUNKS = (
    "SELECT c.row FROM chunks c WHERE (c.row > ? OR c.row IN (SELECT value FROM json_each(?))) "
    "AND EXISTS (SELECT 1 FROM unit_chunks l WHERE l.chunk = c.row) "
    "AND NOT EXISTS (SELECT 1 FROM table_rows t "
    "WHERE t.source = c.source AND t.document = c.document) ORDER BY c.row"
)


class _Passage(NamedTuple):
    """A chunk that a model is to read: its row, text, and units by name, owners first."""

    row: int
    text: str
    units: Mapping[str, int]

    def prompt(self, prompt: Prompt) -> str:
        """Return the text of the request."""
        return prompt.fill(data=fenced([{"units": [*self.units], "text": self.text}]))

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the reply."""
        fields = {"unit": choice(self.units), "label": LINE, "value": TEXT, "sentence": TEXT}
        return object_schema("facts", facts=list_of(object_schema(*fields, **fields)))


@dataclass(slots=True)
class Extraction(Serializable):
    """What a model has read.

    Args:
        chunks: Number of chunks that it has read; in a dry run, that it would read.
        dropped: Reason → number of proposed facts that were not stored for it.
        left_out: Chunks that it could not read; the next run tries them again.
        usage: Replies and tokens; in a dry run, an estimate.
    """

    model: str
    chunks: int = 0
    facts: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    left_out: list[Quarantined] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: usage(()))


def extract(
    database: Database,
    mllm: MLLM,
    model: str,
    prompt: Prompt,
    *,
    progress: Progress | None = None,
) -> Extraction:
    """Have a model read the facts of all chunks that it has not read.

    The caller does not hold the writer lock. `model` is its name in the base; the prompt has the
    placeholder "data".

    Raises:
        Locked: Another process is writing.
        ModelFailed: The model answers none of the first requests.
    """
    done = Extraction(model)
    replies: list[Reply] = []
    last, failed = _state(database, model)
    passages = _passages(database, last, failed)
    while batch := [*islice(passages, WORKERS)]:
        rows = [passage.row for passage in batch]
        outcomes = _ask(mllm, prompt, batch, must_answer=not replies and failed.isdisjoint(rows))
        unread = {
            row: outcome for row, outcome in zip(rows, outcomes, strict=True) if outcome.failure
        }
        failed, last = failed.difference(rows).union(unread), max(last, rows[-1])
        proposed = [
            _check(passage, fact)
            for passage, outcome in zip(batch, outcomes, strict=True)
            for fact in outcome.fields.get("facts", ())
        ]
        done.dropped.update(fact for fact in proposed if isinstance(fact, str))
        supported = [fact for fact in proposed if not isinstance(fact, str)]
        done.facts += _store(database, model, supported, [last, *sorted(failed)])
        replies += [outcome.reply for outcome in outcomes if outcome.reply]
        done.chunks += len(batch) - len(unread)
        done.left_out += [
            Quarantined(f"chunk {passage.row} of {next(iter(passage.units))}", outcome.problem)
            for passage, outcome in zip(batch, outcomes, strict=True)
            if outcome.failure and not outcome.spent
        ]
        if progress:
            progress(done.chunks)
        if spent := next((outcome for outcome in unread.values() if outcome.spent), None):
            rest = f"chunk {min(unread)} and those after it"
            done.left_out.append(Quarantined(rest, spent.problem))
            break
    done.usage = usage(replies)
    return done


def _ask(
    mllm: MLLM, prompt: Prompt, batch: Sequence[_Passage], *, must_answer: bool
) -> list[Outcome]:
    """Ask a model about each passage; raise the failure if it must answer one and answers none."""
    questions = [AgentQuestion(passage.prompt(prompt), schema=passage.schema) for passage in batch]
    outcomes = ask_all(mllm, questions)
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if must_answer and len(failures) == len(batch) and not outcomes[0].spent:
        raise failures[0]
    return outcomes


def _store(
    database: Database, model: str, supported: Sequence[ExtractedFact], state: Sequence[int]
) -> int:
    """Store facts and what a model has read, see `_state`; return the number of new facts."""
    with database.writing(), database.change() as connection:
        # What was deleted meanwhile is not in the base any more.
        listed = as_json({fact.chunk for fact in supported})
        query = "SELECT row FROM chunks WHERE row IN (SELECT value FROM json_each(?))"
        stored = connection.column(query, (listed,))
        database.set_meta(_key(model), state)
        present = [fact for fact in supported if fact.chunk in stored]
        return facts.add_extracted(connection, model, present)


def estimate(database: Database, model: str, prompt: Prompt) -> Extraction:
    """Return what `extract` would read, with an estimate of the tokens."""
    lengths = [
        len(passage.prompt(prompt)) for passage in _passages(database, *_state(database, model))
    ]
    estimated = usage(()) | {
        "replies": len(lengths),
        "prompt_tokens": sum(lengths) // _TOKEN_CHARACTERS,
        "completion_tokens": len(lengths) * _REPLY_TOKENS,
    }
    return Extraction(model, chunks=len(lengths), usage=estimated)


def remove(database: Database, model: str) -> int:
    """Delete the facts that a model has read, and return how many they were."""
    with database.writing(), database.change() as connection:
        connection.execute("DELETE FROM meta WHERE key = ?", (_key(model),))
        return facts.drop_extracted(connection, model)


def _key(model: str) -> str:
    return f"extracted by {model}"


def _state(database: Database, model: str) -> tuple[int, frozenset[int]]:
    """Return the last chunk that a model has read, and those before it that it could not read."""
    last, *failed = database.meta(_key(model)) or (0,)
    return last, frozenset(failed)


def _passages(database: Database, last: int, failed: frozenset[int]) -> Iterator[_Passage]:
    """Yield the chunks that a model has not read, but for rows of tables and texts of no unit."""
    connection = database.connection
    for row in connection.column(_CHUNKS, (last, as_json(failed))):
        texts = connection.execute("SELECT text FROM chunks WHERE row = ?", (row,)).fetchone()
        if texts is None:  # deleted meanwhile
            continue
        units: dict[str, int] = {}
        for name, unit in connection.execute(
            "SELECT u.name, u.row FROM unit_chunks l JOIN units u ON u.row = l.unit "
            "WHERE l.chunk = ? ORDER BY l.owned DESC, u.row LIMIT ?",
            (row, _MOST_UNITS),
        ):
            units.setdefault(name, unit)
        if units:  # none where they were deleted meanwhile
            yield _Passage(row, texts[0], units)


def _check(passage: _Passage, proposed: Mapping[str, Any]) -> ExtractedFact | str:
    """Return a proposed fact as it is stored, or why it is not."""
    label = " ".join(proposed["label"].split()).strip(" :")
    value = " ".join(proposed["value"].split())
    units = {name_key(name): row for name, row in passage.units.items()}
    unit = units.get(name_key(proposed["unit"]))
    if unit is None:
        return "it names no unit of the text"
    if not (0 < len(label) <= _LONGEST_LABEL and len(value) <= _LONGEST_VALUE):
        return "label or value is empty or too long"
    if name_key(value) in units.keys() & {name_key(proposed["unit"])} or value == label:
        return "the value is the unit or the label"
    sentence = locate(proposed["sentence"], passage.text)
    if sentence is None:
        return "the sentence is not in the text"
    if " ".join(proposed["sentence"].split()).strip(" .:") == label.strip(" ."):
        return "the label is the sentence"
    if locate(value, passage.text, *sentence) is None:
        return "the value is not in the sentence"
    return ExtractedFact(unit, Statement(label, value, "", *sentence), passage.row)
