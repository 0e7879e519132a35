"""The mark ``process``: no test starts a process without it, and ``--fast`` leaves out those that have it."""

import sys
import threading
from collections.abc import Generator

import pytest

from tests.left_out import keep

_STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn", "subprocess.Popen"}
"""The audit events of the starts of processes."""


class ProcessMark:
    """Fails a test that starts a process without the mark, so that none is forgotten."""

    def __init__(self) -> None:
        self._may_start_none = False
        sys.addaudithook(self._look)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        yield from self._watched(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        yield from self._watched(item)

    def _watched(self, item: pytest.Item) -> Generator[None]:
        self._may_start_none = not _is_marked(item)
        try:
            yield
        finally:
            self._may_start_none = False

    def _look(self, event: str, _arguments: tuple[object, ...]) -> None:
        if not self._may_start_none or event not in _STARTS:
            return
        # What a thread raises, such as that of a server, would be none of the test's.
        if threading.current_thread() is threading.main_thread():
            pytest.fail("it starts a process: mark it with @pytest.mark.process")


def deselect_marked(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out marked tests before they begin: one that is cut off would leave what it had started."""
    keep(config, items, lambda item: not _is_marked(item))


def _is_marked(item: pytest.Item) -> bool:
    return item.get_closest_marker("process") is not None
