"""A tokenizer that reads JSON as YAML events, for JSON that YAML reads differently or not at all.

Nearly all JSON is YAML, but not an escaped surrogate pair, nor a line separator inside a string.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from pai_document.value import Source

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s,:{}\[\]"]+')
_MAY_BE_COMMENTED = re.compile(r"\s*(\{|/[/*])")
_COMMENT_OR_STRING = re.compile(
    r"""//[^\n\r]* | /\*.*?(?:\*/|\Z) | "(?:[^"\\]|\\.)*(?:"|\\?\Z)""", re.DOTALL | re.VERBOSE
)
"""Comments and strings; an unterminated one extends to the end, so that each character is read once."""
_NOT_LINE_BREAK = re.compile(r"[^\n\r]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object whose strings are all valid Unicode."""
    if not text.lstrip(" \t\r\n").startswith("{"):
        return False
    try:
        json.loads(text, parse_constant=_refuse)
        return not any(_SURROGATE.search(json.loads(each)) for each in _strings(text))
    except (ValueError, RecursionError):
        return False


def without_comments(text: str) -> tuple[str, int | None]:
    """Blank out the comments of a text that may be JSON; also return the index of the first one, or None.

    Comments are those of JavaScript, as OpenPAI's portal lets people write them.
    """
    if not _MAY_BE_COMMENTED.match(text):
        return text, None
    first: int | None = None

    def blank(match: re.Match[str]) -> str:
        nonlocal first
        if match[0].startswith('"'):
            return match[0]
        first = match.start() if first is None else first
        return _NOT_LINE_BREAK.sub(" ", match[0])

    return _COMMENT_OR_STRING.sub(blank, text), first


def json_events(source: Source) -> Iterator[Any]:
    """Yield the YAML events of a text that is valid JSON."""
    for match in _TOKEN.finditer(source.text):
        written = match[0]
        start, end = _mark(source, match.start()), _mark(source, match.end())
        begun: dict[str, Any] = {"implicit": True, "start_mark": start, "end_mark": end, "flow_style": True}
        if written == "{":
            yield yaml.MappingStartEvent(None, None, **begun)
        elif written == "[":
            yield yaml.SequenceStartEvent(None, None, **begun)
        elif written == "}":
            yield yaml.MappingEndEvent(start, end)
        elif written == "]":
            yield yaml.SequenceEndEvent(start, end)
        else:
            is_text = written.startswith('"')
            value = json.loads(written) if is_text else written
            style = '"' if is_text else None
            yield yaml.ScalarEvent(None, None, (not is_text, is_text), value, start, end, style=style)


def _strings(text: str) -> Iterator[str]:
    return (match[0] for match in _TOKEN.finditer(text) if "\\u" in match[0])


def _mark(source: Source, index: int) -> Any:
    where = source.position(index)
    return yaml.Mark("", index, where.line - 1, where.column - 1, None, 0)


def _refuse(_: str) -> NoReturn:
    raise ValueError
