"""`./dev test --fast` leaves out what is marked as starting a process, and tells what is not and does."""

import os
import subprocess
import threading
from collections.abc import Callable

import pytest

from tests.fast_ring import FastRing

STARTS: dict[str, Callable[[], object]] = {
    "subprocess": lambda: subprocess.run(["false"], check=True),
    "fork": os.fork,
    "posix_spawn": lambda: os.posix_spawn("/bin/false", ["false"], {}),
    "system": lambda: os.system("false"),  # noqa: S605
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_test_without_the_mark_fails_where_it_would_start_a_process(start: Callable[[], object]) -> None:
    running = FastRing().pytest_runtest_call()
    next(running)
    with pytest.raises(pytest.fail.Exception):
        start()
    running.close()


def test_a_server_in_a_thread_may_start_one() -> None:
    running = FastRing().pytest_runtest_call()
    next(running)
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(subprocess.call(["true"])))
    thread.start()
    thread.join()
    running.close()
    assert ended == [0]
