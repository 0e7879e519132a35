"""Configuration in a variable of a Pod whose lines YAML's style ``>-`` has folded.

As in ``commands: ["ls"] runtimePlugin: - plugin: ssh``: lines that were not indented are one line, and those
that were are still there. OpenPAI's own example of a Pod has it so.
"""

import contextlib
import re

from pai_document.document import parse_document
from pai_document.problems import InvalidInput
from pai_document.value import Value

_KEYS = "commands|runtimePlugin|initPlugins"
_FIRST_IN_ITEM = "name|command|plugin|parameters|failurePolicy|taskroles"
_QUOTED = r"""(?<![^\s\[{,])(?P<quoted>"(?:\\.|[^"\\])*"|'[^']*')"""
_FOLD = rf"(?<=\S)[ ]+(?=(?:{_KEYS}):(?:\s|$)|-[ ]+(?:{_FIRST_IN_ITEM}):(?:\s|$))"
_FOLDS = re.compile(f"{_QUOTED}|{_FOLD}", re.DOTALL), re.compile(_FOLD)
"""Patterns of folded line breaks: outside quoted text, or anywhere if that does not parse."""


def parse_unfolded(text: str, name: str) -> Value:
    """Parse a document, as it is or unfolded. Raises `InvalidInput` if neither is valid.

    `name` is that of the text in messages.
    """
    try:
        return parse_document(text, name)
    except InvalidInput as error:
        for fold in _FOLDS:
            with contextlib.suppress(InvalidInput):
                return parse_document(fold.sub(_unfolded, text), name)
        raise error from None


def _unfolded(match: re.Match[str]) -> str:
    return match.groupdict().get("quoted") or "\n"
