"""Output on the terminal: no control sequence of any data, and no traceback of an interrupt."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.cli.output import print_answer
from ku_rag.types import Relation
from tests.conftest import picture, write_records

TITLE = "\x1b]0;owned\x07"
SEQUENCES = {
    "colour": "\x1b[31mred\x1b[0m",
    "title": TITLE,
    "link": "\x1b]8;;mailto:a\x1b\\here",
    "C1": "\x9b31m and \x90q\x9c",
    "bidirectional": "\u202egnp.exe\u2066\u2069\u200f\u061c",
    "return": "shown\rhidden\x08\x7f",
}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(params=SEQUENCES)
def evil(request):
    return SEQUENCES[request.param]


@pytest.fixture
def base(tmp_path, evil):
    name = f"Lamp {evil}"
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(
            Unit(
                name,
                id=f"lamp{evil}",
                kind=f"thing{evil}",
                aliases=(f"Light {evil}",),
                texts=(f"Country: Peru{evil}\nThe lamp {evil} comes from Peru.",),
                images=(picture(tmp_path / f"p{evil}.png", 1),),
                metadata={f"colour{evil}": evil},
                relations=(Relation(f"hangs{evil}", f"Room {evil}", "room", evil, evil),),
            )
        )
    return kb.path


COMMANDS = [
    ("list",),
    ("show", "{id}"),
    ("show", "{id}?"),
    ("stats",),
    ("verify",),
    ("search", "--text", "lamp Peru"),
    ("query", "-", "Which country does the lamp come from?"),
    ("query", "-", "Where does Lamp {evil} come from?"),
    ("query", "{picture}", "Which country does it come from?"),
    ("graph", "show", "{id}"),
    ("graph", "show", "nobody {evil}"),
    ("graph", "paths", "{id}"),
    ("graph", "search", "Where does lamp hang?", "--topic", "{id}"),
    ("graph", "add", "New {evil}"),
    ("graph", "add", "--relation", "A{evil}", "to", "B{evil}"),
    ("graph", "delete", "--relation", "{id}", "to", "nowhere{evil}"),
    ("graph", "export", "g{evil}.jsonl"),
    ("graph", "import", "broken{evil}.jsonl"),
    ("update", "{id}", "--kind", "other{evil}"),
    ("add", "--name", "Torch{evil}"),
    ("ingest", "nowhere{evil}"),
    ("ingest", "things{evil}"),
    ("sync", "things{evil}", "--dry-run"),
    ("export", "out{evil}"),
    ("snapshot", "copy{evil}"),
    ("delete", "{id}", "none{evil}"),
    ("delete", "{id}"),
    ("init", "--kb", "other{evil}"),
    ("init", "--encoder", "no{evil}"),
    ("models", "path", "no{evil}"),
    ("list", "--no{evil}"),
    ("list", "--kb", "none{evil}"),
    ("tune", "--kind", "no{evil}"),
    ("doctor", "--kb", "none{evil}"),
]


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_command_prints_a_control_sequence(ku, base, evil, tmp_path, as_json):
    things = tmp_path / f"things{evil}" / f"Thing {evil}"
    things.mkdir(parents=True)
    (things / f"broken{evil}.png").write_bytes(b"no picture")
    (things / "about.txt").write_text(f"It {evil} shines.", encoding="utf-8")
    (tmp_path / f"broken{evil}.jsonl").write_text(f'{{"entity": "{evil[1:]}"\n', encoding="utf-8")
    values = {"id": f"lamp{evil}", "evil": evil, "picture": f"p{evil}.png"}
    is_escaped = False
    for command in COMMANDS:
        run = ku(*(part.format(**values) for part in command), *(["--json"] if as_json else []))
        assert not CONTROL.search(run.out), command
        assert not CONTROL.search(run.err), command
        if command == ("list",) and as_json:
            (unit,) = json.loads(run.out)
            assert unit["name"] == f"Lamp {evil}"
        escape = CONTROL.search(evil)[0].encode("unicode_escape").decode()
        is_escaped = is_escaped or escape in run.out
    assert is_escaped or as_json


def test_a_reply_of_a_model_is_cleaned(tmp_path, capsys, evil):
    reply = {"answer": f"Peru {evil}", "citations": [], "changed": True, "reason": evil}
    mllm = ScriptedMLLM(lambda request: json.dumps(reply) if request.schema else f"Chile {evil}")
    with KnowledgeBase.open(tmp_path / "kb", create=True, mllm=mllm) as kb:
        kb.add(Unit("Lamp", id="lamp", texts=("The lamp comes from Peru.",)))
        print_answer(kb.query(None, "Where does the lamp come from?"))
    out = capsys.readouterr().out
    assert "Peru" in out
    assert not CONTROL.search(out)


def test_tabs_and_lines_of_a_text_stay(ku, tmp_path):
    file = write_records(tmp_path / "u.jsonl", [{"id": "a", "name": "A", "text": "x\ty\nz"}])
    ku("ingest", file)
    assert ku("show", "a", "--json").json["texts"] == ["x\ty\nz"]


# ---- interrupts ----------------------------------------------------------------------------------


def test_an_interrupt_while_modules_are_imported_is_no_traceback(tmp_path):
    script = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from ku_rag.cli import main\n"
        "sys.argv = ['ku', 'list']\n"
        "main()\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 130
    assert process.stderr == (
        "stopped: what was committed is kept; the same command continues it, "
        "a run of `ku eval` with --resume\n"
    )


def test_the_entry_point_imports_next_to_nothing():
    script = (
        "import sys; before = set(sys.modules); from ku_rag.cli import main\n"
        "print(sorted(name for name in set(sys.modules) - before))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.stdout.strip() == "['ku_rag', 'ku_rag.cli']"


def test_an_interrupt_of_a_running_command_exits_130(tmp_path):
    write_records(
        tmp_path / "u.jsonl",
        [{"id": f"u{n}", "name": f"Unit {n}", "text": "word " * 400} for n in range(4_000)],
    )
    script = "from ku_rag.cli import main; main()"
    running = subprocess.Popen(
        [sys.executable, "-c", script, "ingest", "u.jsonl"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KU_KB": "kb"},
    )
    while not (tmp_path / "kb" / "ku.sqlite").exists():
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert "stopped: what was committed is kept" in err


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("ku quer", ["query"]),
        ("ku query --repo", ["--report"]),
        ("ku query --strict g", ["graphrag"]),
    ],
)
def test_the_shell_completes_commands_options_and_choices(words, completions):
    asking = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    process = subprocess.run(
        [sys.executable, "-m", "ku_rag"],
        env=os.environ | {"_KU_COMPLETE": "bash_complete"} | asking,
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.splitlines() == [f"plain,{word}" for word in completions]
