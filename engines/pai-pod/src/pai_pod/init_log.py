"""The log of the init container, with the output of its plugins and their programs.

It is a file, ``init.log``, so that nobody who prints waits for a reader; what is new in it is passed on to
where this process printed before.
"""

import contextlib
import io
import os
import sys

from pai_document.printable import printable
from pai_document.problems import Problems
from pai_task.folder import Folder
from pai_task.memfd import out_of_the_way
from pai_task.runtime_log import line_prefix

NAME = "init.log"
_CHUNK = 65536


class InitLog:
    """The file ``init.log``, to which standard output and standard error are redirected.

    Lines of init itself hide what `problems` hides.
    """

    def __init__(self, folder: Folder, problems: Problems) -> None:
        file = folder.append(NAME)
        self._read_fd = out_of_the_way(folder.open(NAME))
        self._passed_on = os.fstat(file).st_size
        self._console = out_of_the_way(os.dup(2))
        self._problems = problems
        for fd in (1, 2):
            os.dup2(file, fd)
        if isinstance(sys.stdout, io.TextIOWrapper):  # of plugins: in order, and not lost with the process
            sys.stdout.reconfigure(line_buffering=True)
        os.close(file)

    def say(self, *lines: str) -> None:
        """Log lines of init itself; if the file has no room for them, they are still passed on."""
        prefix = line_prefix()
        text = b"".join(prefix + printable(self._problems.mask(line)).encode() + b"\n" for line in lines)
        with contextlib.suppress(OSError):
            while text:
                text = text[os.write(2, text) :]
        self.pass_on()
        self._print(text)

    def pass_on(self) -> None:
        """Copy what is new in the log to the original output."""
        while data := os.pread(self._read_fd, _CHUNK, self._passed_on):
            self._passed_on += len(data)
            self._print(data)

    def _print(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody reads it
            while data:
                data = data[os.write(self._console, data) :]
