"""BM25 scores equal those of FTS5 after additions, renames and deletions, in every thread."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.indexes import keywords
from ku_rag.store.connection import snapshot

WORDS = [f"w{n}" for n in range(30)]


def scores(kb, term):
    """Scores by row: those of the package and those of FTS5."""
    connection = kb._database.connection
    terms = keywords.term_scores(connection, term)
    own = dict(zip(terms.rows.tolist(), terms.scores.sum(0).tolist(), strict=True))
    select = "SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?"
    return own, dict(connection.execute(select, (f'"{term}"',)))


def assert_equal(kb):
    for term in WORDS:
        own, expected = scores(kb, term)
        assert own == pytest.approx(expected, rel=1e-12)


def texts(rng):
    return tuple(" ".join(rng.choices(WORDS, k=rng.randint(1, 40))) for _ in range(3))


@pytest.mark.parametrize("seed", range(3))
def test_scores_follow_every_change(kb, seed):
    rng = random.Random(seed)
    for turn in range(4):
        for n in range(12):
            kb.add(Unit(f"Unit {turn} {n}", id=f"{turn}-{n}", texts=texts(rng)))
        assert_equal(kb)
        for n in rng.sample(range(12), 3):
            kb.update(f"{turn}-{n}", name=" ".join(rng.choices(WORDS, k=rng.randint(1, 9))))
        assert_equal(kb)
        for n in rng.sample(range(12), 4):
            kb.delete(f"{turn}-{n}")
        assert_equal(kb)


def test_scores_follow_changes_by_another_process_and_in_threads(kb):
    rng = random.Random(5)
    kb.add_many(Unit(f"Unit {n}", id=str(n), texts=texts(rng)) for n in range(20))
    with KnowledgeBase.open(kb.path, read_only=True) as reader, ThreadPoolExecutor(3) as threads:
        for turn in range(3):
            list(threads.map(lambda _: assert_equal(reader), range(6)))
            kb.update(str(turn), name=" ".join(rng.choices(WORDS, k=8)))
            kb.add(Unit(f"New {turn}", texts=texts(rng)))


def test_texts_of_a_change_that_was_taken_back_leave_no_lengths(kb):
    kb.add(Unit("One", texts=("w1 w2 w3",)))

    def add_and_fail():
        with kb.transaction():
            kb.add(Unit("Two", texts=("w1 " * 30,)))
            kb.search(text="w1 w2")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        add_and_fail()
    kb.add(Unit("Two", texts=("w1",)))
    assert_equal(kb)


def test_the_first_query_looks_up_the_lengths_of_few_texts(kb):
    kb.add(Unit("Many", texts=tuple(f"A lamp burns {n}." for n in range(200))))
    kb.add(Unit("Odd", texts=("A quokka sleeps.", "A quokka eats leaves " + "and grass " * 70)))
    for term in ("quokka", "lamp", "quokka"):  # the second reads all lengths
        own, expected = scores(kb, term)
        assert own == pytest.approx(expected, rel=1e-12)
        assert len(own) == (2 if term == "quokka" else 200)


def test_words_of_compatibility_forms_are_found(kb):
    kb.add(Unit("List", texts=("Step ⑴ is first.",)))
    for text in ("⑴", "1"):
        assert len(keywords.term_scores(kb._database.connection, text).rows) == 1


def test_scores_follow_a_merge(kb):
    for n in range(6):
        kb.add(Unit("w1 " * (n + 1) + str(n), id=str(n), texts=("w2 w3 w4", "w2 w5")))
    assert_equal(kb)
    kb.merge("5", "0")
    assert_equal(kb)


def test_scores_of_an_earlier_state_count_texts_that_were_deleted_since(kb):
    rng = random.Random(2)
    kb.add_many(Unit(f"Unit {n}", id=str(n), texts=texts(rng)) for n in range(20))
    with ThreadPoolExecutor(1) as executor, snapshot(kb._database.connection):
        assert kb.show("3").texts
        executor.submit(kb.delete, "3").result()
        executor.submit(assert_equal, kb).result()
        assert_equal(kb)
