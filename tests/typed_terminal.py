"""A terminal at which a person types."""

import contextlib
import fcntl
import os
import re
import select
import struct
import subprocess
import termios


class Terminal:
    """A person at a terminal, with a program that runs there."""

    def __init__(self, *argv: object) -> None:
        ours, its = os.openpty()
        self.process = subprocess.Popen(
            ["setsid", "-c", "-w", *map(str, argv)],
            stdin=its,
            stdout=its,
            stderr=its,
            env={**os.environ, "TERM": "dumb"},
        )
        os.close(its)
        self.fd = ours
        self.seen = b""

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern: str) -> str:
        """Read until what matches is shown, and forget all up to its end."""
        while not (match := re.search(pattern.encode(), self.seen)):
            assert select.select([self.fd], [], [], 60)[0], self.seen
            self.seen += os.read(self.fd, 65536)
        self.seen = self.seen[match.end() :]
        return match[0].decode()

    def end(self) -> int:
        """The exit status of the program."""
        with contextlib.suppress(OSError):  # it has closed the terminal
            while piece := os.read(self.fd, 65536):
                self.seen += piece
        os.close(self.fd)
        return self.process.wait(60)
