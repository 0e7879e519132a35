"""YAML with unquoted expressions such as ``{{ path }}``, which by themselves would be mappings."""

import re
from typing import Any

import yaml

from pai_document.document import parse_source, yaml_events
from pai_document.problems import InvalidInput
from pai_document.value import Node, Source, Value

_EXPRESSION = re.compile(
    r"""\{\{(?:[^\\\r\n\x85\u2028\u2029'"{}]|'[^'\\\r\n\x85\u2028\u2029]*'|"[^"\\\r\n\x85\u2028\u2029]*"){1,1000}\}\}"""
)
_BARE = re.compile(r"(?:&\S+\s+)?\{\{")
_PLANE = 0xF0000
_HIDE = {code: _PLANE + code for code in range(0x80)}
_SHOW = {hidden: code for code, hidden in _HIDE.items()}
_HIDDEN = re.compile(f"[{chr(_PLANE)}-{chr(_PLANE + 0x7F)}]")
_HIDDEN_QUOTES = chr(_PLANE + ord("'")) * 2


def parse_unquoted(source: Source) -> Value:
    """Parse a text and return its root. Raises `InvalidInput`.

    Where it is no YAML as it is, the characters of its expressions are taken for letters: as many of them, so
    that positions stay what they are. What mends only half of the text shows the fault of the other half.
    """
    try:
        return parse_source(source)
    except InvalidInput:
        text = source.text
        hidden = _EXPRESSION.sub(lambda match: match[0].translate(_HIDE), text)
        if hidden == text or _HIDDEN.search(text):
            raise
    return parse_source(source, lambda _: map(_shown, yaml_events(hidden)))


def _shown(event: Any) -> Any:
    if isinstance(event, yaml.ScalarEvent) and _HIDDEN.search(event.value):
        text = event.value
        if event.style == "'":
            text = text.replace(_HIDDEN_QUOTES, chr(_PLANE + ord("'")))
        event.value = text.translate(_SHOW)
    return event


def is_bare(node: Node) -> bool:
    """Return whether a text begins with an expression that is not inside quotes or a block."""
    return _BARE.match(node.source.text, node.start) is not None
