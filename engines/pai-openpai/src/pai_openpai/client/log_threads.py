"""Threads that read logs; a process that ends does not wait for them, as it does for an executor's."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

_AT_ONCE: Final = 8

_Wanted = SimpleQueue["tuple[Future[bytes], Callable[[], bytes]] | None"]


class LogThreads:
    """Some threads, which read as they are asked to until `close`."""

    def __init__(self) -> None:
        self._wanted: _Wanted = SimpleQueue()
        for index in range(_AT_ONCE):
            Thread(target=_read, args=(self._wanted,), name=f"log {index}", daemon=True).start()

    def submit(self, read: Callable[[], bytes]) -> Future[bytes]:
        """Begin to read in a thread."""
        future: Future[bytes] = Future()
        self._wanted.put((future, read))
        return future

    def close(self) -> None:
        """Begin to read nothing more; the threads end when they have read what they are at."""
        with suppress(Empty):
            while True:
                self._wanted.get_nowait()
        for _ in range(_AT_ONCE):
            self._wanted.put(None)


def _read(wanted: _Wanted) -> None:
    while (each := wanted.get()) is not None:
        future, read = each
        try:
            future.set_result(read())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)
