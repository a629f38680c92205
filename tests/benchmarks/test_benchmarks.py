"""The benchmarks of scale at the smallest size, and the pages and plans from their results."""

import importlib.metadata
import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import check, page, plan, record, scale, systems

ROOT = Path(__file__).parents[2]
ENCODED = {
    "sizes": {
        n: {
            "import_processor_s": int(n) / 5000,
            "index_processor_s": int(n) / 10_000,
            "index_peak_mb": 700,
            "disk_mb": int(n) * 2e-3,
        }
        for n in ("1000", "2000")
    },
    "encoded a second": {"all-MiniLM-L6-v2": 100},
}
RESULTS = {
    "encode": ENCODED,
    "milvus_sync": {"chunks": 20_000, "seconds": {"Milvus server": {"sync": 20, "bare": 10}}},
    "scale": {
        "rows": {
            "ku-rag, chunk, 10,000": {"bulk, units a second": 1000, "disk, MB": 10},
            "ku-rag, pictures, 10,000": {"bulk, units a second": 10, "disk, MB": 210},
        }
    },
}


def planned(*arguments: str) -> dict[str, plan.Row]:
    options = plan.parser().parse_args(arguments)
    return {row.quantity: row for row in plan.rows(options, RESULTS)}


@pytest.mark.slow
def test_scale_is_measured(capsys, tmp_path):
    options = ["--units", "120", "--systems", "ku-rag", "--folder", str(tmp_path)]
    assert scale.main(options) == 0
    printed = capsys.readouterr().out.splitlines()
    for shape, line in zip(scale.SHAPES, printed, strict=False):
        figures = json.loads(line.partition("{")[2].join(["{", ""]))
        assert line.startswith(f"ku-rag {shape} 120 ")
        positive = {row for row in figures if not row.startswith(("index", "load"))}
        assert all(figures[row] > 0 for row in positive)
        assert figures.get("recall@10", 1) > 0.9
        assert ("picture question" in figures) == (shape == "pictures")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_goes_on_with_the_stage_that_is_missing(tmp_path):
    base, file = tmp_path / "ku-rag-chunk-60", tmp_path / "ku-rag-chunk-60.json"
    base.mkdir()
    scale.stage("build", "ku-rag", systems.Data("chunk", 60), base)
    before = {name: {name: -1.0} for name in ("build", "index", "ask")}
    file.write_text(json.dumps(before))
    figures = scale.measure("ku-rag", "chunk", 60, tmp_path)
    assert [figures[name] for name in before] == [-1.0] * 3
    assert {"add", "verify, s"} <= figures.keys()
    assert "text" not in figures
    assert list(tmp_path.iterdir()) == []


def test_recall_is_the_share_of_the_exact_ten():
    data = systems.Data("chunk", 500)
    _, texts, vectors = next(data.batches())
    queries = vectors[:2]
    nearest = [[texts[n] for n in (-scores).argsort()[:10]] for scores in queries @ vectors.T]
    assert scale.recall(data, queries, nearest) == 1.0
    assert scale.recall(data, queries, [texts_of[:5] for texts_of in nearest]) == 0.5


def test_results_name_versions_and_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    path = record.write_result("some", {"figure": 1}, packages=["click"])
    assert record.read_result("some") == json.loads(path.read_text())
    assert record.read_result("some")["figure"] == 1
    assert record.read_result("some")["versions"]["click"] == importlib.metadata.version("click")
    assert set(record.read_result("some")["machine"]) == {"cpus", "cpu", "architecture"}
    assert record.read_result("other") == {}


