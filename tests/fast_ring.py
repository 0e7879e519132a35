"""``--fast``: only the tests that start no process, which answer at once."""

import sys
import threading
from collections.abc import Generator

import pytest

_STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn", "subprocess.Popen"}
"""The audit events of the starts of processes."""


class FastRing:
    """Leaves out what is marked ``process``; a test that starts one without the mark fails."""

    def __init__(self) -> None:
        self._in_a_test = False
        sys.addaudithook(self._look)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect them before they begin: what one had begun when it is cut off would stay."""
        marked = [item for item in items if item.get_closest_marker("process")]
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if not item.get_closest_marker("process")]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        yield from self._watched()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None]:
        yield from self._watched()

    def _watched(self) -> Generator[None]:
        self._in_a_test = True
        try:
            yield
        finally:
            self._in_a_test = False

    def _look(self, event: str, _arguments: tuple[object, ...]) -> None:
        # What a thread raises, such as that of a server, would be none of the test's.
        if event in _STARTS and self._in_a_test and threading.current_thread() is threading.main_thread():
            pytest.fail("it starts a process: mark it with @pytest.mark.process")
