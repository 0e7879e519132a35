"""What OpenPAI's REST server replies about a job."""

from collections.abc import Mapping
from typing import Any

from tests.openpai.jobs import (
    STOPPED,
    Job,
    JobAttempt,
    Task,
    TaskAttempt,
    converted,
    diagnostics,
    exit_spec,
    ports,
    state_of_code,
)

View = dict[str, Any]


def in_list(job: Job) -> View:
    attempt = job.attempts[-1] if job.attempts else None
    tasks = {role: each["instances"] for role, each in job.roles.items()}
    gpus = {role: each["resourcePerInstance"].get("gpu", 0) for role, each in job.roles.items()}
    return {
        "debugId": job.debug_id,
        "name": job.submission.name,
        "username": job.user,
        **_common(job, attempt),
        "tags": job.tags,
        "submissionTime": job.submitted,
        "appExitCode": attempt.code if attempt else None,
        "totalGpuNumber": sum(tasks[role] * gpus[role] for role in tasks),
        "totalTaskNumber": sum(tasks.values()),
        "totalTaskRoleNumber": len(tasks),
        "jobPriority": None,
    }


def in_detail(job: Job, attempt: JobAttempt | None) -> View:
    roles = {converted(role): role for role in job.roles} if attempt else {}
    return {
        "debugId": job.debug_id,
        "name": job.submission.name,
        "tags": job.tags,
        "jobStatus": {
            "username": job.user,
            **_common(job, attempt),
            **_of_attempt(attempt),
            "submissionTime": job.submitted,
        },
        "taskRoles": {
            name: {
                "taskRoleStatus": {"name": name},
                "taskStatuses": [_task(job, attempt, task) for task in attempt.tasks if task.role == role],
            }
            for name, role in roles.items()
            if attempt
        },
    }


def attempts_of_task(job: Job, attempt: JobAttempt, task: Task) -> View:
    return {
        "username": job.user,
        "jobName": job.submission.name,
        "jobAttemptId": attempt.number,
        "taskRoleName": converted(task.role),
        **_of_task(task),
        "attempts": [_of_pod(job, attempt, task, each) for each in reversed(task.attempts)],
    }


def _common(job: Job, attempt: JobAttempt | None) -> View:
    retries = attempt.number if attempt else 0
    return {
        "state": _state(job, attempt),
        "subState": _sub_state(job, attempt),
        "executionType": job.execution_type,
        "retries": retries,
        "retryDetails": {"user": retries, "platform": 0, "resource": 0},
        "retryDelayTime": None,
        "createdTime": job.submitted if attempt else None,
        "launchedTime": attempt.launched if attempt else None,
        "completedTime": attempt.completed if attempt and job.over else None,
        "virtualCluster": job.submission.virtual_cluster,
    }


def _state(job: Job, attempt: JobAttempt | None) -> str:
    if attempt is None:
        return "WAITING"
    if job.over and attempt.code is not None:
        return state_of_code(attempt.code)
    return "STOPPING" if job.execution_type == "STOP" else "RUNNING"


def _sub_state(job: Job, attempt: JobAttempt | None) -> str:
    if attempt is None:
        return "AttemptCreationPending"
    if job.over:
        return "Completed"
    if attempt.code is not None:
        return "AttemptCompleted"
    return "AttemptDeletionRequested" if job.execution_type == "STOP" else "AttemptRunning"


def _of_attempt(attempt: JobAttempt | None) -> View:
    code = attempt.code if attempt else None
    text = diagnostics(code)
    trigger = attempt.trigger if attempt and code else None
    if code == STOPPED:
        text = "User has requested to stop the Framework"
    known = {"attemptId": attempt.number, "appId": f"{attempt.number}_{attempt.created}"} if attempt else {}
    ended = {"container": None, "runtime": None, "launcher": text if code == STOPPED else None}
    return {
        **known,
        "attemptState": "WAITING" if attempt is None else "RUNNING" if code is None else state_of_code(code),
        "appProgress": int(code is not None),
        "appTrackingUrl": "",
        "appCreatedTime": attempt.created if attempt else None,
        "appLaunchedTime": attempt.launched if attempt else None,
        "appCompletedTime": attempt.completed if attempt else None,
        "appExitCode": code,
        "appExitSpec": exit_spec(code),
        "appExitDiagnostics": text,
        "appExitMessages": ended if code else None,
        "appExitTriggerMessage": "FailedTaskCount has reached MinFailedTaskCount in the TaskRole"
        if trigger
        else None,
        "appExitTriggerTaskRoleName": converted(trigger.role) if trigger else None,
        "appExitTriggerTaskIndex": trigger.index if trigger else None,
        "appExitType": None if code is None else "Failed" if code else "Succeeded",
    }


def _task(job: Job, attempt: JobAttempt, task: Task) -> View:
    return {**_of_task(task), **_of_pod(job, attempt, task, task.last)}


def _of_task(task: Task) -> View:
    return {
        "taskIndex": task.index,
        "taskUid": task.uid,
        "taskState": task.last.state,
        "retries": task.last.number,
        "accountableRetries": task.last.number,
        "createdTime": task.attempts[0].created,
        "launchedTime": task.attempts[0].launched,
        "completedTime": task.last.completed,
    }


def _of_pod(job: Job, attempt: JobAttempt, task: Task, pod: TaskAttempt) -> View:
    counts: Mapping[str, int] = job.roles[task.role]["resourcePerInstance"].get("ports") or {}
    where = f"taskRoles/{converted(task.role)}/taskIndex/{task.index}/attempts/{pod.number}"
    return {
        "attemptId": pod.number,
        "attemptState": pod.state,
        "currentAttemptCreatedTime": pod.created,
        "currentAttemptLaunchedTime": pod.launched,
        "currentAttemptCompletedTime": pod.completed,
        "containerId": pod.uid,
        "containerIp": "127.0.0.1",
        "containerNodeName": "node1",
        "containerPorts": dict(ports(pod, counts)),
        "containerGpus": None,
        "containerLog": f"/api/v2/jobs/{job.name}/attempts/{attempt.number}/{where}/logs",
        "containerExitCode": pod.code,
        "containerExitSpec": exit_spec(pod.code),
        "containerExitDiagnostics": diagnostics(pod.code),
    }
