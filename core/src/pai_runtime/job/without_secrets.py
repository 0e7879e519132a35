"""The job file without its secrets, for places where others than the job can read it."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from pai_document.document import parse_document
from pai_document.problems import InvalidInput
from pai_document.value import Node, Value
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_task.masking import Masks
from pai_task.record import record

_MASK: Final = "******"
"""The mask in the place of the section, which is also the platform's."""
_SECTION: Final = "secrets"
_REFERENCE: Final = re.compile("<%.*?%>")
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@record(frozen=True)
class JobFile:
    """A job file with its section of secrets masked; all other lines keep their numbers.

    `is_secret` means that the value of a secret, or a line of it, is elsewhere in it too, in any form in
    which logs mask it, such as a user's name in a path; or that it has the password of an image in the open.
    `digest` is over all of it but the values of secrets.
    """

    text: str
    is_secret: bool
    digest: str


def job_config(job: Job) -> JobFile:
    """Return the file of a job. Raises `InvalidInput` if the secrets cannot be removed from it."""
    root = parse_document(job.text, job.file)
    text = without_section(root)
    masks = Masks(secret_values(job.secrets).values())
    others = [
        each for key, node in root.node.children.items() if key != _SECTION for each in _texts(key, node)
    ]
    # As one text each: it takes longer to begin with a text than to search it.
    is_secret = masks.is_in("\0".join(_REFERENCE.sub("", each) for each in (text, *others)))
    digest = sha256(json.dumps(masks.mask("\0".join(others))).encode()).hexdigest()
    return JobFile(text, is_secret or _has_password(root), digest)


def _texts(key: str | int, node: Node) -> Iterator[str]:
    """Yield a key and all keys and scalars below it, which the file may have escaped or on several lines."""
    if isinstance(key, str):
        yield key
    if not isinstance(node.data, (dict, list)):
        yield node.text
    for below, child in node.children.items():
        yield from _texts(below, child)


def _has_password(root: Value) -> bool:
    """Return whether a password for an image is in the open."""
    prerequisites = root.get("prerequisites")
    passwords = (each.get("auth", "password") for each in prerequisites.values()) if prerequisites else ()
    return any(each is not None and each.text and not _REFERENCE.search(each.text) for each in passwords)


def without_section(root: Value) -> str:
    """Return the text of a job with its section of secrets masked. Raises `InvalidInput` if it cannot be."""
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
        raise InvalidInput([section.problem("secrets-not-apart", message, at_key=True)])
    return masked
