"""A check of a plugin against its manifest: its examples, hooks and contributions."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pai_runtime.document.problems import Problems
from pai_runtime.document.schemas import located_in
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, check_parameters
from pai_runtime.host.planning import Answer, Question, ask
from pai_runtime.plugin import Task, Use
from pai_runtime.task.paths import VOLUME

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


def manifest_mismatches(host: Host, plugin: Plugin) -> Iterator[str]:
    """Yield every difference between an allowed plugin, which is imported, and its manifest."""
    examples = plugin.manifest.parameters.get("examples", ())
    file = str(plugin.location)
    for number, example in enumerate(examples):
        problems = Problems()
        check_parameters(plugin, example, problems, located_in(file))
        for problem in problems.in_order:
            yield f"example {number} does not match the schema: {problem.text}"
    roles = (_TASK.role,)
    use = Use(plugin.id, "example", {}, failure_policy="fail", source=file, roles=roles, plugin_roles=roles)
    questions = [Question(plugin, replace(use, parameters=example), [_TASK]) for example in examples]
    imported, *answers = ask(host, [Question(plugin, use, []), *questions])
    if isinstance(imported, PluginError):
        yield imported.what
        return
    for hook in sorted(imported.hooks - set(plugin.manifest.hooks)):
        yield f"implements {hook}, which its manifest does not list"
    for hook in sorted(set(plugin.manifest.hooks) - imported.hooks):
        yield f"does not implement {hook}, which its manifest lists"
    yield from _failed_examples(answers)


def _failed_examples(answers: list[Answer | PluginError]) -> Iterator[str]:
    for number, answer in enumerate(answers):
        contribution = answer if isinstance(answer, PluginError) else answer.contributions[0]
        if isinstance(contribution, PluginError):
            yield f"example {number}: pai_prerequisite {contribution.what}"
        if contribution is answer:
            return  # the others were not asked for
