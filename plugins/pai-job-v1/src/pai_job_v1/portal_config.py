"""The configuration of a job as OpenPAI's portal and its REST server show it, as a job file again.

They have JSON or YAML without comments, in which all values of secrets are hidden together by ``******``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pai_job_v1.conversion import Conversion
from pai_runtime.plugin.job_format import DocumentPath, Problems, Value, new_node

HIDDEN: Final = "******"
"""What stands for a value that is to be filled in; a task that uses it is refused."""

_REFERENCE: Final = re.compile(r"<%\s*\$secrets((?:\s*\.\s*[\w-]+|\s*\[\s*[0-9]+\s*\])+)\s*%>")
_KEY: Final = re.compile(r"[\w-]+")
_SUFFIX: Final = re.compile(r"(?<=.)_[0-9a-f]{8}$")
"""What the portal and this runtime append to a job's name, since OpenPAI uses up names for ever."""
_OF_SUBMISSION: Final = ("submitFrom", "submission")
_MOST_ITEMS: Final = 1000


def is_shown_config(root: Value) -> bool:
    """Return whether a document is that of a job of version 2."""
    return isinstance(root.data, dict) and "protocolVersion" in root.data and "taskRoles" in root.data


def job_of_config(root: Value, problems: Problems) -> Conversion:
    """Return the job with a placeholder for each secret, and report what is to be filled in."""
    document, comments = dict(root.data), dict[DocumentPath, Sequence[str]]()
    if isinstance(document.get("name"), str):
        document["name"] = _SUFFIX.sub("", document["name"])
    if isinstance(document.get("extras"), dict):
        extras = {key: each for key, each in document["extras"].items() if key not in _OF_SUBMISSION}
        document = {**document, "extras": extras} if extras else _without(document, "extras")
    secrets = root.get("secrets")
    if secrets is not None and secrets.data == HIDDEN:
        names = _Names(document)
        document = (
            {**document, "secrets": names.placeholders} if names.paths else _without(document, "secrets")
        )
        if names.paths:
            message = (
                "OpenPAI hides the values; fill them in, or remove this section, and give them with --secrets"
            )
            comments["secrets",] = [message]
            named = ", ".join(sorted({path[0] for path in names.paths}))
            problems.add(secrets.problem("hidden-secrets", f"{message}: {named}", severity="warning"))
    elif secrets is not None and secrets.data:
        message = "OpenPAI shows these values to all its users; change them wherever they are used"
        problems.add(secrets.problem("secrets-shown", message, severity="warning", at_key=True))
    return Conversion(Value(new_node(root.node, document)), comments)


def _without(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: each for name, each in document.items() if name != key}


class _Names:
    """The secrets that a document refers to; `paths` are their names with the keys below them."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        texts = _texts(_without(document, "secrets"))
        found = (_KEY.findall(reference[1]) for text in texts for reference in _REFERENCE.finditer(text))
        self.paths = list(dict.fromkeys(map(tuple, found)))

    @property
    def placeholders(self) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for path in self.paths:
            below = tree
            for key in path:
                below = below.setdefault(key, {})
        return {name: _filled(each) for name, each in tree.items()}


def _filled(tree: Mapping[str, Any]) -> Any:
    if not tree:
        return HIDDEN
    if all(key.isdecimal() and len(key) < len(str(_MOST_ITEMS)) for key in tree):
        items = {int(key): _filled(each) for key, each in tree.items()}
        return [items.get(index, HIDDEN) for index in range(max(items) + 1)]
    return {key: _filled(each) for key, each in tree.items()}


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for each in data.values():
            yield from _texts(each)
    elif isinstance(data, list):
        for each in data:
            yield from _texts(each)
    elif isinstance(data, str):
        yield data
