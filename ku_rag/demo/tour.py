"""What `ku demo` shows: a knowledge base of flags, ten pictures, ten questions, one report."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ku_rag.answering.report import Section, render
from ku_rag.demo.dataset import RECORDS, SCENES, build
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.pictures import load_picture
from ku_rag.types import Answer

ORIGIN = "demo data: flags drawn, texts written and scenes made by code, from facts"


class Stop(NamedTuple):
    """One picture of the tour and the question about it.

    Args:
        country: id of the country whose flag it shows.
        answers: right answers; none where the base has none.
    """

    title: str
    country: str
    question: str
    answers: tuple[str, ...] = ()


# fmt: off
STOPS = (
    Stop("a flag on a pole", "sweden", "What is the capital of this country?", ("Stockholm",)),
    Stop("a flag in the wind", "germany", "Which neighbours of this country use the euro?",
         ("Austria, Belgium, France, Luxembourg, Netherlands",)),
    Stop("a tilted flag", "south-africa", "Which countries does this country border?",
         ("Botswana, Eswatini, Lesotho, Mozambique, Namibia, Zimbabwe",)),
    Stop("a flag partly hidden", "canada", "What are the official languages of this country?",
         ("English and French", "English, French")),
    Stop("a small flag in a landscape", "jamaica",
         "What does black stand for in the flag of this country?",
         ("strength and creativity of the people",)),
    Stop("a bad photograph", "kuwait", "On which sea or ocean does the coast of this country lie?",
         ("Persian Gulf",)),
    Stop("two flags, told apart by a neighbour", "bangladesh",
         "What is the currency of the country that borders Myanmar?", ("taka",)),
    Stop("one of two similar flags", "luxembourg", "How large is this country?",
         ("2,586 square kilometres",)),
    Stop("two flags, told apart by a continent", "ghana",
         "When was the flag of the African country adopted?", ("1957",)),
    Stop("a question that the base cannot answer", "iceland",
         "How many people live in this country?"),
)
# fmt: on
"""The ten pictures, in order."""


def run(folder: Path, *, write_line: Callable[[str], None]) -> Path:
    """Build the demo base, ask ten questions about ten pictures and write one report.

    The folder, made if it does not exist, gets data/, kb/, scenes/ and report.html, one
    self-contained file. `write_line` is called with each line of output. `KuError` if the base
    cannot be written to.
    """
    data = build(folder / "data")
    write_line(f"{len(_names())} countries in {data} ({ORIGIN})")
    with KnowledgeBase.open(
        folder / "kb", create=True, encoder="embedded", recogniser="none"
    ) as kb:
        report = kb.ingest(data / "countries.jsonl")
        counts = f"{report.units_added} units added, {report.units_unchanged} unchanged"
        write_line(f"knowledge base in {kb.path}: {counts}, {report.seconds:.1f} s")
        sections = [_visit(kb, folder, n, stop, write_line) for n, stop in enumerate(STOPS, 1)]
    right = sum(map(_is_recognised, STOPS, (section.answer for section in sections)))
    write_line(f"\n{right} of {len(STOPS)} flags were recognised")
    page = folder / "report.html"
    title = f"ku demo: ten pictures, ten questions ({ORIGIN})"
    page.write_text(render(sections, title), encoding="utf-8")
    return page


def write_questions(folder: Path) -> Path:
    """Make the demo base and its pictures, and write its questions as `ku eval` reads them.

    The folder gets data/, kb/, scenes/ and questions.jsonl. `KuError` if the base cannot be written
    to.
    """
    data = build(folder / "data")
    with KnowledgeBase.open(
        folder / "kb", create=True, encoder="embedded", recogniser="none"
    ) as kb:
        kb.ingest(data / "countries.jsonl")
    questions = [
        {
            "id": f"{number:02d}",
            "question": stop.question,
            "image": str(_write_scene(folder, number).relative_to(folder)),
            "answers": stop.answers,
            "units": [stop.country],
        }
        for number, stop in enumerate(STOPS, 1)
    ]
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in questions), encoding="utf-8")
    return file


def _write_scene(folder: Path, number: int) -> Path:
    """Write one picture of the tour, and return its file."""
    file = folder / "scenes" / f"{number:02d}.png"
    file.parent.mkdir(exist_ok=True)
    load_picture(SCENES / f"{number:02d}.jpg").save(file)
    return file


def _visit(
    kb: KnowledgeBase, folder: Path, number: int, stop: Stop, write_line: Callable[[str], None]
) -> Section:
    """Write one picture, ask about it and print the answer."""
    file = _write_scene(folder, number)
    answer = kb.query(file, stop.question, passage=folder / "passages" / file.name)
    for line in describe(number, stop, answer):
        write_line(line)
    return Section.of(answer, note=_remark(stop, answer))


def describe(number: int, stop: Stop, answer: Answer) -> list[str]:
    """Return lines with the question, the matched unit, the answer and what it cites."""
    lines = ["", f"{number:2d}. {_remark(stop, answer)}", f"    question  {stop.question}"]
    if answer.units:
        region = answer.region
        where = f" at {region.box}" if region and region.source != "whole" else ""
        lines.append(f"    seen      {answer.units[0].name}{where}: {answer.units[0].why}")
    else:
        lines.append("    seen      no unit of the base")
    lines.append(f"    answer    {answer.answer or 'not in the base'}")
    lines.append(f"    why       {answer.reading.why}")
    return lines + [f"    {label:9} {text.strip()}" for label, text in _find_citations(answer)]


def _find_citations(answer: Answer) -> list[tuple[str, str]]:
    """Return the cited paths, or the first cited sentence, with their labels."""
    paths = {path.label: path.text for path in answer.paths}
    texts = {chunk.label: chunk.text for chunk in answer.chunks}
    cited = list(zip(answer.reading.citations, answer.reading.spans, strict=True))
    cited_paths = [(label, paths[label]) for label, _ in cited if label in paths]
    sentences = [(label, texts[label][slice(*span)]) for label, span in cited if label in texts]
    return cited_paths or sentences[:1]


def _is_recognised(stop: Stop, answer: Answer) -> bool:
    return bool(answer.units) and answer.units[0].id == stop.country


def _remark(stop: Stop, answer: Answer) -> str:
    """Return the title, the country, and whether it was recognised."""
    name = _names()[stop.country]
    wrong = "" if _is_recognised(stop, answer) else ", which was not recognised"
    return f"{stop.title} ({name}){wrong}"


@cache
def _names() -> dict[str, str]:
    """Return the names of the countries by id."""
    records = map(json.loads, RECORDS.read_text(encoding="utf-8").splitlines())
    return {record["id"]: record["name"] for record in records}
