"""A server that only reads follows the base of which it serves a copy."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from ku_rag import Unit
from ku_rag.knowledge_base import KnowledgeBase
from tests.conftest import picture
from tests.serve.test_process import ku, post, request, send, start


def test_a_read_only_server_answers_from_what_was_applied(fruit_base, tmp_path):
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

        try:
            with ThreadPoolExecutor() as pool:
                asking = [pool.submit(ask) for _ in range(2)]
                for number in range(4):
                    file = picture(tmp_path / f"{number}.png", 70 + number)
                    text = f"The Long Pier was built in {1901 + number}."
                    base.add(Unit("Long Pier", id=f"pier {number}", texts=[text], images=[file]))
                    if number:
                        base.delete(f"pier {number - 1}")
                    if number == 2:
                        base.compact()
                    base.snapshot(increments / str(number), since=copy)
                    apply = [*ku(copy, "snapshot", "--apply", "--quiet"), increments]
                    assert subprocess.run(apply).returncode == 0
                    assert str(1901 + number) in answer("When was the Long Pier built?")
                    (image,) = base.show(f"pier {number}").images
                    shown = send(port, request("GET", f"/v1/images/{base.picture_hash(image)}"))
                    assert shown == (200, file.read_bytes())
                    gone = send(port, request("GET", f"/v1/units/pier%20{number - 1}"))
                    assert gone[0] == 404
                ended.set()
                for one in asking:
                    one.result()
        finally:
            ended.set()
            server.send_signal(signal.SIGTERM)
            _, said = server.communicate(timeout=30)
        assert b"Traceback" not in said
    assert set(statuses) <= {200, 429}  # 429: more requests than a client may send
    assert statuses[200] > 20
