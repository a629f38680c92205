"""Readers beside a writer: each look sees one whole state, the newest one."""

from __future__ import annotations

import bisect
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Locked
from ku_rag.store.connection import snapshot
from tests.concurrency.crowd import prepare

ROOT = Path(__file__).parents[2]
READERS = 8
SEED = 20240614


def run(folder, **request):
    """Run the crowd; return the logs of the writer and of each reader."""
    prepare(folder)
    settings = {"folder": str(folder), "seed": SEED, "readers": READERS, **request}
    subprocess.run(
        [sys.executable, "-m", "tests.concurrency.crowd", json.dumps(settings)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=request["seconds"] + 240,
    )
    logs = {
        log.name: [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for log in (folder / "logs").iterdir()
    }
    failed = [
        f"{name}: {entry['failed']}"
        for name, log in logs.items()
        for entry in log[-1:]
        if "failed" in entry
    ]
    assert not failed, "\n".join(failed)
    return logs.pop("writer"), list(logs.values())


def possible(changes, begun, ended):
    """The states that a look from `begun` to `ended` may see: none that had ended before it."""
    newest = max(0, bisect.bisect_right([c["done"] for c in changes], begun) - 1)
    return [c["pairs"] for n, c in enumerate(changes) if n >= newest and c["begun"] <= ended]


@pytest.mark.parametrize("compacts", [False, True], ids=["writing", "writing and compacting"])
def test_readers_see_whole_states_and_the_newest_one(tmp_path, rounds, compacts):
    count = rounds(3, READERS)
    entries, readers = run(tmp_path, seconds=rounds(1, 30), compacts=compacts, readers=count)
    changes = [entry for entry in entries if "pairs" in entry]
    kinds = [entry["what"] for entry in changes]
    assert {"ingest", "delete"} <= set(kinds)
    assert ("compact" in kinds) == compacts
    assert len(readers) == count
    waits = []
    for log in readers:
        looks = [look for look in log if look["pairs"] is not None]
        assert {look["way"] for look in looks} == {"_list_units", "_search_texts"}
        assert impossible(changes, looks) == []
        waits += waited(changes, looks)
    assert statistics.median(waits) < 1


def impossible(changes, looks):
    """Looks at a state that was over or never existed."""
    states = [(look, possible(changes, look["begun"], look["done"])) for look in looks]
    return [(look, allowed) for look, allowed in states if look["pairs"] not in allowed]


def waited(changes, looks):
    """Seconds from each change to the end of the first look after it."""
    begun = [look["begun"] for look in looks]
    for change in changes:
        after = bisect.bisect_left(begun, change["done"])
        if after < len(looks):
            yield looks[after]["done"] - change["done"]


def test_a_look_at_what_was_over_is_noticed():
    changes = [
        {"begun": 0, "done": 1, "pairs": []},
        {"begun": 2, "done": 3, "pairs": [1]},
        {"begun": 5, "done": 6, "pairs": [1, 2]},
    ]
    assert possible(changes, 1.5, 1.8) == [[]]
    assert possible(changes, 1.5, 2.5) == [[], [1]]
    assert possible(changes, 3.5, 4) == [[1]]
    assert possible(changes, 2.5, 9) == [[], [1], [1, 2]]


def test_halves_of_pairs_are_noticed(tmp_path):
    with pytest.raises(AssertionError, match="half pairs"):
        run(tmp_path, seconds=1, compacts=False, halves=True, readers=3)


def test_readers_that_stay_behind_are_noticed(tmp_path):
    entries, readers = run(tmp_path, seconds=0, compacts=False, stale=True, readers=2)
    changes = [entry for entry in entries if "pairs" in entry]
    looks = [look for log in readers for look in log if look["pairs"] is not None]
    assert impossible(changes, looks)


def test_pictures_stay_for_as_long_as_a_reader_may_look_at_them(tmp_path):
    base = prepare(tmp_path)
    with KnowledgeBase.open(base, read_only=True) as reader, KnowledgeBase.open(base) as writer:
        (image,) = map(Path, reader.show("anvil").to_dict()["images"])
        writer._database.connection.execute("PRAGMA busy_timeout = 100")
        with snapshot(reader._database.connection):
            assert reader.show("anvil")
            writer.delete("anvil")
            with pytest.raises(Locked, match="pictures in images/"):
                writer.compact()
            result = reader.search(image=image).to_dict()
            assert result["units"][0]["id"] == "anvil"
        writer.compact()
        assert not image.exists()
        assert reader.search(text="anvil").to_dict()["units"] == []
