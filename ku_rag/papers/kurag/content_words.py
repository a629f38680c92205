"""Content words of a question, for the rewritten query (KU-RAG, section 3.3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from ku_rag.text.tokens import content_words

_MODEL = "en_core_web_sm"
_OPEN_CLASSES = frozenset({"ADJ", "ADV", "NOUN", "NUM", "PROPN", "VERB"})


@dataclass(frozen=True, slots=True)
class ContentWords:
    """Selects the content words of a question by a pipeline of spaCy, or by a stop list."""

    name: str
    parser: Any = None

    def select(self, question: str) -> list[str]:
        """Return the content words in their order, each once."""
        if self.parser is None:
            return content_words(question)
        words = (token.text for token in self.parser(question) if token.pos_ in _OPEN_CLASSES)
        return list(dict.fromkeys(words))


@cache
def load_content_words() -> ContentWords:
    """Return spaCy's content words where its English model is installed, else those of a list."""
    try:
        spacy = import_module("spacy")
        parser = spacy.load(_MODEL)
    except (ImportError, OSError):  # OSError: the model is not installed
        return ContentWords("stop list")
    return ContentWords(f"spacy {spacy.__version__}, {_MODEL}", parser)
