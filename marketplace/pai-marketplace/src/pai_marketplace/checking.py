"""What is published, checked: definitions by pai-definitions, whole jobs by the runtime's validator.

Nothing is fetched: what a definition or job requires is looked for on this server, and among the definitions
that come with the runtime.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from sqlalchemy.orm import Session

from pai_definitions.definition import misspelt, read_definitions, unused_variables
from pai_definitions.fetching import Fetcher
from pai_definitions.folder import FolderSource
from pai_definitions.job_library import JobLibrary
from pai_definitions.library import SourceLibrary
from pai_definitions.marketplace.checked_use import CheckedUse
from pai_definitions.model import DefinitionSource
from pai_definitions.reference import BadReference, Reference, parse_reference
from pai_definitions.sources import EMBEDDED_FOLDER
from pai_definitions.web import Web
from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Problem, Problems, errors
from pai_document.value import Value
from pai_marketplace.errors import Invalid
from pai_marketplace.own_source import OwnSource
from pai_marketplace.settings import MOST_CONTENT
from pai_marketplace.viewer import Viewer
from pai_runtime.command.jobs import Host, given_host, job_plugins, load_job, planned_roles
from pai_runtime.definitions import Definition, DefinitionFile
from pai_runtime.host.locations import EMBEDDED
from pai_task.record import record, replace

NAME: Final = re.compile("[a-zA-Z0-9_-]{1,100}")
VERSION: Final = re.compile("[a-zA-Z0-9][a-zA-Z0-9._+-]{0,99}")

FILE: Final = "content"
"""What positions call the text that is checked."""
_REFERENCE: Final = re.compile("marketplace://[a-zA-Z0-9_./@:+-]{1,600}")
_MOST_REQUIRED: Final = 200
_NOT_HERE: Final = ("no-such-definition", "definition-unavailable", "definition-forbidden")


@record(frozen=True)
class Checked:
    """What a text is: `kind` is ``definition`` or ``job``; `version` is empty if it states none.

    `requires` are its references to other items. `problems` has warnings and notes only.
    """

    kind: str
    name: str
    type: str
    version: str
    title: str
    summary: str
    usage: str
    tags: tuple[str, ...]
    requires: tuple[Reference, ...]
    problems: tuple[Problem, ...]


def check_content(session: Session, viewer: Viewer, text: str, name: str = "") -> Checked:
    """Check a definition file, or a whole job, of which `viewer` may see all that it requires.

    `name` is the definition that is meant, where the file has several. Raises `Invalid` with all problems.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MOST_CONTENT:
        raise Invalid(f"expected at most {MOST_CONTENT // 1024} KiB of YAML, found more")
    try:
        if is_job(text):
            return _job(session, viewer, text)
        return _definition(session, viewer, text, name)
    except InvalidInput as error:
        raise Invalid("it is not valid", error.problems) from None


def is_job(text: str) -> bool:
    """Whether a text is a job, and no definition; templates of definitions need not be YAML."""
    try:
        data = parse_document(text, FILE).data
    except InvalidInput:
        return re.search(r"^(type\s*:\s*job\b|taskRoles\s*:)", text, re.MULTILINE) is not None
    return isinstance(data, dict) and (data.get("type") == "job" or "taskRoles" in data)


def read_definition(text: str, name: str = "") -> Definition:
    """Return the definition in a text, the one of this name if there are several. Raises `InvalidInput`."""
    found = read_definitions(DefinitionFile(FILE, FILE, FILE, text.encode("utf-8", "surrogatepass")))
    named = [each for each in found if each.name == name] or found
    if len(named) > 1:
        message = f"expected one definition{f' of the name {name}' if name else ''}, found {len(named)}"
        raise InvalidInput([named[1].value.problem("duplicate-name", message)])
    return named[0]


def check_job(session: Session, viewer: Viewer, text: str) -> Sequence[Problem]:
    """Return all problems of a job, as its author would see them; errors among them."""
    problems = Problems()
    with problems.caught():
        _checked_job(session, viewer, parse_document(text, FILE, problems), problems)
    return problems.in_order


