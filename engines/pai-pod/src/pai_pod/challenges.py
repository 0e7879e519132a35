"""Authentication challenges of servers: the header WWW-Authenticate (RFC 9110, 11.6.1)."""

import re
from collections.abc import Iterable, Mapping

from pai_task.record import record

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110's name for a word
_PART = re.compile(rf"""({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))|({_TOKEN})""")
_MOST = 16 * 1024
"""Maximum characters that are read; each can take a hundred bytes of memory."""
_ESCAPE = re.compile(r"\\(.)")


@record(frozen=True)
class Challenge:
    """One authentication challenge; `scheme` and the names of the parameters are in lower case."""

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """Parse the challenges in all such headers of an answer, in order.

    Invalid ones are skipped, since others may be valid, and so is what follows the first few thousand
    characters.
    """
    found: list[Challenge] = []
    left = _MOST
    for header in headers:
        parameters: dict[str, str] | None = None
        read, left = header[:left], max(left - len(header), 0)
        for name, quoted, plain, scheme in _PART.findall(read):
            if scheme:
                parameters = {}
                found.append(Challenge(scheme.lower(), parameters))
            elif parameters is not None:
                parameters[name.lower()] = _ESCAPE.sub(r"\1", quoted) or plain
    return found
