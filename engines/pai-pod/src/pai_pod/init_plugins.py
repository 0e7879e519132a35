"""Execution of one init plugin: the runtime's own, a command, or an allowed plugin."""

from pai_document.problems import InvalidInput
from pai_pod.errors import InitFailed
from pai_pod.init_config import HOOK, InitPlugin
from pai_pod.init_steps import find_step
from pai_pod.made import Made
from pai_pod.steps import Pod, UnknownPlatform
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Unavailable
from pai_runtime.plugin import InitContainer
from pai_task.exit_codes import INIT_FAILED


def run_init_plugin(plugin: InitPlugin, pod: Pod, made: Made) -> Made:
    """Run an init plugin, and return the results so far. Raises `InitFailed`, which names it."""
    try:
        if plugin.command is None and plugin.plugin is None:
            return _run_step(plugin, pod, made)
        pod.log.say(plugin.label)
        if plugin.command is not None:
            _run_command(plugin.command, pod)
        elif plugin.plugin is not None:
            _call(plugin.plugin, plugin, pod)
    except InitFailed as error:
        raise InitFailed(error.code, *(f"{plugin.label}: {line}" for line in error.lines)) from None
    return made


def _run_step(plugin: InitPlugin, pod: Pod, made: Made) -> Made:
    """Run a step, unless it is not for this pod, or it is a default one that is unavailable here."""
    try:
        step = find_step(plugin.name, pod.host)
    except Unavailable as error:
        if not plugin.is_usual:
            raise InitFailed(INIT_FAILED, str(error)) from None
        pod.log.say(f"{plugin.label} is skipped: {error}")
        return made.after(UnknownPlatform(str(error)))
    if why := step.skipped(pod):
        pod.log.say(f"{plugin.label} is skipped: {why}")
        return made
    pod.log.say(plugin.label)
    return step.run(pod, made)


def _run_command(command: str, pod: Pod) -> None:
    from pai_pod.init_command import run_command  # noqa: PLC0415 - most clusters have none

    code = run_command(command, pod.directories.init, pod.environment, pod.log)
    if code:
        raise InitFailed(code, f"the command ended with exit code {code}")


def _call(plugin: Plugin, configured: InitPlugin, pod: Pod) -> None:
    container = InitContainer(
        name=configured.name,
        parameters=configured.parameters,
        folder=pod.directories.volume,
        environment=dict(pod.environment),
        say=pod.log.say,
    )
    try:
        pod.host.call(plugin, HOOK, container=container)
    except (PluginError, InvalidInput) as error:
        raise InitFailed(INIT_FAILED, *str(error).splitlines()) from None
    finally:
        pod.log.pass_on()
