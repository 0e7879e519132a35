"""One hook of one use, in a process of its own, in a task: ``run_hook HOOK FOLDER USE``.

The supervisor starts it for a plan's hook steps. The plan was made under the cluster's policy; the plugin
must still be the very distribution and version that it names.
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
from pai_runtime.task.placeholders import fill, platform_path
from pai_runtime.task.plan import Plan, UseRecord
from pai_runtime.task.shell import SCRIPT_FD


def main() -> None:
    """Run it; exit 0, or 1 with one message on standard error."""
    hook, folder, number = sys.argv[1:]
    with os.fdopen(SCRIPT_FD, "rb") as stream:
        given = json.load(stream)
    secrets = given["secrets"]
    plan = Plan.from_json(json.loads((Path(folder) / "plan.json").read_bytes()))
    record = plan.uses[int(number)]
    use = Use(
        record.plugin,
        record.name,
        fill(record.parameters, secrets),
        record.failure_policy,
        record.source,
        record.roles,
        {name: secrets[path] for name in record.secrets if (path := platform_path(name)) in secrets},
    )
    task = Task(plan.job, plan.role, plan.index, plan.instances, plan.ports, Path(plan.folder), plan.gang)
    host = Host(NO_POLICY, manifests=False)  # the plan was made from them
    try:
        plugin = _find_the_same(host, record)
        with stdout_is_stderr():
            loaded = host.load(plugin)
            with blamed(plugin, f"hook {hook}"):
                if hook == "pai_analyze":
                    _analyze(loaded, use, task, _failure(plan, given["failure"]))
                else:
                    getattr(loaded.manager.hook, hook)(use=use, task=task)
    except (Unavailable, PluginError) as error:
        sys.exit(f"use {record.name} ({record.source}): {error}")


def _failure(plan: Plan, given: dict[str, Any]) -> Failure:
    rules = tuple(ContributedRule(plan.uses[each.use].plugin, each.rule) for each in plan.exit_rules)
    return Failure(**{**given, "tails": tuple(given["tails"])}, rules=rules)


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
    return plugin
