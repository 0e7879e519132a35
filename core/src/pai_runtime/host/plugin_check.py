"""A check of plugins against their manifests and the rules for plugins, by their examples."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, Literal

from pai_runtime.host.blame import PluginError
from pai_runtime.host.check_questions import SECRETS, Asked, examples, import_question, problems, questions
from pai_runtime.host.contribution_faults import contribution_faults
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host
from pai_runtime.host.loading import deprecation
from pai_runtime.host.planning import Answer, ask, contribution_to_json
from pai_runtime.host.second_answers import SecondAnswers, comparable, second_answers
from pai_runtime.host.side_effects import SideEffect, prevent_side_effects
from pai_runtime.plugin import Contribution, UserError
from pai_task.placeholders import fill
from pai_task.record import record

MOST_IMPORT_RATIO: Final = 10
"""How many times as long as the start of Python the import of a plugin may take, in processor time."""

_Answers = Sequence[Answer | PluginError]


@record(frozen=True)
class Fault:
    """What is wrong with a plugin: a `code` for programs, a `message` for people.

    `frames` are the lines of the plugin's own code that led there, outermost first. A warning is
    about what works with this version of the plugin API, and will not with the next one.
    """

    code: str
    message: str
    frames: Sequence[str] = ()
    severity: Literal["error", "warning"] = "error"


def check_plugins(host: Host, plugins: Sequence[Plugin]) -> Mapping[str, Sequence[Fault]]:
    """Return what is wrong with each of some allowed plugins, by id; they are imported in other processes."""
    asked = {plugin.id: list(questions(plugin)) for plugin in plugins}
    every = [
        (import_question(plugin), *chain.from_iterable(each.questions for each in asked[plugin.id]))
        for plugin in plugins
    ]
    answers = iter(ask(host, list(chain.from_iterable(every)), prevent_side_effects))
    own = {plugin.id: list(islice(answers, len(each))) for plugin, each in zip(plugins, every, strict=True)}
    # One that did not answer need not be waited for again.
    answering = [id_ for id_, each in own.items() if all(isinstance(answer, Answer) for answer in each)]
    second = second_answers(host, answering)
    return {
        plugin.id: [
            *_example_faults(plugin),
            *dict.fromkeys(_faults(plugin, asked[plugin.id], own[plugin.id], second.get(plugin.id))),
        ]
        for plugin in plugins
    }


def _example_faults(plugin: Plugin) -> Iterator[Fault]:
    for number, example in enumerate(examples(plugin)):
        for problem in problems(plugin, example).in_order:
            yield Fault("example", f"example {number} does not match the schema: {problem.text}")


def _faults(
    plugin: Plugin, asked: Sequence[Asked], answers: _Answers, second: SecondAnswers | None
) -> Iterator[Fault]:
    """Yield what is wrong with the answers of a plugin, the first of which says whether it was imported."""
    imported, *others = answers
    if isinstance(imported, PluginError):
        yield _failed(imported, "import", "")
        return
    yield from _hook_faults(plugin, imported.hooks)
    given = iter(zip(others, second.answers if second else map(comparable, others), strict=True))
    broken: list[Fault] = []
    for each in asked:
        own, again = zip(*islice(given, len(each.questions)), strict=True)
        where = f"example {each.example}{f' with a secret as {each.field}' if each.field else ''}: "
        first = [answer for answer in own if isinstance(answer, Answer)]
        if len(first) < len(own):
            dead = (answer for answer in own if isinstance(answer, PluginError))
            yield from (_failed(answer, "hook", where) for answer in dead)
            return  # nothing more was asked of it
        if not each.field:
            broken = list(_answer_faults(first, again, where))
            yield from (*broken, *_rule_faults(each, first, where))
        elif not broken:
            yield from _secret_faults(first, where)
    if not second:
        yield Fault("not-deterministic", "does not answer in another process")
    elif second.import_ratio > MOST_IMPORT_RATIO:
        yield Fault(
            "slow-import",
            f"its import takes {second.import_ratio:.0f} times as long as the start of Python, at most "
            f"{MOST_IMPORT_RATIO} is allowed: import what is slow where it is needed",
        )


def _hook_faults(plugin: Plugin, implemented: frozenset[str]) -> Iterator[Fault]:
    for hook in sorted(implemented - set(plugin.manifest.hooks)):
        yield Fault("hooks", f"implements {hook}, which its manifest does not list")
    for hook in sorted(implemented):
        if text := deprecation(hook):
            yield Fault("deprecated", f"implements {hook}, which is deprecated: {text}", severity="warning")
    for hook in sorted(set(plugin.manifest.hooks) - implemented):
        yield Fault("hooks", f"does not implement {hook}, which its manifest lists")


def _answer_faults(answers: Sequence[Answer], again: Sequence[Any], where: str) -> Iterator[Fault]:
    """Yield which answers about an example are errors, or differ from others to the same question."""
    compared = list(map(comparable, answers))
    for answer in answers:
        if isinstance(answer.contributions[0], PluginError):
            yield _failed(answer.contributions[0], "hook", where)
    if any(each != same[0] for same in compared for each in same):
        yield Fault(
            "not-deterministic", f"{where}pai_prerequisite gives another answer when it is asked again"
        )
    elif compared != list(again):
        yield Fault(
            "not-deterministic",
            f"{where}pai_prerequisite gives another answer in another process: it depends on chance, "
            "the time, or the order of a set",
        )


def _rule_faults(asked: Asked, answers: Sequence[Answer], where: str) -> Iterator[Fault]:
    for question, answer in zip(asked.questions, answers, strict=True):
        contribution = answer.contributions[0]
        if isinstance(contribution, Contribution):
            for code, message in contribution_faults(question.use, contribution):
                yield Fault(code, where + message)


def _secret_faults(answers: Sequence[Answer], where: str) -> Iterator[Fault]:
    """Yield what is wrong with the answers about an example with one secret, and with another."""
    given = [answer.contributions[0] for answer in answers]
    errors = [each for each in given if isinstance(each, PluginError)]
    if errors:
        if errors[0].kind != UserError.__name__:  # which says that it can be no secret
            yield _failed(errors[0], "secret", where)
        return
    contributions = [each for each in given if isinstance(each, Contribution)]
    filled = [_filled(each, path) for each, path in zip(contributions, SECRETS, strict=True)]
    if filled[0] is None or filled[0] != filled[1]:
        message = "does more with it than to pass it on; it must not be split, compared, encoded or measured"
        yield Fault("secret", f"{where}pai_prerequisite {message}")


def _filled(contribution: Contribution, path: str) -> object:
    """Return a contribution with a value in the place of a secret; None if it names one that there is not."""
    try:
        return fill(contribution_to_json(contribution), {path: "value"})
    except KeyError:
        return None


def _failed(error: PluginError, code: str, where: str) -> Fault:
    code = "side-effect" if error.kind == SideEffect.__name__ else code
    return Fault(code, f"{where}pai_prerequisite {error.what}" if where else error.what, error.frames)
