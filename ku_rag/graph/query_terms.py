"""The words of a graph query, parsed once for each topic: for paths, their scores and answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from ku_rag.graph.model import Entity
from ku_rag.graph.search_types import Query
from ku_rag.text.question import label_words
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import stop_words, words


@dataclass(frozen=True)
class QueryTerms:
    """The words of a query, as they are compared.

    Args:
        query: the query.
        topic: where its paths start; its name says nothing of where they go.
    """

    query: Query
    topic: Entity

    @cached_property
    def said(self) -> frozenset[str]:
        """Every word of the question, as it is written but for case."""
        return frozenset(words(self.query.question))

    @cached_property
    def question(self) -> frozenset[str]:
        """Content stems of the question."""
        return self._of(self.query.question)

    @cached_property
    def every(self) -> frozenset[str]:
        """Stems of all words of the question."""
        return frozenset(map(stem, self.said))

    @cached_property
    def small(self) -> frozenset[str]:
        """Stems of those without content: a relation may be called "near"."""
        return frozenset(map(stem, self.said & stop_words()))

    @cached_property
    def hints(self) -> frozenset[str]:
        """Those of the hints."""
        return self._of(self.query.hints)

    @cached_property
    def given(self) -> frozenset[str]:
        """Those of question and hints."""
        return self.question | self.hints

    @cached_property
    def seen(self) -> frozenset[str]:
        """Those of what the pictures show."""
        return self._of(self.query.perception)

    @cached_property
    def related(self) -> frozenset[str]:
        """Stems of the question, and of the words in which texts answer it."""
        return self.question | answer_stems(self.query.question)

    @cached_property
    def wanted(self) -> frozenset[str]:
        """Every word that a step may be looked at for."""
        return self.related | self.small | self.hints | self.seen

    def asks_for(self, relation: frozenset[str]) -> bool:
        """Whether the question, or an answer to it, has all words of a relation."""
        return bool(relation) and relation <= self.related | self.small

    def _of(self, text: str) -> frozenset[str]:
        # "This country" is the topic.
        return stems(text) - stems(self.topic.name) - stems(self.topic.kind)


@lru_cache(maxsize=1 << 12)
def relation_stems(relation: str) -> frozenset[str]:
    """Stems of the content words of a relation, or of all its words where none has content."""
    return stems(relation) or frozenset(map(stem, words(relation)))


@lru_cache(maxsize=256)
def answer_stems(question: str) -> frozenset[str]:
    """Return stems of the labels under which answers stand: "currenc" for "pay with"."""
    return frozenset(label_words(question))
