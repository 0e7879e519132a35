"""The questions to plugins, in a separate process, about what the uses of a job contribute."""

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from pai_document.problems import InvalidInput, Problem
from pai_runtime.host.blame import PluginError, blamed
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host
from pai_runtime.host.loading import HOOKS, LoadedPlugin
from pai_runtime.host.separate_process import MOST_BYTES, AnswerPipe, NoAnswer, SeparateProcess
from pai_runtime.plugin import Contribution, Mount, Service, ShellStep, Task, Use
from pai_task.record import record, replace

_IMPORT = "import"
_HOOK = "hook pai_prerequisite"
_AS_BEFORE = '"as before"'
_LONGEST_ERROR = 2000
_MOST_FRAMES = 50
_NONSENSE = "returned an answer that cannot be understood"


@record(frozen=True)
class Question:
    """A question to a plugin: what a use of it adds to the plans of these tasks."""

    plugin: Plugin
    use: Use
    tasks: Sequence[Task]


@record(frozen=True)
class Answer:
    """An answer of a plugin: the hooks that it implements, and per task a contribution or an error.

    `import_time` is how long its import has kept a processor busy, in seconds.
    """

    hooks: frozenset[str]
    contributions: Sequence[Contribution | PluginError]
    import_time: float = 0


def ask(
    host: Host, questions: Sequence[Question], prepare: Callable[[], None] = lambda: None
) -> list[Answer | PluginError]:
    """Return the answer to each question, or the error of its plugin.

    `prepare` is called in the process of the plugins, before it imports any. A plugin that ends or blocks the
    process is not asked again; the others are asked in a new one. Raises `InvalidInput` if no process can be
    started.
    """
    try:
        return _ask(host, questions, prepare)
    except OSError as error:
        message = f"cannot start a process to ask plugins what they contribute: {error.strerror}"
        raise InvalidInput([Problem("no-process", message)]) from error


def _ask(
    host: Host, questions: Sequence[Question], prepare: Callable[[], None]
) -> list[Answer | PluginError]:
    answers: dict[int, Answer | PluginError] = {}
    while left := {number: each for number, each in enumerate(questions) if number not in answers}:
        work = partial(_answer, host, list(left.values()), prepare)
        with contextlib.closing(SeparateProcess(work)) as process:
            for number, question in left.items():
                try:
                    answers[number] = _receive(process, question)
                except PluginError as error:
                    same = [other for other in left if left[other].plugin.id == question.plugin.id]
                    answers |= {other: error for other in same if other not in answers}
                    break
    return [answers[number] for number in range(len(questions))]


def _receive(process: SeparateProcess, question: Question) -> Answer | PluginError:
    """Receive the untrusted answers to one question. Raises `PluginError` if no more will come."""
    plugin, phase = question.plugin, _IMPORT
    try:
        first = _first(process.receive(), plugin)
        if isinstance(first, PluginError):
            return first
        phase = _HOOK
        contributions: list[Contribution | PluginError] = []
        for _ in question.tasks:
            contributions.append(_contribution(process.receive(), plugin, contributions))
    except (NoAnswer, ValueError) as error:
        raise PluginError(plugin, phase, str(error)) from None
    return replace(first, contributions=contributions)


def _first(answer: Any, plugin: Plugin) -> Answer | PluginError:
    match answer:
        case {"error": error}:
            return _parsed_error(error, plugin, _IMPORT)
        case {"hooks": list(listed), "importTime": float(seconds)} if all(
            isinstance(name, str) and name in HOOKS for name in listed
        ):
            return Answer(frozenset(listed), (), seconds)
    raise ValueError(_NONSENSE)


def _parsed_error(error: Any, plugin: Plugin, phase: str) -> PluginError:
    match error:
        case {"what": str(what), "kind": str(kind), "frames": list(frames)} if all(
            isinstance(frame, str) for frame in frames
        ):
            shown = [frame[:_LONGEST_ERROR] for frame in frames[-_MOST_FRAMES:]]
            what, kind = what[:_LONGEST_ERROR], kind[:_LONGEST_ERROR]
            return PluginError(plugin, phase, what, kind=kind, frames=shown)
    raise ValueError(_NONSENSE)


