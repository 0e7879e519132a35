"""The text of a policy file, changed where an entry is, and nowhere else: comments and order stay."""

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pai_document.document import parse_document, read_text
from pai_document.problems import InvalidInput
from pai_document.value import Node
from pai_document.yaml_text import yaml_lines
from pai_runtime.host.metadata import normalized
from pai_runtime.host.policy import is_downgrade, read_policy
from pai_task import atomic_write

Entry = Mapping[str, str]
"""An entry of a policy: `id`, `distribution`, `versions`, which are one, `digest`, and perhaps `builtBy`."""

_NEW: Final = "policyVersion: 1\nplugins: []\n"
_PINNED: Final = ("versions", "digest", "builtBy")
"""The fields of an entry that change when other code of the plugin is allowed."""

_EMPTY_LIST = re.compile(r"[ \t]*\[\s*\]")


class CannotChange(ValueError):
    """The exception for a policy in a form in which its entries cannot be changed here."""


class _Kept(Exception):
    """The exception for an entry that another one may not replace."""


def put_entries(
    path: Path, entries: Iterable[Entry], *, downgrade: bool = False
) -> tuple[list[Entry], list[str]]:
    """Put entries into a policy file, which is made if there is none.

    An entry changes the last one with the same id and distribution: version, digest and who built it. Return
    those that were not in it, and why others were left out: a lower version, without `downgrade`, and one
    that does not say who built it, in the place of one that does. Raises `InvalidInput` if the file is no
    valid policy, `CannotChange`, and OSError if it cannot be written.
    """
    path = path.resolve()
    holder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        text, mode, changed, kept = _NEW, 0o644, list[Entry](), list[str]()
        if os.path.lexists(path):
            read_policy(path)
            text, mode = read_text(path), stat.S_IMODE(path.stat().st_mode)
        for entry in entries:
            try:
                after = _with_entry(text, entry, str(path), downgrade=downgrade)
            except _Kept as error:
                kept.append(f"{entry['id']}: {error}")
                continue
            if after != text:
                changed.append(entry)
                text = after
        if changed:
            atomic_write.write(holder, path.name, text.encode(), mode, sync=True)
    finally:
        os.close(holder)
    return changed, kept


def _with_entry(text: str, entry: Entry, file: str, *, downgrade: bool) -> str:
    plugins = parse_document(text, file).node.children["plugins"]
    expected = [dict(each) for each in plugins.data]
    places = [index for index, each in enumerate(expected) if _key(each) == _key(entry)]
    if places:
        _check_replaced(expected[places[-1]], entry, downgrade=downgrade)
        expected[places[-1]] |= {field: entry[field] for field in _PINNED if field in entry}
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


def _check_replaced(old: Mapping[str, Any], new: Entry, *, downgrade: bool) -> None:
    if "builtBy" in old and "builtBy" not in new:
        raise _Kept(
            f"allowed as built by {old['builtBy']}; `pai-runtime plugins verify` has to show that again"
        )
    version = new["versions"][2:]
    if not downgrade and is_downgrade(version, old["versions"]):
        raise _Kept(
            f"{version} is installed, and {old['versions']} allowed; to go back to it: --allow-downgrade"
        )


def _key(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry["id"], normalized(entry["distribution"])


def _pinned(text: str, node: Node, entry: Entry) -> Iterator[tuple[int, int, str]]:
    """Yield the edits, each with start and end, that pin an entry that is there already."""
    versions = node.children["versions"]
    if versions.data != entry["versions"]:
        yield versions.start, versions.end, f"'{entry['versions']}'"
    added = ""
    for field in _PINNED[1:]:
        if field in node.children and field in entry:
            yield node.children[field].start, node.children[field].end, entry[field]
        elif field in entry and text[node.start] == "{":
            added += f", {field}: {entry[field]}"
        elif field in entry:
            added += f"\n{' ' * _column(text, node.keys['versions'])}{field}: {entry[field]}"
    end = versions.end if text[node.start] == "{" else _line_end(text, versions.end)
    yield end, end, added


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
