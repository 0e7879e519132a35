"""Escapes for control and invisible characters in untrusted text."""

import re

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]|[\U000e0100-\U000e01ef]"
)
"""Characters that Unicode counts as letters, marks or symbols, and that no font shows."""


def printable(text: str) -> str:
    r"""Replace each character that is not seen as itself with an escape such as ``\x1b`` or ``\u202e``.

    Those characters are controls, line breaks, direction marks, all spaces but the usual one, invisible and
    unassigned ones. Tabs and backslashes are kept: only JSON distinguishes such an escape from its text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if _is_seen(each) else ascii(each)[1:-1] for each in text)


def _is_seen(character: str) -> bool:
    return character == "\t" or (character.isprintable() and not _UNSEEN.match(character))
