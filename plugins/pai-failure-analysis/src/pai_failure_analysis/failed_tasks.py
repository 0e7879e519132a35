"""The failed tasks of a run, explained by the evidence that was kept."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.explanation import Explanation, by_match, by_record
from pai_failure_analysis.matching import Matcher
from pai_failure_analysis.rules import OUTCOMES, PHASES
from pai_failure_analysis.searched_logs import Logs, read_logs
from pai_runtime.plugin import FailedTask, TaskLog


def explain(task: FailedTask, matcher: Matcher) -> tuple[Explanation | None, Logs]:
    """Explain a failed task: by the rules if they match its logs, otherwise as its exit record does.

    The exit record knew more: what the kernel, the disk and the GPUs said, and the job's rules. Also returns
    the log of the command.
    """
    user, platform = _read(task.user_log), _read(task.runtime_log)
    match = matcher.first_match(_evidence(task.exit_record, user, platform))
    found = by_match(match, user, platform) if match else None
    recorded = by_record(task.exit_record)
    if not recorded:
        return found, user
    is_foreign = recorded.rule.phrase not in {rule.phrase for rule in matcher.rules}
    if found is None or not found.places or is_foreign:
        return recorded, user
    same = found.rule.phrase == recorded.rule.phrase
    return (_with_more_advice(found, recorded) if same else found), user


def _with_more_advice(found: Explanation, recorded: Explanation) -> Explanation:
    """Return an explanation with the further advice of the exit record, except for truncated lines."""
    known = found.rule.solution
    more = [line for line in recorded.rule.solution if line not in known and not line.endswith("…")]
    return replace(found, rule=found.rule._replace(solution=(*more, *known)))


def _read(log: TaskLog) -> Logs:
    return read_logs([(log.name, lambda: log)])


def _evidence(record: Mapping[str, Any], user: Logs, platform: Logs) -> Evidence:
    use = record.get("failedUse")
    plugin = use.get("plugin") if isinstance(use, Mapping) else None
    own, code, signal = (record.get(key) for key in ("originUserExitCode", "exitCode", "signal"))
    outcome, phase = record.get("outcome"), record.get("phase")
    return Evidence(
        exit_code=own if isinstance(own, int) else code if isinstance(code, int) else None,
        signal=signal if isinstance(signal, int) else None,
        outcome=outcome if outcome in OUTCOMES else "failed",
        phase=phase if phase in PHASES else "command",
        plugin=plugin if isinstance(plugin, str) else None,
        user_log=user.text,
        platform_log=platform.text,
    )
