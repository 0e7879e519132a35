"""A test that starts a process without the mark fails; `./dev test --fast` leaves out those with the mark."""

import os
import subprocess
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.process_mark import ProcessMark, deselect_marked

STARTS: dict[str, Callable[[], object]] = {
    "subprocess": lambda: subprocess.run(["false"], check=True),
    "fork": os.fork,
    "posix_spawn": lambda: os.posix_spawn("/bin/false", ["false"], {}),
    "system": lambda: os.system("false"),  # noqa: S605
}


def _item(*marks: str) -> Any:
    return SimpleNamespace(get_closest_marker=lambda name: name if name in marks else None)


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("phase", [ProcessMark.pytest_runtest_setup, ProcessMark.pytest_runtest_call])
def test_a_test_without_the_mark_fails_where_it_would_start_a_process(
    phase: Callable[..., Any], start: Callable[[], object]
) -> None:
    running = phase(ProcessMark(), _item("needs"))
    next(running)
    with pytest.raises(pytest.fail.Exception):
        start()
    running.close()


@pytest.mark.process
def test_one_with_the_mark_may_start_one() -> None:
    running = ProcessMark().pytest_runtest_call(_item("process"))
    next(running)
    assert subprocess.call(["true"]) == 0
    running.close()


def test_a_server_in_a_thread_may_start_one() -> None:
    running = ProcessMark().pytest_runtest_call(_item())
    next(running)
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(subprocess.call(["true"])))
    thread.start()
    thread.join()
    running.close()
    assert ended == [0]


def test_those_with_the_mark_are_left_out_and_told() -> None:
    told: list[Any] = []

    def tell(items: list[Any]) -> None:
        told.extend(items)

    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=tell))
    marked, other = _item("process"), _item("needs")
    items = [marked, other]
    deselect_marked(config, items)
    assert (items, told) == ([other], [marked])
