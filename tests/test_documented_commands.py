"""The commands of the README and the guides run in their order and print the documented output.

Every line of a block ```sh is a command; a block ```text after it is the output of the last one. A
block ```console has commands after "$ ", each followed by its output. "…" stands for any text of a
line, and alone in a line for any lines. `NOT_RUN` lists commands that do not run, with the reason.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ku_rag.demo.tour import write_questions
from tests.conftest import picture

ROOT = Path(__file__).parents[1]
PAGES = [
    *[ROOT / "README.md"],
    *[page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "cli.md"],
    *[ROOT / "skills" / "ku-rag" / "SKILL.md"],
]
BLOCK = re.compile(r"^```(sh|console|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = [
    ("*", r"pip install |ray start |export RAY_|aws ", "needs a network"),
    ("*", r"ku models ", "needs a network"),
    ("*", r"curl |(KU_API_KEYS=\S+ )?ku serve", "needs a running server: tests/serve"),
    (
        "*",
        r"ku .*(--mllm|--extract|--read-pages)|export OPENAI_BASE_URL",
        "needs a model: tests/mllm",
    ),
    ("*", r"ku init --profile|export KU_KB=fruits-kb", "needs weights: tests/encoders"),
    ("*", r"ku .*--engine ray|ku import /mnt/", "needs a cluster: tests/scale"),
    (
        "*",
        r"ku index sync|echo 'index_|cat >> kb/ku.toml|index_|END",
        "needs a server: tests/scale",
    ),
    ("*", r"export KU_MILVUS_TOKEN|ray get-auth-token", "needs a server: tests/scale"),
    ("*", r"make |python -m benchmarks", "takes minutes"),
    (
        "evaluation.md",
        r"python -m tools.wiki_records|ku (encode records|import shards|eval encyclopedic)",
        "needs files of the authors: tests/tools",
    ),
    (
        "gallery.md",
        r"(GROCERY=\S+ )?python docs/make_gallery",
        "needs Chromium: tests/test_gallery",
    ),
    ("evaluation.md", r"ku .*feedback\.jsonl", "needs feedback: tests/store"),
    ("models.md", r"ku init --encoder", "needs a server or exported networks: tests/encoders"),
    ("models.md", r"(KU_\S+ )?ku reindex", "needs extras: tests/encoders, tests/recognisers"),
    ("reproduction.md", r"ku ", "needs published datasets: tests/evaluation"),
    ("scale.md", r"ku snapshot|mkdir -p increments", "needs object storage: tests/transfer"),
    ("scale.md", r"ku (encode|import) s3:|export AWS_", "needs object storage: tests/scale"),
    ("serving.md", r"find backups", "removes old files"),
    ("*", r"ku eval demo$", "asks 70 questions: tests/evaluation"),
    ("planning.md", r"ku plan export", "needs an accepted plan: tests/planning"),
]
"""Page, pattern of the first words of a command, and why it does not run."""


def reason(page: Path, command: str) -> str:
    """Return why a command does not run; "" if it does."""
    for name, regex, why in NOT_RUN:
        if name in ("*", page.name) and re.match(regex, command):
            return why
    return ""


def steps(page: Path) -> Iterator[tuple[str, str | None]]:
    """Yield each command of a page with its output, as far as the page shows it."""
    last = None
    for kind, text in BLOCK.findall(page.read_text("utf-8")):
        if kind == "text":
            assert last, f"{page.name} shows what no command prints: {text}"
            yield last, text
            last = None
            continue
        if last:
            yield last, None
            last = None
        if kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield command, output or None
            continue
        lines = text.replace("\\\n", "").splitlines()
        parts = [part for line in lines for part in without_comment(line).split(" && ")]
        commands = [part for part in parts if part]
        yield from ((command, None) for command in commands[:-1])
        last = commands[-1]
    if last:
        yield last, None


def without_comment(line: str) -> str:
    """Return a line of a shell without its comment."""
    return re.sub(r"(^|\s+)#(?=\s).*", "", line).strip()


def words(command: str, folder: Path) -> list[str]:
    """Return the words of a command as a shell expands them."""
    script = f'for word in {command}; do printf "%s\\0" "$word"; done'
    run = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, check=True)
    return run.stdout.decode().split("\0")[:-1]


def pattern(output: str) -> str:
    """Return the pattern of an output that a page shows."""
    lines = [
        "(?:.*\n)*" if line.strip() == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
        for line in output.splitlines()
    ]
    return "".join(lines)


# ---- files that the pages mention ---------------------------------------------------------------


def readme(root: Path, _: str) -> None:
    """The folders and files that the README shows."""
    for seed, (name, about) in enumerate(
        {
            "Mango": "Country: Peru\nMangoes are sweet and juicy.\n",
            "Kiwi": "Country: Italy\nKiwis are green inside.\n",
        }.items()
    ):
        photo = picture(root / "fruits" / name / "photo.jpg", seed)
        (photo.parent / "about.txt").write_text(about, encoding="utf-8")
    picture(root / "some-photo.jpg", 0, (192, 128))
    picture(root / "dragon.jpg", 5)
    (root / "manuals").mkdir()
    (root / "manuals" / "pump.md").write_text(
        "# Pump\n\nIt drains cellars.\n\n## Service\n\n"
        "The default of the service interval is 90 days.\n"
        "\n## Parts\n\nA rotor and a seal.\n",
        encoding="utf-8",
    )


def tour(root: Path, text: str) -> None:
    """The folders and files of the tour, in addition to those of the README."""
    readme(root, text)
    picture(root / "photos" / "1.jpg", 0, (120, 80))
    shutil.copytree(root / "fruits", root / "data")
    league = root / "league"
    league.mkdir()
    (columns,) = re.findall(r"```\n(Club,Stadium.*?)```", text, re.DOTALL)
    lines = [re.split(" {3,}", line) for line in columns.splitlines()]
    for column, name in enumerate(("clubs.csv", "coaches.md")):
        written = "\n".join(line[column] for line in lines if line[column:])
        (league / name).write_text(written, encoding="utf-8")
    (papaya,) = re.findall(r'```json\n(\{"id": "papaya".*?)```', text, re.DOTALL)
    (root / "fruits.jsonl").write_text(papaya, encoding="utf-8")
    picture(root / "papaya.jpg", 9)
    (graph,) = re.findall(r'```json\n(\{"entity": "Rathian".*?)```', text, re.DOTALL)
    (root / "monsters.jsonl").write_text(graph, encoding="utf-8")
    (record,) = re.findall(r'```json\n(\{"question": .*?)```', text, re.DOTALL)
    (root / "questions.jsonl").write_text(record, encoding="utf-8")


def lamp(root: Path, text: str) -> None:
    """A base of the record on the page, and a photo of it."""
    (record,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (root / "units.jsonl").write_text(record.replace("\n ", " "), encoding="utf-8")
    picture(root / "lamp.jpg", 3)
    picture(root / "photo.jpg", 3, (192, 128))


def stadium(root: Path, text: str) -> None:
    """The folder of the evidence graph, as the page describes it."""
    abouts = re.findall(r"`([^`]*)/about.txt` says \"([^\"]*)\"", text.replace("\n", " "))
    for name, about in abouts:
        (root / "league" / name).mkdir(parents=True)
        (root / "league" / name / "about.txt").write_text(about, encoding="utf-8")
    rows = re.findall(r"(\w+ \w+), ((?:Oak|Pier) Park)", text)
    table = "".join(f"{team},{park}\n" for team, park in [("Team", "Stadium"), *rows])
    (root / "league" / "teams.csv").write_text(table, encoding="utf-8")


def folder(root: Path, _: str) -> None:
    """A folder to ingest, and a picture of one of its units."""
    picture(root / "data" / "Old bridge" / "photo.jpg", 1)
    (root / "data" / "Old bridge" / "about.txt").write_text("Built by: Ann Miller\n", "utf-8")
    picture(root / "picture.jpg", 1, (192, 128))


FILES: dict[str, tuple[Callable[[Path, str], None], list[str]]] = {
    "README.md": (readme, []),
    "SKILL.md": (readme, []),
    "tour.md": (tour, ["ku ingest fruits"]),
    "writing-knowledge.md": (lamp, ["ku ingest units.jsonl"]),
    "graph.md": (stadium, ["ku ingest league"]),
    "scale.md": (folder, []),
    "serving.md": (folder, ["ku ingest data", "ku snapshot backups/2026-11-23"]),
    "transfer.md": (folder, ["ku ingest data", "ku snapshot broken"]),
}
"""By page: the function that writes the files for its commands, and the commands to run before."""


@pytest.fixture(scope="session")
def demo_template(tmp_path_factory: pytest.TempPathFactory, long: bool) -> Path:
    """The folder of `ku eval demo`, with one of its questions unless --long is given."""
    root = tmp_path_factory.mktemp("demo")
    questions = write_questions(root / "demo")
    if not long:
        questions.write_text(questions.read_text("utf-8").partition("\n")[0], encoding="utf-8")
    return root / "demo"


# ---- the test -----------------------------------------------------------------------------------


def test_every_rule_names_a_command_and_every_page_with_commands_is_read():
    written = [(page, command) for page in PAGES for command, _ in steps(page)]
    for name, regex, _ in NOT_RUN:
        commands = [command for page, command in written if name in ("*", page.name)]
        assert any(re.match(regex, command) for command in commands), regex
    assert {page.name for page, _ in written} >= {*FILES, "evaluation.md", "planning.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run_and_print_what_the_page_shows(page, ku, tmp_path, request, record_property):
    text = page.read_text("utf-8")
    commands = [(command, output) for command, output in steps(page)]
    left_out = {command: why for command, _ in commands if (why := reason(page, command))}
    record_property("commands of the pages that are not run here", left_out)
    write, before = FILES.get(page.name, (None, []))
    if any("demo/" in command for command, _ in commands if command not in left_out):
        template = request.getfixturevalue("demo_template")
        shutil.copytree(template, tmp_path / "demo")
    if write:
        write(tmp_path, text)
    for command, output in [*((command, None) for command in before), *commands]:
        if command in left_out:
            assert output is None or page.name == "serving.md", command
            continue
        command, _, file = command.partition(" > ")
        if not command.startswith("ku "):
            subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
            continue
        run = ku(*words(command, tmp_path)[1:])
        assert run.code == 0, f"{command}: {run.err}"
        if file:
            (tmp_path / file).write_text(run.out, encoding="utf-8")
        if output:
            assert re.fullmatch(pattern(output), run.out), f"{command} prints\n{run.out}"


# ---- further questions of readers ---------------------------------------------------------------

NEXT = [
    json.loads(line)
    for line in (ROOT / "tests" / "next_questions.jsonl").read_text("utf-8").splitlines()
]
"""Questions about the data of the pages, written before the first run: the data, the picture ("-":
none), the right answers (none if they are not in the data), and whether it is answered today."""
INGESTED = {
    "fruits": ("tour.md", "ku ingest fruits fruits.jsonl"),
    "league": ("tour.md", "ku ingest league"),
    "monsters": ("tour.md", "ku graph import monsters.jsonl"),
    "lamp": ("writing-knowledge.md", "ku ingest units.jsonl"),
    "stadium": ("graph.md", "ku ingest league"),
}


@pytest.mark.parametrize("data", [*INGESTED, "demo"])
def test_what_a_reader_asks_next(data, ku, tmp_path, request, record_property):
    if data == "demo":
        shutil.copytree(request.getfixturevalue("demo_template"), tmp_path / "demo")
        base = "demo/kb"
    else:
        page, command = INGESTED[data]
        (path,) = (path for path in PAGES if path.name == page)
        FILES[page][0](tmp_path, path.read_text("utf-8"))
        assert ku(*command.split()[1:]).code == 0
        base = "kb"
    entries = [entry for entry in NEXT if entry["data"] == data]
    runs = [ku("query", e["image"], e["question"], "--kb", base, "--json") for e in entries]
    answers = {e["question"]: run.json["answer"] for e, run in zip(entries, runs, strict=True)}
    wrong = {e["question"]: answers[e["question"]] for e in entries if is_wrong(e, answers)}
    assert wrong == {}
    answered = [e["question"] for e in entries if answers[e["question"]]]
    unanswered = [e["question"] for e in entries if e["answers"] and not answers[e["question"]]]
    record_property("next questions that are not answered", unanswered)
    assert answered == [e["question"] for e in entries if e["answered"]], (
        "the field `answered` of tests/next_questions.jsonl says otherwise"
    )


def is_wrong(entry: dict, answers: dict[str, str]) -> bool:
    answer = answers[entry["question"]]
    return bool(answer) and answer.casefold() not in map(str.casefold, entry["answers"])
