import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from ku_rag.retrieval.threads import one_blas_thread


def counts() -> list[int]:
    """Threads of the BLAS libraries whose number of threads is that of the whole process."""
    return [
        library["num_threads"]
        for library in threadpool_info()
        if library.get("threading_layer") == "pthreads"
    ]


def test_the_limit_holds_until_the_last_user_leaves() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    before = counts()
    both_inside, leave = threading.Barrier(2), threading.Event()

    def use(wait: bool) -> list[int]:
        with one_blas_thread():
            both_inside.wait(10)
            if wait:
                leave.wait(10)
            return counts()

    with ThreadPoolExecutor() as pool:
        longer, shorter = pool.submit(use, True), pool.submit(use, False)
        assert set(shorter.result()) <= {1}
        leave.set()
        assert set(longer.result()) <= {1}
    assert counts() == before


def test_the_limit_is_removed_after_a_failure() -> None:
    before = counts()
    with pytest.raises(ValueError, match="inside"), one_blas_thread():
        raise ValueError("inside")
    assert counts() == before
