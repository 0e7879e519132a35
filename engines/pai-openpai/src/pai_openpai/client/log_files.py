"""The log files of one attempt of a task on its node, read by ranges of bytes.

A list of them gives URIs that are valid for two minutes and hold a token of the node, which is not shown.
"""

import errno
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from pai_network.answer import Answer
from pai_network.fields import mappings, string
from pai_openpai.client.api import Api, job_path
from pai_openpai.client.job_view import Attempt
from pai_runtime.engine.messages import RequestError

MOST_A_TIME: Final = 1 << 20
_VALID: Final = 90.0
"""Seconds for which a list is used; its URIs are valid for 120."""
_WAIT: Final = 0.5
LEFT: Final = 10
"""Requests a minute that are left for looking at the job itself."""
_LATE: Final = 10.0
"""Seconds between two looks from which on so much may have been written that a rotation does not show."""
_RANGE: Final = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18})")


class NoLog(Exception):
    """The exception for an attempt of which the cluster has no log, yet or any more."""


class NotNow(Exception):
    """The exception for a request that has to wait, so that there are not too many in a minute."""


class Part(NamedTuple):
    """Some bytes of a file, how large the whole is, and a tag that another file does not have."""

    data: bytes
    size: int
    tag: str


class LogFiles:
    """The files of an attempt of a task; all methods raise OSError and `NoLog`.

    `role` is the converted name. If the files are `followed`, they raise `NotNow` where others wait.
    """

    def __init__(
        self, api: Api, user: str, name: str, role: str, index: int, attempt: Attempt, *, followed: bool
    ) -> None:
        self._api = api
        self._followed = followed
        below = (
            "attempts",
            attempt.job,
            "taskRoles",
            role,
            "taskIndex",
            index,
            "attempts",
            attempt.task,
            "logs",
        )
        self._path = job_path(user, name, *below)
        self._task = f"{role}/{index}"
        self._uris: Mapping[str, str] = {}
        self._listed = -_VALID

    def names(self) -> Mapping[str, str]:
        """Return the URIs of the files by name."""
        if time.monotonic() >= self._listed + _VALID:
            while self._api.room() <= LEFT:
                if self._followed:
                    raise NotNow
                time.sleep(_WAIT)
            try:
                found = self._api.once(self._path, what=f"read the log of {self._task}")
            except RequestError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    raise NoLog from None
                raise OSError(errno.EAGAIN, str(error), self._task) from None
            self._uris = {string(each, "name"): string(each, "uri") for each in mappings(found, "locations")}
            self._listed = time.monotonic()
        return self._uris

    def part(self, name: str, first: int, most: int = MOST_A_TIME) -> Part | None:
        """Return at most `most` bytes of a file from the `first` on; None if there is no such file."""
        answer = self._answer(name, "GET", first, most)
        if answer is None:
            return None
        tag = str(answer.headers["ETag"] or "")
        found = _RANGE.fullmatch(str(answer.headers["Content-Range"] or ""))
        if answer.status == HTTPStatus.PARTIAL_CONTENT and found and found[1] and int(found[1]) == first:
            return Part(answer.body[:most], int(found[2]), tag)
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and found:
            return Part(b"", int(found[2]), tag)
        if answer.status == HTTPStatus.OK:  # an empty file has no ranges
            return Part(answer.body[first:][:most], len(answer.body), tag)
        raise OSError(errno.EAGAIN, f"its node answers {answer.status}", self._task)

    def tag(self, name: str, *, is_new: bool = False) -> str:
        """Return the tag of a file; empty if there is none. One that `is_new` may not be listed yet."""
        if is_new and name not in self.names():
            self._listed = -_VALID
        answer = self._answer(name, "HEAD", 0, 1)
        return (
            str(answer.headers["ETag"] or "") if answer is not None and answer.status == HTTPStatus.OK else ""
        )

    def _answer(self, name: str, method: str, first: int, most: int) -> Answer | None:
        for _ in range(2):
            uri = self.names().get(name)
            if not uri:
                return None
            try:
                answer = self._api.log_file(uri, method, first, most)
            except RequestError as error:
                raise OSError(errno.EAGAIN, str(error), self._task) from None
            if answer.status != HTTPStatus.FORBIDDEN:
                return None if answer.status == HTTPStatus.NOT_FOUND else answer
            self._listed = -_VALID  # they have expired
        raise OSError(errno.EAGAIN, "its node does not accept the link to it", self._task)


class GrowingFile:
    """A file of a log from its oldest byte that is kept, over rotations: ``all.1`` is what ``all`` was."""

    def __init__(self, files: LogFiles, name: str) -> None:
        self._files = files
        self._name = name
        self._old = f"{name}.1"
        self._tag_of_old: str | None = None
        self._is_in_old = False
        self._offset = 0
        self._size = 0
        self._looked = time.monotonic()
        self.is_lost = False
        """Whether something was rotated away before it was read."""

    def read(self) -> bytes:
        """Return the next bytes; empty if there is nothing new."""
        if self._tag_of_old is None:
            self._tag_of_old = self._files.tag(self._old)
            self._is_in_old = bool(self._tag_of_old)
        if self._is_in_old and (data := self._read_old(may_rotate=True)):
            return data
        part = self._files.part(self._name, self._offset)
        if part is None:
            return b""
        is_shorter = part.size < self._size
        now, before = time.monotonic(), self._looked
        self._looked = now
        if is_shorter or now > before + _LATE:
            tag = self._files.tag(self._old, is_new=True)
            if tag != self._tag_of_old:
                self._tag_of_old, self._is_in_old, self._size = tag, True, 0
                return self.read()
            if is_shorter:
                self.is_lost, self._offset, self._size = True, 0, 0
                return self.read()
        self._offset += len(part.data)
        self._size = part.size
        return part.data

    def _read_old(self, *, may_rotate: bool) -> bytes:
        """Return the next bytes of the file before; at its end, go on with the file itself."""
        part = self._files.part(self._old, self._offset)
        is_at_end = part is None or not part.data  # of which a node does not tell the tag
        tag = self._files.tag(self._old) if is_at_end or part is None else part.tag
        if tag and tag != self._tag_of_old:  # there was another rotation
            self.is_lost |= self._offset < self._size
            self._tag_of_old, self._offset, self._size = tag, 0, 0
            if not may_rotate:
                raise OSError(errno.EAGAIN, "it is rotated faster than it can be read", self._old)
            return self._read_old(may_rotate=False)
        if part is not None and part.data:
            self._offset += len(part.data)
            self._size = part.size
            return part.data
        self.is_lost |= part is None or part.size < self._offset
        self._is_in_old, self._offset, self._size = False, 0, 0
        return b""
