"""The log of one container, from its beginning on, with the times at which its lines were written."""

import math
import re
import threading
from collections import deque
from collections.abc import Iterator
from typing import Final

from pai_kubernetes.api.client import Api, Stream
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.paths import pod_log
from pai_kubernetes.run.fields import seconds
from pai_runtime.plugin.backoff import backoff
from pai_runtime.runs.log_times import Piece

_PIECE: Final = 1 << 16
_MOST_BUFFERED: Final = 1 << 20
"""Bytes that nobody has read yet; then the node has to wait."""
_LONGEST_TIME: Final = 40
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z ")


class LogStream:
    """Reads in a thread of its own. `follow`: until the container has ended, over broken connections.

    After a break it goes on where it was, by the times of the lines: a node that gave two lines one time, and
    rotated the first one away meanwhile, makes it lose the second. Nothing is shown twice.
    """

    def __init__(self, api: Api, pod: str, container: str, *, follow: bool) -> None:
        self.container = container
        self._api = api
        self._path = pod_log(api.namespace, pod)
        self._lines = _Lines()
        self._changed = threading.Condition()
        self._pieces: deque[Piece] = deque()
        self._buffered = 0
        self._error: ApiError | None = None
        self._is_over = False
        self._is_closed = False
        self._stream: Stream | None = None
        self._start(follow=follow)

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes, and all was read."""
        with self._changed:
            return self._is_over and not self._pieces and self._error is None

    def follow(self) -> None:
        """Go on with what was written since it was over."""
        self._start(follow=True)

    def read(self, most: int, *, wait: bool) -> list[Piece]:
        """What has come, about so many bytes; `wait`: until there is something. Raises `ApiError`."""
        with self._changed:
            while wait and not (self._pieces or self._is_over):
                self._changed.wait()
            taken: list[Piece] = []
            while self._pieces and most > 0:
                taken.append(self._pieces.popleft())
                most -= len(taken[-1][1])
                self._buffered -= len(taken[-1][1])
            if not taken and self._error is not None:
                error, self._error = self._error, None
                raise error
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """End it; what was not read is lost."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._stream is not None:
            self._stream.close()

    def _start(self, *, follow: bool) -> None:
        self._is_over = False
        threading.Thread(target=self._run, args=[follow], name=f"log {self._path}", daemon=True).start()

    def _run(self, follow: bool) -> None:  # noqa: FBT001 - given by `_start`
        failures = 0
        while not self._is_closed:
            try:
                failures = 0 if self._read_once(follow=follow) else failures
                break
            except ApiError as error:
                if not (follow and error.may_pass):
                    self._error = error
                    break
            failures += 1
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_closed, backoff(failures, _FIRST_PAUSE, _LONGEST_PAUSE)
                )
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _read_once(self, *, follow: bool) -> bool:
        """Read to the end of a connection; raises `ApiError` if it breaks off."""
        more = {"follow": "true"} if follow else {}
        more |= {"sinceTime": self._lines.since} if self._lines.since else {}
        query = {"container": self.container, "timestamps": "true", **more}
        self._stream = self._api.open(self._path, **query)  # type: ignore[arg-type] # none is its `silence`
        self._lines.begin()
        try:
            while not self._is_closed and (data := self._stream.read(_PIECE)):
                for piece in self._lines.feed(data):
                    self._put(piece)
        finally:
            self._stream.close()
        return True

    def _put(self, piece: Piece) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._buffered < _MOST_BUFFERED or self._is_closed)
            self._pieces.append(piece)
            self._buffered += len(piece[1])
            self._changed.notify_all()


class _Lines:
    """Takes the times off the lines of a log, and leaves out what an earlier connection gave.

    `since`: the time of the last line, as it is to be asked for; a node begins with all lines of its second.
    """

    def __init__(self) -> None:
        self.since = ""
        self._whole = 0  # lines of that time that were given
        self._part = 0  # bytes that were given of the line after them
        self.begin()

    def begin(self) -> None:
        """Another connection begins."""
        self._rest = b""
        self._in_line = False
        self._skip = 0.0
        self._repeated = 0 if self.since else None  # lines of the time `since` so far; None: all are new

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The pieces that are new in the next bytes."""
        data, self._rest = self._rest + data, b""
        while data:
            if not self._in_line:
                found = _TIME.match(data)
                if found is None and len(data) < _LONGEST_TIME and b"\n" not in data:
                    self._rest = data  # the time is not complete
                    return
                self._begin_line(found[0][:-1].decode() if found else self.since)
                data = data[found.end() :] if found else data
            line, end, data = data.partition(b"\n")
            self._in_line = not end
            if kept := self._new_part(line + end):
                yield seconds(self.since), kept

    def _begin_line(self, time: str) -> None:
        self._skip = 0
        if self._repeated is not None and time == self.since:
            self._skip = math.inf if self._repeated < self._whole else self._part
            self._repeated = None if self._repeated == self._whole else self._repeated + 1
        elif self._repeated is not None and time < self.since:
            self._skip = math.inf
        elif time != self.since:
            self.since, self._whole, self._part, self._repeated = time, 0, 0, None

    def _new_part(self, line: bytes) -> bytes:
        """What is new of a line, or of a part of one."""
        new = line[int(min(self._skip, len(line))) :]
        self._skip -= len(line) - len(new)
        if new:
            whole = new.endswith(b"\n")
            self._whole, self._part = (self._whole + 1, 0) if whole else (self._whole, self._part + len(new))
        return new
