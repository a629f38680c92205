"""The structure of the package: imports run downwards only, names are used once."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import ku_rag
from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture

ROOT = Path(ku_rag.__file__).parent
LAYERS = [
    {
        "addresses",
        "arguments",
        "errors",
        "types",
        "text",
        "picture_paths",
        "pictures",
        "plugins",
        "settings",
    },
    {"store", "weights"},
    {"mllm"},
    {"encoders"},
    {"regions", "recognisers"},
    {"indexes", "manifest"},
    {"retrieval"},
    {"graph"},
    {"reading"},
    {"rerankers"},
    {"ingest", "answering"},
    {"papers"},
    {"transfer"},
    {"session"},
    {"graph_view"},
    {"knowledge_base"},
    {"demo", "evaluation", "scale"},
    {"client", "serve", "integrations"},
    {"cli"},
    {"__main__"},
]
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}
HEAVY = {"torch", "faiss", "PIL", "httpx", "fastapi", "pandas", "numpy", "nltk", "rich"}
NOT_FOR_A_QUERY = {"networkx", "jsonschema", "pooch", "fontTools", "torch", "httpx", "pyarrow"}

UPWARDS = {("ku_rag.knowledge_base", "ku_rag.evaluation")}
"""The only imports of a higher layer: by deprecated methods."""

SAME_ROLE = {
    "__init__.py",
    "base.py",
    "client.py",
    "pipeline.py",
    "jsonl.py",
    "models.py",
    "frames.py",
    "method.py",
}
"""File names with the same role in sibling folders."""

KNOWN_SQLITE3 = {"tests/corruption/test_pages.py"}
"""Files that still import sqlite3. Remove files; add none."""


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        yield path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path):
    """The names that a module imports, except those for type checking."""
    tree = parsed(path)
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in skipped:
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node not in skipped:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def folder_of(module):
    return module.split(".")[1] if "." in module else ""


def test_every_module_is_in_a_layer():
    assert {folder_of(name) for _, name in modules()} - {""} <= set(LEVEL)


def test_imports_run_downwards_only():
    wrong = []
    for path, name in modules():
        if not folder_of(name):
            continue
        for target in imports(path):
            inside = target.split(".")
            if (name, target) in UPWARDS:
                continue
            if (
                inside[0] != "ku_rag"
                or len(inside) < 2
                or inside[1] in (folder_of(name), "__version__")
            ):
                continue
            if inside[1] not in LEVEL:
                continue
            if LEVEL[inside[1]] >= LEVEL[folder_of(name)] and LEVEL[folder_of(name)] > 0:
                wrong.append(f"{name} imports {target}")
    assert wrong == []


def test_there_is_no_import_cycle():
    names = {name for _, name in modules()}
    graph = {
        name: {
            t if t in names else t.rpartition(".")[0]
            for t in imports(path)
            if (name, t) not in UPWARDS
        }
        & names
        for path, name in modules()
    }
    graph.pop("ku_rag")
    visited: set[str] = set()

    def visit(name, above):
        assert name not in above, f"a cycle: {' → '.join([*above, name])}"
        if name not in visited:
            for target in graph.get(name, ()):
                if target != name:
                    visit(target, [*above, name])
            visited.add(name)

    for name in graph:
        visit(name, [])


def loaded_by(code):
    """The names of the modules that a new interpreter has imported after running the code."""
    script = f"{code}\nimport sys; print('\\n' + ' '.join(sys.modules))"
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(process.stdout.splitlines()[-1].split())


def running(*arguments):
    """Code that runs `ku`."""
    return (
        f"import sys; sys.argv = {['ku', *map(str, arguments)]!r}\n"
        "from ku_rag.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )


@pytest.mark.parametrize(
    "code", ["import ku_rag", running("--help"), running("query", "--help")], ids=lambda code: code
)
def test_import_and_help_import_nothing_heavy(code):
    assert HEAVY & loaded_by(code) == set()


OF_UNIX = ["fcntl", "resource", "termios", "pwd", "grp"]
"""Modules that Python lacks on Windows."""


@pytest.mark.parametrize(
    "code",
    ["import ku_rag; ku_rag.KnowledgeBase", running("demo", "--help")],
    ids=lambda code: code,
)
def test_import_and_help_need_no_module_of_unix(code):
    missing = f"import sys; sys.modules.update(dict.fromkeys({OF_UNIX}))\n"
    assert "ku_rag" in loaded_by(missing + code)


def test_a_query_imports_only_what_it_needs(tmp_path):
    image = picture(tmp_path / "lamp.png", 1)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp", images=(image,), texts=("The colour of the lamp is red.",)))
    code = running("query", image, "What is the colour of the lamp?", "--kb", tmp_path / "kb")
    assert NOT_FOR_A_QUERY & loaded_by(code) == set()


def test_no_encoder_class_is_imported_outside_of_the_encoders():
    classes = {
        f"{name}.{node.name}"
        for path, name in modules()
        if folder_of(name) == "encoders" and name != "ku_rag.encoders.base"
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef)
        and any(method in ast.unparse(node) for method in ("encode_texts", "__getattr__"))
    }
    assert {name.rpartition(".")[2] for name in classes} >= {"EmbeddedEncoder", "Paired"}
    importing = {
        f"{name} imports {node.module}.{alias.name}"
        for path, name in modules()
        if folder_of(name) != "encoders"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}" in classes
    }
    assert importing == set()


def is_fingerprint(node):
    """Whether an expression is `fingerprint`, `encoder.fingerprint` or `made["fingerprint"]`."""
    return ast.unparse(node).endswith(("fingerprint", "fingerprint']"))


def reads_a_fingerprint(node):
    """Whether a fingerprint is compared with a literal, or parsed."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        return is_fingerprint(node.value)
    parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    literals = (ast.Constant, ast.List, ast.Set, ast.Tuple)
    return any(map(is_fingerprint, parts)) and any(isinstance(part, literals) for part in parts)


