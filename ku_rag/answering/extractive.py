"""The reader that needs no model: it finds the answer in the evidence, word for word, or abstains.

A question is taken apart into what it asks for and whom it is about; evidence is cut into
statements; a statement answers when it speaks of the asked thing, of the right unit, and holds a
value of the right kind at the right place. Anything less is no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ku_rag.answering import spans
from ku_rag.answering.amounts import same_unit
from ku_rag.answering.groups import kinds_of, stands_for
from ku_rag.answering.statements import Statement, cut
from ku_rag.answering.subjects import Subject, choose, speaks_of
from ku_rag.text.frames import frames
from ku_rag.text.lexicon import read_words
from ku_rag.text.question import Question, analyse, name_stems
from ku_rag.types import Evidence, Match, Reading

NAME = "extractive"

_ENOUGH = 0.5
_MAX_EVIDENCE_CHARS = 20_000
_NAMED_ALIKE = frozenset({"capital", "language", "sea", "continent", "border"})
_ARTICLES = frozenset({"the", "a", "an", "of"})


@dataclass(frozen=True, slots=True)
class _Candidate:
    answer: str
    score: float
    statement: Statement


def read(question: str, evidence: Sequence[Evidence], units: Sequence[Match] = ()) -> Reading:
    """Answer a question from evidence, or abstain.

    Args:
        question: in English; questions in other languages are answered where they share the word
            for what they ask with a "key: value" line, and otherwise not at all.
        evidence: best first; of each text the first 20,000 characters are read.
        units: the units that the picture or the question points to, best first. A question about
            "this" or "it" is about the first that it does not merely mention.

    Returns:
        The answer as it stands in the evidence, or as a list of names that stand there; the
        labels of the evidence that holds it with the span of the answering sentence; or an
        answer of "" with the reason.
    """
    texts = [piece.text[:_MAX_EVIDENCE_CHARS] for piece in evidence]
    asked = analyse(question, [unit.name for unit in units])
    if not asked.kind:
        return Reading("", why="The question holds no word to look for.")
    subject = choose(asked, units)
    if asked.kind == "identity":
        return _identify(evidence, units, subject)
    asked = _knowing_kinds(asked, texts, [subject.name])
    statements = cut(texts)
    found = sorted(
        _candidates(question, asked, statements, texts, evidence, subject),
        key=lambda c: -c.score,
    )
    if not found or found[0].score < _ENOUGH:
        return Reading("", why=_why_not(asked, evidence, subject))
    return _reading(found, evidence)


def _candidates(
    question: str,
    asked: Question,
    statements: Sequence[Statement],
    texts: Sequence[str],
    evidence: Sequence[Evidence],
    subject: Subject,
) -> Iterator[_Candidate]:
    sort = frozenset().union(*(frame.noun for frame in frames(asked)))
    plain = replace(asked, required=tuple(s for s in asked.required if s not in sort))
    told = [subject.id or _fits_clue(asked, text) for text in texts]
    for order, statement in enumerate(statements):
        if not told[statement.evidence]:
            continue
        covered = _covers(asked, statement)
        if not covered and not (sort and _covers(plain, statement)):
            continue
        for span in spans.find_values(question, asked, statement, texts[statement.evidence]):
            if asked.type == "continent" and span.answer == subject.name:
                # A continent that is a country as well lies on itself.
                continue
            if not covered and not (span.acted and span.answer[0].isupper()):
                # "Which prize did it win?" is answered by a name that does not say "prize".
                continue
            if not span.answer or _names_itself(asked, span.answer, subject):
                continue
            owner = span.owner or statement.subject
            if not speaks_of(
                owner, statement, subject, texts, evidence, said=bool(span.owner), told=span.told
            ):
                continue
            words = [w.stem for w in (*statement.key, *statement.words)]
            shared = sum(1 for w in asked.words if w.stem in words and len(w.stem) > 3)
            # Words that only the question supplied are less sure than those of the lexicon.
            known = asked.concept is not None and asked.concept.name
            score = span.score * (1.0 if known or statement.key else 0.9) + min(shared, 5) * 0.01
            if same_unit(asked.words, read_words(span.answer)) is False:
                score -= 0.1
            score -= 0.01 * min(statement.evidence, 9) + 0.0001 * min(order, 99)
            yield _Candidate(span.answer, min(score, 1.0), statement)


def _knowing_kinds(asked: Question, texts: Sequence[str], names: Sequence[str]) -> Question:
    """The question with "the bird" read as whom it is about, where the texts call them a bird."""
    kinds = frozenset().union(*(kinds_of(text, asked.about) for text in texts))
    heads = {
        words[-1].stem
        for name in names
        if (words := [w for w in read_words(name) if w.text.isalpha()])
    }
    meant = {s for s in asked.required if stands_for(s, kinds) or s in heads & asked.about}
    wanted = {w.stem for w in asked.words if stands_for(w.stem, kinds)}
    return replace(
        asked,
        required=tuple(s for s in asked.required if s not in meant),
        about=asked.about | wanted | kinds,
    )


def _names_itself(asked: Question, answer: str, subject: Subject) -> bool:
    """Whether an answer only repeats whom the question is about: nobody built themselves.

    Capitals, seas and languages may be called as their country is, so the lexicon's own concepts
    are left alone unless a person is asked for.
    """
    if not subject.name or (asked.concept is not None and asked.concept.name in _NAMED_ALIKE):
        return False
    own, given = name_stems(subject.name), name_stems(answer)
    whole = read_words(subject.name)[-1].stem in given or answer[0].isupper()
    return whole and bool(given) and given <= own | _ARTICLES


def _covers(asked: Question, statement: Statement) -> bool:
    """Whether the statement speaks of all else that the question speaks of."""
    stems = {w.stem for w in (*statement.key, *statement.words)}
    stems |= name_stems(statement.subject) | name_stems(statement.heading)
    missing = [s for s in asked.required if s not in stems]
    return len(missing) <= len(asked.required) // 4


def _fits_clue(asked: Question, text: str) -> bool:
    """Whether a text that no unit vouches for is about what the question describes."""
    stems = {w.stem for w in read_words(text)}
    return sum(s in stems for s in asked.clue) >= 0.6 * len(asked.clue)


def _identify(evidence: Sequence[Evidence], units: Sequence[Match], subject: Subject) -> Reading:
    """Answer "what is this?" with the unit's name."""
    if not units:
        return Reading("", why="Nothing was matched that could be named.")
    unit = next((u for u in units if u.id == subject.id), units[0])
    for piece in evidence:
        if unit.id not in piece.unit_ids:
            continue
        for statement in cut([piece.text[:_MAX_EVIDENCE_CHARS]]):
            span = (statement.start, statement.end)
            if unit.name in piece.text[slice(*span)]:
                return Reading(unit.name, (piece.label,), (span,), 0.7, _MATCHED)
    return Reading(unit.name, score=0.6, why=_MATCHED)


