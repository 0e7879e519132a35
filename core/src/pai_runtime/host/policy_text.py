"""The text of a policy file, changed where an entry is, and nowhere else: comments and order stay."""

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pai_runtime.document.document import parse_document, read_text
from pai_runtime.document.problems import InvalidInput
from pai_runtime.document.value import Node
from pai_runtime.document.yaml_text import yaml_lines
from pai_runtime.host.metadata import normalized
from pai_runtime.host.policy import read_policy
from pai_runtime.task import atomic_write

Entry = Mapping[str, str]
"""An entry of a policy: the fields `id`, `distribution`, `versions` and `digest`."""

_NEW: Final = "policyVersion: 1\nplugins: []\n"
_EMPTY_LIST = re.compile(r"[ \t]*\[\s*\]")


class CannotChange(ValueError):
    """The exception for a policy in a form in which its entries cannot be changed here."""


def listed_plugins(path: Path) -> list[tuple[str, str]]:
    """Return the ids in a policy, each with its distribution. Raises `InvalidInput` for an invalid policy."""
    return [(entry.id, entry.distribution) for entry in read_policy(path).allowed or ()]


def put_entries(path: Path, entries: Iterable[Entry]) -> list[Entry]:
    """Put entries into a policy file, which is made if there is none, and return those that were not in it.

    An entry changes version and digest of the last one with the same id and distribution. Raises
    `InvalidInput` if the file is no valid policy, `CannotChange`, and OSError if it cannot be written.
    """
    path = path.resolve()
    holder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        text, mode, changed = _NEW, 0o644, []
        if os.path.lexists(path):
            read_policy(path)
            text, mode = read_text(path), stat.S_IMODE(path.stat().st_mode)
        for entry in entries:
            after = _with_entry(text, entry, str(path))
            if after != text:
                changed.append(entry)
                text = after
        if changed:
            atomic_write.write(holder, path.name, text.encode(), mode, sync=True)
    finally:
        os.close(holder)
    return changed


def _with_entry(text: str, entry: Entry, file: str) -> str:
    plugins = parse_document(text, file).node.children["plugins"]
    expected = [dict(each) for each in plugins.data]
    places = [index for index, each in enumerate(expected) if _key(each) == _key(entry)]
    if places:
        expected[places[-1]] |= {field: entry[field] for field in ("versions", "digest")}
        edits = _pinned(text, plugins.children[places[-1]], entry)
    else:
        expected.append(dict(entry))
        edits = iter([_appended(text, plugins, entry)])
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    with contextlib.suppress(InvalidInput):
        if parse_document(text, file).data["plugins"] == expected:
            return text
    raise CannotChange(f"{file}: its entries are in a form that can only be changed by hand")


def _key(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry["id"], normalized(entry["distribution"])


def _pinned(text: str, node: Node, entry: Entry) -> Iterator[tuple[int, int, str]]:
    """Yield the edits, each with start and end, that pin an entry that is there already."""
    versions, digest = node.children["versions"], node.children.get("digest")
    if versions.data != entry["versions"]:
        yield versions.start, versions.end, f"'{entry['versions']}'"
    if digest:
        yield digest.start, digest.end, entry["digest"]
    elif text[node.start] == "{":
        yield versions.end, versions.end, f", digest: {entry['digest']}"
    else:
        key, end = node.keys["versions"], _line_end(text, versions.end)
        yield end, end, f"\n{' ' * _column(text, key)}digest: {entry['digest']}"


def _appended(text: str, plugins: Node, entry: Entry) -> tuple[int, int, str]:
    """Return the edit that adds an entry at the end of the list."""
    if empty := _EMPTY_LIST.match(text, len(text[: plugins.start].rstrip(" \t"))):
        return *empty.span(), "\n" + _block(entry, "  ")
    last = plugins.children[len(plugins.children) - 1]
    end = max(child.end for child in last.children.values())
    if text[plugins.start] == "[":
        fields = ", ".join(f"{field}: '{value}'" for field, value in entry.items())
        end = text.index("}", end) + 1
        return end, end, f", {{{fields}}}"
    end = _line_end(text, end)
    return end, end, "\n" + _block(entry, " " * _column(text, text.rfind("-", 0, last.start)))


def _block(entry: Entry, indent: str) -> str:
    return "\n".join(f"{indent}{line}" for line in yaml_lines([entry], indents_lists=False))


def _column(text: str, index: int) -> int:
    return index - (text.rfind("\n", 0, index) + 1)


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end
