"""A small model of what Job and JobSet decide, by the sentences of their documentation.

Those of Job are of https://kubernetes.io/docs/concepts/workloads/controllers/job/, those of JobSet of its
API (``jobset.x-k8s.io/v1alpha2``). The controllers see each end before the next one happens.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TaskName = tuple[str, int]


@dataclass(frozen=True)
class End:
    """How a pod ended: the exit code of one of its containers, and whether it was disrupted."""

    code: int
    container: str = "app"
    disrupted: bool = False


class Job:
    """An Indexed Job, one attempt of the JobSet: `running` are its pods' indexes, with their failures.

    `condition` is how it has ended: type, reason and message.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        assert spec["completionMode"] == "Indexed"
        assert spec["parallelism"] == spec["completions"]
        self._spec = spec
        self._completions: int = spec["completions"]
        self.failed: set[int] = set()
        self.succeeded: set[int] = set()
        self.running = dict.fromkeys(range(self._completions), 0)
        self.condition: tuple[str, str, str] | None = None

    def pod_ended(self, index: int, end: End) -> None:
        """One of the running pods has ended."""
        if end.code or end.disrupted:
            self._pod_failed(index, end)
        else:
            del self.running[index]
            self.succeeded.add(index)
        self._look()
        if self.condition:
            # "The Job controller triggers termination of all remaining running Pods for that Job."
            self.running.clear()

    def _pod_failed(self, index: int, end: End) -> None:
        action, message = self._action(index, end)
        if action == "FailJob":
            # "indicate that the Pod's job should be marked as Failed and all running Pods should be
            # terminated"
            self.condition = ("Failed", "PodFailurePolicy", message)
        elif action == "Ignore":
            # "the counter towards the .spec.backoffLimit should not be incremented and a replacement Pod
            # should be created"
            return
        elif action == "FailIndex" or self.running[index] == self._spec["backoffLimitPerIndex"]:
            # "to avoid unnecessary retries within the index of a failed pod"; "When the per-index backoff
            # limit is exceeded for an index, Kubernetes considers the index as failed"
            del self.running[index]
            self.failed.add(index)
        else:
            self.running[index] += 1

    def _action(self, index: int, end: End) -> tuple[str, str]:
        # "rules [...] are evaluated in order. Once a rule matches a Pod failure, the remaining rules are
        # ignored. When no rule matches the Pod failure, the default handling applies."
        pod = f"ns/run-role-0-{index}-bcdfg"
        for number, rule in enumerate(self._spec["podFailurePolicy"]["rules"]):
            matching = f"matching {rule['action']} rule at index {number}"
            if rule.get("onPodConditions") and end.disrupted:
                return rule["action"], f"Pod {pod} has condition DisruptionTarget {matching}"
            codes = rule.get("onExitCodes")
            if codes and codes["containerName"] == end.container and end.code in codes["values"]:
                failed = f"Container {end.container} for pod {pod} failed with exit code {end.code}"
                return rule["action"], f"{failed} {matching}"
        return "Count", ""

    def _look(self) -> None:
        # "once the Job meets either policy, the job controller respects the terminating policy and ignores
        # the success policy"
        if self.condition:
            return
        if len(self.failed) > self._spec["maxFailedIndexes"]:
            # "When the number of failed indexes exceeds the maxFailedIndexes field, the Job controller
            # triggers termination of all remaining running Pods"
            self.condition = ("Failed", "MaxFailedIndexesExceeded", "Job has exceeded [...]")
        elif self.failed and len(self.failed) + len(self.succeeded) == self._completions:
            # "Once all indexes finish for a Job where you specified a backoff limit per index, if at least
            # one of those indexes did fail, the Job controller marks the overall Job as failed"
            self.condition = ("Failed", "FailedIndexes", "Job has failed indexes")
        elif len(self.succeeded) >= self._wanted():
            self.condition = ("Complete", "", "")

    def _wanted(self) -> int:
        # "once the number of succeeded indexes reaches the succeededCount, the job controller marks the Job
        # as succeeded"; "By default, a Job succeeds when the number of succeeded Pods equals
        # .spec.completions."
        rules = self._spec.get("successPolicy", {}).get("rules", [])
        return min([self._completions, *(int(rule["succeededCount"]) for rule in rules)])


class JobSet:
    """A JobSet with one Job for each role; `jobs` are their specs, `names` their names as replicated jobs.

    The attribute `jobs` has its Jobs, by these names.
    """

    def __init__(
        self, jobs: Mapping[str, Mapping[str, Any]], jobset: Mapping[str, Any], names: Mapping[str, str]
    ) -> None:
        self._specs = {names[role]: spec for role, spec in jobs.items()}
        self._spec = jobset
        self._names = names
        self.counted = 0
        self.restarts = 0
        self.outcome: str | None = None
        self._start()

    def _start(self) -> None:
        self.jobs = {name: Job(spec) for name, spec in self._specs.items()}

    @property
    def running(self) -> dict[TaskName, tuple[int, int]]:
        """Which tasks run: the attempt of the JobSet, and in it that of the task."""
        if self.outcome:
            return {}
        return {
            (role, index): (self.restarts, failures)
            for role, name in self._names.items()
            for index, failures in self.jobs[name].running.items()
        }

    def pod_ended(self, task: TaskName, end: End) -> None:
        """The pod of a task has ended; its Job takes notice, and then the JobSet."""
        self.jobs[self._names[task[0]]].pod_ended(task[1], end)
        failed = [name for name, job in self.jobs.items() if job.condition and job.condition[0] == "Failed"]
        if failed:
            self._job_failed(failed[0])
        elif self._is_complete():
            self.outcome = "succeeded"

    def _job_failed(self, name: str) -> None:
        action = self._action(name)
        if action == "RestartJobSetAndIgnoreMaxRestarts":
            # "Do not count the failure against maxRestarts."
            self.restarts += 1
            self._start()
        elif action == "RestartJobSet" and self.counted < self._spec["failurePolicy"]["maxRestarts"]:
            # "Restart the JobSet if the number of restart attempts is less than MaxRestarts. Otherwise,
            # fail the JobSet."; "A restart is achieved by recreating all active child jobs."
            self.restarts += 1
            self.counted += 1
            self._start()
        else:
            # "Fail the JobSet immediately, regardless of maxRestarts."
            self.outcome = "failed"

    def _action(self, name: str) -> str:
        # "For a given Job failure, the rules will be evaluated in order, and only the first matching rule
        # will be executed. If no matching rule is found, the RestartJobSet action is applied."
        condition = self.jobs[name].condition
        assert condition
        _, reason, message = condition
        for rule in self._spec["failurePolicy"]["rules"]:
            # "The requirement is satisfied if at least one pattern (regex) matches the job failure message.
            # An empty list matches any job failure message."
            patterns = rule.get("onJobFailureMessagePatterns") or [""]
            if (
                name in rule.get("targetReplicatedJobs", [name])
                and reason in rule.get("onJobFailureReasons", [reason])
                and any(re.search(pattern, message) for pattern in patterns)
            ):
                return str(rule["action"])
        return "RestartJobSet"

    def _is_complete(self) -> bool:
        # "operator determines either All or Any of the selected jobs should succeed to consider the JobSet
        # successful"; "A null or empty list will apply to all replicatedJobs."
        policy = self._spec["successPolicy"]
        targets = policy.get("targetReplicatedJobs") or list(self.jobs)
        complete = [self.jobs[name].condition is not None for name in targets]
        return any(complete) if policy["operator"] == "Any" else all(complete)
