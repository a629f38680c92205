"""Durable writing of files."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ku_rag.errors import ReadOnly
from ku_rag.store.layout import write_durably

SEED = 20240615


def test_threads_that_write_the_same_picture_do_not_disturb_each_other(tmp_path):
    data = random.Random(SEED).randbytes(1 << 18)
    together = Barrier(4)

    def write(path):
        together.wait()
        write_durably([(path, data)])
        return path.read_bytes() == data

    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            path = tmp_path / f"{number:02}" / "picture.png"
            assert all(pool.map(write, [path] * 4))
    assert not list(tmp_path.rglob("*.partial"))


def test_a_folder_that_cannot_be_made_is_said_in_a_sentence(tmp_path):
    (tmp_path / "images").write_text("a file")
    with pytest.raises(ReadOnly, match=r"cannot be written .*what was committed before is safe"):
        write_durably([(tmp_path / "images" / "ab" / "picture.png", b"data")])
