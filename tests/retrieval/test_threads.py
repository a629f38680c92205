import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from ku_rag.retrieval.threads import one_blas_thread


def counts() -> list[int]:
    """Threads of the BLAS libraries whose number of threads is that of the whole process."""
    np.ones((2, 2)) @ np.ones((2, 2))
    return [
        library["num_threads"]
        for library in threadpool_info()
        if library.get("threading_layer") == "pthreads"
    ]


def test_the_number_of_threads_is_restored() -> None:
    before = counts()
    with one_blas_thread():
        assert set(counts()) <= {1}
    assert counts() == before
    with pytest.raises(ValueError, match="inside"), one_blas_thread():
        raise ValueError("inside")
    assert counts() == before


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_overlapping_users_leave_no_limit(first_leaves_first: bool) -> None:
    before = counts()
    entered, leave = ([threading.Event(), threading.Event()] for _ in range(2))

    def use(number: int) -> None:
        with one_blas_thread():
            entered[number].set()
            leave[number].wait(10)

    users = [threading.Thread(target=use, args=(number,)) for number in range(2)]
    for number in range(2):
        users[number].start()
        assert entered[number].wait(10)
    for number in (0, 1) if first_leaves_first else (1, 0):
        leave[number].set()
        users[number].join()
    assert counts() == before
    with one_blas_thread():
        assert set(counts()) <= {1}
    assert counts() == before
