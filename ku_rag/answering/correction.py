"""The knowledge correction chain: a model corrects its own draft against retrieved evidence.

KU-RAG, section 3.3.3: a model that is given evidence follows it and ignores what it knows and sees.
So the model first answers from the picture and the question alone (eq. 12). Then, in the same
conversation, it sees the evidence and keeps, corrects or refuses its draft (eq. 13).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from PIL.Image import Image

from ku_rag.errors import ModelFailed
from ku_rag.mllm.base import Message, MeteredMLLM, Part, Picture, Reply, Request, usage
from ku_rag.mllm.call_errors import CallError, PicturesNotSeen, TruncatedReply
from ku_rag.mllm.prompts import Prompt, fenced
from ku_rag.mllm.structured_output import BOOLEAN, LINE, TEXT, choice, list_of, object_schema
from ku_rag.text.stems import stems
from ku_rag.types import Box, Correction, Evidence, Match, PathEvidence, Reading

PAGE_HEIGHT = 1024
"""Pixels of a page for a model: pages are sent without scaling, so that text stays legible."""
NOT_SENT = "the model was sent no pictures"

_BELIEVED = (
    '- "believed": where your first answer, texts and paths (a chain of things joined by arrows) '
    'say different things, the one that the final answer rests on: "draft", "passage" or "path"; '
    '"all" where they agree.'
)
_MOST_PAGES = 8
_TEMPERATURE = 0.0
_LONGEST_LABEL = 40
_LABEL = re.compile(r"E\d+")
_WORDS = re.compile(r"\w+")

_ANSWERED = {"reason": LINE, "citations": list_of(LINE), "answer": TEXT}
_CORRECTED = {**_ANSWERED, "changed": BOOLEAN}
_PAGE = {"reason": LINE, "answer": {**TEXT, "minLength": 1}}
"""Where a page is shown alone, as published, citations and refusals are not asked for."""
_PAGES = {**_PAGE, "changed": BOOLEAN}
_WEIGHED = {**_CORRECTED, "believed": choice(["all", "draft", "passage", "path"])}
"""With graph paths, which may contradict the texts."""


@dataclass(frozen=True, slots=True)
class Material:
    """The input of an answer.

    Args:
        crop: the region cut out of the original picture; None where it is the whole picture.
        paths: graph paths that the answer can cite; those that do not bear on the question are not
            sent.
        pages_only: whether evidence is shown in pages alone, as published.
        queries: what a plan made of the question (CogPlanner, eq. 6), shown with the evidence;
            empty without a plan.
    """

    question: str
    picture: Image | None
    region: Box | None = None
    crop: Image | None = None
    units: Sequence[Match] = ()
    evidence: Sequence[Evidence] = ()
    paths: Sequence[PathEvidence] = ()
    leading: Sequence[str] = ()
    pages: Sequence[Image] = ()
    pages_only: bool = False
    caption: Reply | None = None
    queries: Sequence[str] = ()

    @property
    def bearing_paths(self) -> list[PathEvidence]:
        """The paths that share a content word with the question beyond the names of the units."""
        terms = stems(self.question).difference(*(stems(unit.name) for unit in self.units))
        return [p for p in self.paths if p.label in self.leading or terms & stems(p.text)]


@dataclass(frozen=True, slots=True)
class Answered:
    """A reading, the models and prompts that produced it, and the correction by a model, if any."""

    reading: Reading
    models: Mapping[str, str]
    correction: Correction | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """A model and the prompts of this package, by name, for one question.

    Every method but `identify` raises `ModelFailed` or `BudgetSpent` if the model does not reply:
    an answer without one of the turns would be the result of another method.
    """

    mllm: MeteredMLLM
    prompts: Mapping[str, Prompt]
    notes: list[str] = field(default_factory=list)

    @property
    def sees_pictures(self) -> bool:
        """Whether the model that answers is shown pictures."""
        return self.mllm.vision is None and self.mllm.sees_pictures

    def describe(self, picture: Image) -> Reply | None:
        """Return a caption of a picture; None if no model sees it."""
        try:
            return self._look(Picture(picture), self.prompts["caption"].fill())
        except PicturesNotSeen as error:
            self.notes.append(str(error))
            return None

    def identify(self, picture: Image, candidates: Sequence[Image]) -> int:
        """Return the number of the candidate in a picture; 0 if the model identifies none."""
        numbered = (part for n, c in enumerate(candidates, 1) for part in (f"{n}:", Picture(c)))
        parts = (Picture(picture), *numbered, self.prompts["identify"].fill())
        number = choice(range(len(candidates) + 1))
        schema = object_schema("candidate", reason=LINE, candidate=number)
        try:
            reply = self._look(*parts, schema=schema)
        except ModelFailed as error:
            if isinstance(error, CallError):
                raise
            if isinstance(error, TruncatedReply):
                self.mllm.replies.append(error.reply)
            self.notes.append(f"candidates were not identified: {error}")
            return 0
        chosen: int = (reply.parsed or {})["candidate"]
        label, count = self.prompts["identify"].label, len(candidates)
        self.notes.append(f"{label}: of {count} candidates the model names {chosen or 'none'}")
        return chosen

    def decline(self, why: str) -> Answered:
        """Return no answer, because the model identified none of the units."""
        correction = Correction(notes=tuple(self.notes), usage=usage(self.mllm.replies))
        models = {"prompts": self.prompts["identify"].label}
        return Answered(Reading("", why=why, unanswered="unsure"), models, correction)

    def _look(self, *parts: Part, schema: Mapping[str, Any] | None = None) -> Reply:
        """Ask the model that sees pictures; all of them are required."""
        message = Message("user", parts)
        needed = len(message.pictures)
        return self.mllm.chat(Request((message,), schema, _TEMPERATURE, None, needed))

    def draft(self, material: Material) -> Reply | None:
        """Return the model's answer to the question alone, the first turn (eq. 12)."""
        try:
            return self._chat(self._build_request(material))
        except TruncatedReply as error:
            self.mllm.replies.append(error.reply)
            self.notes.append("the draft was cut at the limit mllm_max_reply_tokens")
            return error.reply if error.reply.text else None

    def answer(self, material: Material, draft: Reply | None) -> Answered:
        """Answer with the evidence: in the conversation of a draft (eq. 13), or in one turn."""
        if self.sees_pictures:
            answered = self._answer(material, draft)
            if self.sees_pictures:  # the endpoint may have refused them
                return answered
        if material.picture or material.pages:
            self.notes.append(f"{NOT_SENT}: the evidence was sent as text")
        return self._answer(replace(material, crop=None, pages=(), pages_only=False), draft)

    def answer_from(
        self,
        material: Material,
        name: str,
        data: Sequence[Mapping[str, Any]],
        keys: Mapping[str, Mapping[str, Any]],
        pictures: Sequence[Image] = (),
    ) -> Answered:
        """Answer in one turn from JSON lines by a prompt of another method."""
        words = self.prompts[name].fill(question=material.question, data=fenced(data))
        more = (Picture(picture) for picture in pictures if self.sees_pictures)
        message = Message("user", (*self._show_picture(material), *more, words))
        reply = self._chat(message, properties={"reason": LINE, "answer": TEXT, **keys})
        if (material.picture or pictures) and not self.sees_pictures:
            self.notes.append(NOT_SENT)
        return self._build_answer(*_parse_verdict(reply, material), material, {name: reply})

    def _answer(self, material: Material, draft: Reply | None) -> Answered:
        if draft is None:
            name, properties = "single", _ANSWERED
            if material.pages_only:
                name, properties = "single_page", _PAGE
            message = _evidence(material, self.prompts[name], *self._show_picture(material))
            reply = self._chat(message, properties=properties)
            return self._build_answer(*_parse_verdict(reply, material), material, {name: reply})
        paths = material.bearing_paths
        if not (material.units or material.evidence or paths):
            why = "Nothing was found to check the model's draft with, so it stands."
            verdict = Reading(draft.text, why=why, unanswered="refused"), Correction(draft.text)
            return self._build_answer(*verdict, material, {"draft": draft})
        name = "pages" if material.pages_only else "correction"
        second = self._chat(
            self._build_request(material),
            Message("assistant", (draft.text,)),
            _evidence(material, self.prompts[name]),
            properties=_PAGES if material.pages_only else _WEIGHED if paths else _CORRECTED,
        )
        verdict = _parse_verdict(second, material, draft.text)
        return self._build_answer(*verdict, material, {"draft": draft, name: second})

    def _build_request(self, material: Material) -> Message:
        words = self.prompts["draft"].fill(question=material.question)
        return Message("user", (*self._show_picture(material), words))

    def _show_picture(self, material: Material) -> tuple[Part, ...]:
        if material.picture is None or self.sees_pictures:
            return (Picture(material.picture),) if material.picture else ()
        caption = [{"shown": material.caption.text}] if material.caption else []
        return (self.prompts["described"].fill(data=fenced(caption)),)

    def _chat(
        self, *messages: Message, properties: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Reply:
        schema = properties and object_schema("answer", **properties)
        try:
            return self.mllm.chat(Request(messages, schema=schema, temperature=_TEMPERATURE))
        except TruncatedReply:
            raise
        except ModelFailed as error:
            raise ModelFailed(
                f"{error}. Without --mllm, and with the setting mllm left blank, the extractive "
                "reader answers"
            ) from error

    def _build_answer(
        self,
        reading: Reading,
        correction: Correction,
        material: Material,
        replies: Mapping[str, Reply],
    ) -> Answered:
        """Add the models, the caption and the usage; replies have the names of their prompts."""
        caption = material.caption
        every = ({"caption": caption} if caption else {}) | dict(replies)
        *_, last = replies.values()
        models = {
            "reader": f"mllm:{last.model}",
            "prompts": ", ".join(self.prompts[name].label for name in every),
        }
        text = caption.text if caption else None
        correction = replace(
            correction, caption=text, notes=tuple(self.notes), usage=usage(self.mllm.replies)
        )
        return Answered(reading, models, correction)


# ---- requests ----------------------------------------------------------------------------------


def _evidence(material: Material, prompt: Prompt, *before: Part) -> Message:
    crop = [Picture(material.crop)] if material.crop else []
    pages = [Picture(page, sharp=True) for page in material.pages[:_MOST_PAGES]]
    paths = material.bearing_paths
    text = prompt.fill(
        question=material.question,
        evidence=fenced(_lines(material)),
        pages=_pages(len(pages)),
        region=_where(material, "second" if before else "first"),
        believed=_BELIEVED if paths else "",
    )
    return Message("user", (*before, *crop, *pages, text))


def _lines(material: Material) -> list[dict[str, Any]]:
    """Return queries, matches, evidence and paths without file paths."""
    if material.pages_only:
        return []
    names = {unit.id: unit.name for unit in material.units}
    for e in material.evidence:
        names |= zip(e.owners, e.owner_names, strict=False)  # a searcher's text has no owner
    queries = [query for query in material.queries if query != material.question]
    lines: list[dict[str, Any]] = [{"query": query} for query in queries]
    lines += [{"unit": u.name, "match": u.why} for u in material.units]
    for e in material.evidence:
        about = [names.get(id, id) for id in e.unit_ids]
        lines.append({"evidence": e.label, "about": about, "text": e.text})
    for path in material.bearing_paths:
        lines.append({"evidence": path.label, "about": list(path.entities), "text": path.text})
    return lines


def _pages(count: int) -> str:
    if not count:
        return ""
    which = "The last picture is a page" if count == 1 else f"The last {count} pictures are pages"
    return f"{which} that the evidence was set on beside pictures of what it is about."


def _where(material: Material, place: str) -> str:
    if material.region is None or material.picture is None:
        return ""
    (x0, y0, x1, y1), (width, height) = material.region, material.picture.size
    if (x0, y0, x1, y1) == (0, 0, width, height):
        return ""
    across, down = (
        f"from {start / size:.0%} to {end / size:.0%}"
        for start, end, size in ((x0, x1, width), (y0, y1, height))
    )
    cut = f" The {place} picture of this message shows that part." if material.crop else ""
    return (
        f"What was searched for is the part of the question's picture {across} of its width and "
        f"{down} of its height, counted from the top left.{cut}"
    )


# ---- replies -----------------------------------------------------------------------------------


def _parse_verdict(
    reply: Reply, material: Material, draft: str | None = None
) -> tuple[Reading, Correction]:
    """Check a structured reply against the evidence of the request, and compare it with a draft."""
    fields = reply.parsed or {}
    answer, reason = fields["answer"].strip(), " ".join(fields.get("reason", "").split())
    texts = {piece.label: piece.text for piece in material.evidence}
    texts |= {path.label: path.text for path in material.bearing_paths}
    # Models write "[E1]", "e1" and "E1, E2" as well.
    labels = [
        label
        for citation in fields.get("citations", ())
        if citation.strip()
        for label in _LABEL.findall(citation.upper()) or [citation.strip()[:_LONGEST_LABEL]]
    ]
    cited = {label: texts[label] for label in labels if label in texts}
    dropped = tuple(dict.fromkeys(label for label in labels if label not in texts))
    changed, verdict = False, "Answered in one turn"
    if draft is not None:
        changed = (fields.get("changed", True) or not answer) and _bare(answer) != _bare(draft)
        verdict = ("Corrected" if changed else "Kept") if answer else "Refused"
    why = f"{verdict}: {reason}" if reason else f"{verdict}, for no reason given."
    believed = fields.get("believed")
    if believed not in (None, "all"):
        why += f" (Where they differ, it believed the {believed}.)"
    if dropped:
        why += f" (It cites {', '.join(dropped)}, which it was not shown: dropped.)"
    found = [re.search(re.escape(answer), t, re.I) if answer else None for t in cited.values()]
    spans = tuple(match.span() if match else (0, 0) for match in found)
    items = tuple(filter(None, map(str.strip, fields.get("items", ()))))
    return (
        Reading(answer, tuple(cited), spans, why=why, items=items, unanswered="refused"),
        Correction(draft, changed, reason, believed, dropped),
    )


def _bare(text: str) -> list[str]:
    return _WORDS.findall(text.casefold())
