"""Storages in a pod that no platform has made, where only the pod itself can mount them."""

from pai_runtime.job.model import Job
from pai_runtime.task.plan import Plan
from pai_runtime.task.record import replace


def with_optional_storages(plan: Plan, job: Job) -> Plan:
    """Return the plan with storages optional: one that is not mounted is reported, and fails no task.

    It does fail the task if its use has a `failurePolicy` of its own; the default is for platforms that mount
    storages.
    """
    strict = {extra.plugin for extra in job.extras if extra.value.get("failurePolicy") is not None}
    optional = {each.use for each in plan.mounts if plan.uses[each.use].plugin not in strict}
    return replace(
        plan,
        uses=tuple(
            replace(use, failure_policy="ignore") if number in optional else use
            for number, use in enumerate(plan.uses)
        ),
        steps=tuple(
            replace(step, failure_policy="ignore") if step.use in optional else step for step in plan.steps
        ),
    )
