"""Masking: no secret value in any stream, wherever the writes are split, in any form that tools print it in.

Forms: as it is, in base64 (at any alignment), as part of a URL, of a JSON text, and quoted for a shell. Line
breaks inside a value, or put into it by a tool, do not hide it: texts are compared without them.
"""

import base64
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MASK = b"******"

SHORTEST = 4
"""Values of fewer bytes are not masked: they occur by chance, and a log full of masks helps nobody."""

_BREAKS = b"\r\n"


class Masks:
    """The secret values of a task in all their forms; more may become known while it runs."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.forms: list[bytes] = []
        self.by_start: dict[bytes, list[bytes]] = {}
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Mask these values too, from now on."""
        new = {form for secret in secrets for form in _forms(secret)} - set(self.forms)
        # The longer one first: of two that begin alike it is the one to mask.
        self.forms = sorted([*self.forms, *new], key=lambda form: (-len(form), form))
        self.longest = max(map(len, self.forms), default=0)
        self.pattern = re.compile(b"|".join(map(re.escape, self.forms)))
        for form in new:
            self.by_start.setdefault(form[:SHORTEST], []).append(form)

    def mask(self, text: str) -> str:
        """A text that is whole."""
        if not self.forms:
            return text
        masker = Masker(self)
        data = masker.feed(text.encode("utf-8", "surrogateescape")) + masker.flush()
        return data.decode("utf-8", "backslashreplace")


class Masker:
    """Replaces secret values in one stream of bytes.

    What `feed` gives for any split of a text, with what `flush` gives after it, is the same. Of two
    values that start at the same byte the longer one is masked. Bytes are held back only while they could be
    the start of a secret, and a few of them not for long (`idle`), so that a prompt or a progress bar
    appears as it is drawn.
    """

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._kept = b""
        self._given = 0  # so many bytes of what is kept have been given out already

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
        if not any(form in joined for form in self._masks.forms):  # the usual case, and a fast search
            hold = len(joined) if is_last else self._possible_start(joined, 0)
            return self._give([data[self._given : _back(data, len(joined) - hold)]], data, len(joined) - hold)
        places = [place for place, byte in enumerate(data) if byte not in _BREAKS]
        out: list[bytes] = []
        done = 0
        hold = len(joined) if is_last else self._possible_start(joined, 0)
        while True:
            if done > hold:
                hold = self._possible_start(joined, done)
            found = self._masks.pattern.search(joined, done)
            if found is None or found.start() >= hold:
                break
            start, end = places[found.start()], places[found.end() - 1] + 1
            breaks = bytes(byte for byte in data[max(start, self._given) : end] if byte in _BREAKS)
            out += [data[self._from(places, done) : start], MASK, breaks]
            done = found.end()
        rest = _back(data, len(joined) - hold)
        return self._give([*out, data[self._from(places, done) : rest]], data, len(joined) - hold)

    def _from(self, places: list[int], done: int) -> int:
        """Where in the data what follows the first `done` bytes begins, breaks included."""
        return max(places[done - 1] + 1 if done else 0, self._given)

    def _give(self, out: list[bytes], data: bytes, held: int) -> bytes:
        rest = _back(data, held)
        self._given = max(self._given - rest, 0)
        self._kept = data[rest:]
        return b"".join(out)

    def _possible_start(self, joined: bytes, done: int) -> int:
        """The first place from `done` on where a form may have begun that is not yet all there."""
        first = max(done, len(joined) - self._masks.longest + 1)
        for place in range(first, len(joined)):
            tail = joined[place:]
            key = tail[:SHORTEST]
            is_whole = len(key) == SHORTEST
            forms = self._masks.by_start.get(key, ()) if is_whole else self._masks.forms
            if any(len(form) > len(tail) and form.startswith(tail) for form in forms):
                return place
        return len(joined)


def _joined(data: bytes) -> bytes:
    return data.translate(None, _BREAKS)


def _back(data: bytes, count: int) -> int:
    """Where the last `count` bytes that are not line breaks begin; the end for none."""
    if not count:
        return len(data)
    place = len(data)
    while count:
        place -= 1
        count -= data[place] not in _BREAKS
    return place


def _forms(secret: str) -> Iterator[bytes]:
    value = _joined(secret.encode("utf-8", "surrogateescape"))
    if len(value) < SHORTEST:
        return
    for text in _texts(secret):
        yield _joined(text.encode("utf-8", "surrogateescape"))
    raw = secret.encode("utf-8", "surrogateescape")
    for whole in {raw, raw + b"\n", value}:
        for before in range(3):
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                coded = encode(bytes(before) + whole)
                # Only these characters do not depend on what stands before and after the value.
                form = coded[-(-8 * before // 6) : 8 * (before + len(whole)) // 6]
                if len(form) >= SHORTEST:
                    yield form


def _texts(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="", errors="surrogateescape")
    yield quote(secret, errors="surrogateescape")
    yield quote_plus(secret, errors="surrogateescape")
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield shlex.quote(secret).removeprefix("'").removesuffix("'")
    yield secret.replace("'", "'\\''")
    yield re.sub(r"([^\w@%+=:,./\r\n-])", r"\\\1", secret)
    yield re.sub(r'(["\\$`])', r"\\\1", secret)
