"""Escapes for control and invisible characters in untrusted text."""

import re

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]|[\U000e0100-\U000e01ef]"
)
"""What Unicode counts as letters, marks or symbols, and no font shows."""


def printable(text: str) -> str:
    r"""The text with an escape such as ``\x1b`` or ``\u202e`` for each character that is not seen as itself.

    Those are controls, line breaks, marks of direction, all spaces but the usual one, what is invisible, and
    what has no meaning. A tab stays as it is, and a backslash: only JSON tells such an escape from its text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if _is_seen(each) else ascii(each)[1:-1] for each in text)


def _is_seen(character: str) -> bool:
    return character == "\t" or (character.isprintable() and not _UNSEEN.match(character))
