"""One hook of one use, in a process of its own, in a task: ``run_hook HOOK``.

The supervisor starts it for a plan's hook steps, and hands over in an open file what it needs to know: the
use, with no secrets but its own, and the task. Nothing is read from the task's folder, which the task can
write. The plan was made under the cluster's policy; the plugin must still be the very distribution, version
and code that it names.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable
from pai_runtime.host.loading import LoadedPlugin, PluginError, blamed, stdout_is_stderr
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plugin import Analysis, ContributedRule, Failure, Task, Use
from pai_runtime.task.memfd import SCRIPT_FD
from pai_runtime.task.placeholders import fill, platform_path
from pai_runtime.task.plan import UseRecord

_FILES = ("PAI_ENV", "PAI_ANALYSIS")


def main() -> None:
    """Run it; exit 0, or 1 with one message on standard error."""
    (hook,) = sys.argv[1:]
    with os.fdopen(SCRIPT_FD, "rb") as stream:
        given = json.load(stream)
    _set_environment(given["environment"])
    record = UseRecord.from_json(given["use"])
    host = Host(NO_POLICY, manifests=False)  # the plan was made from them
    try:
        plugin = _find_the_same(host, record)
        use, task = _use(record, given["secrets"]), _task(given["task"])
        with stdout_is_stderr():
            loaded = host.load(plugin)
            with blamed(plugin, f"hook {hook}"):
                if hook == "pai_analyze":
                    _analyze(loaded, use, task, _failure(given))
                else:
                    getattr(loaded.manager.hook, hook)(use=use, task=task)
    except (Unavailable, PluginError) as error:
        sys.exit(f"use {record.name} ({record.source}): {error}")


def _set_environment(environment: dict[str, str]) -> None:
    """That of the task, in which programs that the plugin starts find our open files too."""
    own = "/proc/self/"
    for name, value in environment.items():
        os.environ[name] = value.replace(own, f"/proc/{os.getpid()}/", 1) if name in _FILES else value


def _use(record: UseRecord, secrets: dict[str, str]) -> Use:
    return Use(
        record.plugin,
        record.name,
        fill(record.parameters, secrets),
        record.failure_policy,
        record.source,
        record.roles,
        {name: secrets[path] for name in record.secrets if (path := platform_path(name)) in secrets},
    )


def _task(given: dict[str, Any]) -> Task:
    ports = {label: tuple(ports) for label, ports in given["ports"].items()}
    names = {"user": os.environ.get("PAI_USER_NAME", ""), "run": os.environ.get("PAI_JOB_NAME", "")}
    return Task(**{**given, **names, "ports": ports, "folder": Path(given["folder"])})


def _failure(given: dict[str, Any]) -> Failure:
    failure = given["failure"]
    rules = tuple(ContributedRule(each["plugin"], each["rule"]) for each in given["rules"])
    return Failure(**{**failure, "tails": tuple(failure["tails"])}, rules=rules)


def _analyze(loaded: LoadedPlugin, use: Use, task: Task, failure: Failure) -> None:
    """Leave the plugin's answer for the supervisor."""
    phase = "hook pai_analyze"
    answer: object = loaded.manager.hook.pai_analyze(use=use, task=task, failure=failure)
    if answer is None:
        return
    if not isinstance(answer, Analysis):
        raise PluginError(loaded.plugin, phase, f"returned {type(answer).__name__}, not an Analysis")
    if fault := answer.fault():
        raise PluginError(loaded.plugin, phase, fault)
    Path(os.environ["PAI_ANALYSIS"]).write_text(json.dumps(answer.to_json()), "utf-8")


def _find_the_same(host: Host, record: UseRecord) -> Plugin:
    plugin = host.find(record.plugin)
    if (plugin.distribution, plugin.version) != (record.distribution, record.version):
        message = f"{plugin.label} is not the one in the plan, {record.distribution} {record.version}"
        raise Unavailable(message)
    try:
        digest = plugin.digest
    except ValueError as error:
        raise Unavailable(f"{plugin.label}: {error}") from None
    if digest != record.digest:
        message = (
            f"the code of {plugin.label} is not that of the plan: its digest is {digest}, not {record.digest}"
        )
        raise Unavailable(message)
    return plugin
