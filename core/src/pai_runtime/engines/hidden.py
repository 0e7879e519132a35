"""Secrets that no text of a server may show: it can repeat all that it was sent, and so can its webhooks."""

import threading
from base64 import b64decode
from collections.abc import Iterable

from pai_task.masking import Masker, Masks

_CONTEXT = 16
"""How many times more characters are masked than shown, since masking shortens a text."""


class _Hidden:
    """The secret values of this process; which answer may repeat which of them is unknown."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._masks: Masks | None = None

    def add(self, values: Iterable[str]) -> None:
        with self._lock:
            if new := set(values) - self._values:
                self._values |= new
                self._masks = None  # another one is made: threads use the one that was

    def masks(self) -> Masks:
        """Return the masks, made when a text is first shown: most commands show none."""
        with self._lock:
            if self._masks is None:
                self._masks = Masks(self._values)
            return self._masks


_HIDDEN = _Hidden()


def hide(values: Iterable[str]) -> None:
    """Mask these values in all texts of servers from now on."""
    _HIDDEN.add(values)


def hide_authorization(header: str) -> None:
    """Mask the secret in an ``Authorization`` header: a token, or a password with its user."""
    scheme, _, value = header.partition(" ")
    hide([value])
    if scheme == "Basic":
        hide([b64decode(value).decode("utf-8", "replace").partition(":")[2]])


def server_text(text: str, most: int) -> str:
    """Return the first `most` characters of a server's text, with secrets masked."""
    begin = text[: _CONTEXT * most]
    masker = Masker(_HIDDEN.masks())
    data = masker.feed(begin.encode("utf-8", "surrogatepass"))
    if len(begin) == len(text):
        data += masker.flush()  # else what may be the beginning of a secret is left out
    return cut(data.decode("utf-8", "replace"), most)


def cut(text: str, most: int) -> str:
    """Cut a text to `most` characters, at a word boundary if words are short."""
    if len(text) <= most:
        return text
    start = text[: most - 1]
    whole = start.rpartition(" ")[0]
    return (whole if len(whole) >= most // 2 else start) + "…"
