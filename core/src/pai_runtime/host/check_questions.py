"""The questions that a check asks a plugin: about its examples, and about each with a secret in it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pai_document.problems import DocumentPath, Problems, field_name
from pai_document.schemas import located_in
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import check_parameters
from pai_runtime.host.planning import Question
from pai_runtime.plugin import Task, Use
from pai_task.paths import VOLUME
from pai_task.placeholders import placeholder
from pai_task.record import record, replace

SECRETS: Final = ("check.one", "check.the_other")
"""Paths of two secrets that have nothing in common, neither their lengths nor their letters."""

_MOST_TEXTS = 50
"""Maximum number of texts of one example that are replaced by secrets."""

_TASK = Task(
    job="example",
    role="worker",
    index=0,
    instances={"worker": 1},
    ports={"ssh": (15000,), "http": (15001,)},
    folder=Path(VOLUME),
    user="me",
    run="example",
)


@record(frozen=True)
class Asked:
    """What is asked about one example, by its number: as it is, or with a secret in the place of a `field`.

    As it is, it is asked about for two equal tasks, and then under the other failure policy. With a secret,
    it is asked about for each of `SECRETS`.
    """

    example: int
    field: str
    questions: Sequence[Question]


def import_question(plugin: Plugin) -> Question:
    """Return the question whether a plugin can be imported, and which hooks it has."""
    return Question(plugin, _use(plugin, {}), [])


def questions(plugin: Plugin) -> Iterator[Asked]:
    """Yield what is asked about the examples of a plugin, the same in every process."""
    for number, example in enumerate(examples(plugin)):
        use = _use(plugin, example)
        ignored = replace(use, failure_policy="ignore")
        yield Asked(number, "", (Question(plugin, use, [_TASK, _TASK]), Question(plugin, ignored, [_TASK])))
        for path in list(_texts(example))[:_MOST_TEXTS]:
            with_secret = [_replaced(example, path, placeholder(each)) for each in SECRETS]
            # The schema says where a job may have a secret: not where only some texts are allowed.
            if not problems(plugin, with_secret[0]).in_order:
                asked = [Question(plugin, replace(use, parameters=each), [_TASK]) for each in with_secret]
                yield Asked(number, field_name(path), asked)


def examples(plugin: Plugin) -> Sequence[Any]:
    """Return the examples of a plugin's parameters."""
    found: Sequence[Any] = plugin.manifest.parameters.get("examples", ())
    return found


def problems(plugin: Plugin, parameters: Any) -> Problems:
    """Return what is wrong with parameters by the schema of the plugin."""
    found = Problems()
    check_parameters(plugin, parameters, found, located_in(str(plugin.location)))
    return found


def _use(plugin: Plugin, parameters: Any) -> Use:
    roles = (_TASK.role,)
    return Use(plugin.id, "example", parameters, "fail", str(plugin.location), roles, roles)


def _texts(value: Any, path: DocumentPath = ()) -> Iterator[DocumentPath]:
    """Yield the paths of all texts in an example."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, (*path, index))


def _replaced(value: Any, path: DocumentPath, text: str) -> Any:
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], text)
    return copy
