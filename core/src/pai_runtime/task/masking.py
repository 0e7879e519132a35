"""Masking: no secret value in any stream, wherever the writes are split, in any form that tools print it in.

Line breaks inside a value, or put into it by a tool, do not hide it: texts are compared without them.
"""

from __future__ import annotations

# Most tasks have no secrets and are not to wait for `re` and the forms of secrets: both are imported late.
from bisect import bisect_right, insort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BREAKS = b"\r\n"

SHORTEST = 4
"""Values of fewer bytes are not masked: they occur by chance, and a log full of masks helps nobody."""

MASK = b"******"

_FEW = 8
"""So many texts are found sooner one by one."""
_BREAK = rb"[\r\n]"


class Masks:
    """The secret values of a task in all their forms; more may become known while it runs."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.forms: set[bytes] = set()
        self._indexes = (_Index(8, 8), _Index(4, 4), _Index(4, 1))
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Mask these values too, from now on."""
        secrets = tuple(secrets)
        if not secrets:
            return
        from pai_runtime.task.secret_forms import forms  # noqa: PLC0415 - see the top

        new = {form for secret in secrets for form in forms(secret)} - self.forms
        self.forms |= new
        for index in self._indexes:
            fit = {form for form in new if len(form) >= index.key}
            index.add(fit)
            new -= fit

    def mask(self, text: str) -> str:
        """A text that is whole."""
        if not self.forms:
            return text
        masker = Masker(self)
        data = masker.feed(text.encode("utf-8", "surrogateescape")) + masker.flush()
        return data.decode("utf-8", "backslashreplace")

    def find(self, joined: bytes) -> tuple[list[tuple[int, int]], int]:
        """Where forms are in a text without breaks, in order; and where the first begins that may go on."""
        found: list[tuple[int, int]] = []
        ends = [index.find(joined, found) for index in self._indexes]
        return sorted(found), min(ends)


class _Index:
    """Forms of at least `key` bytes, found in a time that hardly depends on how many there are.

    Wherever one stands in a text, one of its first `step` words (of 4 or 8 bytes) stands at a multiple of
    `step`. So it is enough to look at these words of the text, and most are in no form.
    """

    def __init__(self, word: int, step: int) -> None:
        self.key = step + word - 1
        self._word = word
        self._step = step
        self._words: set[int] = set()
        self._alike: dict[bytes, list[bytes]] = {}
        self._heads: set[bytes] = set()
        self._longest = 0

    def add(self, forms: Iterable[bytes]) -> None:
        """Look for these too."""
        keys = set()
        for form in forms:
            insort(self._alike.setdefault(form[: self.key], []), form)
            keys.add(form[: self.key])
            self._longest = max(self._longest, len(form))
        for place in range(self._step):
            self._words.update(self._as_words(b"".join(key[place : place + self._word] for key in keys)))
        for size in range(self.key - 1, 0, -1):
            keys = {key[:size] for key in keys}
            self._heads |= keys

    def find(self, text: bytes, found: list[tuple[int, int]]) -> int:
        """Add to `found` the longest form at each place; the first place where a form may have begun."""
        open_from = len(text)
        for start in self._candidates(text):
            alike = self._alike.get(text[start : start + self.key])
            if alike:
                rest = text[start : start + self._longest]
                if size := _longest_at_start(alike, rest):
                    found.append((start, start + size))
                if start + len(rest) == len(text) and _is_begun(alike, rest):
                    open_from = min(open_from, start)
        for start in range(max(len(text) - self.key + 1, 0), len(text)):
            if text[start:] in self._heads:
                return min(open_from, start)
        return open_from

    def _candidates(self, text: bytes) -> Iterator[int]:
        if len(self._alike) <= _FEW and not any(key in text for key in self._alike):
            return
        for shift in range(0, self._word, self._step):
            words = self._as_words(memoryview(text)[shift:])
            if self._words.isdisjoint(words):  # the usual case, and a fast search
                continue
            for number, word in enumerate(words):
                if word in self._words:
                    place = shift + self._word * number
                    yield from range(max(place - self._step + 1, 0), place + 1)

    def _as_words(self, data: bytes | memoryview) -> memoryview:
        whole = memoryview(data)[: len(data) - len(data) % self._word]
        return whole.cast("I" if self._word == 4 else "Q")  # noqa: PLR2004 - its size in bytes


