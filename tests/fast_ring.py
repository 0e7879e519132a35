"""``--fast``: a test that starts a process is skipped where it would do so; the others answer at once."""

import sys
import threading
import traceback
from collections.abc import Generator

import pytest

_STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn", "subprocess.Popen"}
"""The audit events of the starts of processes."""


class FastRing:
    """Skips by what a test does, so that no mark can be forgotten or be out of date."""

    def __init__(self) -> None:
        self._in_a_test = False
        sys.addaudithook(self._look)

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
        except pytest.skip.Exception as error:
            traceback.clear_frames(
                error.__traceback__
            )  # else their sockets stay open, until there are too many
            raise
        finally:
            self._in_a_test = False

    def _look(self, event: str, _arguments: tuple[object, ...]) -> None:
        # What a thread raises, such as that of a server, would be none of the test's.
        if event in _STARTS and self._in_a_test and threading.current_thread() is threading.main_thread():
            pytest.skip("it starts a process: run it without --fast")
