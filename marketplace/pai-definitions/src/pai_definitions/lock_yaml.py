"""The entries of a lock file in YAML: flat, quickly written, and as a person would write them."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pai_document.document import plain_scalar
from pai_document.printable import printable

_PLAIN: Final = re.compile("[a-zA-Z0-9_./](?:[a-zA-Z0-9_./@+=%?&#:-]*[a-zA-Z0-9_./@+=%?&#-])?")
_NOT_IN_YAML: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\t": "\\t"})


def mapping_lines(fields: Mapping[str, str | bool | bytes]) -> Iterator[str]:
    """Yield the lines of an item of a list; bytes that are no text have the key ``base64``."""
    indent = "- "
    for key, value in fields.items():
        if isinstance(value, bytes):
            yield from _content_lines(key, value)
        else:
            yield f"{indent}{key}: {_scalar(value)}"
        indent = "  "


def _content_lines(key: str, content: bytes) -> Iterator[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if not text or _NOT_IN_YAML.search(text):
        yield f"  base64: {_scalar(b64encode(content).decode())}"
        return
    lines = text.removesuffix("\n").split("\n")
    if not _is_block(lines):
        yield f"  {key}: {_quoted(text)}"
        return
    yield f"  {key}: {'|' if text.endswith(chr(10)) else '|-'}"
    yield from (f"    {line}" if line else "" for line in lines)


def _is_block(lines: Sequence[str]) -> bool:
    """Whether lines are read as they are from a literal block, and are seen as they are."""
    is_sound = lines[0].strip(" \t") and lines[0][0] not in " \t" and lines[-1].strip(" \t")
    return len(lines) > 1 and bool(is_sound) and all(printable(line) == line for line in lines)


def _scalar(value: str | bool) -> str:  # noqa: FBT001 - it is a value
    if isinstance(value, bool):
        return "true" if value else "false"
    is_plain = _PLAIN.fullmatch(value) and isinstance(plain_scalar(value), str)
    return value if is_plain else _quoted(value)


def _quoted(text: str) -> str:
    return f'"{printable(text.translate(_ESCAPES))}"'
