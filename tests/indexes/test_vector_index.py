"""The vector index: exact, up to date, and checked against the store."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from ku_rag import KnowledgeBase
from ku_rag.indexes import vector_index as index_module
from ku_rag.indexes.tuning import tune
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.store import vectors as stored
from ku_rag.store.database import Database

DIM = 16


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "ku.sqlite", create=True)
    database.set_meta("id", "this")
    with database.change() as connection:
        stored.encoder_row(connection, "test", DIM)
    yield database
    database.close()


@pytest.fixture(autouse=True)
def small_bases(monkeypatch):
    monkeypatch.setattr(index_module, "BASE_MIN", 50)


def random_vectors(count, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def put(database, rows, vectors):
    with database.change() as connection:
        stored.put(connection, "chunk", 1, rows, [vectors])


def drop(database, rows):
    with database.change() as connection:
        stored.drop(connection, "chunk", rows)


def expected(vectors, rows, queries, k):
    cosines = queries @ vectors.astype(np.float16).astype(np.float32).T
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return np.array(rows)[order], np.take_along_axis(cosines, order, 1)


@pytest.fixture
def index(database, tmp_path):
    return VectorIndex(database, tmp_path / "indexes", "chunk", 1, DIM)


def check(index, vectors, rows, k=5, seed=9):
    queries = random_vectors(4, seed)
    hits, cosines = index.search(queries, k)
    expected_hits, scores = expected(vectors, rows, queries, k)
    np.testing.assert_array_equal(hits, expected_hits)
    np.testing.assert_allclose(cosines, scores, atol=1e-6)


def test_base_tail_and_tombstones_together_equal_exact_search(index, database):
    vectors = random_vectors(240)
    put(database, range(1, 201), vectors[:200])
    check(index, vectors[:200], range(1, 201))
    index.compact()
    check(index, vectors[:200], range(1, 201))
    put(database, range(201, 241), vectors[200:])
    drop(database, [1, 7, 220])
    remaining = [row for row in range(1, 241) if row not in (1, 7, 220)]
    check(index, vectors[np.array(remaining) - 1], remaining)
    assert index.describe() == {
        "name": "chunk", "kind": "flat", "recall": 1.0, "count": 237, "tail": 39, "tombstones": 2,
        "segments": [{"kind": "flat", "count": 198}],
    }  # fmt: skip
    index.compact()
    check(index, vectors[np.array(remaining) - 1], remaining)
    assert (index.describe()["tail"], index.describe()["tombstones"]) == (0, 0)


def test_short_results_are_padded(index, database):
    assert index.search(random_vectors(1), 3)[0].tolist() == [[-1, -1, -1]]
    put(database, [5], random_vectors(1))
    rows, cosines = index.search(random_vectors(1), 3)
    assert rows.tolist() == [[5, -1, -1]]
    np.testing.assert_allclose(cosines, [[1, -1, -1]], atol=1e-3)


@pytest.mark.parametrize("count", [30, 1200])
def test_a_search_among_some_rows(index, database, count):
    vectors = random_vectors(1500)
    put(database, range(1, 1501), vectors)
    index.compact()
    drop(database, [2])
    some = np.arange(2, 2 + count)
    queries = random_vectors(2, 5)
    hits, _ = index.search(queries, 4, among=some)
    expected_hits, _ = expected(vectors[some[1:] - 1], some[1:], queries, 4)
    np.testing.assert_array_equal(hits, expected_hits)


def test_a_search_of_few_lists_finds_the_nearest_row_and_fewer_others(index, database):
    vectors = random_vectors(2000)
    put(database, range(1, 2001), vectors)
    _, segment = tune(index, kind="ivf-sq8")
    index.replace(segment)
    few, every = (index.search(vectors[:20], 50, most_probes=n)[0] for n in (1, None))
    assert few[:, 0].tolist() == every[:, 0].tolist() == list(range(1, 21))
    assert (few >= 0).sum() < (every >= 0).sum() == every.size


def test_another_process_finds_the_base_and_what_came_since(index, database, tmp_path):
    vectors = random_vectors(120)
    put(database, range(1, 101), vectors[:100])
    index.compact()
    put(database, range(101, 121), vectors[100:])
    other_database = Database(tmp_path / "ku.sqlite", read_only=True)
    other_index = VectorIndex(other_database, tmp_path / "indexes", "chunk", 1, DIM)
    check(other_index, vectors, range(1, 121))
    assert other_index.describe()["tail"] == 20
    drop(database, [3])
    remaining = [row for row in range(1, 121) if row != 3]
    check(other_index, vectors[np.array(remaining) - 1], remaining)
    other_database.close()


def test_deleting_the_folder_of_caches_loses_nothing(index, database, tmp_path):
    vectors = random_vectors(100)
    put(database, range(1, 101), vectors)
    index.compact()
    for file in (tmp_path / "indexes").iterdir():
        file.unlink()
    check(VectorIndex(database, tmp_path / "indexes", "chunk", 1, DIM), vectors, range(1, 101))


@pytest.mark.parametrize("damage", ["flip", "cut", "header", "other base"])
def test_a_doubtful_cache_is_left_aside(index, database, tmp_path, caplog, damage):
    vectors = random_vectors(100)
    put(database, range(1, 101), vectors)
    index.compact()
    (base,) = (tmp_path / "indexes").glob("*.faiss")
    header = base.with_name("chunk-1.json")
    if damage == "flip":
        data = bytearray(base.read_bytes())
        data[len(data) // 2] ^= 4
        base.write_bytes(data)
    elif damage == "cut":
        base.write_bytes(base.read_bytes()[:-100])
    elif damage == "header":
        header.write_text("{")
    else:
        database.set_meta("id", "another")
    with caplog.at_level(logging.WARNING, "ku_rag"):
        check(VectorIndex(database, tmp_path / "indexes", "chunk", 1, DIM), vectors, range(1, 101))
    assert bool(caplog.records) == (damage != "other base")


def test_a_cache_ahead_of_the_database_is_reported_as_lost_commits(index, database, tmp_path):
    put(database, range(1, 101), random_vectors(100))
    index.compact()
    with database.change() as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = seq - 10 WHERE name = 'changes'")
        connection.execute("DELETE FROM changes WHERE seq > 90")
    reopened = VectorIndex(database, tmp_path / "indexes", "chunk", 1, DIM)
    (problem,) = reopened.problems()
    assert "ahead of the database by 10 changes" in problem
    check(reopened, random_vectors(100), range(1, 101))


def test_a_damaged_index_file_is_reported_until_the_index_is_made_anew(index, database, tmp_path):
    put(database, range(1, 101), random_vectors(100))
    index.compact()
    assert list(index.problems()) == []
    (rows,) = (tmp_path / "indexes").glob("*.rows")
    rows.write_bytes(rows.read_bytes()[::-1])
    (problem,) = index.problems()
    assert f"{rows} is damaged" in problem
    index.compact()
    assert list(index.problems()) == []


def test_a_cache_from_before_commits_were_lost_is_left_aside(index, database, tmp_path):
    """Change numbers are reused after a loss, so the rows of the cache may be outdated."""
    put(database, range(1, 101), random_vectors(100, seed=1))
    index.compact()
    with database.change() as connection:
        connection.execute("DELETE FROM vectors")
        connection.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'changes'")
        connection.execute("DELETE FROM changes")
        database.set_meta("lost", 1)
    vectors = random_vectors(100, seed=2)
    put(database, range(1, 101), vectors)
    check(VectorIndex(database, tmp_path / "indexes", "chunk", 1, DIM), vectors, range(1, 101))


def test_changes_that_were_pruned_make_an_index_start_again(index, database):
    vectors = random_vectors(40)
    put(database, range(1, 21), vectors[:20])
    check(index, vectors[:20], range(1, 21))
    put(database, range(21, 41), vectors[20:])
    with database.change() as connection:
        connection.execute("DELETE FROM changes")
        database.set_meta("changes_pruned", 40)
    check(index, vectors, range(1, 41))


def test_an_ingest_writes_the_index_for_processes_that_only_read(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "BASE_MIN", 8)
    (tmp_path / "rows.csv").write_text("Year,Winner\n" + "".join(f"{n},w{n}\n" for n in range(20)))
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "rows.csv")
    assert list((tmp_path / "kb" / "indexes").glob("chunk-*.faiss"))
    with KnowledgeBase.open(tmp_path / "kb", read_only=True) as kb:
        assert kb.query(None, "Which winner is of the year 7?").answer == "w7"
