"""One contract for every vector index: the same rows and scores as an exact search of the store."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import Refused
from ku_rag.indexes import vector_index
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.scale import milvus_index
from ku_rag.scale.milvus_index import MilvusIndex
from ku_rag.settings import Settings
from ku_rag.store import vectors as stored
from ku_rag.store.database import Database
from tests.conftest import picture
from tests.scale.milvus_server import ENGINES

DIM = 16
WORDS = ["red", "green", "round", "heavy", "bridge", "river", "engine", "tower", "painter", "salt"]


# ---- one index ---------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "ku.sqlite", create=True)
    database.set_meta("id", os.urandom(8).hex())
    with database.change() as connection:
        stored.encoder_row(connection, "test", DIM)
    yield database
    database.close()


@pytest.fixture(params=["local", *ENGINES])
def index(request, database, tmp_path, milvus, monkeypatch):
    monkeypatch.setattr(vector_index, "BASE_MIN", 50)
    monkeypatch.setattr(milvus_index, "BATCH", 64)
    arguments = (database, tmp_path / "indexes", "chunk", 1, DIM)
    if request.param == "local":
        return VectorIndex(*arguments)
    address = Settings(index_uri=milvus(request.param)).address("index_uri")
    return MilvusIndex(*arguments, address=address, strict=True)


def update(index):
    """Bring the copy of an index up to date, as `ku index sync` and `ku compact` do."""
    if isinstance(index, MilvusIndex):
        index.sync()
    else:
        index.compact()


def random_vectors(count, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Rows:
    """The rows of a database, and an exact search of them."""

    def __init__(self, database):
        self.database = database
        self.vectors = {}

    def put(self, rows, seed):
        vectors = random_vectors(len(rows), seed)
        with self.database.change() as connection:
            stored.put(connection, "chunk", 1, rows, [vectors])
        halves = vectors.astype(np.float16).astype(np.float32)
        self.vectors |= dict(zip(rows, halves, strict=True))

    def drop(self, rows):
        with self.database.change() as connection:
            stored.drop(connection, "chunk", rows)
        for row in rows:
            del self.vectors[row]

    def check(self, index, k=10, among=None):
        queries = random_vectors(20, 99)
        candidates = sorted(self.vectors if among is None else self.vectors.keys() & among)
        cosines = queries @ np.array([self.vectors[row] for row in candidates]).T
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        some = None if among is None else np.array(sorted(among))
        rows, scores = index.search(queries, k, among=some)
        np.testing.assert_array_equal(rows[:, : len(candidates)], np.array(candidates)[order])
        exact = np.take_along_axis(cosines, order, 1)
        np.testing.assert_allclose(scores[:, : len(candidates)], exact, atol=1e-3)
        assert (rows[:, len(candidates) :] == -1).all()


@pytest.fixture
def rows(database):
    return Rows(database)


def test_a_search_is_exact_before_and_after_changes_reach_the_copy(index, rows):
    rows.put(range(1, 301), seed=1)
    update(index)
    rows.check(index)
    rows.put(range(301, 341), seed=2)
    rows.drop([*range(1, 60), 305])
    rows.check(index)  # later changes are searched in the store
    update(index)
    rows.check(index)
    rows.put([3, 4], seed=3)  # replaced vectors
    rows.check(index)
    update(index)
    rows.check(index)


def test_a_search_among_some_rows_and_for_more_than_there_are(index, rows):
    rows.put(range(1, 101), seed=1)
    update(index)
    rows.check(index, among=set(range(20, 40)))
    rows.check(index, among={2})
    rows.drop(range(1, 95))
    rows.check(index)
    rows.check(index, k=20_000)


def test_a_search_among_many_rows_is_exact(index, rows, monkeypatch):
    monkeypatch.setattr(milvus_index, "MOST_HITS", 500)
    rows.put(range(1, 1201), seed=1)
    update(index)
    rows.put(range(1201, 1241), seed=2)
    rows.drop(range(100, 1241, 9))
    for among in (range(1, 1300, 2), range(600), range(300, 1300)):
        rows.check(index, k=3, among=set(among))
    queries = random_vectors(20, 99)
    cosines = {row: float(queries[0] @ vector) for row, vector in rows.vectors.items()}
    farthest = sorted(cosines, key=cosines.__getitem__)[:500]
    rows.check(index, k=3, among=set(farthest))  # none of the proposed rows


def test_more_deleted_rows_than_hits_hide_nothing(index, rows):
    rows.put(range(1, 1201), seed=1)
    update(index)
    rows.drop(range(1, 1101))
    rows.check(index, k=3)


def test_an_empty_base_has_no_hits(index):
    update(index)
    assert index.search(random_vectors(1), 3)[0].tolist() == [[-1, -1, -1]]


# ---- a knowledge base --------------------------------------------------------------------------


def make_units(numbers, folder, edition):
    """Units with a picture and four texts, from words in many combinations."""
    for number in numbers:
        chance = random.Random(f"{number} {edition}")
        texts = [
            f"{' '.join(chance.sample(WORDS, 4)).capitalize()} {number * 31 + line} is what it has."
            for line in range(4)
        ]
        yield Unit(
            f"Thing {number}",
            id=f"t{number}",
            kind="tool" if number % 3 else "fruit",
            images=(picture(folder / f"{number}-{edition}.png", number * 100 + edition),),
            texts=tuple(texts),
            metadata={"weight": number},
        )


def make_queries(folder, count, seed):
    """Options of searches: by text, by picture, by both; two in five with a filter of units."""
    chance = random.Random(seed)
    for number in range(count):
        photo = picture(folder / f"{chance.randrange(80)}-0.png", chance.randrange(8000))
        text = " ".join(chance.sample(WORDS, 2)) + f" {chance.randrange(2500)}"
        way = ("text", "picture", "both", "text", "text", "text")[number % 6]
        options = {"k": chance.choice([3, 10, 40])}
        if way != "picture":
            options["text"] = text
        if way != "text":
            options["image"] = photo
        if number % 5 < 2:
            options |= chance.choice([{"kind": "fruit"}, {"where": ["weight<30"]}])
        yield options


def hit_scores(base, query):
    result = base.search(**query)
    return (
        {chunk.chunk: chunk.score for chunk in result.chunks},
        {unit.id: unit.score for unit in result.units},
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_find_the_same_with_milvus(engine, milvus, tmp_path, rounds):
    count = rounds(20, 100)
    path, pictures = tmp_path / "kb", tmp_path / "pictures"
    settings = {"index_uri": milvus(engine), "index_unreachable": "fail"}
    with KnowledgeBase.open(path, create=True) as local:
        local.add_many(list(make_units(range(80), pictures, 0)))
        with KnowledgeBase.open(path, index_engine="milvus", **settings) as base:
            base.sync_index()
            same_answers(base, local, make_queries(pictures, count, 1))
            local.add_many(list(make_units(range(70, 90), pictures, 1)))
            local.delete([f"t{number}" for number in range(0, 80, 5)])
            same_answers(base, local, make_queries(pictures, count, 2))
            reports = {report.name: report for report in base.sync_index()}
            assert reports["chunk"].deleted == 14 * 4 + 2 * 8  # 70 and 75 had been added to
            same_answers(base, local, make_queries(pictures, count, 3))
            assert base.verify().problems == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_that_apply_increments_use_the_collections_of_the_base(engine, milvus, tmp_path):
    path, copy, pictures = tmp_path / "kb", tmp_path / "copy", tmp_path / "pictures"
    settings = {"index_engine": "milvus", "index_uri": milvus(engine)}
    with KnowledgeBase.open(path, create=True, **settings) as base:
        base.add_many(list(make_units(range(30), pictures, 0)))
        base.sync_index()
        base.snapshot(copy)
        for number, change in enumerate(
            (lambda: base.delete(["t3"]), base.compact, lambda: base.delete(["t4"]))
        ):
            change()
            base.sync_index()
            base.snapshot(tmp_path / str(number), since=copy)
            with KnowledgeBase.open(copy, **settings) as following:
                following.apply_increments(tmp_path / str(number))
            with KnowledgeBase.open(
                copy, read_only=True, index_unreachable="fail", **settings
            ) as following:
                same_answers(following, base, make_queries(pictures, 6, number))
                assert following.verify().problems == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_refused_compaction_of_a_copy_neither_syncs_nor_commits(engine, milvus, tmp_path):
    settings = {"index_engine": "milvus", "index_uri": milvus(engine)}
    with KnowledgeBase.open(tmp_path / "kb", create=True, **settings) as base:
        base.add(Unit("Mill", texts=["The mill is 9 m high."]))
        base.snapshot(tmp_path / "copy")
        base.add(Unit("Pond", texts=["The pond is 2 m deep."]))
        base.snapshot(tmp_path / "inc", since=tmp_path / "copy")
    with KnowledgeBase.open(tmp_path / "copy", **settings) as copy:
        with pytest.raises(Refused, match="unchanged copy"):
            copy.compact()
        assert copy.apply_increments(tmp_path / "inc").increments == 1


def same_answers(base, local, queries):
    for query in queries:
        expected, here = hit_scores(local, query), hit_scores(base, query)
        assert [actual.keys() for actual in here] == [actual.keys() for actual in expected], query
        for actual, target in zip(here, expected, strict=True):
            assert actual == pytest.approx(target, abs=1e-3), query