def _contribution(
    answer: Any, plugin: Plugin, before: Sequence[Contribution | PluginError]
) -> Contribution | PluginError:
    match answer:
        case "as before" if before:
            return before[-1]
        case {"error": error}:
            return _parsed_error(error, plugin, _HOOK)
        case {"contribution": document}:
            return contribution_from_json(document)
    raise ValueError(_NONSENSE)


def _answer(host: Host, questions: Sequence[Question], prepare: Callable[[], None], pipe: AnswerPipe) -> None:
    """Answer all questions; the separate process runs this."""
    prepare()
    for question in questions:
        try:
            loaded = host.load(question.plugin)
        except PluginError as error:
            pipe.send(_error(error))
            pipe.flush()
            continue
        implemented = [name for name in HOOKS if loaded.implements(name)]
        pipe.send(json.dumps({"hooks": implemented, "importTime": loaded.import_time}))
        pipe.flush()
        parameters = json.dumps(question.use.parameters)
        before = ""
        for task in question.tasks:
            answer = _answer_of(loaded, question.use, parameters, task)
            pipe.send(_AS_BEFORE if answer == before else answer)
            before = answer
        pipe.flush()


def _answer_of(loaded: LoadedPlugin, use: Use, parameters: str, task: Task) -> str:
    """Return the answer of one call as JSON; the plugin gets copies of its arguments."""
    own_use = replace(use, parameters=json.loads(parameters))
    own_task = replace(task, instances=dict(task.instances), ports=dict(task.ports))
    try:
        with blamed(loaded.plugin, _HOOK):
            document = contribution_to_json(contribution_of(loaded, own_use, own_task))
            answer = json.dumps({"contribution": document}, allow_nan=False)
    except PluginError as error:
        return _error(error)
    if len(answer) > MOST_BYTES:
        return _error(PluginError(loaded.plugin, _HOOK, f"contributes more than {MOST_BYTES} bytes"))
    return answer


def contribution_of(loaded: LoadedPlugin, use: Use, task: Task) -> Contribution:
    """Call a plugin's `pai_prerequisite` here and return its contribution.

    Raises `PluginError` if it fails.
    """
    with blamed(loaded.plugin, _HOOK):
        answer: object = loaded.manager.hook.pai_prerequisite(use=use, task=task)
        if answer is None:
            return Contribution()
        if not isinstance(answer, Contribution):
            what = f"returned {type(answer).__name__}, not a Contribution"
            raise PluginError(loaded.plugin, _HOOK, what)
        return answer


def _error(error: PluginError) -> str:
    return json.dumps({"error": {"what": error.what, "kind": error.kind, "frames": error.frames}})


def contribution_to_json(contribution: Contribution) -> dict[str, Any]:
    """Return a contribution as a JSON object."""
    return {
        **{name: getattr(contribution, name) for name in Contribution.__match_args__},
        "environment": dict(contribution.environment),
        "steps": _rows(contribution.steps, ShellStep),
        "services": _rows(contribution.services, Service),
        "mounts": _rows(contribution.mounts, Mount),
        "exit_rules": [dict(rule) for rule in contribution.exit_rules],
        "permanent_codes": sorted(contribution.permanent_codes),
    }


def contribution_from_json(document: Any) -> Contribution:
    """Parse a contribution from JSON. Raises ValueError if it is invalid.

    Constructing it validates it again: what the code of a plugin has written, or has changed after the first
    check, is not trusted.
    """
    try:
        return Contribution(
            **{
                **document,
                "steps": [ShellStep(*row) for row in document["steps"]],
                "services": [Service(*[*row[:-1], tuple(row[-1])]) for row in document["services"]],
                "mounts": [Mount(*row) for row in document["mounts"]],
            }
        )
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"returned an invalid contribution: {error}") from error


def _rows(things: Iterable[Any], kind: Any) -> list[list[Any]]:
    return [[getattr(thing, name) for name in kind.__match_args__] for thing in things]
