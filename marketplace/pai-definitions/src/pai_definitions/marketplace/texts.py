"""Texts of definitions, shortened for tables."""

_LONGEST = 200


def short(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text[: 10 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
