"""The benchmarks of scale and against peers, at the smallest size, so that they cannot rot."""

import importlib.metadata
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import encode, page, record, scale, vectors
from benchmarks.peers import __main__ as peers
from benchmarks.peers import registry, report
from benchmarks.peers.measuring import disk_bytes, tune

COUNT = 1000


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def made(cache: Path) -> vectors.Prepared:
    return vectors.prepare("clusters", COUNT, cache)


@pytest.fixture
def sentences(cache: Path) -> Path:
    """A few drawn vectors in the place of real ones: how they are repeated is looked at."""
    folder = cache / "sentences"
    folder.mkdir(exist_ok=True)
    drawn = np.random.default_rng(3).standard_normal((300, 24)).astype(np.float32)
    np.save(folder / "sentences.npy", drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    return folder


def test_the_exact_answers_are_those_of_a_full_comparison(made):
    every = made.read(0, COUNT)
    assert every.shape == (COUNT, 512)
    np.testing.assert_allclose(np.linalg.norm(every, axis=1), 1, atol=1e-5)
    order = np.argsort(-(made.queries @ every.T), axis=1)[:, : vectors.NEAREST]
    assert (np.sort(order, axis=1) == np.sort(made.exact, axis=1)).mean() > 0.999
    assert (made.queries @ every.T).max() < 0.99, "a query is in the set"


def test_sentences_come_as_they_are_and_then_as_likenesses(sentences):
    made = vectors.prepare("sentences", COUNT, sentences)
    real = np.load(sentences / "sentences.npy")
    every = made.read(0, COUNT)
    np.testing.assert_array_equal(every[:300], real)
    likeness = (every[300:] * real[np.arange(300, COUNT) % 300]).sum(axis=1)
    assert likeness.min() > 0.7  # 24 numbers only: the noise's length varies
    assert likeness.max() < 0.99


def test_a_set_is_the_same_each_time_and_read_in_parts(made, tmp_path):
    again = vectors.prepare("clusters", COUNT, tmp_path)
    np.testing.assert_array_equal(made.read(0, COUNT), again.read(0, COUNT))
    parts = list(made.batches(300))
    assert [len(rows) for rows, _, _ in parts] == [300, 300, 300, 100]
    np.testing.assert_array_equal(np.concatenate([f for _, f, _ in parts]), made.read(0, COUNT))
    texts = [text for _, _, some in parts for text in some]
    assert texts == vectors.texts(0, COUNT)
    assert {len(text) for text in texts} == {vectors.LETTERS}


def test_recall_counts_what_was_found_of_the_ten_nearest(made):
    exact = made.exact[vectors.TUNING.stop :].tolist()
    assert made.recall(exact, vectors.REPORTED) == 1.0
    half = [[*rows[:5], *range(-5, 0)] for rows in exact]
    assert made.recall(half, vectors.REPORTED) == 0.5


def test_tuning_stops_at_what_finds_enough(made, tmp_path):
    peer = registry.PEERS["faiss-ivf-half"](tmp_path, made.dim)
    tried = []

    class Watched(type(peer)):
        _lists = 16

        def ladder(self):
            return [1, 2, 4, 16]

        def use(self, parameters):
            tried.append(parameters)
            super().use(parameters)

    watched = Watched(tmp_path, made.dim)
    watched.load()
    watched.create()
    for rows, found, texts in made.batches(COUNT):
        watched.add(rows, found, texts)
    watched.build(made.queries)
    tuned = tune(watched, made)
    assert tuned["tuning_recall"] >= 0.993
    assert tried[-1] == tuned["parameters"]
    assert tried[:-1] == sorted({1, 2, 4, 16})[: len(tried) - 1]


@pytest.mark.slow
def test_peers_are_measured(cache, capsys, monkeypatch):
    monkeypatch.setattr(peers, "OPENINGS", 1)
    systems = ["ku", "faiss-flat", "faiss-flat-half"]
    found = peers.run(systems, ["clusters"], COUNT, cache)["clusters"]
    assert list(found) == systems, capsys.readouterr().out
    for figures in found.values():
        assert figures["recall"] >= 0.99
        assert figures["added_seen"] == figures["deleted_gone"] == 1.0
        assert min(figures["add_s"], figures["query_p50_ms"], figures["cold_open_ms"]) > 0
        assert figures["disk_mb"] * 1e6 > COUNT * 512 * 2 * 0.95
    table = report.table("clusters", found)
    assert table.count("\n") == 1 + len(systems) + 1
    assert report.ratios("clusters", found).splitlines()[2].startswith("| ku-rag | 1.00 | 1.00 |")
    (bare,) = [t for t in report.targets({"clusters": found}) if "index p50" in t["what"]]
    assert "FAISS flat half precision" in bare["what"]


def test_a_peer_that_is_not_installed_is_said(cache, capsys, monkeypatch):
    monkeypatch.setattr(registry.PEERS["chroma"], "packages", ("no_such_package",))
    assert peers.run(["chroma"], ["clusters"], COUNT, cache) == {"clusters": {}}
    assert "Chroma: left out, no no_such_package here" in capsys.readouterr().out


def test_a_peer_that_fails_is_said(cache, capsys, monkeypatch):
    monkeypatch.setattr(peers, "VARIABLES", ("PYTHONHOME",))
    assert peers.run(["faiss-flat"], ["clusters"], COUNT, cache) == {"clusters": {}}
    assert "FAISS flat float32: failed" in capsys.readouterr().out


@pytest.mark.slow
def test_scale_is_measured(capsys, tmp_path):
    chosen = ["--units", "120", "--systems", "ku-rag", "--folder", str(tmp_path)]
    assert scale.main(chosen) == 0
    printed = capsys.readouterr().out.splitlines()
    for shape, line in zip(scale.SHAPES, printed, strict=False):
        figures = json.loads(line.partition("{")[2].join(["{", ""]))
        assert line.startswith(f"ku-rag {shape} 120 ")
        assert all(value > 0 for row, value in figures.items() if not row.startswith("index"))
        assert ("picture question" in figures) == (shape == "pictures")
    assert list(tmp_path.iterdir()) == []


def test_results_say_what_they_were_measured_with(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    path = record.write_result("some", {"figure": 1}, packages=["click"])
    told = json.loads(path.read_text())
    assert told["figure"] == 1
    assert told["versions"]["click"] == importlib.metadata.version("click")
    assert set(told["machine"]) == {"cpus", "cpu", "architecture"}


def test_disk_bytes_counts_what_files_take(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"x" * 100_000)
    assert 100_000 <= disk_bytes(tmp_path) <= 110_000


def test_the_page_is_filled_from_results(tmp_path):
    text = page.PAGE.read_text(encoding="utf-8")
    empty = page.fill(text, tmp_path)
    assert empty.count("Not measured yet.") == 13
    shutil.copy(record.RESULTS / "peers.json", tmp_path)
    filled = page.fill(empty, tmp_path)
    assert filled.count("Not measured yet.") == 8
    assert "| FAISS flat half precision | flat half precision | none: memory" in filled
    assert page.fill(filled, tmp_path) == filled


@pytest.mark.slow
def test_the_page_is_filled_from_what_was_just_measured(cache, tmp_path, monkeypatch):
    text = page.PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(peers, "OPENINGS", 1)
    found = peers.run(["faiss-flat-half"], ["clusters"], COUNT, cache)
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    record.write_result("peers", {"sets": found, "targets": []})
    filled = page.fill(text, tmp_path)
    assert filled.count("Not measured yet.") == 8
    assert "| FAISS flat half precision | flat half precision | none: memory" in filled
    assert page.fill(filled, tmp_path) == filled


def test_a_plan_follows_from_rates_and_sizes():
    sizes = {size: {"import_processor_s": size / 5000, "disk_mb": 2} for size in (1000, 2000)}
    found = encode.plan(sizes)
    assert found["100,000,000"]["encoding, hours"] == round(1e8 / 100 / 3600 / 32, 1)
    assert found["100,000,000"]["import, hours"] == round(1e8 / 5000 / 3600, 1)
    assert [found[f"{10**n:,}"]["bottleneck"] for n in (7, 8, 9)] == ["encoding"] * 2 + ["import"]


def test_the_plan_in_the_documentation_is_the_measured_one():
    found = json.loads((record.RESULTS / "encode.json").read_text())
    documented = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
    assert encode.plan_table(found["plan"]) in documented
