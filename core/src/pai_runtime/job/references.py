"""Resolution of references such as ``<% $parameters.x %>``, and rendering of the values that contain them.

A text that is one reference and nothing else becomes the value itself, of its own type; inside other text
a scalar is inserted as it was written. Parameters and the fields of prerequisites are templates in turn.
Rendering works on values, so that no value becomes syntax, of YAML or of another reference; a secret becomes
a placeholder (`pai_task.placeholders`), and is never looked into.
"""

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from pai_document.problems import Problem, Problems, Severity, near_miss
from pai_document.value import Node, Value, is_commands
from pai_runtime.job.budget import Budget
from pai_runtime.job.build import OWN_FIELDS
from pai_runtime.job.model import Job, Prerequisite, PrerequisiteKey, TaskRole
from pai_runtime.job.order import dependencies_first
from pai_runtime.job.secrets import as_placeholders
from pai_task.record import record

ROOTS = ("$parameters", "$secrets", "$data", "$script", "$output", "this")

_REFERENCE = re.compile(r"<%\s*(\$\w+|this|parameters|secrets)\s*([.\[][^<>%]*)?%>")
_KEYS = re.compile(r"(?:\s*\.\s*[\w-]+|\s*\[\s*[0-9]+\s*\])*\s*")
_KEY = re.compile(r"[\w-]+")

_HIDDEN = "******"
"""What stands for the value of a secret where a platform shows a job."""

_MOST_NESTED = 50
_LONGEST_INDEX = 9


class _NothingThere(Exception):
    """The fault of a reference to nothing: a message, the unknown word, and the words that are known."""

    def __init__(
        self, message: str, word: str = "", known: Iterable[str] = (), severity: Severity = "error"
    ) -> None:
        super().__init__(message)
        self.word = word
        self.known = known
        self.severity: Severity = severity


@record(frozen=True)
class _Found:
    """The target of a reference.

    A `template` is rendered in its turn: `this` means `owner` in it, if it is a part of a prerequisite.
    """

    value: Value
    template: bool
    owner: Prerequisite | None = None


@record(frozen=True)
class _Rendered:
    """The result of rendering a template: `values` counts its values, `depth` its nested references."""

    result: Any
    values: int
    depth: int


class References:
    """The state of resolving the references in one job, with a limit on how far it may grow."""

    def __init__(self, job: Job, problems: Problems) -> None:
        self.job = job
        self.problems = problems
        self.budget = Budget()
        self.cycles: set[frozenset[Node]] = set()
        """The cycles reported so far; each is met once from each of its parts."""
        self.secrets = as_placeholders(job.secrets)
        self._owners: dict[str, dict[PrerequisiteKey, Prerequisite | None]] = {}

    def owner(self, prerequisite: Prerequisite, name: str) -> Prerequisite | None:
        """Return which has property `name`: the prerequisite, or the first that it requires; None if none."""
        if prerequisite.property(name) is not None or name in OWN_FIELDS:
            return prerequisite
        job, owners = self.job, self._owners.setdefault(name, {})

        def unknown(each: PrerequisiteKey) -> Sequence[PrerequisiteKey]:
            return [] if each in owners or job.prerequisites[each].property(name) else job.require(each)

        order, _ = dependencies_first([prerequisite.key], unknown)
        self.budget.add(len(order), prerequisite.value.position)
        for each in order:
            if each not in owners:
                candidate = job.prerequisites[each]
                inherited = (owners[required] for required in job.require(each) if owners.get(required))
                owners[each] = candidate if candidate.property(name) else next(inherited, None)
        return owners[prerequisite.key]


