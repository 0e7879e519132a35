"""The text of a job as pods get it: without its secrets, which anybody could read who may read ConfigMaps."""

import json
import re
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Final

from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import InvalidInput, Problem
from pai_runtime.document.value import Value, walk
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.task.record import record
from pai_runtime.task.secret_forms import is_too_short

_MASK: Final = "******"
"""What the platform writes in the place of the section, too."""
_SECTION: Final = "secrets"
_REFERENCE: Final = re.compile("<%.*?%>")
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@record(frozen=True)
class JobFile:
    """The file of a job with its section of secrets hidden, each of the other lines with its number.

    `is_secret`: the value of a secret stands elsewhere in it too, such as a user's name in a path. `digest`
    stands for all of it but for such values.
    """

    text: str
    is_secret: bool
    digest: str


def job_config(job: Job) -> JobFile:
    """The file for the pods of a job; raises `InvalidInput` if the secrets cannot be taken out of it."""
    root = parse_document(job.text, job.file)
    text = _without_section(root)
    values = [value for value in secret_values(job.secrets).values() if not is_too_short(value)]
    scalars = [node.text for path, node in walk(root.node) if path[0] != _SECTION]
    texts = [_REFERENCE.sub("", each) for each in (text, *scalars)]
    is_secret = any(value in each for value in values for each in texts)
    return JobFile(text, is_secret, sha256(_masked(scalars, values).encode()).hexdigest())


def _masked(texts: Sequence[str], values: Collection[str]) -> str:
    joined = json.dumps(texts)
    for value in sorted(values, key=len, reverse=True):
        joined = joined.replace(json.dumps(value)[1:-1], _MASK)
    return joined


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
