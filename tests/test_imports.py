"""The rooms: imports run downwards only, and nothing heavy comes in early."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import ku_rag

ROOT = Path(ku_rag.__file__).parent
LAYERS = [
    {
        "arguments",
        "devices",
        "errors",
        "folders",
        "types",
        "text",
        "pictures",
        "plugins",
        "settings",
    },
    {"store", "weights"},
    {"encoders", "mllm", "regions"},
    {"indexes", "manifest"},
    {"models"},
    {"retrieval"},
    {"graph"},
    {"ingest", "answering"},
    {"transfer"},
    {"session"},
    {"graph_view"},
    {"knowledge_base"},
    {"demo", "doctor", "evaluation"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
HEAVY = {"torch", "faiss", "PIL", "openai", "pandas", "numpy", "nltk", "rich"}


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        yield path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """The ku_rag modules that a module imports, those for type checking left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(module):
    return module.split(".")[1] if "." in module else ""


def test_every_module_is_in_a_layer():
    assert {room(name) for _, name in modules()} - {""} == set(LEVEL) & {
        room(name) for _, name in modules()
    }


def test_imports_run_downwards_only():
    wrong = []
    for path, name in modules():
        if not room(name):
            continue
        for target in imports(path):
            inside = target.split(".")
            if inside[0] != "ku_rag" or len(inside) < 2 or inside[1] in (room(name), "__version__"):
                continue
            if inside[1] not in LEVEL:
                continue
            if LEVEL[inside[1]] >= LEVEL[room(name)] and LEVEL[room(name)] > 0:
                wrong.append(f"{name} imports {target}")
    assert wrong == []


def test_modules_import_each_other_in_no_circle():
    known = {name for _, name in modules()}
    graph = {
        name: {t if t in known else t.rpartition(".")[0] for t in imports(path)} & known
        for path, name in modules()
    }
    graph.pop("ku_rag")
    done: set[str] = set()

    def visit(name, above):
        assert name not in above, f"a circle: {' → '.join([*above, name])}"
        if name not in done:
            for target in graph.get(name, ()):
                if target != name:
                    visit(target, [*above, name])
            done.add(name)

    for name in graph:
        visit(name, [])


def test_importing_and_helping_bring_nothing_heavy():
    for code in (
        "import ku_rag",
        "import sys; sys.argv = ['ku', '--help']\n"
        "from ku_rag.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass",
    ):
        script = f"{code}\nimport sys; print('\\n' + ' '.join(sys.modules))"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert HEAVY & set(done.stdout.splitlines()[-1].split()) == set()


def test_a_question_brings_nothing_that_only_other_commands_need(tmp_path):
    with ku_rag.KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(ku_rag.Unit("Lamp", texts=["The lamp comes from Peru."]))
    script = (
        "import sys; from ku_rag.cli import main\n"
        "sys.argv = ['ku', 'query', '-', 'Where does the lamp come from?']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "Peru" in done.stdout
    unneeded = {"networkx", "jsonschema", "pooch", "fontTools", "openai", "torch", "pyarrow"}
    assert unneeded & set(done.stdout.splitlines()[-1].split()) == set()


def test_all_is_complete():
    tree = ast.parse(Path(ku_rag.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ku_rag.")
        for alias in node.names
    }
    assert set(ku_rag.__all__) == imported
    assert len(ku_rag.__all__) <= 15
    assert all(getattr(ku_rag, name) for name in ku_rag.__all__)
