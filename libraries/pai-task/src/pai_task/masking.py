"""Masking of secret values in streams, however writes are split, in any form in which tools print them.

Line breaks inside a value, or put into it by a tool, do not hide it: texts are compared without them.
"""

from __future__ import annotations

import sys

# Most tasks have no secrets and are not to wait for `re` and the forms of secrets: both are imported late.
from bisect import bisect_right, insort
from itertools import compress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

MASK = b"******"

BREAKS = b"\r\n"

SHORTEST = 4
"""Values of fewer bytes are not masked: they occur by chance, and a log full of masks helps nobody."""

MOST_BYTES = 256 * 1024
"""Maximum size of all values together, from the job and from its processes' requests: all output of a task
is searched for all forms of each of them."""

_LARGEST_STEP = 64
_MOST_WORDS = 1 << 14
"""Number of words in an index above which its step is reduced: each takes some 80 bytes of memory."""

_LONG = 15
"""Minimum bytes of a form that contains a word of 8 bytes at a multiple of 8, at any position."""

_BLOCK = 512
"""Number of words that are checked one by one if any of them is in a form."""

_FEW = 64
"""Product of forms and step up to which searching for each form is faster."""

_MOST_BREAKS = 1 << 14
"""Maximum line breaks inside one form, all of which are held back after a possible start of it."""

_NO_BREAKS = bytes(byte for byte in range(256) if byte not in BREAKS)


class Masks:
    """The secret values of a task in all their forms; more can be added while it runs."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.forms: set[bytes] = set()
        self._short, self._long = _Index(4), _Index(8)
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Mask further values from now on."""
        secrets = list(secrets)
        if not secrets:
            return
        from pai_task.secret_forms import forms  # noqa: PLC0415 - see the top

        new = {form for secret in secrets for form in forms(secret)} - self.forms
        self.forms |= new
        long = {form for form in new if len(form) >= _LONG}
        self._long.add(long)
        self._short.add(new - long)

    def mask(self, text: str) -> str:
        """Return a complete text with all secret values masked."""
        if not self.forms:
            return text
        masker = Masker(self)
        data = masker.feed(_bytes(text)) + masker.flush()
        return data.decode("utf-8", "backslashreplace")

    def is_in(self, text: str) -> bool:
        """Return whether a text contains anything to mask."""
        return self.is_in_parts([_bytes(text)])

    def is_in_parts(self, parts: Iterable[bytes]) -> bool:
        """Return whether the parts of a text, one after the other, contain anything to mask."""
        rest = b""
        for part in parts:
            joined = rest + _joined(part)
            found, open_from = self.find(joined)
            if found:
                return True
            rest = joined[open_from:]
        return False

    def find(self, joined: bytes) -> tuple[list[tuple[int, int]], int]:
        """Return the spans of forms in a text without line breaks, and where an unfinished form may begin."""
        found: list[tuple[int, int]] = []
        ends = [index.find(joined, found) for index in (self._short, self._long)]
        return sorted(found), min(ends)


