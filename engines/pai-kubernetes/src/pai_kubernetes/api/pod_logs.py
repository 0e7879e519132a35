"""The log of one container with the times of its lines, over connections that may break."""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final

from pai_kubernetes.api.client import Api, Stream
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.paths import pod_log
from pai_kubernetes.api.times import as_text, nanoseconds
from pai_runtime.engine.records import Piece
from pai_runtime.plugin import backoff

MOST_BUFFERED: Final = 1 << 20
"""Maximum memory in bytes for unread data, above which the node has to wait."""

NO_LOG: Final = (400, 404)
"""Statuses if the pod is gone, or has no such container that has started."""

_PIECE: Final = 1 << 16
_OF_A_PIECE: Final = 128
"""Memory in bytes that a piece takes beside its text: a log may consist of empty lines."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30
_TROUBLE_AFTER: Final = 3
"""Number of consecutive failures after which people are told."""
_SECOND: Final = 10**9
_LONGEST_TIME: Final = 40
_NO_CONTAINER: Final = b"unable to retrieve container logs for "
"""A kubelet's answer, with status 200, about a container that it has removed."""
# A node gives times in the zone that its container runtime has.
_TIME: Final = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ",
)


class LogStream:
    """A reader of a log from its beginning, in a thread of its own.

    With `follow`, it reads until the container has ended, and reconnects if a connection breaks. Nothing is
    returned twice, and nothing is lost but what the node no longer has: what it has rotated away meanwhile,
    or, with that, lines with the very time of one that was returned. A node can also end the log of a running
    container, such as when it restarts: as long as the container `goes_on`, it is asked again. `trouble` is
    why nothing comes at present, if so, while it keeps trying. `is_lost` means that the cluster no longer had
    the log, or what was left of it.
    """

    def __init__(
        self,
        api: Api,
        pod: str,
        container: str,
        *,
        follow: bool,
        goes_on: Callable[[], bool] = lambda: False,
    ) -> None:
        self.container = container
        self.trouble: ApiError | None = None
        self.is_lost = False
        self._api = api
        self._path = pod_log(api.namespace, pod)
        self._goes_on = goes_on
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
        """Whether nothing more comes, and everything was read."""
        with self._changed:
            return self._is_over and not self._pieces and self._error is None

    def follow(self) -> None:
        """Continue with what was written since the end of the log."""
        self._start(follow=True)

    def read(self, most: int, *, wait: bool) -> list[Piece]:
        """Return about `most` bytes of what has come; with `wait`, wait for data or the end.

        Raises `ApiError`.
        """
        with self._changed:
            while wait and not (self._pieces or self._is_over):
                self._changed.wait()
            taken: list[Piece] = []
            while self._pieces and most > 0:
                taken.append(self._pieces.popleft())
                most -= len(taken[-1][1])
                self._buffered -= len(taken[-1][1]) + _OF_A_PIECE
            if not taken and self._error is not None:
                error, self._error = self._error, None
                raise error
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """End the stream; unread data is lost."""
        with self._changed:
            self._is_closed = self._is_over = True
            self._changed.notify_all()
            stream = self._stream
        if stream is not None:
            stream.close()

    def _start(self, *, follow: bool) -> None:
        self._is_over = self._is_closed
        threading.Thread(
            target=self._run, kwargs={"follow": follow}, name=f"log {self._path}", daemon=True
        ).start()

    def _run(self, *, follow: bool) -> None:
        failures, error, is_whole = 0, None, False
        while not self._is_closed:
            position = self._lines.position
            try:
                self._read_once(follow=follow)
                is_whole = True
                if not (follow and self._goes_on()):
                    break
            except ApiError as failed:
                # A node that starts anew may not know a container again at once.
                is_unknown = failed.status in NO_LOG and self._goes_on()
                if not (follow and (failed.may_pass or is_unknown)):
                    error, self.is_lost = failed, failed.status in NO_LOG and not is_whole
                    break
                is_whole = is_whole and is_unknown
                self.trouble = failed if failures + 1 >= _TROUBLE_AFTER and not is_whole else None
            failures = 1 if self._lines.position != position else failures + 1
            with self._changed:
                pause = backoff(failures, _FIRST_PAUSE, _LONGEST_PAUSE)
                self._changed.wait_for(lambda: self._is_closed, pause)
        for piece in self._lines.finish():
            self._put(piece)
        with self._changed:
            self._error, self._is_over = error, True
            self._changed.notify_all()

    def _read_once(self, *, follow: bool) -> None:
        """Read to the end of a connection. Raises `ApiError` if it breaks."""
        query = {"container": self.container, "timestamps": "true"}
        query |= {"follow": "true"} if follow else {}
        query |= {"sinceTime": self._lines.since} if self._lines.since else {}
        with self._api.open(self._path, **query) as stream:
            with self._changed:
                self._stream = stream
                if self._is_closed:
                    return
            self.trouble = None
            self._lines.begin()
            while data := stream.read(_PIECE):
                for piece in self._lines.feed(data):
                    self._put(piece)
            self._lines.check()

    def _put(self, piece: Piece) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._buffered < MOST_BUFFERED or self._is_closed)
            self._pieces.append(piece)
            self._buffered += len(piece[1]) + _OF_A_PIECE
            self._changed.notify_all()


