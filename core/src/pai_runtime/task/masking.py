"""Masking: no secret value in any stream, wherever the writes are split."""

import re
from collections.abc import Iterable

MASK = b"******"

SHORTEST = 4
"""Values of fewer bytes are not masked: they occur by chance, and a log full of masks helps nobody."""


class Masker:
    """Replaces secret values in one stream of bytes.

    What `feed` gives for any split of a text, with what `flush` gives after it, is `mask` of the whole. Of
    two secrets that start at the same byte the longer one is masked. Bytes are held back only while they
    could be the start of a secret, so that a prompt or a progress bar appears as it is drawn.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        values = {secret.encode("utf-8", "surrogateescape") for secret in secrets}
        self._values = sorted((value for value in values if len(value) >= SHORTEST), key=len, reverse=True)
        self._any = re.compile(b"|".join(map(re.escape, self._values))) if self._values else None
        self._starts = {value[0] for value in self._values}
        self._held = b""

    def mask(self, data: bytes) -> bytes:
        """A text that is whole."""
        return self._any.sub(MASK, data) if self._any else data

    def feed(self, data: bytes) -> bytes:
        """The next piece of the stream; what it can already give out."""
        if self._any is None:
            return data
        data = self._held + data
        if not any(value in data for value in self._values):  # much faster than the search for any of them
            hold = self._possible_start(data, 0)
            self._held = data[hold:]
            return data[:hold]
        out = []
        done = 0
        while True:
            hold = self._possible_start(data, done)
            found = self._any.search(data, done)
            if found is None or found.start() >= hold:
                break
            out += [data[done : found.start()], MASK]
            done = found.end()
        out.append(data[done:hold])
        self._held = data[hold:]
        return b"".join(out)

    def flush(self) -> bytes:
        """The end of the stream: what was held back."""
        held, self._held = self._held, b""
        return self.mask(held)

    def _possible_start(self, data: bytes, done: int) -> int:
        """The first place from `done` on where a secret may have begun that is not yet all there."""
        first = max(done, len(data) - len(self._values[0]) + 1)
        for place in range(first, len(data)):
            if data[place] in self._starts:
                tail = data[place:]
                if any(len(value) > len(tail) and value.startswith(tail) for value in self._values):
                    return place
        return len(data)
