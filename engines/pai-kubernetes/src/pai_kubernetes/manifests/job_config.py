"""The text of a job as pods get it: without its secrets, which anybody could read who may read ConfigMaps."""

import json
import re
from collections.abc import Iterator
from typing import Final

from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import InvalidInput, Problem
from pai_runtime.document.value import Node, Value, walk
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.task.secret_forms import is_too_short

_MASK: Final = "******"
"""What the platform writes in the place of the section, too."""
_SECTION: Final = "secrets"
_REFERENCE: Final = re.compile("<%.*?%>")
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def job_config(job: Job) -> str:
    """The file of a job with its section of secrets hidden, each of the other lines with its number.

    Raises `InvalidInput` if the value of a secret stands elsewhere in it too, and for a password that is none
    of the secrets.
    """
    root = parse_document(job.text, job.file)
    text = _without_section(root)
    problems = [*_elsewhere(job, root), *_plain_passwords(root)]
    if problems:
        raise InvalidInput(problems)
    return text


def _without_section(root: Value) -> str:
    text, section = root.node.source.text, root.get(_SECTION)
    if section is None or not isinstance(section.data, (dict, list)) or not section.data:
        return text
    # From its key on: comments stand between the key and the first value, too.
    start, end = root.node.keys[_SECTION], section.node.end
    lines = len(_LINE_BREAK.findall(text, start, end))
    masked = f"{text[:start]}{json.dumps(_SECTION)}: {json.dumps(_MASK)}{lines * chr(10)}{text[end:]}"
    try:
        is_same = parse_document(masked, root.position.file).data == {**root.data, _SECTION: _MASK}
    except InvalidInput:
        is_same = False
    if not is_same:
        message = (
            "cannot be taken out of the file, for a cluster to have the file without it; write the secrets as"
            " a mapping of their own, without anchors and aliases, or in a file for --secrets"
        )
        raise InvalidInput([Problem("secrets-not-apart", message, section.key_position, section.field)])
    return masked


def _elsewhere(job: Job, root: Value) -> Iterator[Problem]:
    """The first place of each secret's value that is not the section of the secrets."""
    scalars = [(path, node) for path, node in walk(root.node) if path[0] != _SECTION]
    texts = [_REFERENCE.sub("", node.text) for _, node in scalars]
    comments = _between(root)
    for name, value in secret_values(job.secrets).items():
        if is_too_short(value):  # it would be found everywhere; that it cannot be hidden is said elsewhere
            continue
        found = next((path for (path, _), text in zip(scalars, texts, strict=True) if value in text), None)
        if found is not None:
            where = root.at(found)
            position, field = where.position, where.field
        elif value in comments:
            position, field = root.node.source.position(comments.index(value)), ""
        else:
            continue
        message = (
            f"the value of the secret '{name}' stands here too, where whoever may see the run could read it;"
            f" expected <% $secrets.{name} %>, or, if it is no secret, a parameter in its place"
        )
        yield Problem("secret-in-job", message, position, field)


def _plain_passwords(root: Value) -> Iterator[Problem]:
    """The passwords for images that the file has in the open."""
    prerequisites = root.get("prerequisites")
    for each in prerequisites.values() if prerequisites else ():
        password = each.get("auth", "password")
        if password is not None and password.text and not _REFERENCE.search(password.text):
            message = (
                "a password stands here, where whoever may see the run could read it; put it into secrets,"
                " and write <% $secrets.NAME %> here"
            )
            yield Problem("secret-in-job", message, password.position, password.field)


def _between(root: Value) -> str:
    """The text with spaces in the place of all keys, values and secrets, so that only comments are left."""
    spans = list(_spans(root.node))
    if section := root.get(_SECTION):
        spans.append((root.node.keys[_SECTION], section.node.end))
    text, left, before = root.node.source.text, list[str](), 0
    for start, end in sorted(spans):
        left += [text[before:start], " " * (end - max(start, before))]
        before = max(before, end)
    return "".join((*left, text[before:]))


def _spans(node: Node) -> Iterator[tuple[int, int]]:
    for key, child in node.children.items():
        if key in node.keys:
            yield node.keys[key], node.keys[key] + len(str(key))
        if isinstance(child.data, (dict, list)):
            yield from _spans(child)
        else:
            yield child.start, child.end
