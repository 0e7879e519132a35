"""The plugin ``com.microsoft.pai.runtimeplugin.failure_analysis``: why a task failed, and what to do."""

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pai_failure_analysis.noting import NOTING
from pai_failure_analysis.permanent_codes import permanent_codes
from pai_runtime.plugin import Analysis, Contribution, Failure, Task, Use, UserError, hookimpl

if TYPE_CHECKING:
    from pai_failure_analysis.evidence import Evidence
    from pai_failure_analysis.rules import Rule
    from pai_failure_analysis.spec_file import SpecFile

CLUSTER_SPEC = "PAI_RUNTIME_EXIT_SPEC"
"""The environment variable with the path of the cluster's exit spec, where a plan is made."""

_MOST_WARNINGS = 20


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution | None:  # noqa: ARG001 - hooks match by name
    """Contribute the cluster's rules, the exit codes after which a retry is useless, and notes on the log.

    Invalid rules of the job are refused here, before anything is started.
    """
    if not use.parameters.get("enabled", True):
        return None
    own: list[Rule] = []
    for when in ("before", "after"):
        rules, faults = _own_rules(use, when, check=True)
        if faults:
            raise UserError("; ".join(faults))
        own += rules
    path = os.environ.get(CLUSTER_SPEC)
    if not path:
        codes = permanent_codes(own)
        return Contribution(permanent_codes=codes, steps=[NOTING]) if own else _by_shipped_rules()
    spec = _cluster_spec(path, _changed(path))
    warnings = list(spec.faults)
    if len(warnings) > _MOST_WARNINGS:
        more = len(warnings) - _MOST_WARNINGS
        warnings = [*warnings[:_MOST_WARNINGS], f"{path}: {more} more invalid entries or patterns"]
    codes = permanent_codes([*own, *spec.rules])
    return Contribution(exit_rules=spec.entries, warnings=warnings, permanent_codes=codes, steps=[NOTING])


@cache
def _by_shipped_rules() -> Contribution:
    """Return the contribution of uses without own rules, cached for the thousands of tasks of a job."""
    return Contribution(permanent_codes=permanent_codes(()), steps=[NOTING])


@hookimpl
def pai_analyze(use: Use, task: Task, failure: Failure) -> Analysis | None:
    """Return the analysis by the first rule that matches the evidence; None if none does."""
    if not use.parameters.get("enabled", True):
        return None
    # RE2 and YAML are not for every job that only has this plugin beside it.
    from pai_failure_analysis.gathering import gather_evidence  # noqa: PLC0415
    from pai_failure_analysis.matching import LONGEST_MATCH, Matcher  # noqa: PLC0415
    from pai_failure_analysis.python_environment import MODULE_NOT_FOUND, advice  # noqa: PLC0415

    evidence, rules = gather_evidence(task, failure), _rules(use, failure)
    match = Matcher(rules).first_match(evidence)
    if match is None:
        _guess(evidence, rules)
        return None
    rule = match.rule
    advised = advice(os.environ) if rule.phrase == MODULE_NOT_FOUND else ()
    return Analysis(
        code=rule.code,
        phrase=rule.phrase,
        reason=rule.reason,
        solution=(*advised, *rule.solution),
        behavior=rule.behavior,
        trigger=match.trigger[:LONGEST_MATCH],
        because_of_peer=rule.because_of_peer and sum(task.instances.values()) > 1,
        user_match=match.user_match,
        platform_match=match.platform_match,
        gpu=dict(evidence.gpu) if match.pattern.gpu else {},
    )


def _guess(evidence: "Evidence", rules: "list[Rule]") -> None:
    """Note what a failure of the command may be that no rule explains; this decides nothing."""
    from pai_failure_analysis.likeness import likely_rule  # noqa: PLC0415 - not where a rule matches

    of_command = (evidence.outcome, evidence.phase) == ("failed", "command")
    if of_command and (rule := likely_rule(evidence.user_log, rules)):
        sys.stderr.write(f"[NOTE] perhaps {rule.phrase}, by the words of its last lines: {rule.reason}\n")


def _rules(use: Use, failure: Failure) -> "list[Rule]":
    """Return all rules in the order in which they are tried: the more specific their author, the earlier."""
    from pai_failure_analysis.rules import read_rules, shipped_rules  # noqa: PLC0415

    contributed: dict[str, list[Any]] = {use.plugin: []}
    for each in failure.rules:
        contributed.setdefault(each.plugin, []).append(each.entry)
    before, _ = _own_rules(use, "before", check=False)
    rules = list(before)
    for plugin, entries in contributed.items():
        read, faults = read_rules(entries, "the cluster's exit spec" if plugin == use.plugin else plugin)
        rules += read
        if plugin != use.plugin:  # the cluster's were told when the plan was made
            sys.stderr.writelines(f"[WARNING] failure_analysis: {fault}\n" for fault in faults)
    after, _ = _own_rules(use, "after", check=False)
    return [*rules, *shipped_rules(), *after]


def _own_rules(use: Use, when: str, *, check: bool) -> "tuple[list[Rule], list[str]]":
    """Return the job's own rules and their faults; `check`, used in planning, also tests their patterns."""
    entries = use.parameters.get(when)
    if not entries:
        return [], []
    from pai_failure_analysis.rules import read_rules  # noqa: PLC0415

    rules, faults = read_rules(entries, f"{when} of the job", check=check)
    return rules, [str(fault) for fault in faults]


def _changed(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@cache
def _cluster_spec(path: str, changed: tuple[int, int] | None) -> "SpecFile":  # noqa: ARG001 - a part of the key
    """Read the cluster's exit spec, cached for all tasks of a job; a new version has another `changed`."""
    from pai_failure_analysis.spec_file import read_spec_file  # noqa: PLC0415

    return read_spec_file(Path(path))
