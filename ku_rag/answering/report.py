"""HTML reports of answers with the evidence that led to them.

A report is one file with its styles and pictures, without scripts and addresses. All texts come
from data and are escaped.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from PIL import Image

from ku_rag.pictures import load_picture, to_rgb
from ku_rag.text.statements import locate
from ku_rag.types import NO_ANSWER, Answer, Box, Evidence, Match, PathEvidence, Reading

_PICTURE_SIDE, _UNIT_SIDE = 1000, 320


@dataclass(frozen=True)
class Section:
    """One answer of a report, its upright picture, and pages of cited places by label."""

    answer: Answer
    picture: Image.Image | None = None
    unit_pictures: Mapping[str, Image.Image] = field(default_factory=dict)
    pages: Sequence[Image.Image] = ()
    note: str = ""
    places: Mapping[str, Image.Image] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Answer, note: str) -> Section:
        """Return the section of an answer with the pictures that it names."""
        picture = load_picture(Path(answer.image)) if answer.image else None
        units = {unit.id: load_picture(Path(unit.image)) for unit in answer.units if unit.image}
        pages = [load_picture(Path(page)) for page in answer.passage]
        return cls(answer, picture, units, pages, note)


def render(sections: Sequence[Section], title: str = "ku-rag: how this was answered") -> str:
    """Write answers as one HTML page, to be encoded as UTF-8; several with a table of contents."""
    bodies = [_section(section, f"q{n}") for n, section in enumerate(sections, start=1)]
    if len(sections) > 1:
        bodies.insert(0, _contents(sections))
    return page(title, "\n".join(bodies))


def page(title: str, body: str) -> str:
    """Return an HTML page in the style of the reports; the title is a plain text, the body HTML."""
    folder = files("ku_rag.answering")
    template = Template(folder.joinpath("report.html").read_text(encoding="utf-8"))
    style = folder.joinpath("report.css").read_text(encoding="utf-8").strip()
    html = template.substitute(title=_text(title), style=style, body=body)
    # A lone surrogate, as undecodable file names hold, cannot be written as UTF-8.
    return html.encode("utf-8", "replace").decode("utf-8")


def _contents(sections: Sequence[Section]) -> str:
    """List the questions, or the notes where all sections answer the same question."""
    rows, is_same = [], len({section.answer.question for section in sections}) == 1
    for n, section in enumerate(sections, start=1):
        answer = section.answer
        title, note = (section.note, "") if is_same else (answer.question, section.note)
        none = answer.outcome.replace("_", " ")
        words = f"<b>{_text(answer.answer)}</b>" if answer.answer else f'<b class="none">{none}</b>'
        note = f' <span class="quiet">{_text(note)}</span>' if note else ""
        rows.append(f'<li><a href="#q{n}">{_text(title or answer.question)}</a>{words}{note}</li>')
    return f'<nav><ol class="contents">{"".join(rows)}</ol></nav>'


def _section(section: Section, anchor: str) -> str:
    answer = section.answer
    figure = _figure(section.picture, answer, anchor)
    times = {step: f"{ms:,.1f} ms" for step, ms in answer.timings_ms.items()}
    top = f'<div class="top{"" if figure else " bare"}">{figure}<div>{_verdict(answer, anchor)}'
    parts = [
        f"<h2>{_text(answer.question)}</h2>",
        f'<p class="quiet">{_text(section.note)}</p>' if section.note else "",
        f"{top}{_correction(answer)}</div></div>",
        answer.plan.to_html() if answer.plan else "",
        _units(answer.units, section.unit_pictures),
        _evidence(section, anchor),
        answer.evidence_graph.to_html() if answer.evidence_graph else "",
        _passage(section.pages),
        f'<div class="how">{_facts("Made with", answer.models)}{_facts("Time", times)}</div>',
    ]
    return f'<section class="question" id="{anchor}">{"".join(parts)}</section>'


# ---- the question and its answer ---------------------------------------------------------------


def _figure(picture: Image.Image | None, answer: Answer, anchor: str) -> str:
    if picture is None:
        return ""
    region, caption = answer.region, ""
    frame = "".join(
        _frame(word.box, picture.size, f'word" id="{anchor}-W{n}" title="{_text(word.text)}')
        for n, word in enumerate(answer.words, 1)
    )
    if region is not None:
        if region.box != (0, 0, picture.width, picture.height):
            frame += _frame(region.box, picture.size, "region")
        why = f": {_text(region.why)}" if region.why else ""
        source = "the whole picture" if region.source == "whole" else f"by {region.source}"
        caption = f"<figcaption>Region, {_text(source)}{why}</figcaption>"
    image = image_tag(picture, _PICTURE_SIDE, "the question's picture")
    return f'<figure><div class="picture">{image}{frame}</div>{caption}</figure>'


def _frame(box: Box, size: tuple[int, int], name: str) -> str:
    x0, y0, x1, y1 = box
    edges = {"left": x0 / size[0], "top": y0 / size[1]}
    edges |= {"width": (x1 - x0) / size[0], "height": (y1 - y0) / size[1]}
    style = ";".join(f"{name}:{min(max(part, 0), 1):.2%}" for name, part in edges.items())
    return f'<div class="{name}" style="{style}"></div>'


def _verdict(answer: Answer, anchor: str) -> str:
    reading = answer.reading
    why = f"<p>{_text(reading.why)}</p>" if reading.why else ""
    if answer.outcome != "answered":
        words = NO_ANSWER[answer.outcome]
        return f'<div class="verdict none"><p class="words">{words}</p>{why}</div>'
    labels = map(_text, dict.fromkeys(reading.citations))
    tags = " ".join(f'<a class="tag" href="#{anchor}-{label}">{label}</a>' for label in labels)
    cited = f'<p class="quiet">From {tags}</p>' if tags else ""
    words = f'<p class="words">{_text(reading.answer)}</p>'
    return f'<div class="verdict">{words}{why}{cited}</div>'


def _correction(answer: Answer) -> str:
    correction = answer.correction
    if correction is None:
        return ""
    caption = _text(correction.caption or "")
    caption = caption and f'<p class="quiet">Caption of the picture: {caption}</p>'
    caption += "".join(f'<p class="quiet">Note: {_text(note)}</p>' for note in correction.notes)
    if correction.draft is None:
        return caption
    verdict = "corrected" if correction.changed else "kept"
    verdict = verdict if answer.outcome == "answered" else answer.outcome
    before, after = _text(correction.draft), _text(answer.answer)
    reason = f'<p class="quiet">{_text(correction.reason)}</p>' if correction.reason else ""
    return (
        "<h3>Draft and correction</h3>"
        f'<div class="chain"><div><small>Before evidence</small>{before or "—"}</div>'
        f'<span class="arrow">→</span><div><small>After evidence: {verdict}</small>'
        f"{after or '—'}</div></div>{reason}{caption}"
    )


# ---- what led to it ----------------------------------------------------------------------------


def _units(units: Sequence[Match], pictures: Mapping[str, Image.Image]) -> str:
    rows = []
    for unit in units:
        picture = pictures.get(unit.id)
        image = "" if picture is None else image_tag(picture, _UNIT_SIDE, unit.name)
        why = f'<p class="quiet">{_text(unit.why)}</p>' if unit.why else ""
        rows.append(f'<li>{image}<div><p class="name">{_text(unit.name)}</p>{why}</div></li>')
    listed = f'<ul class="units">{"".join(rows)}</ul>' if rows else ""
    return f"<h3>Matched units</h3>{listed or _none('No unit matched.')}"


def _evidence(section: Section, anchor: str) -> str:
    """Show all evidence; what is not cited is folded if something is."""
    answer, reading = section.answer, section.answer.reading
    pieces: list[Evidence | PathEvidence] = [*answer.chunks, *answer.paths]
    cited = [_piece(p, section, anchor) for p in pieces if p.label in reading.citations]
    other = "".join(_piece(p, section, anchor) for p in pieces if p.label not in reading.citations)
    if cited and other:
        count = len(pieces) - len(cited)
        more = f"{count} further {'piece' if count == 1 else 'pieces'} of evidence"
        other = f"<details><summary>{more}</summary>{other}</details>"
    return f"<h3>Evidence</h3>{''.join(cited)}{other}" + _none("Nothing was found.") * (not pieces)


def mark_piece(piece: Evidence | PathEvidence, reading: Reading) -> str:
    """Return the text of a piece of evidence as HTML, with its cited or closest words marked."""
    cited = zip(reading.citations, reading.spans, strict=False)
    spans = [span for label, span in cited if label == piece.label]
    closest = reading.closest
    is_closest = closest and closest.evidence == piece.label
    return mark_text(piece.text, spans, closest.text if closest and is_closest else "")


def _piece(piece: Evidence | PathEvidence, section: Section, anchor: str) -> str:
    about, figure = "graph path", ""
    if isinstance(piece, Evidence):
        file = piece.source.rpartition("/")[2]
        parts = (piece.origin, file, piece.place, f"score {piece.score:.3f}")
        about = ", ".join(dict.fromkeys(filter(None, parts)))
        if image := section.places.get(piece.label):
            alt = f"page {piece.page} of {file}, the cited place in a box"
            figure = f'<figure class="page">{image_tag(image, _PICTURE_SIDE, alt)}</figure>'
    label = _text(piece.label)
    return (
        f'<article class="evidence" id="{anchor}-{label}"><header><span class="tag">{label}</span>'
        f'<span class="quiet">{_text(about)}</span></header>'
        f"<blockquote>{mark_piece(piece, section.answer.reading)}</blockquote>{figure}</article>"
    )


def mark_text(text: str, spans: Sequence[tuple[int, int]], closest: str = "") -> str:
    """Return the text as HTML with the spans and the closest sentence inside <mark>, merged."""
    html = []
    at = 0
    sentence = locate(closest, text) if closest else None
    for start, end in sorted([*spans, *([sentence] if sentence else [])]):
        start = max(start, at)
        if start >= end:
            continue
        html += [_text(text[at:start]), f"<mark>{_text(text[start:end])}</mark>"]
        at = end
    return "".join([*html, _text(text[at:])])


def _passage(pages: Sequence[Image.Image]) -> str:
    if not pages:
        return ""
    images = "".join(image_tag(p, None, f"passage, page {n}") for n, p in enumerate(pages, start=1))
    count = f"{len(pages)} {'page' if len(pages) == 1 else 'pages'}"
    summary = f"The passage as a model sees it, {count}"
    return f'<details><summary>{summary}</summary><div class="pages">{images}</div></details>'


def _facts(title: str, facts: Mapping[str, object]) -> str:
    rows = "".join(f"<dt>{_text(k)}</dt><dd>{_text(v)}</dd>" for k, v in facts.items())
    return f"<div><h3>{title}</h3><dl>{rows}</dl></div>" if rows else ""


# ---- words, numbers, pictures ------------------------------------------------------------------


def _text(words: object) -> str:
    return escape(str(words), quote=True)


def _none(words: str) -> str:
    return f'<p class="quiet">{words}</p>'


def image_tag(image: Image.Image, side: int | None, alt: str) -> str:
    """Return an <img> with a data URL: JPEG no larger than `side`, or PNG if `side` is None."""
    buffer = io.BytesIO()
    if side is None:
        kind = "png"
        image.save(buffer, "PNG", optimize=True)
    else:
        kind = "jpeg"
        small = to_rgb(image).copy()
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        small.save(buffer, "JPEG", quality=86)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return (
        f'<img src="data:image/{kind};base64,{data}" width="{image.width}" '
        f'height="{image.height}" alt="{_text(alt)}">'
    )
