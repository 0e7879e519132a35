"""Checks for what OpenPAI's REST server would refuse or change in a valid job, by its own schema and rules.

It looks at the file alone, knows no definitions, and lets a reference to one pass in ``require`` of a job's
own prerequisite only.
"""

import re
from collections.abc import Iterator
from typing import Final

from pai_document.problems import Problem, Problems
from pai_document.schemas import check_value, package_schema
from pai_document.value import Value
from pai_openpai.ignored_fields import ignored_fields
from pai_openpai.rendered_values import changed_tags, changed_values
from pai_runtime.job.model import PROTOCOL_TYPES, is_reference
from pai_runtime.job.reading import mapping, mappings, string, strings, text
from pai_task.record import replace

MOST_BYTES: Final = 102_400
"""Maximum size of the body of a request to OpenPAI's REST server."""

_CODE = "refused-by-openpai"
_SHOWN = "secrets-shown"
_MARKETPLACE = "marketplace://"
_SECRET = re.compile(r"<%\s*\$secrets\b[^<>%]*%>")
_MASKED = re.compile(r"^secrets:", re.MULTILINE)


def check_for_openpai(root: Value, problems: Problems) -> None:
    """Report all that OpenPAI would refuse or change in the document of a job, with the form to write."""
    if not isinstance(root.data, dict):
        return
    if "protocolVersion" not in root.data:
        message = "expected a job of version 2; pai-runtime convert makes one of a job of version 1"
        problems.add(root.problem(_CODE, f"OpenPAI refuses the job: {message}"))
        return
    found = Problems(problems.mask)
    check_value(root, package_schema("pai_openpai", "job.schema.json"), found)
    found.add(*_size(root), *_references(root))
    for problem in found.in_order:
        problems.add(replace(problem, code=_CODE, message=f"OpenPAI refuses the job: {problem.message}"))
    problems.add(*_open_secrets(root), *changed_values(root), *changed_tags(root), *ignored_fields(root))


def _size(root: Value) -> Iterator[Problem]:
    size = len(root.node.source.text.encode())
    if size > MOST_BYTES:
        found, expected = f"{size} bytes", f"at most {MOST_BYTES} bytes"
        yield root.problem(_CODE, f"expected {expected}, found {found}", found, expected)


def _references(root: Value) -> Iterator[Problem]:
    """Report references in places where OpenPAI does not accept them."""
    kinds: dict[str, set[str]] = {}
    for each in mappings(root, "prerequisites"):
        kinds.setdefault(text(each, "name"), set()).add(text(each, "type"))
        for name in strings(each, "require"):
            if is_reference(name.text) and not name.text.startswith(_MARKETPLACE):
                message = (
                    "a path or URL, which is not there in a pod; publish the definition in a marketplace"
                )
                yield name.problem(_CODE, message)
    aliases = {text(each, "name") for each in mappings(mapping(root, "extras"), "reference_prerequisites")}
    roles = mapping(root, "taskRoles")
    for role in roles.values() if roles else ():
        for name, kind in _names(role):
            if is_reference(name.text) or (name.text in aliases and name.text not in kinds):
                yield name.problem(_CODE, _form(name, kind))
            elif kind and kind not in kinds.get(name.text, {kind}) and name.text in kinds:
                message = f"expected the name of a prerequisite of type {kind}, found one of another type"
                yield name.problem(_CODE, message)


def _names(role: Value) -> Iterator[tuple[Value, str]]:
    """Yield the names of prerequisites in a role, with the type that each must have, or an empty one."""
    for kind in ("data", "script", "output"):
        if name := string(role, kind):
            yield name, kind
    yield from ((name, "") for name in strings(role, "prerequisites"))


def _form(name: Value, kind: str) -> str:
    """Describe what to write instead of a reference in a role."""
    reference = name.text if name.text.startswith(_MARKETPLACE) else f"{_MARKETPLACE}name/NAME"
    told = reference.removeprefix(_MARKETPLACE).partition("/")[0]
    type_ = kind or (told if told in PROTOCOL_TYPES and told != "dockerimage" else "script")
    return (
        "expected the name of a prerequisite of this job, found a reference; give the job a prerequisite"
        f" {{name: shared, type: {type_}, require: ['{reference}']}}, and write shared here"
    )


def _open_secrets(root: Value) -> Iterator[Problem]:
    """Report secrets that OpenPAI would show to all.

    It recognises their section by its first line only, and hides nothing else.
    """
    secrets = root.get("secrets")
    if secrets and secrets.data and not _MASKED.search(root.node.source.text):
        message = (
            "OpenPAI shows these values to all its users: it hides only a section that begins with"
            " 'secrets:', without quotes, at the start of a line of a YAML file"
        )
        yield secrets.problem(_SHOWN, message, at_key=True)
    for prerequisite in mappings(root, "prerequisites"):
        password = string(mapping(prerequisite, "auth"), "password")
        if password and not _SECRET.fullmatch(password.text.strip()):
            message = (
                "OpenPAI shows this password to all its users; give it in the section secrets, and write"
                " <% $secrets.NAME %> here"
            )
            yield password.problem(_SHOWN, message, at_key=True)
