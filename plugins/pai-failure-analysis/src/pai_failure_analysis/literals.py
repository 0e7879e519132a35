"""Literals: every match of a regular expression contains at least one of its literals.

An expression need not be searched for in a text that contains none of them. Literals are found with
Python's own parser when the rules are compiled. Syntax that Python reads differently from RE2 is converted
first, or yields no literals. No task needs this module.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

_LEAST, _MOST = 3, 16
"""Characters of a literal: fewer are in any log, and more make it no rarer."""

_PARSER = "re._parser" if sys.version_info >= (3, 11) else "sre_parse"
_READ_DIFFERENTLY = re.compile(r"\(\?[A-Za-z-]*i[A-Za-z-]*\)|\[:\^?[a-z]+:\]|\\\\z")
"""Syntax that Python reads differently: flags that ignore case, POSIX classes, and a backslash before a z."""


def literals(expression: str) -> list[str]:
    """Return literals of an expression of RE2's; none if it has none, or ignores case."""
    if _READ_DIFFERENTLY.search(expression):
        return []
    known = expression.replace("(?m)", "").replace("(?s)", "").replace(r"\z", r"\Z")
    try:
        found = _of(import_module(_PARSER).parse(known))
    except re.error:
        return []
    return sorted({each[:_MOST] for each in found})


def _of(items: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return the best literals of one part after the other: each match has all parts."""
    found: list[list[str]] = []
    text = ""
    for operation, operand in items:
        name = str(operation)
        if name == "LITERAL":
            text += chr(operand)
            continue
        found.append([text])
        text = ""
        if name == "SUBPATTERN" and not operand[1] & re.IGNORECASE:
            found.append(_of(operand[3]))
        elif name == "BRANCH":
            branches = [_of(branch) for branch in operand[1]]
            found.append([each for branch in branches for each in branch] if all(branches) else [])
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and operand[0]:
            found.append(_of(operand[2]))
    found.append([text])
    best = max(found, key=_worth)
    return best if min(map(len, best), default=0) >= _LEAST else []


def _worth(texts: Sequence[str]) -> float:
    """Return how much it tells that one of some texts is there: the rarer each is, and the fewer they are."""
    return min(map(len, texts), default=0) - len(texts) / 10
