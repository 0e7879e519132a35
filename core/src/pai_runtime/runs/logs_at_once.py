"""The logs of a run that are read at the same time, where each takes a connection, or requests of its own."""

import errno
from typing import Final, Generic, TypeVar

from pai_runtime.runs.reader import LogReader

MOST_AT_ONCE: Final = 50
"""Maximum number of logs that are read at the same time."""


_Log = TypeVar("_Log", bound=LogReader)


class LogsAtOnce(Generic[_Log]):
    """The `logs` that are read, and the names of those that are `left_out` so that there are not more."""

    def __init__(self) -> None:
        self.logs: set[_Log] = set()
        self.left_out: set[str] = set()

    def may_read(self, log: _Log, *, is_told: bool) -> bool:
        """Return whether a log may be read now, and count it if so.

        If it may not, its name goes to `left_out` if the caller shows that to the user (`is_told`); otherwise
        raises OSError.
        """
        if log in self.logs or len(self.logs) < MOST_AT_ONCE:
            self.left_out.discard(log.name)
            self.logs.add(log)
            return True
        if not is_told:
            many = f"more than {MOST_AT_ONCE} logs are not read at once; name one task"
            raise OSError(errno.EMFILE, many, log.name)
        self.left_out.add(log.name)
        return False
