"""The pod of a task: the init container with the runtime, the sidecar for its log, the user's container."""

import math
from collections.abc import Mapping, Sequence
from posixpath import normpath
from typing import Any, Final

from pai_kubernetes import labels
from pai_kubernetes.manifests.policies import completing_count, failing_count
from pai_kubernetes.manifests.resources import RUNTIME_LOG, init_resources, scheduling, task_resources
from pai_kubernetes.manifests.run_objects import RunObjects
from pai_kubernetes.manifests.storages import StorageVolumes, storage_volume
from pai_pod.engine import (
    DECIDING_VARIABLE,
    FAILURE,
    FIRST_PORT,
    PORT_VARIABLE,
    SUCCESS,
    code,
    kept_output,
    paths,
)
from pai_runtime.engine import Plan, TaskRole
from pai_runtime.engine.code import STORED_IN
from pai_runtime.engine.jobs import unnamed_port

_SHM: Final = "/dev/shm"  # noqa: S108 - a volume of its own

_VOLUME_NAME: Final = "pai-vol"
_CODE: Final = "pai-code"
_OUTPUT: Final = "pai-output"
_GRACE_SECONDS: Final = 60
"""Grace period in seconds: 10 for processes, 30 for exit callbacks, and a margin."""
_NOBODY: Final = 65534
_OWNERS_ONLY: Final = 0o400

_OF_A_ROOT_SHELL: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""Capabilities that root needs to install packages; other users have none of them."""

_INDEX: Final = "PAI_TASK_INDEX"
_UID: Final = "PAI_JOBSET_UID"
_BY_DOWNWARD_API: Final = {
    _INDEX: f"metadata.annotations['{labels.COMPLETION_INDEX}']",
    "PAI_POD_NAME": "metadata.name",
    "PAI_POD_UID": "metadata.uid",
    "PAI_POD_NAMESPACE": "metadata.namespace",
    "POD_IP": "status.podIP",
    _UID: f"metadata.labels['{labels.JOBSET_UID}']",
    "PAI_JOB_ATTEMPT": f"metadata.labels['{labels.RESTART_ATTEMPT}']",
    "PAI_TASK_ATTEMPT": f"metadata.annotations['{labels.INDEX_FAILURES}']",
    "PAI_TASK_EVICTIONS": f"metadata.annotations['{labels.INDEX_IGNORED_FAILURES}']",
}

Mounts = Sequence[Mapping[str, Any]]


def pod_template(
    run: RunObjects, role: TaskRole, plan: Plan, image: str, storages: StorageVolumes
) -> dict[str, Any]:
    """Return the template of a role's pods; the plan is that of any of its tasks."""
    return {
        "metadata": {
            "labels": run.labels(**{labels.ROLE: role.name}),
            "annotations": run.annotations(**{labels.ROLE: role.name}),
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _grace_seconds(plan),
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            **scheduling(run.job, role, run.profile),
            **(
                {"imagePullSecrets": [{"name": each} for each in run.pull_secrets]}
                if run.pull_secrets
                else {}
            ),
            "volumes": [*_volumes(run, role), *storages.volumes],
            "initContainers": [_init(run, role, storages.mounts), _runtime_log(run, role)],
            "containers": [_app(run, role, plan, image, storages.mounts)],
        },
    }


def _grace_seconds(plan: Plan) -> int:
    """Return the time that a pod has to end: that of its command to save its work, and of all after it."""
    saving = plan.command.on_preemption
    return _GRACE_SECONDS + (math.ceil(saving.seconds) if saving else 0)


def _volumes(run: RunObjects, role: TaskRole) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": _VOLUME_NAME, "emptyDir": {}},
        {"name": "pai-config", "configMap": {"name": run.job_config}},
        {"name": "pai-secrets", "secret": {"secretName": run.secrets, "defaultMode": _OWNERS_ONLY}},
    ]
    volumes += [
        {"name": f"pai-code-{number}", "configMap": {"name": name}}
        for number, name in enumerate(run.code_configs)
    ]
    if run.code_storage:
        volumes.append({"name": _CODE, **storage_volume(run.code_storage)})
    if role.shm_mb:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{role.shm_mb}Mi"}})
    if run.profile.delivery == "imageVolume":
        profile = run.profile
        image = {"reference": profile.runtime_image, "pullPolicy": profile.image_pull_policy}
        volumes.append({"name": "runtime-bundle", "image": image})
    if run.profile.output:
        volumes.append({"name": _OUTPUT, **storage_volume(run.profile.output.storage)})
    return volumes


def _bundle(run: RunObjects) -> Mounts:
    if run.profile.delivery != "imageVolume":
        return []
    return [
        {
            "name": "runtime-bundle",
            "mountPath": paths.BUNDLE,
            "subPath": paths.IMAGE_BUNDLE.removeprefix("/"),
            "readOnly": True,
        }
    ]