class _Index:
    """An index of forms, which finds them in a time that hardly depends on their number.

    Wherever one stands in a text, one of its first `_step` words (of `word` bytes: 4 or 8) stands at a
    multiple of `_step`. So it is enough to look at these words of the text, and most are in no form. The
    longer the shortest form is, the larger is the step, and the fewer words are looked at.
    """

    def __init__(self, word: int) -> None:
        self._word = word
        self._step = 0
        self._forms: list[bytes] = []  # sorted
        self._shortest, self._longest = _LARGEST_STEP + word, 0
        self._offsets: dict[int, bytes] = {}  # of each word, where in forms it may be
        self._words: set[int] = set()  # the same words: sooner searched
        self._heads: set[bytes] = set()

    def add(self, forms: Collection[bytes]) -> None:
        """Add forms to the index."""
        for form in forms:
            insort(self._forms, form)
            self._shortest, self._longest = min(self._shortest, len(form)), max(self._longest, len(form))
            self._heads.update(form[:size] for size in range(1, self._word + 1))
        step = self._best_step()
        if step != self._step:
            self._step = step
            self._offsets.clear()
            self._words.clear()
            forms = self._forms
        self._add_words(forms)

    def find(self, text: bytes, found: list[tuple[int, int]]) -> int:
        """Append the longest form at each position to `found`; return where an unfinished one may begin."""
        open_from = len(text)
        if not self._forms:
            return open_from
        for start in self._candidates(text):
            if text[start : start + self._word] in self._heads:
                rest = text[start : start + self._longest]
                if size := _longest_at_start(self._forms, rest):
                    found.append((start, start + size))
                if start + len(rest) == len(text) and _is_begun(self._forms, rest):
                    open_from = min(open_from, start)
        return open_from

    def _best_step(self) -> int:
        step = min(self._shortest - self._word + 1, _LARGEST_STEP)
        while step > self._word and step * len(self._forms) > _MOST_WORDS:
            step //= 2
        return step // self._word * self._word or 1

    def _add_words(self, forms: Iterable[bytes]) -> None:
        for form in forms:
            for offset in range(self._step):
                word = int.from_bytes(form[offset : offset + self._word], sys.byteorder)
                known = self._offsets.get(word, b"")
                if offset not in known:
                    self._offsets[word] = known + bytes((offset,))
        self._words.update(self._offsets)

    def _candidates(self, text: bytes) -> Iterator[int]:
        """Yield the positions at which a form may begin."""
        key = self._step + self._word - 1  # with so many bytes, a form has a word where it is looked at
        if len(self._forms) * self._step > _FEW or any(form[:key] in text for form in self._forms):
            yield from self._positions_of_words(text)
        yield from range(max(len(text) - key + 1, 0), len(text))

    def _positions_of_words(self, text: bytes) -> Iterator[int]:
        for shift in range(0, self._word, self._step):
            words = self._as_words(memoryview(text)[shift:])[:: max(self._step // self._word, 1)]
            for first in range(0, len(words), _BLOCK):
                block = words[first : first + _BLOCK]
                if self._words.isdisjoint(block):  # the usual case, and a fast search
                    continue
                for number in compress(range(len(block)), map(self._words.__contains__, block)):
                    word = shift + max(self._step, self._word) * (first + number)
                    yield from (word - offset for offset in self._offsets[block[number]] if offset <= word)

    def _as_words(self, data: bytes | memoryview) -> memoryview:
        whole = memoryview(data)[: len(data) - len(data) % self._word]
        return whole.cast("I" if self._word == 4 else "Q")  # noqa: PLR2004 - its size in bytes


def _longest_at_start(forms: Sequence[bytes], text: bytes) -> int:
    """Return the length of the longest of the sorted forms that `text` starts with; 0 if there is none."""
    while position := bisect_right(forms, text):
        form = forms[position - 1]
        if text.startswith(form):
            return len(form)
        text = text[: next(index for index, byte in enumerate(form) if byte != text[index])]
    return 0


def _is_begun(forms: Sequence[bytes], text: bytes) -> bool:
    """Return whether `text` is a proper prefix of one of the sorted forms."""
    position = bisect_right(forms, text)
    return position < len(forms) and forms[position].startswith(text)


class Masker:
    """A filter that replaces secret values in one stream of bytes.

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
        """Take the next bytes, and return the output that is certain by now."""
        return self._next(data, is_last=False)

    def flush(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        return self._next(b"", is_last=True)

    def idle(self) -> bytes:
        """Return, after a pause, held back bytes that are too few to make a secret."""
        if len(_joined(self._kept)) >= SHORTEST:
            return b""
        out = self.held_back()
        self._given = len(self._kept)
        return out

    def held_back(self) -> bytes:
        """Return the bytes that were taken and not returned yet; of a mask, the line breaks in it."""
        return self._kept[self._given :]

    def _next(self, data: bytes, *, is_last: bool) -> bytes:
        if not self._masks.forms:
            return data
        data = self._kept + data
        joined = _joined(data)
        found, open_from = self._masks.find(joined)
        hold = len(joined) if is_last else open_from
        rest = _back(data, len(joined) - hold)
        if len(data) - rest > len(joined) - hold + _MOST_BREAKS:
            hold, rest = len(joined), len(data)
        done, masked = self._given, self._masked
        out: list[bytes] = []
        positions = _Positions(data if found else b"")
        for start, end in found:
            if start > hold and start >= masked:
                break  # what stands before it is not decided yet
            if start >= masked:
                begin = positions[start]
                out += [data[done:begin], MASK]
                done = max(done, begin)
            if end > masked:
                stop = positions[end - 1] + 1
                out.append(data[done:stop].translate(None, _NO_BREAKS))
                done, masked = max(done, stop), end
        out.append(data[done:rest])
        self._kept = data[rest:]
        self._given = max(done - rest, 0)
        self._masked = max(masked - hold, 0)
        return b"".join(out)


class _Positions:
    """The positions of those bytes of the data that are not line breaks, by number."""

    def __init__(self, data: bytes) -> None:
        import re  # noqa: PLC0415 - see the top

        breaks = (found.start() for found in re.finditer(b"[%s]" % BREAKS, data))
        self._before = [position - number for number, position in enumerate(breaks)]

    def __getitem__(self, number: int) -> int:
        return number + bisect_right(self._before, number)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte, as JSON may have
        return text.encode("utf-8", "backslashreplace")


def _joined(data: bytes) -> bytes:
    # Without \r, as most texts are, this is five times as fast.
    return data.translate(None, BREAKS) if b"\r" in data else data.replace(b"\n", b"")


def _back(data: bytes, count: int) -> int:
    """Return the position at which the last `count` bytes other than line breaks begin."""
    position = len(data)
    while count:
        position -= 1
        count -= data[position] not in BREAKS
    return position