def _definition(session: Session, viewer: Viewer, text: str, name: str) -> Checked:
    definition = read_definition(text, name)
    problems = Problems()
    if not definition.kind:
        message = "expected a type, such as data or script: people look for items by it"
        problems.add(definition.value.problem("missing-field", message))
    _check_version(definition.version, definition.value, problems)
    use = CheckedUse([definition], _library(session, viewer), _host())
    for each in use.problems(definition):
        # What is required may be in a source that only the users of the definition have.
        problems.add(replace(each, severity="warning") if each.code in _NOT_HERE else _strict(each))
    problems.check()
    problems.add(*misspelt(definition))
    for variable in unused_variables(definition):
        message = f"the template variable '{variable.name}' is used nowhere"
        problems.add(variable.value.problem("unused-variable", message, severity="warning"))
    return Checked(
        "definition",
        definition.name,
        definition.kind,
        definition.version,
        definition.title,
        definition.summary,
        definition.usage or _text(definition.value, "description"),
        _tags(definition.value),
        tuple(_required(definition)),
        problems.in_order,
    )


def _job(session: Session, viewer: Viewer, text: str) -> Checked:
    problems, found = Problems(), Problems()
    root = parse_document(text, FILE, found)
    with found.caught():
        _checked_job(session, viewer, root, found)
    problems.add(*map(_strict, found.in_order))
    version = _text(root, "version")
    _check_version(version, root, problems)
    problems.check()
    return Checked(
        "job",
        _text(root, "name"),
        "template",
        version,
        "",
        "",
        _text(root, "description"),
        _tags(root),
        tuple(_references(text)),
        tuple(each for each in problems.in_order if each not in errors(problems.in_order)),
    )


def _checked_job(session: Session, viewer: Viewer, root: Value, problems: Problems) -> None:
    host = _host()
    library = _library(session, viewer)
    job = load_job(root, None, job_plugins(host), problems, open_definitions=lambda _: JobLibrary(library))
    planned_roles(job, host, problems, lenient=True)


def _library(session: Session, viewer: Viewer) -> SourceLibrary:
    sources: list[DefinitionSource] = [
        OwnSource(session, viewer),
        FolderSource(EMBEDDED, EMBEDDED_FOLDER, EMBEDDED),
    ]
    return SourceLibrary(sources, Web(Fetcher(offline=True)), lambda _: None)


def _strict(problem: Problem) -> Problem:
    """Return a problem as what is published has it: of a plugin that is not here, nothing was checked."""
    return replace(problem, severity="error") if problem.code == "no-such-plugin" else problem


@cache
def _host() -> Host:
    return given_host(None)


def _check_version(version: str, value: Value, problems: Problems) -> None:
    if version and not VERSION.fullmatch(version):
        message = "expected a version of letters, digits, '.', '_', '+' and '-', at most 100 characters"
        problems.add((value.get("version") or value).problem("wrong-version", message))


def _required(definition: Definition) -> Iterator[Reference]:
    """Yield the references of a definition to items; a name in the same file is none."""
    entries = definition.value.get("require")
    for entry in list(entries.values())[:_MOST_REQUIRED] if entries else []:
        name = entry.get("name") or entry
        try:
            reference = parse_reference(str(name.data))
        except BadReference:
            continue  # it is reported where it is used
        if reference.kind == "plain":
            reference = replace(reference, text=f"marketplace://name/{reference.target}", kind="name")
        if reference.kind == "name":
            yield reference


def _references(text: str) -> Iterator[Reference]:
    found = dict.fromkeys(match.rstrip(".:/") for match in _REFERENCE.findall(text))
    for each in list(found)[:_MOST_REQUIRED]:
        try:
            reference = parse_reference(each)
        except BadReference:
            continue
        if reference.kind == "name":
            yield reference


def _tags(value: Value) -> tuple[str, ...]:
    tags = value.get("tags")
    return tuple(str(each.data) for each in tags.values()) if tags and isinstance(tags.data, list) else ()


def _text(value: Value, field: str) -> str:
    child = value.get(field)
    return child.text if child and isinstance(child.data, (str, int, float)) else ""