def test_rows_are_added_to_those_of_the_same_version(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    scale.write({"ku-rag, ten, 10": {"text": 1.0}})
    scale.write({"ku-rag, ten, 20": {"text": 2.0}})
    rows = record.read_result("scale")["rows"]
    assert rows == {"ku-rag, ten, 10": {"text": 1.0}, "ku-rag, ten, 20": {"text": 2.0}}
    file = tmp_path / "scale.json"
    file.write_text(file.read_text().replace(record.ku_rag.__version__, "0.0.1"))
    scale.write({"ku-rag, ten, 30": {"text": 3.0}})
    assert list(record.read_result("scale")["rows"]) == ["ku-rag, ten, 30"]


def test_a_row_that_is_slower_in_two_of_three_runs_is_reported():
    reference = {"text": 20.0, "vector": 20.0}
    runs = [(reference, {"text": new, "vector": 23.0}) for new in (25.0, 19.0, 26.0)]
    (sentence,) = check.regressions(runs)
    assert sentence == "text: 1.25, 0.95, 1.30 × the reference, more than 1.2 in 2 of 3 runs"
    runs[0][1]["text"] = 24.0
    assert check.regressions(runs) == []


def test_what_is_short_or_measured_once_may_take_half_more():
    reference, new = (
        {"stats": 0.2, "compact, s": 9, "disk, MB": 0.9},
        {"stats": 0.29, "compact, s": 13},
    )
    assert check.regressions([(reference, new | {"disk, MB": 1.0})]) == []
    assert len(check.regressions([(reference, new | {"disk, MB": 1.2})])) == 1


def test_a_row_that_is_no_longer_measured_is_reported():
    assert check.regressions([({"text": 2.0}, {})] * 3)[0].startswith("text: nothing")


def test_the_package_of_a_commit_is_checked_out(tmp_path):
    check.check_out("HEAD", tmp_path)
    assert (tmp_path / "ku_rag" / "__init__.py").is_file()
    assert (tmp_path / "benchmarks" / "scale.py").is_file()
    with pytest.raises(subprocess.CalledProcessError):
        check.check_out("0" * 40, tmp_path)


def test_a_plan_is_proportional_to_its_measurements():
    rows = planned("--units", "3.6e9", "--workers", "100")
    assert rows["import, hours"].number == pytest.approx(200)
    assert rows["encoding, hours"].number == pytest.approx(100)
    assert rows["first sync with Milvus, hours"].number == pytest.approx(1000)
    assert rows["base, GB"].number == pytest.approx(7200)
    assert rows["machines that search"].number == 29
    assert rows["import, hours"].cells(3.6e9)[2] == "extrapolated"
    assert rows["import, hours"].cells(2000)[2] == "measured"


def test_pictures_dimensions_and_prices_count_in_a_plan():
    plain = planned("--units", "1e6")
    pictures = planned("--units", "1e6", "--pictures-per-unit", "2")
    hours = "encoding, worker-hours"
    assert pictures[hours].number - plain[hours].number == pytest.approx(2e6 * 0.0495 / 3600)
    assert pictures["base, GB"].number - plain["base, GB"].number == pytest.approx(20)
    wide = planned("--units", "1e6", "--dimensions", "1024")
    assert wide["base, GB"].number - plain["base, GB"].number == pytest.approx(1.536)
    assert wide["vectors in memory, GB"].number == 2 * plain["vectors in memory, GB"].number
    dear = planned("--units", "1e6", "--price-hour", "3")
    cost = "cost of the first import"
    assert dear[cost].number == pytest.approx(3 * plain[cost].number)


def test_the_pages_are_written_from_the_results():
    assert page.performance() == page.PAGE.read_text(encoding="utf-8"), "python -m benchmarks.page"
    scale_page = page.SCALE.read_text(encoding="utf-8")
    assert page.with_plan(scale_page) == scale_page, "python -m benchmarks.page"


def test_each_result_has_a_program_and_a_reader():
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "performance.md"]
    programs = [ROOT / "benchmarks" / f"{name}.py" for name in ("page", "plan", "check")]
    text = "".join(file.read_text(encoding="utf-8") for file in (*pages, *programs))
    for file in record.RESULTS.glob("*.json"):
        name = file.stem
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name
        references = (f"benchmarks.{name}", f"benchmarks/{name}.py", f"{name}.json", f'["{name}"]')
        assert any(reference in text for reference in references), name
