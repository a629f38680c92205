"""Calls of real models: queries, identification, plans, agents and extraction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ku_rag import KnowledgeBase, Relation, Unit
from tests.conftest import picture

QUESTION = "Where does the brass lamp come from?"
LIMIT = 400
"""Maximum number of tokens of a reply."""
CALLS: dict[str, Callable[[KnowledgeBase, Path], Any]] = {
    "query": lambda kb, photo: kb.query(photo, QUESTION),
    "query in one turn": lambda kb, photo: kb.query(photo, QUESTION, kcc=False),
    "query as published": lambda kb, photo: kb.query(photo, QUESTION, strict="kurag"),
    "identification": lambda kb, photo: kb.query(photo, "Where does it come from?"),
    "plan": lambda kb, photo: kb.plan(None, QUESTION),
    "agents": lambda kb, photo: kb.graph.search(QUESTION, setting="unaided-online"),
    "extraction": lambda kb, photo: kb.extract(),
    "captions": lambda kb, photo: kb.graph.caption(),
}
QUERIES = [name for name in CALLS if name.startswith("query")]
SETTINGS = {"identification": {"confidence_threshold": 1.0}}
"""Settings by call: for identification, no match is sure."""


class LampBase:
    """A base of a lamp and a door, and a model behind an endpoint."""

    def __init__(self, folder: Path, model: str, url: str) -> None:
        self.model, self.url, self.photo = model, url, picture(folder / "lamp.png", 1)
        self._path = folder / "kb"
        door = picture(folder / "door.png", 2)
        with KnowledgeBase.open(self._path, create=True) as kb:
            kb.add(
                Unit(
                    "Brass lamp",
                    id="lamp",
                    texts=("The brass lamp comes from Peru.",),
                    images=(self.photo,),
                    metadata={"topic": True},
                    relations=(Relation("made by", "Lumen"), Relation("hangs beside", "Oak door")),
                )
            )
            kb.add(Unit("Oak door", id="door", texts=("It is of oak.",), images=(door,)))

    @contextmanager
    def opened(self, **settings: Any) -> Iterator[KnowledgeBase]:
        """Open the base with one request at a time and no retries."""
        limits = {"mllm_timeout_s": 600.0, "mllm_retries": 0, "mllm_concurrency": 1}
        limits |= {"mllm_max_reply_tokens": LIMIT} | settings
        with KnowledgeBase.open(self._path, mllm=self.model, mllm_url=self.url, **limits) as kb:
            yield kb

    def call(self, name: str, **settings: Any) -> Any:
        """Return the result of one of `CALLS`."""
        with self.opened(**SETTINGS.get(name, {}), **settings) as kb:
            return CALLS[name](kb, self.photo)

    def extracted(self) -> int:
        """Return the number of facts that the model extracted."""
        with KnowledgeBase.open(self._path, read_only=True) as kb:
            facts = [*kb.facts("lamp"), *kb.facts("door")]
        return sum(fact.origin == f"extracted by {self.model}" for fact in facts)
