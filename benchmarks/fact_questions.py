"""120 questions over labelled lines and relations: `python -m benchmarks.fact_questions [--show]`.

By rule: 60 questions over the information.txt of the groceries, asked in words that their labels do
not always have, and 60 over the relations of the monsters, in both directions, with counts, yes or
no, and what several relations have in common. Units take turns; "--tune" takes others than the
reported ones. An answer is right when it is the gold list, in any order, or the gold number.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import ku_rag
from benchmarks.flag_questions import exact_match, normalise
from benchmarks.grocery_answers import GROCERY
from benchmarks.record import write_result

MONSTERS = GROCERY.parent / "monster_hunter" / "monsters.json"
_RELATIONS = {
    "type": "type",
    "element": "elements",
    "ailment": "ailments",
    "weakness": "weakness",
    "subspecies": "subSpecies",
}
Asked = tuple[str, str, tuple[str, ...]]
"""Kind of question, question, accepted answers."""


def groceries(turn: int) -> Iterator[Asked]:
    """60 questions over labelled lines; products take turns from `turn` on, every second one."""
    asked: dict[str, list[Asked]] = {}
    for folder in sorted((GROCERY / "units").iterdir())[turn::2]:
        text = (folder / "information.txt").read_text("utf-8-sig")
        name = folder.name.replace("-", " ")
        for label, value in re.findall(r"^([^:\n]+): *(.+?) *$", text, re.MULTILINE):
            labels, values = [label], [value]
            if " and " in label:
                labels, values = label.lower().split(" and "), re.split(" ?, ?", value, maxsplit=1)
            for one, said in zip(labels, values, strict=False):
                said = said.removeprefix("ca ")
                key = one.lower().split()[-1]
                for n, question in enumerate(_LINES.get(key, ())):
                    answer = said
                    if "Spain" in question:
                        answer = "yes" if said == "Spain" else "no"
                    asked.setdefault(f"{key} {n}", []).append(
                        ("labelled line", question.format(name), (answer, f"ca {answer}"))
                    )
        for label, value in re.findall(r"^ +(fat|protein|salt|fiber) ca ([\d.]+) gram", text, re.M):
            asked.setdefault(label, []).append(
                ("amount", f"How much {label} does {name} have?", (f"{value} gram",))
            )
    yield from _in_turns(asked, 60)


_LINES = {
    "country": (
        "Which country does {} come from?",
        "Where is {} made?",
        "Does {} come from Spain?",
    ),
    "manufacturer": ("Who makes {}?", "What is the manufacturer of {}?"),
    "volume": ("What is the volume of {}?",),
    "ingredients": ("What are the ingredients of {}?",),
}


def _in_turns(asked: dict[str, list[Asked]], number: int) -> list[Asked]:
    """So many questions, one of each kind after the other."""
    rows = max(map(len, asked.values()))
    turns = [some[n] for n in range(rows) for some in asked.values() if n < len(some)]
    return turns[:number]


def monsters() -> list[dict[str, object]]:
    """The monsters as unit records."""
    found = []
    for one in json.loads(MONSTERS.read_text("utf-8"))["monsters"]:
        relations = [
            {"relation": relation, "target": target}
            for relation, key in _RELATIONS.items()
            for target in ([one[key]] if isinstance(one.get(key), str) else one.get(key, ()))
        ]
        text = one["games"][0].get("info") or ""
        found.append(
            {"id": one["name"], "name": one["name"], "kind": "monster", "relations": relations}
            | ({"text": text} if text else {})
        )
    return found


def relations(records: list[dict[str, object]], turn: int) -> Iterator[Asked]:
    """60 questions over relations; monsters take turns from `turn` on."""
    facts: dict[str, dict[str, list[str]]] = {}
    for record in records:
        for one in record["relations"]:  # type: ignore[attr-defined]
            facts.setdefault(str(record["name"]), {}).setdefault(one["relation"], []).append(
                " ".join(one["target"].split())
            )
    asked: dict[str, list[Asked]] = {}

    def add(kind: str, question: str, *gold: str) -> None:
        asked.setdefault(kind, []).append((kind, question, (", ".join(gold),)))

    def having(relation: str, end: str) -> list[str]:
        return [name for name, said in facts.items() if end in said.get(relation, ())]

    names = [name for name in facts if len(facts[name].get("weakness", ())) > 1][turn::7]
    for n, name in enumerate(names):
        said = facts[name]
        weak, other = said["weakness"], names[n - 1]
        for relation in said.keys() - {"type", "subspecies"}:
            add("forward", f"Which {relation} does {name} have?", *said[relation])
        add("forward", f"What is {name} weak to?", *weak)
        add("forward", f"What is the type of {name}?", *said["type"])
        for one in said.get("subspecies", ()):
            add("inverse", f"What is {one} a subspecies of?", name)
            add("forward", f"Which subspecies does {name} have?", *said["subspecies"])
            add("yes or no", f"Is {one} a subspecies of {name}?", "yes")
        add("count", f"How many weaknesses does {name} have?", str(len(weak)))
        add("yes or no", f"Is {name} weak to Ice?", "yes" if "Ice" in weak else "no")
        add("yes or no", f"Is {weak[0]} a weakness of {name}?", "yes")
        if common := [one for one in weak if one in facts[other]["weakness"]]:
            add("in common", f"Which weaknesses do {name} and {other} share?", *common)
        counts = len(weak), len(facts[other]["weakness"])
        if counts[0] != counts[1]:
            more = name if counts[0] > counts[1] else other
            add("compared", f"Which has more weaknesses, {name} or {other}?", more)
        for ailment in said.get("ailment", ()):
            holders = having("ailment", ailment)
            add("count", f"How many monsters have the ailment {ailment}?", str(len(holders)))
            if len(holders) <= 20:
                add("inverse", f"Which monsters have the ailment {ailment}?", *holders)
            both = [one for one in holders if weak[0] in facts[one].get("weakness", ())]
            if 0 < len(both) <= 20:
                question = f"Which monsters that have the ailment {ailment} are weak to {weak[0]}?"
                add("which that", question, *both)
    yield from _in_turns(asked, 60)


def right(answer: str, gold: tuple[str, ...]) -> bool:
    """Whether an answer is a gold one, lists in any order."""
    return exact_match(answer, gold) or normalise(answer) in map(normalise, gold)


def main() -> None:
    """Ask, print, and write the result."""
    tune = "--tune" in sys.argv
    counts: Counter[str] = Counter()
    good: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "monsters.jsonl"
        records = monsters()
        file.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        for source, questions in (
            (GROCERY / "units", list(groceries(int(tune)))),
            (file, list(relations(records, 3 * tune))),
        ):
            with ku_rag.KnowledgeBase.open(Path(folder) / source.stem, create=True) as kb:
                kb.ingest(source)
                for kind, question, gold in questions:
                    answer = kb.query(None, question)
                    counts[kind] += 1
                    good[kind] += (hit := right(answer.answer, gold))
                    if "--show" in sys.argv and not hit:
                        print(f"{question} | {answer.answer} | {gold[0]} | {answer.reading.why}")
    figures = {kind: {"questions": counts[kind], "right": good[kind]} for kind in counts}
    total, hits = sum(counts.values()), sum(good.values())
    print(figures, f"right: {hits} of {total}, {hits / total:.3f}")
    if not tune:
        write_result("fact_questions", {"right": round(hits / total, 3), "kinds": figures})


if __name__ == "__main__":
    main()