def _longest_at_start(forms: Sequence[bytes], text: bytes) -> int:
    """How long the longest of the sorted forms is that `text` begins with; 0 for none."""
    while place := bisect_right(forms, text):
        form = forms[place - 1]
        if text.startswith(form):
            return len(form)
        text = text[: next(place for place, byte in enumerate(form) if byte != text[place])]
    return 0


def _is_begun(forms: Sequence[bytes], text: bytes) -> bool:
    """Whether one of the sorted forms begins with `text` and is longer."""
    place = bisect_right(forms, text)
    return place < len(forms) and forms[place].startswith(text)


class Masker:
    """Replaces secret values in one stream of bytes.

    What `feed` gives for any split of a text, with what `flush` gives after it, is the same. Values that
    overlap are masked as one. Bytes are held back only while they could be the start of a secret, and a few
    of them not for long (`idle`), so that a prompt or a progress bar appears as it is drawn.
    """

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._kept = b""
        self._given = 0  # so many bytes of what is kept have been given out already
        self._masked = 0  # so many, breaks not counted, as part of a mask

    def feed(self, data: bytes) -> bytes:
        """The next piece of the stream; what it can already give out."""
        return self._next(data, is_last=False)

    def flush(self) -> bytes:
        """The end of the stream: what was held back."""
        return self._next(b"", is_last=True)

    def idle(self) -> bytes:
        """Nothing has come for a while: fewer bytes than make a secret need not wait for more."""
        if len(_joined(self._kept)) >= SHORTEST:
            return b""
        out = self._kept[self._given :]
        self._given = len(self._kept)
        return out

    def _next(self, data: bytes, *, is_last: bool) -> bytes:
        if not self._masks.forms:
            return data
        data = self._kept + data
        joined = _joined(data)
        found, open_from = self._masks.find(joined)
        hold = len(joined) if is_last else open_from
        rest = _back(data, len(joined) - hold)
        done, masked = self._given, self._masked
        out: list[bytes] = []
        place = _Places(data if found else b"")
        for start, end in found:
            if start > hold and start >= masked:
                break  # what stands before it is not decided yet
            if start >= masked:
                begin = place[start]
                out += [data[done:begin], MASK]
                done = max(done, begin)
            if end > masked:
                stop = place[end - 1] + 1
                out += _breaks(data[done:stop])
                done, masked = max(done, stop), end
        out.append(data[done:rest])
        self._kept = data[rest:]
        self._given = max(done - rest, 0)
        self._masked = max(masked - hold, 0)
        return b"".join(out)


class _Places:
    """Where in the data its bytes are that are not line breaks, by their number."""

    def __init__(self, data: bytes) -> None:
        import re  # noqa: PLC0415 - see the top

        breaks = (found.start() for found in re.finditer(_BREAK, data))
        self._before = [place - number for number, place in enumerate(breaks)]

    def __getitem__(self, number: int) -> int:
        return number + bisect_right(self._before, number)


def _breaks(data: bytes) -> list[bytes]:
    import re  # noqa: PLC0415 - see the top

    return re.findall(_BREAK, data)


def _joined(data: bytes) -> bytes:
    return data.translate(None, BREAKS)


def _back(data: bytes, count: int) -> int:
    """Where the last `count` bytes that are not line breaks begin; the end for none."""
    place = len(data)
    while count:
        place -= 1
        count -= data[place] not in BREAKS
    return place
