"""Expiry of cached replies."""

import os
import time

from ku_rag.mllm.base import Reply
from ku_rag.mllm.cache import ReplyCache


def test_replies_expire_and_are_cleared(tmp_path):
    cache, old, month_s = ReplyCache(tmp_path), "ab" + "0" * 62, 30 * 24 * 3600
    cache.put(old, Reply("Peru"))
    [file] = tmp_path.rglob("*.json")
    os.utime(file, (time.time() - month_s + 60,) * 2)
    assert cache.get(old).text == "Peru"
    os.utime(file, (time.time() - month_s - 60,) * 2)
    assert cache.get(old) is None
    cache.put("ab" + "1" * 62, Reply("Italy"))
    assert not file.exists()
    cache.clear()
    assert not [*tmp_path.rglob("*.json")]
