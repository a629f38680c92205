"""Kinds of index: each has the recall that it reports, is stored in files and follows the store."""

from __future__ import annotations

import logging
import shutil
from contextlib import closing, nullcontext
from functools import cache

import numpy as np
import pytest

from ku_rag.errors import Refused
from ku_rag.indexes import index_kinds, segment_builder, segment_files, tuning
from ku_rag.indexes import vector_index as index_module
from ku_rag.indexes.index_kinds import KINDS, IndexPlan, make, search_candidates, training_size
from ku_rag.indexes.segment_builder import ExactNeighbours, choose_plan
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.store import vectors as stored
from ku_rag.store.database import Database

DIM = 64
COUNT = 2000


@pytest.fixture(autouse=True)
def small_bases(monkeypatch):
    monkeypatch.setattr(index_module, "BASE_MIN", 100)
    monkeypatch.setattr(segment_builder, "FLAT_MAX", 500)


def created(folder):
    database = Database(folder / "ku.sqlite", create=True)
    database.set_meta("id", "this")
    with database.change() as connection:
        stored.encoder_row(connection, "test", DIM)
    return database


@pytest.fixture
def database(tmp_path):
    with closing(created(tmp_path)) as database:
        yield database


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Returns a function: kind → folder to copy, whose index of `COUNT` vectors is of that kind."""

    @cache
    def tuned_folder(kind):
        folder = tmp_path_factory.mktemp(kind)
        with closing(created(folder)) as database:
            put(database, range(1, COUNT + 1), clustered(COUNT))
            tuned(opened(database, folder), database, kind)
        return folder

    return tuned_folder


@pytest.fixture
def tuned_database(template, kind, tmp_path):
    shutil.copytree(template(kind), tmp_path, dirs_exist_ok=True)
    with closing(Database(tmp_path / "ku.sqlite")) as database:
        assert opened(database, tmp_path).describe()["kind"] == kind
        yield database


def clustered(count, seed=0):
    """Vectors of forty clusters, like pictures of forty things from many sides."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(40, DIM))
    vectors = centres[draw.integers(0, 40, count)] + 0.7 * draw.normal(size=(count, DIM))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def put(database, rows, vectors):
    with database.change() as connection:
        stored.put(connection, "chunk", 1, list(rows), [vectors])


def drop(database, rows):
    with database.change() as connection:
        stored.drop(connection, "chunk", rows)


def opened(database, tmp_path, **options):
    return VectorIndex(database, tmp_path / "indexes", "chunk", 1, DIM, **options)


def writer(database, tmp_path):
    """An index with permission to write its files."""
    return opened(database, tmp_path, try_lock=lambda: nullcontext(True))


def exact(vectors, rows, queries, k=10):
    cosines = queries @ vectors.astype(np.float16).astype(np.float32).T
    return np.asarray(rows)[np.argsort(-cosines, axis=1, kind="stable")[:, :k]]


def recall(rows, expected):
    shared = [len(set(a) & set(b)) for a, b in zip(rows.tolist(), expected.tolist(), strict=True)]
    return np.mean(shared) / expected.shape[1]


