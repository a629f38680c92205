"""One knowledge base shared by threads: no acknowledged change is lost, no error is raised."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from ku_rag import KnowledgeBase, NotFound, Relation, Unit
from ku_rag.errors import Closed

THREADS = 8
SHORT, LONG = 12, 120
"""Rounds of each thread."""


def in_threads(*works: Callable[[], None]) -> None:
    """Run functions at once, each in a thread, and raise the first error."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _unit(name: str, target: str = "Harbour") -> Unit:
    return Unit(
        f"Boat {name}",
        id=f"boat-{name}",
        texts=(f"Boat {name} sails from the Harbour. It carries {name} crates.",),
        relations=(Relation("sails from", target, target_kind="place"),),
    )


def test_readers_beside_a_writer_lose_nothing(kb):
    added = threading.Event()

    def write():
        for n in range(40):
            kb.add(_unit(str(n)))
        added.set()

    def search():
        while not added.is_set():
            for unit in kb.list(limit=5):
                assert kb.show(unit.id).id == unit.id

    in_threads(write, search, search)
    assert {unit.id for unit in kb.list()} == {f"boat-{n}" for n in range(40)}
    assert kb.verify().ok


def test_threads_with_mixed_operations(tmp_path, rounds, caplog):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Harbour", id="harbour", kind="place", texts=("The Harbour is deep.",)))
        expected: dict[str, str] = {}
        count = rounds(SHORT, LONG)
        works = [_worker(kb, number, expected, count) for number in range(THREADS)]
        in_threads(*works)
        _check(kb, expected)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        _check(kb, expected)
    assert [record.getMessage() for record in caplog.records if record.levelno > 20] == []


def _check(kb: KnowledgeBase, expected: dict[str, str]) -> None:
    assert {unit.id for unit in kb.list()} == {*expected, "harbour"}
    for unit, text in expected.items():
        assert kb.show(unit).texts == (text,)
        assert kb.search(text=text, k=3)
    assert kb.verify().ok


def _worker(
    kb: KnowledgeBase, number: int, expected: dict[str, str], rounds: int
) -> Callable[[], None]:
    """Change its own units and those that all share; `expected` gets the acknowledged changes."""
    rng = random.Random(number)

    def work() -> None:
        for n in range(rounds):
            name = f"{number}x{n}"
            unit = _unit(name)
            kb.add(unit)
            expected[unit.id] = unit.texts[0]
            if n % 3 == 1:
                text = f"Boat {name} was painted in year {n}."
                kb.update(unit.id, texts=[text])
                expected[unit.id] = text
            if n % 4 == 3:
                kb.delete(unit.id)
                del expected[unit.id]
            _read_unit(kb, rng, f"boat-{number}x{max(0, n - 1)}")

    return work


def _read_unit(kb: KnowledgeBase, rng: random.Random, unit: str) -> None:
    match rng.randrange(5):
        case 0:
            assert list(kb.list(limit=20))
        case 1:
            kb.search(text="sails from the harbour", k=5)
        case 2:
            kb.query(None, "Where does Boat 1x1 sail from?")
        case 3:
            kb.stats()
        case 4:
            try:
                kb.show(unit)
                kb.graph.show(unit)
            except NotFound:  # deleted meanwhile, by this thread or with its relations
                pass


def test_a_change_joins_no_other_thread(kb):
    database = kb._database
    inside, finished = threading.Event(), threading.Event()
    values = []

    def fail():
        with database.change():
            database.set_meta("first", 1)
            inside.set()
            time.sleep(0.2)
            assert not finished.is_set()
            raise ZeroDivisionError

    def first():
        with pytest.raises(ZeroDivisionError):
            fail()

    def second():
        inside.wait()
        values.append(database.meta("first"))
        database.set_meta("second", 2)
        finished.set()

    in_threads(first, second)
    assert (values, database.meta("first"), database.meta("second")) == ([None], None, 2)


def test_closing_closes_the_connections_of_all_threads(tmp_path):
    kb = KnowledgeBase.open(tmp_path / "kb", create=True)
    database = kb._database
    go_on = threading.Event()
    opened = threading.Barrier(4)
    raised = []

    def search():
        kb.stats()
        opened.wait()
        go_on.wait()
        try:
            database.meta("id")
        except Closed as error:
            raised.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    opened.wait()
    kb.close()
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(raised) == 3
    assert not (tmp_path / "kb" / "ku.sqlite-wal").exists()
