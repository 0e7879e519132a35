"""References such as ``<% $parameters.x %>``: what they mean in one place of a job, and their rendering.

A text that is one reference and nothing else becomes the value itself, of its own type; inside other text
a scalar is inserted as it was written. Rendering works on values, so that no value becomes syntax, of YAML
or of another reference: parameters and secrets are never looked into. The fields of prerequisites are
templates too. A secret becomes a placeholder (`pai_runtime.task.placeholders`).
"""

import re
from dataclasses import dataclass
from typing import Any

from pai_runtime.document import DocumentPath, Node
from pai_runtime.job.model import Job, Prerequisite, TaskRole
from pai_runtime.problems import Problem, field_name, near_miss

ROOTS = ("$parameters", "$secrets", "$data", "$script", "$output", "this")

_REFERENCE = re.compile(r"<%\s*(\$\w+|this)((?:\s*\.\s*[\w-]+|\s*\[\s*\d+\s*\])*)\s*%>")
_PART = re.compile(r"[\w-]+")


class _NothingThere(Exception):
    """A reference to nothing; the arguments are what to tell the person, and a suggestion."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


@dataclass(frozen=True)
class _Found:
    """What a reference means. A template, that is a part of a prerequisite, is rendered in its turn."""

    node: Node
    is_template: bool = False


class Renderer:
    """Renders the values that stand in one place: in a role, in a prerequisite, or in both.

    Without a role, ``$data``, ``$script`` and ``$output`` are left as they are: what they mean is not
    decided there. What is wrong is added to `problems`.
    """

    def __init__(
        self, job: Job, role: TaskRole | None, prerequisite: Prerequisite | None, problems: list[Problem]
    ) -> None:
        self._job = job
        self._role = role
        self._prerequisite = prerequisite
        self._problems = problems
        self._inside: list[Node] = []

    def value(self, node: Node, path: DocumentPath) -> Any:
        """The value of `node`, which stands at `path`, with all references in it resolved."""
        if isinstance(node.data, dict):
            return {key: self.value(child, (*path, key)) for key, child in node.children.items()}
        if isinstance(node.data, list):
            return [self.value(child, (*path, key)) for key, child in node.children.items()]
        if not isinstance(node.data, str) or "<%" not in node.data:
            return node.data
        whole = _REFERENCE.fullmatch(node.data.strip())
        return self._resolved(whole, node, path, as_text=False) if whole else self.text(node, path)

    def text(self, node: Node, path: DocumentPath) -> str:
        """The same as text, for a scalar."""
        if not isinstance(node.data, str) or "<%" not in node.data:
            return node.text
        return _REFERENCE.sub(lambda match: str(self._resolved(match, node, path, as_text=True)), node.data)

    def _resolved(self, match: re.Match[str], node: Node, path: DocumentPath, *, as_text: bool) -> Any:
        try:
            found = self._find(match[1], _PART.findall(match[2]))
            if found is None:
                return match[0]
            return self._inserted(found, path, as_text=as_text)
        except _NothingThere as error:
            self._problems.append(
                Problem(
                    f"{match[0]} refers to nothing: {error}",
                    self._job.document.place_in(node, match[0]),
                    field_name(path),
                    suggestion=error.suggestion,
                )
            )
            return match[0]

    def _inserted(self, found: _Found, path: DocumentPath, *, as_text: bool) -> Any:
        node = found.node
        if as_text and isinstance(node.data, list) and len(node.data) == 1:
            node = node.children[0]  # a uri may be written as a text or as a list of texts
        if as_text and isinstance(node.data, (dict, list)):
            kind = "list" if isinstance(node.data, list) else "mapping"
            raise _NothingThere(f"it is a {kind}, and only one of its values can stand inside a text")
        if not found.is_template:
            return node.text if as_text else node.data
        if any(node is outer for outer in self._inside):
            raise _NothingThere("it refers to itself")
        self._inside.append(node)
        try:
            return self.text(node, path) if as_text else self.value(node, path)
        finally:
            self._inside.pop()

    def _find(self, root: str, keys: list[str]) -> _Found | None:
        """What a reference means; None for text that is not ours, or whose meaning is not decided here."""
        if root == "$parameters":
            parameters = self._job.document.node(("parameters",))
            if parameters is None or parameters.data is None:
                raise _NothingThere("the job has no parameters")
            return _Found(_descend(parameters, keys, root))
        if root == "$secrets":
            return _Found(self._find_secret(keys))
        if root == "this":
            return _Found(self._find_this(keys), is_template=True)
        if root in ROOTS:
            return self._find_referred(root, keys)
        suggestion = near_miss(root, ROOTS)
        if suggestion:
            raise _NothingThere(f"'{root}' is not known", suggestion)
        return None

    def _find_secret(self, keys: list[str]) -> Node:
        secrets = self._job.secret_placeholders
        if not keys:
            raise _NothingThere("'$secrets' needs the name of a secret")
        if keys[0] not in secrets:
            raise _NothingThere(
                f"there is no secret '{keys[0]}', neither in the job nor in a secrets file",
                near_miss(keys[0], secrets),
            )
        return _descend(secrets[keys[0]], keys[1:], f"$secrets.{keys[0]}")

    def _find_this(self, keys: list[str]) -> Node:
        own = self._prerequisite
        if own is None:
            raise _NothingThere("'this' has a meaning in a prerequisite only")
        if keys[:1] == ["parameters"] and len(keys) > 1:
            keys = keys[1:]
        if not keys:
            raise _NothingThere("'this' needs the name of a property")
        owner = self._job.owner(own, keys[0])
        node = owner.property(keys[0]) if owner else None
        if node is None:
            raise _NothingThere(
                f"neither '{own.name}' nor what it requires has '{keys[0]}'",
                near_miss(keys[0], map(str, own.node.children)),
            )
        return _descend(node, keys[1:], f"this.{keys[0]}")

    def _find_referred(self, root: str, keys: list[str]) -> _Found | None:
        if self._role is None:
            return None
        name = self._role.refers.get(root)
        if name is None:
            raise _NothingThere(f"the task role '{self._role.name}' names no {root[1:]}")
        target = self._job.prerequisites.get(name)
        return None if target is None else _Found(_descend(target.node, keys, root), is_template=True)


def _descend(node: Node, keys: list[str], above: str) -> Node:
    for key in keys:
        if key == "0" and isinstance(node.data, str):
            continue  # a uri may be written as a text or as a list of texts
        is_list = isinstance(node.data, list)
        child = node.children.get(int(key) if is_list and key.isdecimal() else key)
        if child is None and is_list:
            raise _NothingThere(f"{above} has {len(node.data)} items, counted from 0, and no [{key}]")
        if child is None:
            raise _NothingThere(f"{above} has no '{key}'", near_miss(key, map(str, node.children)))
        node, above = child, f"{above}.{key}"
    return node