def _init(run: RunObjects, role: TaskRole, storages: Mounts) -> dict[str, Any]:
    """Return the init container, whose steps may use the storages too."""
    code_parts = [
        {"name": f"pai-code-{number}", "mountPath": f"{paths.CODE}/{number}", "readOnly": True}
        for number in range(len(run.code_configs))
    ]
    if run.code_storage:
        sub_path = normpath(f"{run.code_storage.sub_path}/{STORED_IN}").lstrip("/")
        path = f"{paths.CODE}/{code.STORED}"
        code_parts.append({"name": _CODE, "mountPath": path, "subPath": sub_path, "readOnly": True})
    given = {
        "PAI_SECRET_DIR": paths.SECRETS,
        "PAI_USER_EXTENSION_SECRET_DIR": paths.SECRETS,
        "PAI_CURRENT_TASK_ROLE_NAME": role.name,
        **({code.DIGEST_VARIABLE: run.code.digest} if run.code else {}),
    }
    return {
        "name": labels.INIT,
        "image": run.profile.runtime_image,
        "imagePullPolicy": run.profile.image_pull_policy,
        "env": [
            *({"name": name, "value": value} for name, value in given.items()),
            *_by_downward_api(*_BY_DOWNWARD_API),
        ],
        "resources": init_resources(role),
        "securityContext": {"runAsUser": 0, **_without_capabilities()},
        "volumeMounts": [
            {"name": _VOLUME_NAME, "mountPath": paths.VOLUME},
            {"name": "pai-config", "mountPath": paths.CONFIG, "readOnly": True},
            {"name": "pai-secrets", "mountPath": paths.SECRETS, "readOnly": True},
            *code_parts,
            *_bundle(run),
            *storages,
        ],
    }


def _runtime_log(run: RunObjects, role: TaskRole) -> dict[str, Any]:
    ends = {SUCCESS: completing_count(role), FAILURE: failing_count(role)}
    deciding = " ".join(end for end, count in ends.items() if count == 1)
    port = unnamed_port(run.job, FIRST_PORT)
    told = {DECIDING_VARIABLE: deciding, PORT_VARIABLE: str(port or "")} if run.job.gang else {}
    env = [{"name": name, "value": value} for name, value in told.items() if value]
    env += _output_variables(run, role)
    return {
        "name": labels.RUNTIME_LOG,
        "image": run.profile.runtime_image,
        "imagePullPolicy": run.profile.image_pull_policy,
        "args": ["init", "--print-logs"],
        **({"env": env} if env else {}),
        "restartPolicy": "Always",
        "resources": RUNTIME_LOG,
        "securityContext": {
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            **_without_capabilities(),
        },
        "volumeMounts": [
            {"name": _VOLUME_NAME, "mountPath": paths.VOLUME, "readOnly": True},
            *_output_mounts(run),
        ],
    }


def _output_variables(run: RunObjects, role: TaskRole) -> list[dict[str, Any]]:
    """Return the variables that say where on the storage the output of a task belongs."""
    if run.profile.output is None:
        return []
    # Kubernetes replaces what stands before in the list.
    path = kept_output.task_output_path(run.name, f"$({_UID})", role.name, f"$({_INDEX})")
    return [
        *_by_downward_api(_UID, _INDEX, "PAI_JOB_ATTEMPT", "PAI_TASK_ATTEMPT", "PAI_TASK_EVICTIONS"),
        {"name": kept_output.OUTPUT_VARIABLE, "value": path},
    ]


def _output_mounts(run: RunObjects) -> list[dict[str, Any]]:
    if run.profile.output is None:
        return []
    sub_path = run.profile.output.storage.sub_path
    return [
        {"name": _OUTPUT, "mountPath": paths.OUTPUT, **({"subPath": normpath(sub_path)} if sub_path else {})}
    ]


def _by_downward_api(*names: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": _BY_DOWNWARD_API[name]}}} for name in names
    ]


def _app(run: RunObjects, role: TaskRole, plan: Plan, image: str, storages: Mounts) -> dict[str, Any]:
    shm = [{"name": "shm", "mountPath": _SHM}] if role.shm_mb else []
    capabilities = {*_OF_A_ROOT_SHELL, *(each for use in plan.uses for each in use.capabilities)}
    return {
        "name": labels.APP,
        "image": image,
        "imagePullPolicy": run.profile.image_pull_policy,
        "command": [paths.LAUNCHER],
        **({"workingDir": f"{paths.VOLUME}/{code.CODE}"} if run.code else {}),
        "resources": task_resources(role, run.profile),
        "securityContext": _without_capabilities(*sorted(capabilities)),
        "terminationMessagePath": paths.TERMINATION_LOG,
        "volumeMounts": [{"name": _VOLUME_NAME, "mountPath": paths.VOLUME}, *shm, *_bundle(run), *storages],
    }


def _without_capabilities(*but: str) -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], **({"add": list(but)} if but else {})},
    }
