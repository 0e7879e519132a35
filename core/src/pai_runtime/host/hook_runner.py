"""The process that runs one hook of one use in a task: ``hook_runner HOOK``.

The supervisor starts it for a plan's hook steps, and hands over in an open file what it needs to know: the
use, with no secrets but its own, and the task. Nothing is read from the task's folder, which the task can
write. The plan was made under the cluster's policy: the plugin must still be the very distribution, version
and code that it names, and nobody imports a module of a distribution that the policy refuses.

Nothing of the host is imported that serves to choose plugins: people wait for each hook of a task. That is
why this looks for the plugin's distribution in the directories of the search path itself.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from pai_runtime.host.blame import PluginError, blamed, plugin_label, stdout_is_stderr
from pai_runtime.host.code import GROUP, Code, sole
from pai_runtime.host.metadata import entry_points, in_directories, with_group
from pai_runtime.host.own_modules import import_entry, refuse, register_when_needed
from pai_runtime.plugin import Analysis, ContributedRule, Failure, Task, Use
from pai_task.fast_json import dumps, loads
from pai_task.memfd import SCRIPT_FD
from pai_task.placeholders import fill, platform_path
from pai_task.plan import UseRecord
from pai_task.record import record
from pai_task.record_json import from_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_ANALYZE = "hook pai_analyze"
_FILES = ("PAI_ENV", "PAI_ANALYSIS")


class _NotTheSame(Exception):
    """The exception for a plugin that is missing, or has changed since the plan was made."""


@record(frozen=True)
class _Plugin:
    """The installed plugin, verified to be the one in the plan."""

    id: str
    code: Code
    value: str

    @property
    def label(self) -> str:
        """The name of the plugin in messages."""
        return plugin_label(self.id, self.code)

    @property
    def location(self) -> Path | None:
        """The file of the plugin's module."""
        return self.code.module_file(self.value.partition(":")[0].strip())


def main() -> None:
    """Run the hook. Exit with 0, or with 1 and one message on standard error."""
    (hook,) = sys.argv[1:]
    with os.fdopen(SCRIPT_FD, "rb") as stream:
        given = loads(stream.read())
    _set_environment(given["environment"])
    used = from_json(UseRecord, given["use"])
    try:
        plugin = _find(used)
        arguments = {"use": _use(used, given["secrets"]), "task": _task(given["task"])}
        if given["failure"]:
            arguments["failure"] = _failure(given)
        if given["record"]:
            from pai_task.exit_record import parse_exit_record  # noqa: PLC0415 - only at the end

            arguments["record"] = parse_exit_record(given["record"])
        if (has_succeeded := given["hasSucceeded"]) is not None:
            arguments["has_succeeded"] = has_succeeded
        with stdout_is_stderr():
            refuse(given["refused"])
            register_when_needed(_plugin_codes)  # one plugin may import another
            with blamed(plugin, "import"):
                implementation = import_entry(plugin.code, plugin.value)
            with blamed(plugin, f"hook {hook}"):
                answer = _call(getattr(implementation, hook), arguments)
            if "failure" in arguments and answer is not None:
                _leave(answer, plugin)
    except (_NotTheSame, PluginError) as error:
        sys.exit(f"use {used.name} ({used.source}): {error}")


def _find(record: UseRecord) -> _Plugin:
    try:
        code = _installed_code(record.distribution)
        value = dict(entry_points(code.installed, GROUP))[record.plugin]
        digest = code.pinned
    except KeyError:
        raise _NotTheSame(f"{record.distribution} has no plugin {record.plugin}") from None
    except (LookupError, ValueError) as error:
        raise _NotTheSame(f"plugin {record.plugin}: {error}") from None
    label = plugin_label(record.plugin, code)
    if (code.distribution, code.version) != (record.distribution, record.version):
        raise _NotTheSame(f"the plan needs {record.distribution} {record.version}, found {label}")
    if digest != record.digest:
        raise _NotTheSame(
            f"the code of {label} has changed since planning: expected digest {record.digest}, found {digest}"
        )
    return _Plugin(record.plugin, code, value)


def _installed_code(name: str) -> Code:
    """Return the code of an installed distribution. Raises LookupError if there is none, or two in a folder.

    Those in directories are found here. What else `importlib_metadata` may find takes longer than the hook.
    """
    if found := list(in_directories(name)):
        return sole(name, found)
    from pai_runtime.host.installed import installed_code  # noqa: PLC0415 - slow

    return installed_code(name)


def _plugin_codes() -> Iterable[Code]:
    """Return the code of every installed distribution with plugins."""
    if _only_directories():
        return map(Code, with_group(in_directories(), GROUP))
    from pai_runtime.host.installed import plugin_codes  # noqa: PLC0415 - as above

    return plugin_codes()


def _only_directories() -> bool:
    """Return whether nothing on the search path, and no finder, has distributions but plain directories."""
    folders = [entry or "." for entry in sys.path]
    plain = (
        (os.path.isdir(each) and not each.endswith(".egg")) or not os.path.exists(each)  # noqa: PTH110, PTH112 - much faster
        for each in folders
    )
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    return all(plain) and not any(hasattr(finder, "find_distributions") for finder in others)


def _call(function: Any, arguments: dict[str, Any]) -> object:
    """Call a hook with the arguments that it declares, as the host does while planning."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        from pai_runtime.host.signatures import declared_arguments  # noqa: PLC0415 - slow, and rarely needed

        named = declared_arguments(function)
    else:
        named = code.co_varnames[: code.co_argcount - len(function.__defaults__ or ())]
    return function(*(arguments[name] for name in named))


def _set_environment(environment: dict[str, str]) -> None:
    """Set the task's environment, with paths of our open files that also work in child processes."""
    own = "/proc/self/"
    os.environ.clear()  # an interpreter without a locale has set one for itself
    for name, value in environment.items():
        os.environ[name] = value.replace(own, f"/proc/{os.getpid()}/", 1) if name in _FILES else value


def _use(record: UseRecord, secrets: dict[str, str]) -> Use:
    own = ((name, platform_path(name)) for name in record.secrets)
    return Use(
        plugin=record.plugin,
        name=record.name,
        parameters=fill(record.parameters, secrets),
        failure_policy=record.failure_policy,
        source=record.source,
        roles=record.roles,
        plugin_roles=record.plugin_roles,
        secrets={name: secrets[path] for name, path in own if path in secrets},
    )


def _task(given: dict[str, Any]) -> Task:
    ports = {label: tuple(ports) for label, ports in given["ports"].items()}
    names = {"user": os.environ.get("PAI_USER_NAME", ""), "run": os.environ.get("PAI_FRAMEWORK_NAME", "")}
    return Task(**{**given, **names, "ports": ports, "folder": Path(given["folder"])})


def _failure(given: dict[str, Any]) -> Failure:
    failure = given["failure"]
    rules = tuple(ContributedRule(each["plugin"], each["rule"]) for each in given["rules"])
    return Failure(**{**failure, "tails": tuple(failure["tails"])}, rules=rules)


def _leave(answer: object, plugin: _Plugin) -> None:
    """Write the plugin's analysis to the open file for the supervisor."""
    if not isinstance(answer, Analysis):
        raise PluginError(plugin, _ANALYZE, f"returned {type(answer).__name__}, not an Analysis")
    if fault := answer.fault():
        raise PluginError(plugin, _ANALYZE, fault)
    Path(os.environ["PAI_ANALYSIS"]).write_text(dumps(answer.to_json()), "utf-8")


if __name__ == "__main__":
    main()