@pytest.mark.parametrize(
    "code",
    [
        'encoder.fingerprint == "embedded:1"',
        'made["fingerprint"] in {"embedded:1"}',
        '"embedded" in fingerprint',
        'side(encoder, "image").fingerprint.startswith("embedded:")',
        "fingerprint[:8]",
    ],
)
def test_the_check_of_fingerprints_finds(code):
    assert any(map(reads_a_fingerprint, ast.walk(ast.parse(code))))


def test_outside_of_the_encoders_fingerprints_are_compared_with_each_other_only():
    reading = {
        f"{name}: {ast.unparse(node)}"
        for path, name in modules()
        if folder_of(name) != "encoders"
        for node in ast.walk(parsed(path))
        if reads_a_fingerprint(node)
    }
    assert reading == set()


def test_no_class_name_occurs_twice():
    names = Counter(
        node.name
        for path, _ in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    )
    twice = sorted(name for name, count in names.items() if count > 1)
    assert twice == []


def test_no_file_name_occurs_twice_except_for_the_same_role():
    names = Counter(path.name for path, _ in modules())
    assert {name for name, count in names.items() if count > 1} <= SAME_ROLE


def test_no_function_has_more_than_60_lines():
    long = {
        f"{path.relative_to(ROOT).as_posix()}:{node.name}"
        for path, _ in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= 60
    }
    assert long == set()


def test_the_standard_sqlite3_is_not_imported():
    """Closing one of its connections drops the locks of apsw's on the same file."""
    folders = (ROOT, ROOT.parent / "tests", ROOT.parent / "benchmarks", ROOT.parent / "tools")
    importing = [
        str(path.relative_to(ROOT.parent))
        for folder in folders
        for path in folder.rglob("*.py")
        if "sqlite3" in path.read_text(encoding="utf-8")
        and "sqlite3" in {name.partition(".")[0] for name in imports(path)}
    ]
    assert [path for path in importing if path not in KNOWN_SQLITE3] == []


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