class Renderer:
    """A renderer of the values in one place: in a role, in a prerequisite, or in both.

    Without a role, ``$data``, ``$script`` and ``$output`` are left as they are: what they mean is not
    decided there. They are faults where nothing is decided later, in what is `final`. What is
    `rendered_before` has had all references resolved but those to secrets; others that are left in it are
    no faults, but text.
    """

    def __init__(
        self,
        references: References,
        role: TaskRole | None = None,
        prerequisite: Prerequisite | None = None,
        *,
        final: bool = False,
        rendered_before: bool = False,
    ) -> None:
        self._references = references
        self._job = references.job
        self._role = role
        self._prerequisite = prerequisite
        self._final = final
        self._rendered_before = rendered_before
        self._inside: list[Value] = []
        self._deepest = 0
        self._rendered: dict[Hashable, _Rendered] = {}
        """So that what many references lead to is rendered once; all of them are counted."""

    def data(self, value: Value) -> Any:
        """Return the value as data, with all references resolved."""
        if isinstance(value.data, dict):
            return {child.key: self.data(child) for child in value.values()}
        if isinstance(value.data, list):
            return [self.data(child) for child in value.values()]
        if not _may_have_references(value):
            return value.data
        whole = _REFERENCE.fullmatch(value.data.strip())
        if whole is None or value.node.inserted:
            return self.text(value)
        return self._resolved(whole, value, value.node.start, as_text=False)

    def text(self, value: Value) -> str:
        """Return a scalar as text, with all references resolved."""
        if not _may_have_references(value):
            return value.text
        node = value.node
        start = node.start

        def resolved(match: re.Match[str]) -> str:
            nonlocal start
            if any(begin < match.end() and match.start() < end for begin, end in node.inserted):
                return match[0]
            text = str(self._resolved(match, value, start, as_text=True))
            start = max(start, node.source.text.find(match[0], start, node.end) + 1)
            return text

        return _REFERENCE.sub(resolved, value.data)

    def _resolved(self, match: re.Match[str], value: Value, start: int, *, as_text: bool) -> Any:
        try:
            _check_available(match[1], value)
            found = self._find(match[1], match[2] or "")
            return match[0] if found is None else self._inserted(found, as_text=as_text)
        except _NothingThere as error:
            source, problems = value.node.source, self._references.problems
            # It is not in the source as it is if it was written with escapes, or over two lines.
            index = source.text.find(match[0], start, value.node.end)
            is_comment = _is_in_comment(match, value)
            is_text = self._rendered_before and match[1] != "$secrets"
            consequence = (
                "; in a comment, it does no harm" if is_comment else "; it stays as it is" if is_text else ""
            )
            problems.add(
                Problem(
                    "reference-to-nothing",
                    f"cannot resolve {match[0]}: {error}{consequence}",
                    value.position if index < 0 else source.position(index),
                    value.field,
                    suggestion=problems.suggestions.near_miss(error.word, error.known),
                    severity="warning" if is_comment or is_text else error.severity,
                )
            )
            return match[0]

    def _inserted(self, found: _Found, *, as_text: bool) -> Any:
        value = found.value
        if as_text and isinstance(value.data, list):  # as OpenPAI joins them
            items = (_Found(item, found.template, found.owner) for item in value.values())
            return ",".join(str(self._inserted(item, as_text=True)) for item in items)
        if as_text and isinstance(value.data, dict):
            raise _NothingThere("it is a mapping, and a string can contain only a single value")
        self._references.budget.add(value.node.size, value.position)
        if not found.template:
            return value.text if as_text else value.data
        if self._is_cycle(value):
            return ""
        key = value.node, found.owner and found.owner.key, as_text
        depth, known = len(self._inside), self._rendered.get(key)
        if known is None or depth + known.depth > _MOST_NESTED:
            known = self._rendered[key] = self._render(value, found.owner, as_text=as_text)
        else:
            self._references.budget.add(known.values, value.position)
        self._deepest = max(self._deepest, depth + known.depth)
        return known.result

    def _render(self, value: Value, owner: Prerequisite | None, *, as_text: bool) -> _Rendered:
        depth, values = len(self._inside), self._references.budget.values
        if depth >= _MOST_NESTED:
            raise _NothingThere(f"it is nested in more than {_MOST_NESTED} references")
        outer_owner, self._prerequisite = self._prerequisite, owner
        outer_deepest, self._deepest = self._deepest, depth + 1
        self._inside.append(value)
        try:
            result = self.text(value) if as_text else self.data(value)
            return _Rendered(result, self._references.budget.values - values, self._deepest - depth)
        finally:
            self._inside.pop()
            self._prerequisite, self._deepest = outer_owner, outer_deepest

    def _is_cycle(self, value: Value) -> bool:
        """Return whether a template contains itself.

        Raises `_NothingThere` for a cycle that is not reported yet.
        """
        nodes = [outer.node for outer in self._inside]
        if value.node not in nodes:
            return False
        cycle = self._inside[nodes.index(value.node) :]
        known, parts = self._references.cycles, frozenset(each.node for each in cycle)
        if parts not in known:
            known.add(parts)
            links = " → ".join(each.field for each in (*cycle, value))
            raise _NothingThere(f"it refers to itself: {links}")
        return True

    def _find(self, root: str, written: str) -> _Found | None:
        """Return the target of a reference; None for text that is not ours, or is to be resolved later."""
        if not _KEYS.fullmatch(written):
            if root not in ROOTS or root == "this":  # other templates have objects named this
                return None
            raise _NothingThere(f"expected names or indexes after {root}, such as .name or [0]")
        keys = _KEY.findall(written)
        if root == "$parameters":
            return _Found(self._find_parameter(keys), template=True)
        if root == "$secrets":
            return _Found(self._find_secret(keys), template=False)
        if root == "this":
            if self._prerequisite is None:
                raise _NothingThere("'this' is available in a prerequisite only")
            return self._find_property(self._prerequisite, keys, root)
        if root in ROOTS:
            return self._find_referred(root, keys)
        _check_spelling(root, keys)
        return None

    def _find_parameter(self, keys: list[str]) -> Value:
        parameters = self._job.parameters
        if parameters is None or parameters.data is None:
            raise _NothingThere("the job has no parameters")
        return _descend(parameters, keys, "$parameters")

    def _find_secret(self, keys: list[str]) -> Value:
        secrets = self._references.secrets
        if not keys:
            raise _NothingThere("'$secrets' needs the name of a secret")
        if keys[0] not in secrets:
            message = f"neither the job nor a secrets file has a secret '{keys[0]}' (--secrets FILE)"
            if self._job.hides_secrets:
                message = (
                    f"the job's secrets are hidden, and no secrets file has '{keys[0]}';"
                    " give one with --secrets, or in a pod mount it as secrets.yaml"
                )
            raise _NothingThere(message, keys[0], secrets)
        above = f"$secrets.{keys[0]}"
        if _descend(self._job.secrets[keys[0]], keys[1:], above).data == _HIDDEN:
            message = f"the value of the secret '{keys[0]}' is hidden; fill it in, or give it with --secrets"
            raise _NothingThere(message)
        return _descend(secrets[keys[0]], keys[1:], above)

    def _find_referred(self, root: str, keys: list[str]) -> _Found | None:
        if self._role is None and self._final:
            raise _NothingThere(f"'{root}' is available in commands and parameters only")
        if self._role is None:
            return None
        name = self._role.refers.get(root)
        if name is None:
            raise _NothingThere(f"the task role '{self._role.name}' has no {root[1:]}")
        target = self._job.prerequisite(name.text, root[1:])
        return None if target is None else self._find_property(target, keys, root)

    def _find_property(self, prerequisite: Prerequisite, keys: list[str], root: str) -> _Found:
        if keys[:1] in (["parameters"], ["plugin_params"]) and len(keys) > 1:
            keys = keys[1:]
        if not keys:
            raise _NothingThere(f"'{root}' needs the name of a property")
        owner = self._references.owner(prerequisite, keys[0])
        value = owner.property(keys[0]) if owner else None
        if value is None:
            message = f"neither '{prerequisite.name}' nor any prerequisite that it requires has '{keys[0]}'"
            raise _NothingThere(message, keys[0], map(str, prerequisite.value.node.children))
        return _Found(_descend(value, keys[1:], f"{root}.{keys[0]}"), template=True, owner=owner)


