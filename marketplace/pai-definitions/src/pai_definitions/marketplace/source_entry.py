"""A source added to, or removed from, the text of a ``marketplace.yaml``; everything else stays as it is.

It is edited in its place: read and written again by ruamel.yaml, the rest would be indented and spaced anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pai_document.document import parse_document
from pai_document.problems import InvalidInput
from pai_document.value import Value, walk
from pai_document.yaml_text import yaml_lines

Entry = Mapping[str, Any]


def entry_lines(entry: Entry, indent: str = "  ") -> Iterator[str]:
    """Yield the lines of an item of the list."""
    return (indent + line for line in yaml_lines([entry], indents_lists=False))


def with_source(text: str, file: str, entry: Entry) -> str | None:
    """Return the text with a source appended to its list; None if a person has to write it.

    Raises `InvalidInput` if the text is invalid; messages call it `file`.
    """
    if not _has_content(text):
        return _inserted(text, len(text), ["sources:", *entry_lines(entry)])
    root = parse_document(text, file)
    try:
        new = _appended(text, root, entry)
        after = _listed(parse_document(new, file))
    except InvalidInput:
        return None
    return new if after == [*_listed(root), entry] else None


def without_source(text: str, file: str, index: int) -> str | None:
    """Return the text without the source of this index; None if a person has to remove it.

    Raises `InvalidInput` if the text is invalid.
    """
    root = parse_document(text, file)
    sources = root.get("sources")
    if sources is None:
        return None
    entry = sources.node.children[index]
    first = text.rfind("\n", 0, entry.start) + 1
    last = text.find("\n", max(each.end for _, each in walk(entry)) - 1)
    new = text[:first] + ("" if last < 0 else text[last + 1 :])
    expected = [*_listed(root)]
    del expected[index]
    if root.node.keys["sources"] >= first:
        return None
    if not expected:
        colon = text.index(":", root.node.keys["sources"]) + 1
        new = f"{new[:colon]} []{new[colon:]}"
    try:
        return new if parse_document(new, file).data == {**root.data, "sources": expected} else None
    except InvalidInput:
        return None


def _has_content(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _listed(root: Value) -> Sequence[Any]:
    sources = root.get("sources")
    return list(sources.data or ()) if sources else []


def _appended(text: str, root: Value, entry: Entry) -> str:
    """Return the text with the entry after the last one, if each entry is on lines of its own."""
    sources = root.get("sources")
    if sources is None:
        return text
    node, indent = sources.node, "  "
    if not node.data:
        after = root.node.keys["sources"]
        if node.data is not None:
            text = text[: node.start] + text[node.end :]
    else:
        after = max(each.end for _, each in walk(node)) - 1
        indent = " " * (sources.position.column - 1)
    line = text.find("\n", after)
    return _inserted(text, len(text) if line < 0 else line + 1, entry_lines(entry, indent))


def _inserted(text: str, index: int, lines: Iterator[str] | Sequence[str]) -> str:
    before = text[:index]
    if before and not before.endswith("\n"):
        before += "\n"
    return before + "".join(f"{line}\n" for line in lines) + text[index:]