def read_log(api: Api, pod: str, container: str, *, lines: int, most: int) -> bytes:
    """Return the last lines of a log, about `most` bytes of them. Raises `ApiError`."""
    path, read, data, left = pod_log(api.namespace, pod), _Lines(), b"", most
    with api.open(path, container=container, timestamps="true", tailLines=lines, limitBytes=most) as stream:
        while left > 0 and (piece := stream.read(left)):
            data += b"".join(text for _, text in read.feed(piece))
            left -= len(piece)
    read.check()
    return data + b"".join(text for _, text in read.finish())


class _Lines:
    """A parser that removes the times of a log's lines, and lines that an earlier connection delivered.

    A node accepts whole seconds only: it repeats the lines of the last second in the same order. As many of
    them are skipped as had come, but none that is later than all of these: then the log was rotated. A line
    without a time, which no task can leave out, is the node's own.
    """

    def __init__(self) -> None:
        self._newest = 0
        self._whole = 0  # lines of the newest time's second that came, but for one that has not ended
        self._time: int | None = None  # of the line that was begun last
        self._part = 0  # bytes that came of it, if it has not ended
        self._to_leave_out = 0
        self._part_to_leave_out = 0
        self.begin()

    @property
    def since(self) -> str:
        """The time from which lines are to be requested; empty for the beginning."""
        return as_text(self._newest // _SECOND) if self._newest else ""

    @property
    def position(self) -> tuple[int, int, int]:
        """A value that differs after each new line, or part of a line."""
        return self._newest, self._whole, self._part

    def begin(self) -> None:
        """Prepare for another connection."""
        self._rest = b""
        self._in_line = False
        self._is_removed = False
        self._is_known = False  # the line that is being read has come before
        self._to_leave_out = self._whole
        self._part_to_leave_out = self._part

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Yield the new pieces in the next bytes."""
        data, self._rest = self._rest + data, b""
        while data:
            if not self._in_line:
                found = _TIME.match(data)
                if found is None and len(data) < _LONGEST_TIME and b"\n" not in data:
                    self._rest = data  # its time is not complete
                    return
                if data.startswith(_NO_CONTAINER):
                    self._is_removed = True  # and nothing else comes
                    return
                self._begin_line(nanoseconds(found[1].decode()) if found else None)
                data = data[found.end() :] if found else data
            line, end, data = data.partition(b"\n")
            self._in_line = not end
            new = self._new_part(line + end)
            if new:
                yield None if self._time is None else self._time / _SECOND, new

    def finish(self) -> Iterator[Piece]:
        """Yield what was held back at the end."""
        if self._rest:
            yield None, self._rest
        self._rest = b""

    def check(self) -> None:
        """Raise `ApiError` at the end of a connection if all that came is that there is no log."""
        if self._is_removed or self._rest.startswith(_NO_CONTAINER):
            self._rest = b""
            raise ApiError("the node has removed the container", status=HTTPStatus.NOT_FOUND)

    def _begin_line(self, time: int | None) -> None:
        """Handle the start of a line: known, continued or new; one without a time is the node's own."""
        self._is_known = time is not None and self._to_leave_out > 0 and time <= self._newest
        if self._is_known:
            self._to_leave_out -= 1
            return
        self._to_leave_out = 0
        if self._part_to_leave_out and time == self._time:
            return
        self._part = self._part_to_leave_out = 0
        self._time = time
        if time is not None and time > self._newest:
            self._whole *= time // _SECOND == self._newest // _SECOND
            self._newest = time

    def _new_part(self, piece: bytes) -> bytes:
        """Return what is new in a piece of the current line."""
        if self._is_known:
            return b""
        known = min(self._part_to_leave_out, len(piece))
        self._part_to_leave_out -= known
        new = piece[known:]
        self._part += len(new)
        if new.endswith(b"\n"):
            counts = self._time is not None and self._time // _SECOND == self._newest // _SECOND
            self._whole, self._part = self._whole + counts, 0
        return new