def tuned(index, database, kind, recall=0.99):
    result, segment = tuning.tune(index, recall=recall, kind=kind)
    wished = {"kind": result.kind, "recall": recall, "count": COUNT}
    database.set_meta("index", {"chunk": wished})
    index.replace(segment)
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_finds_what_was_measured_on_queries_that_it_never_saw(database, tmp_path, kind):
    vectors = clustered(COUNT)
    put(database, range(1, COUNT + 1), vectors)
    index = opened(database, tmp_path)
    result = tuned(index, database, kind)
    assert (result.kind, index.describe()["kind"]) == (kind, kind)
    assert result.recall >= 0.99
    for version in (index, opened(database, tmp_path)):  # as built and as read from its file
        queries = clustered(50, seed=5)
        rows, cosines = version.search(queries, 10)
        assert recall(rows, exact(vectors, range(1, COUNT + 1), queries)) >= 0.97
        own = (vectors.astype(np.float16).astype(np.float32)[rows - 1] * queries[:, None]).sum(-1)
        np.testing.assert_allclose(cosines, own, atol=1e-5)
        assert (np.diff(cosines, axis=1) <= 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_deleted_is_masked_at_once_and_folded_in_by_compact(tuned_database, tmp_path):
    vectors = clustered(COUNT)
    index = opened(tuned_database, tmp_path)
    queries = clustered(20, seed=6)
    near = np.unique(index.search(queries, 10)[0])  # the rows that would be found first
    drop(tuned_database, near.tolist())
    remaining = np.setdiff1d(np.arange(1, COUNT + 1), near)
    for version in (index, opened(tuned_database, tmp_path)):
        rows, _ = version.search(queries, 10)
        assert not np.isin(rows, near).any()
        assert recall(rows, exact(vectors[remaining - 1], remaining, queries)) >= 0.97
        assert version.describe()["tombstones"] == len(near)
    index.compact()
    assert (index.describe()["tombstones"], index.describe()["count"]) == (0, len(remaining))
    rows, _ = index.search(queries, 10)
    assert recall(rows, exact(vectors[remaining - 1], remaining, queries)) >= 0.97


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gone", [3, 25])
def test_the_few_that_are_gone_are_passed_over(tuned_database, tmp_path, gone):
    vectors = clustered(COUNT)
    index = opened(tuned_database, tmp_path)
    queries = clustered(1, seed=8)
    near = index.search(queries, gone)[0][0]
    drop(tuned_database, near.tolist())
    remaining = np.setdiff1d(np.arange(1, COUNT + 1), near)
    rows, _ = index.search(queries, 10)
    assert not np.isin(rows, [*near, -1]).any()
    assert recall(rows, exact(vectors[remaining - 1], remaining, queries)) >= 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_among_many_rows_finds_only_these(tuned_database, tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "_GATHER_MOST", 50)
    vectors = clustered(COUNT)
    index = opened(tuned_database, tmp_path)
    among = np.arange(10, COUNT, 7)
    queries = clustered(20, seed=7)
    rows, _ = index.search(queries, 10, among=among)
    assert np.isin(rows, among).all()
    assert recall(rows, exact(vectors[among - 1], among, queries)) >= 0.97
    few, _ = index.search(queries, 10, among=among[:60])
    np.testing.assert_array_equal(few, exact(vectors[among[:60] - 1], among[:60], queries))


def test_tuning_takes_the_quickest_that_finds_enough(database, tmp_path):
    put(database, range(1, COUNT + 1), clustered(COUNT))
    result, segment = tuning.tune(opened(database, tmp_path))
    assert [trial.kind for trial in result.tried] == list(KINDS)
    enough = [trial for trial in result.tried if trial.recall >= 0.99]
    assert result.kind == min(enough, key=lambda trial: trial.ms).kind == segment.plan.kind
    assert result.to_dict()["tried"][0]["recall"] == 1.0


def test_a_kind_that_finds_too_little_is_refused_unless_less_is_asked_for(
    database, tmp_path, monkeypatch
):
    monkeypatch.setattr(segment_builder, "_CANDIDATES", (10,))  # too few for one bit a dimension
    put(database, range(1, COUNT + 1), clustered(COUNT))
    index = opened(database, tmp_path)
    with pytest.raises(Refused, match=r"reaches recall@10 0\.\d+ for chunks, 0.99 is required"):
        tuning.tune(index, kind="rabitq")
    result, _ = tuning.tune(index, kind="rabitq", recall=0.1)
    assert 0.1 <= result.recall < 0.99


def test_where_a_kind_finds_too_little_vectors_are_held_exactly(
    database, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(segment_builder, "_CANDIDATES", (10,))
    put(database, range(1, COUNT + 1), clustered(COUNT))
    wished = {"kind": "rabitq", "recall": 0.99, "count": COUNT}
    database.set_meta("index", {"chunk": wished})
    index = opened(database, tmp_path)
    with caplog.at_level(logging.WARNING, "ku_rag"):
        index.refresh()
    assert index.describe()["kind"] == "flat"
    assert "is required: using kind flat instead" in caplog.text


def test_many_vectors_without_clusters_get_one_byte_a_dimension(database, tmp_path, monkeypatch):
    monkeypatch.setattr(segment_builder, "_CANDIDATES", (16,))
    monkeypatch.setattr(segment_builder, "_FLAT_MAX_BYTES", 1 << 17)
    vectors = np.random.default_rng(3).standard_normal((COUNT, DIM), np.float32)
    put(database, range(1, COUNT + 1), vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    database.set_meta("index", {"chunk": {"kind": "rabitq", "recall": 0.99, "count": COUNT}})
    index = opened(database, tmp_path)
    index.refresh()
    described = index.describe()
    assert described["kind"] == "ivf-sq8"
    assert described["recall"] >= 0.99


def test_equal_vectors_take_each_others_place_in_the_measure():
    vector = clustered(1)
    rows, vectors = np.arange(50), np.repeat(vector, 50, axis=0)
    truth = ExactNeighbours(rows[:1], vectors[:1])
    truth.add(rows, vectors)
    assert truth.recall(np.arange(20, 31)[None])[-1] == 1.0
    assert truth.recall(np.full((1, 10), 99))[-1] == 0.0


def test_a_plan_is_chosen_by_the_measure_and_says_what_it_reaches():
    vectors = clustered(COUNT)
    rows = np.arange(COUNT)
    index, fit = make("ivf-sq8", DIM, COUNT, vectors[: training_size("ivf-sq8", COUNT)])
    index.add(fit(vectors))
    truth = ExactNeighbours(rows[:40], vectors[:40])
    truth.add(rows, vectors)
    plan = choose_plan(index, fit, "ivf-sq8", rows, truth, 0.9)
    assert plan.recall >= 0.9
    recalls = truth.recall(
        search_candidates(index, plan, fit(truth.queries), plan.candidates + 1)[1]
    )
    assert recalls[-1] == pytest.approx(plan.recall, abs=1e-3)


def test_bytes_find_what_one_large_dimension_hides():
    """Some encoders give a few dimensions a large value that all vectors share."""
    vectors = 0.2 * clustered(COUNT)
    vectors[:, 7] += 3.0
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.arange(COUNT)
    index, fit = make("ivf-sq8", DIM, COUNT, vectors[: training_size("ivf-sq8", COUNT)])
    index.add(fit(vectors))
    truth = ExactNeighbours(rows[:40], vectors[:40])
    truth.add(rows, vectors)
    _, positions = search_candidates(index, IndexPlan("ivf-sq8", probes=64), fit(truth.queries), 17)
    assert truth.recall(positions)[-1] > 0.99


@pytest.mark.parametrize("much", [0, 1 << 40])
def test_a_scan_by_threads_finds_what_one_thread_finds(monkeypatch, much):
    vectors = clustered(COUNT)
    index, fit = make("ivf-sq8", DIM, COUNT, vectors[: training_size("ivf-sq8", COUNT)])
    index.add(fit(vectors))
    monkeypatch.setattr(index_kinds, "_PARALLEL_BYTES", much)
    _, positions = search_candidates(index, IndexPlan("ivf-sq8", probes=64), fit(vectors[:20]), 10)
    assert index.parallel_mode == (0 if much else 1)
    exact = np.argsort(-(vectors[:20] @ vectors.T), axis=1)[:, :10]
    same = [set(a) & set(b) for a, b in zip(positions.tolist(), exact.tolist(), strict=True)]
    assert np.mean([len(shared) for shared in same]) > 9


# ---- segments ----------------------------------------------------------------------------------


def test_few_segments_stay_however_knowledge_comes_in(database, tmp_path):
    vectors = clustered(COUNT)
    index = writer(database, tmp_path)
    sizes = []
    for start in range(0, COUNT, 100):
        put(database, range(start + 1, start + 101), vectors[start : start + 100])
        index.refresh()
        sizes.append(len(index.describe()["segments"]))
    assert max(sizes) <= 6
    assert sum(segment["count"] for segment in index.describe()["segments"]) == COUNT
    queries = clustered(30, seed=8)
    for version in (index, opened(database, tmp_path)):
        rows, _ = version.search(queries, 10)
        assert recall(rows, exact(vectors, range(1, COUNT + 1), queries)) >= 0.97
    stems = {path.name.split(".")[0] for path in (tmp_path / "indexes").glob("chunk-1-*")}
    assert len(stems) == sizes[-1]  # files of former segments are deleted


def test_a_worn_segment_is_made_anew(database, tmp_path):
    put(database, range(1, 401), clustered(400))
    index = writer(database, tmp_path)
    index.refresh()
    drop(database, list(range(1, 201)))
    put(database, range(401, 501), clustered(100, seed=1))
    index.refresh()
    assert index.describe()["tombstones"] == 0
    assert index.describe()["segments"] == [{"kind": "flat", "count": 300}]


def test_who_may_not_write_holds_much_news_in_a_segment_of_its_own(database, tmp_path):
    vectors = clustered(COUNT)
    put(database, range(1, COUNT + 1), vectors)
    index = opened(database, tmp_path)
    queries = clustered(20, seed=8)
    rows, _ = index.search(queries, 10)
    assert recall(rows, exact(vectors, range(1, COUNT + 1), queries)) >= 0.97
    assert index.describe()["tail"] == 0
    assert list((tmp_path / "indexes").glob("*")) == []


@pytest.mark.parametrize("which", [".faiss", ".rows", ".json"])
def test_a_damaged_file_is_made_anew_by_whoever_may_write(database, tmp_path, caplog, which):
    vectors = clustered(COUNT)
    put(database, range(1, COUNT + 1), vectors)
    writer(database, tmp_path).refresh()
    (path,) = (tmp_path / "indexes").glob(f"*{which}")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    queries = clustered(20, seed=8)
    with caplog.at_level(logging.WARNING, "ku_rag"):
        index = writer(database, tmp_path)
        rows, _ = index.search(queries, 10)
    assert recall(rows, exact(vectors, range(1, COUNT + 1), queries)) >= 0.97
    assert "rebuilt" in caplog.text
    caplog.clear()
    opened(database, tmp_path).search(queries, 10)
    assert caplog.text == ""


def test_damage_inside_a_large_file_changes_no_score(database, tmp_path, monkeypatch):
    """Verifying all of a large index would take longer than many queries."""
    vectors = clustered(COUNT)
    put(database, range(1, COUNT + 1), vectors)
    monkeypatch.setattr(segment_files, "_FIRST", 30_000)
    monkeypatch.setattr(segment_files, "_LAST", 1_000)
    tuned(writer(database, tmp_path), database, "ivf-sq8")
    for path in (tmp_path / "indexes").glob("*.[fr]*s"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 64] = b"\xff" * 64
        path.write_bytes(data)
    queries = clustered(20, seed=8)
    index = opened(database, tmp_path)
    rows, cosines = index.search(queries, 10)
    assert recall(rows, exact(vectors, range(1, COUNT + 1), queries)) >= 0.9
    stored_vectors = vectors[rows - 1]
    scores = np.einsum("qd,qkd->qk", queries, stored_vectors)
    np.testing.assert_allclose(cosines, np.where(rows > 0, scores, -1), atol=2e-3)
    assert "is damaged" in "".join(index.problems())


def test_files_of_a_later_state_are_no_lost_commits_inside_a_snapshot(database, tmp_path, caplog):
    from ku_rag.store.connection import snapshot

    vectors = clustered(400)
    put(database, range(1, 201), vectors[:200])
    reader = Database(tmp_path / "ku.sqlite", read_only=True)
    with snapshot(reader.connection):
        reader.connection.execute("SELECT count(*) FROM vectors").fetchone()
        put(database, range(201, 401), vectors[200:])
        writer(database, tmp_path).refresh()
        with caplog.at_level(logging.WARNING, "ku_rag"):
            rows, _ = opened(reader, tmp_path).search(vectors[:5], 200)
        assert caplog.text == ""
        assert set(rows[0].tolist()) == set(range(1, 201))
    reader.close()
