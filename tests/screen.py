"""A terminal that a program can write to and a test can look at."""

import fcntl
import os
import struct
import termios
from itertools import count
from threading import Condition, Thread

import pyte


class Screen:
    """A pseudo-terminal, `fd`, and an emulator at its other end."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._master, self.fd = os.openpty()
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000)
        self._stream = pyte.ByteStream(self._screen)
        self._marks = count(1)
        self._changed = Condition()
        self.resize(columns, rows)
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The person closes the window."""
        os.close(self.fd)
        self._thread.join()
        os.close(self._master)

    def resize(self, columns: int, rows: int) -> None:
        """The person changes the size of the window."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with self._changed:
            self._screen.resize(rows, columns)

    def lines(self) -> list[str]:
        """What the window shows, when all that was written has come to it."""
        self._wait()
        return self._trimmed([line.rstrip() for line in self._screen.display])

    def wait_for(self, text: str) -> None:
        """Wait until the window shows a text."""
        with self._changed:
            assert self._changed.wait_for(lambda: text in "\n".join(self._screen.display), timeout=60)

    def everything(self) -> list[str]:
        """The same, and above it all that has scrolled out of the window."""
        lines = self.lines()
        above = [
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return above + lines

    def colour(self, row: int) -> str:
        """Of the first character of a row of the window."""
        self._wait()
        return str(self._screen.buffer[row][0].fg)

    def _wait(self) -> None:
        mark = str(next(self._marks))
        os.write(self.fd, f"\x1b]2;{mark}\x07".encode())
        with self._changed:
            assert self._changed.wait_for(lambda: self._screen.title == mark, timeout=60)

    def _trimmed(self, lines: list[str]) -> list[str]:
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the other end is closed
                return
            with self._changed:
                self._stream.feed(data)
                self._changed.notify_all()
