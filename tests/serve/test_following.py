"""A read-only server follows the base of which it serves a copy."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from ku_rag import KnowledgeBase, Unit
from tests.conftest import install_plug_in, picture
from tests.serve.test_process import post, request, send, start


def test_a_read_only_server_answers_from_what_was_applied(fruit_base, tmp_path, rounds):
    copy, increments = tmp_path / "copy", tmp_path / "increments"
    with KnowledgeBase.open(fruit_base.with_name("kb")) as base:
        base.snapshot(copy)
        server, port = start(copy, "--read-only")
        statuses: Counter[int] = Counter()
        ended = Event()

        def answer(question: str) -> str:
            status, body = send(port, post("/v1/query", {"question": question}))
            assert status == 200, body
            return json.loads(body)["answer"]

        def ask() -> None:
            while not ended.is_set():
                for sent in (
                    post("/v1/query", {"question": "Which fruit is sweet?"}),
                    post("/v1/search", {"text": "pier"}),
                    request("GET", "/readyz"),
                    request("GET", "/v1/units"),
                ):
                    statuses[send(port, sent)[0]] += 1
                    ended.wait(0.02)

        try:
            with ThreadPoolExecutor() as pool:
                asking = [pool.submit(ask) for _ in range(2)]
                for number in range(rounds(3, 4)):
                    file = picture(tmp_path / f"{number}.png", 70 + number)
                    text = f"The Long Pier was built in {1901 + number}."
                    base.add(Unit("Long Pier", id=f"pier {number}", texts=[text], images=[file]))
                    if number:
                        base.delete(f"pier {number - 1}")
                    if number == 2:
                        base.compact()
                    base.snapshot(increments / str(number), since=copy)
                    with KnowledgeBase.open(copy) as applying:
                        applying.apply_increments(increments)
                    assert str(1901 + number) in answer("When was the Long Pier built?")
                    (image,) = base.show(f"pier {number}").images
                    response = send(port, request("GET", f"/v1/images/{base.picture_hash(image)}"))
                    assert response == (200, file.read_bytes())
                    gone = send(port, request("GET", f"/v1/units/pier%20{number - 1}"))
                    assert gone[0] == 404
                    goal, deadline = statuses[200] + 7, time.monotonic() + 30
                    while statuses[200] < goal and time.monotonic() < deadline:
                        time.sleep(0.01)  # the threads read each state
                ended.set()
                for future in asking:
                    future.result()
        finally:
            ended.set()
            server.send_signal(signal.SIGTERM)
            _, output = server.communicate(timeout=30)
        assert b"Traceback" not in output
    assert set(statuses) <= {200, 429}  # 429: more requests than a client may send
    assert statuses[200] > 20


ENCODER = """
from ku_rag.encoders.embedded.encoder import EmbeddedEncoder


class Other(EmbeddedEncoder):
    fingerprint = "other:1"
"""


def test_a_server_uses_the_encoder_to_which_the_writer_has_changed(
    fruit_base, tmp_path, monkeypatch, ku
):
    (tmp_path / "other.py").write_text(ENCODER)
    install_plug_in(tmp_path, "[ku_rag.encoders]\nother = other:Other\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)
    kb, copy, increment = fruit_base.with_name("kb"), tmp_path / "copy", tmp_path / "increment"

    def run(folder: Path, *arguments: str) -> None:
        assert ku(*arguments, "--kb", str(folder), "--quiet").code == 0

    run(kb, "snapshot", str(copy))
    server, port = start(copy, "--read-only")
    fixed, fixed_port = start(copy, "--read-only", KU_ENCODER="embedded")
    try:
        query = post("/v1/query", {"question": "Which fruit is sweet?"})
        before = json.loads(send(port, query)[1])["answer"]
        assert send(fixed_port, query)[0] == 200
        run(kb, "reindex", "--encoder", "other")
        run(kb, "snapshot", str(increment), "--since", str(copy))
        run(copy, "snapshot", str(increment), "--apply")
        assert send(port, request("GET", "/readyz"))[0] == 200
        status, body = send(port, query)
        assert (status, json.loads(body)["answer"]) == (200, before)
        status, body = send(fixed_port, request("GET", "/readyz"))
        assert status == 503
        assert b"encoder" not in body
        assert send(fixed_port, query)[0] == 409
    finally:
        for process in (server, fixed):
            process.send_signal(signal.SIGTERM)
            _, output = process.communicate(timeout=30)
            assert b"Traceback" not in output