def _may_have_references(value: Value) -> bool:
    return isinstance(value.data, str) and "<%" in value.data and value.node.is_template


def _check_available(root: str, value: Value) -> None:
    """Raise `_NothingThere` if a shared definition refers to something of the job that includes it."""
    if value.node.source.required_by and root in ROOTS and root != "this":
        raise _NothingThere(
            f"'{root}' is the job's; declare a template variable, which the job gives with template_variables"
        )


def _is_in_comment(match: re.Match[str], value: Value) -> bool:
    """Return whether a reference is in a comment of a shell command or script."""
    if value.above is not None and not is_commands(value.above.key):
        return False
    return match.string[: match.start()].rpartition("\n")[2].lstrip().startswith("#")


def _check_spelling(root: str, keys: list[str]) -> None:
    """Raise `_NothingThere` if a name is probably a misspelling of one of `ROOTS`."""
    if f"${root}" in ROOTS:
        if keys:
            raise _NothingThere("without '$' it is plain text", root, ROOTS, "warning")
    elif _is_misspelt(root):
        raise _NothingThere(f"unknown name '{root}'", root, ROOTS)


@lru_cache(maxsize=4096)
def _is_misspelt(root: str) -> bool:
    return near_miss(root, ROOTS) is not None


def _descend(value: Value, keys: list[str], above: str) -> Value:
    """Return the value at a path of keys below `value`. Raises `_NothingThere` if there is none."""
    for key in keys:
        if key == "0" and isinstance(value.data, str):
            continue  # a uri may be written as a string or as a list of strings
        is_list = isinstance(value.data, list)
        is_index = is_list and key.isdecimal() and len(key) <= _LONGEST_INDEX
        child = value.get(int(key) if is_index else key)
        if child is None and is_list:
            raise _NothingThere(
                f"{above} has no index [{key}]; it is a list of {len(value.data)} items, counted from 0"
            )
        if child is None:
            raise _NothingThere(f"{above} has no '{key}'", key, map(str, value.node.children))
        value, above = child, f"{above}.{key}"
    return value
