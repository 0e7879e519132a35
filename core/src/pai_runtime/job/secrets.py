"""The secrets of a job: their values for the supervisor, and placeholders for everything else."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from pai_document.problems import DocumentPath, Position, Problem, Problems, unexpected
from pai_document.secret_names import names_secret
from pai_document.value import Node, Value, walk
from pai_task.masking import MOST_BYTES, Masks
from pai_task.placeholders import placeholder


def check_size(secrets: Mapping[str, Value], position: Position, problems: Problems) -> None:
    """Report secrets, located at `position`, that are too large to be masked."""
    size = sum(len(value.encode()) for value in secret_values(secrets).values())
    if size > MOST_BYTES:
        found, expected = f"{size} bytes", f"at most {MOST_BYTES} bytes in all secrets together"
        message = f"{unexpected(expected, found)}: more cannot be masked in logs; use a file on a storage"
        problems.add(
            Problem("secrets-too-large", message, position, "secrets", found=found, expected=expected)
        )


def secret_values(secrets: Mapping[str, Value]) -> dict[str, str]:
    """Return every secret as text, by its path: names and list indexes joined by dots."""
    return {
        _path(path): node.text
        for name, secret in secrets.items()
        for path, node in walk(secret.node, (name,))
    }


def secret_in(secrets: Mapping[str, Value], text: str) -> str | None:
    """Return the path of a secret whose value is in a text, in any form in which logs mask it, or None."""
    values = secret_values(secrets)
    return next((path for path, value in values.items() if Masks([value]).is_in(text)), None)


def masks(secrets: Mapping[str, Value], root: Value) -> Callable[[str], str]:
    """Return a function that hides the values of secrets, and of fields named like secrets, in a message."""

    @cache
    def made() -> Masks:
        return Masks([*secret_values(secrets).values(), *_named_secrets(root.node)])

    return lambda text: made().mask(text)


def _named_secrets(root: Node) -> Iterator[str]:
    """Yield strings of the job whose field is named like a secret, and that are not references."""
    for path, node in walk(root):
        if (
            isinstance(node.data, str)
            and "<%" not in node.data
            and any(names_secret(str(part)) for part in path)
        ):
            yield node.data


def as_placeholders(secrets: Mapping[str, Value]) -> dict[str, Value]:
    """Return the secrets with a placeholder in the place of each value."""
    return {
        name: Value(_placeholders(secret.node, (name,)), secret.above, secret.key)
        for name, secret in secrets.items()
    }


def _placeholders(node: Node, path: DocumentPath) -> Node:
    if not isinstance(node.data, (dict, list)):
        text = placeholder(_path(path))
        return node.replaced(text, text)
    children = {key: _placeholders(child, (*path, key)) for key, child in node.children.items()}
    return node.with_children(children)


def _path(path: DocumentPath) -> str:
    return ".".join(str(part).replace(".", "\\.") for part in path)


def secret_texts(secrets: Mapping[str, Value]) -> dict[str, Any]:
    """Return secrets in their structure, each value as it is written in the file, not as YAML reads it."""
    return {name: _texts(value) for name, value in secrets.items()}


def _texts(value: Value) -> Any:
    """Return the texts of a secret, in its structure."""
    if isinstance(value.data, dict):
        return {str(each.key): _texts(each) for each in value.values()}
    if isinstance(value.data, list):
        return [_texts(each) for each in value.values()]
    return value.text