_MATCHED = "It is the name of the unit that matched best."


def _reading(found: Sequence[_Candidate], evidence: Sequence[Evidence]) -> Reading:
    best = found[0]
    same: dict[int, Statement] = {}
    for candidate in found:
        if candidate.answer.casefold() == best.answer.casefold():
            same.setdefault(candidate.statement.evidence, candidate.statement)
    cited = [(evidence[i].label, s) for i, s in same.items()][:3]
    first = best.statement
    said = evidence[first.evidence].text[first.start : first.end]
    said = said if len(said) <= 120 else said[:117].rstrip() + "…"
    return Reading(
        best.answer,
        tuple(label for label, _ in cited),
        tuple((s.start, s.end) for _, s in cited),
        round(max(0.0, min(best.score, 1.0)), 3),
        f"{cited[0][0]} says: “{' '.join(said.split())}”",
    )


def _why_not(asked: Question, evidence: Sequence[Evidence], subject: Subject) -> str:
    if not evidence:
        return "No evidence was found."
    about = f" about {subject.name}" if subject.name else ""
    if asked.kind == "yes-no":
        return f"The evidence{about} does not say whether this is so."
    asks = f"answers “{asked.focus}”" if asked.focus else "answers this"
    return f"Nothing in the evidence{about} {asks}."
