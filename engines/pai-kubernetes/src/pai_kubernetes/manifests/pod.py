"""The pod of a task: the init container with the runtime, the sidecar for its log, the user's container."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pai_kubernetes import labels
from pai_kubernetes.manifests.policies import completing_count, failing_count
from pai_kubernetes.manifests.resources import RUNTIME_LOG, init_resources, scheduling, task_resources
from pai_kubernetes.manifests.run_objects import RunObjects
from pai_kubernetes.manifests.storages import StorageVolumes
from pai_pod.engine import CODE, DECIDING_VARIABLE, FAILURE, FIRST_PORT, PORT_VARIABLE, SUCCESS
from pai_runtime.engine import Plan, TaskRole
from pai_runtime.engine.jobs import unnamed_port
from pai_runtime.task import paths
from pai_runtime.task.paths import BUNDLE, CONFIG, IMAGE_BUNDLE, LAUNCHER, SECRETS, TERMINATION_LOG, VOLUME

_SHM: Final = "/dev/shm"  # noqa: S108 - a volume of its own

_VOLUME_NAME: Final = "pai-vol"
_GRACE_SECONDS: Final = 60
"""Grace period in seconds: 10 for processes, 30 for exit callbacks, and a margin."""
_NOBODY: Final = 65534
_OWNERS_ONLY: Final = 0o400

_OF_A_ROOT_SHELL: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""Capabilities that root needs to install packages; other users have none of them."""

_BY_DOWNWARD_API: Final = {
    "PAI_TASK_INDEX": f"metadata.annotations['{labels.COMPLETION_INDEX}']",
    "PAI_POD_NAME": "metadata.name",
    "PAI_POD_UID": "metadata.uid",
    "PAI_POD_NAMESPACE": "metadata.namespace",
    "POD_IP": "status.podIP",
    "PAI_JOBSET_UID": f"metadata.labels['{labels.JOBSET_UID}']",
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
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
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


def _volumes(run: RunObjects, role: TaskRole) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": _VOLUME_NAME, "emptyDir": {}},
        {"name": "pai-config", "configMap": {"name": run.job_config}},
        {"name": "pai-secrets", "secret": {"secretName": run.secrets, "defaultMode": _OWNERS_ONLY}},
    ]
    if run.code_config:
        volumes.append({"name": "pai-code", "configMap": {"name": run.code_config}})
    if role.shm_mb:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{role.shm_mb}Mi"}})
    if run.profile.delivery == "imageVolume":
        profile = run.profile
        image = {"reference": profile.runtime_image, "pullPolicy": profile.image_pull_policy}
        volumes.append({"name": "runtime-bundle", "image": image})
    return volumes


def _bundle(run: RunObjects) -> Mounts:
    if run.profile.delivery != "imageVolume":
        return []
    return [
        {
            "name": "runtime-bundle",
            "mountPath": BUNDLE,
            "subPath": IMAGE_BUNDLE.removeprefix("/"),
            "readOnly": True,
        }
    ]


def _init(run: RunObjects, role: TaskRole, storages: Mounts) -> dict[str, Any]:
    """Return the init container, whose steps may use the storages too."""
    code = [{"name": "pai-code", "mountPath": paths.CODE, "readOnly": True}] if run.code_config else []
    given = {
        "PAI_SECRET_DIR": SECRETS,
        "PAI_USER_EXTENSION_SECRET_DIR": SECRETS,
        "PAI_CURRENT_TASK_ROLE_NAME": role.name,
    }
    told = {name: {"fieldRef": {"fieldPath": path}} for name, path in _BY_DOWNWARD_API.items()}
    return {
        "name": labels.INIT,
        "image": run.profile.runtime_image,
        "imagePullPolicy": run.profile.image_pull_policy,
        "env": [
            *({"name": name, "value": value} for name, value in given.items()),
            *({"name": name, "valueFrom": source} for name, source in told.items()),
        ],
        "resources": init_resources(role),
        "securityContext": {"runAsUser": 0, **_without_capabilities()},
        "volumeMounts": [
            {"name": _VOLUME_NAME, "mountPath": VOLUME},
            {"name": "pai-config", "mountPath": CONFIG, "readOnly": True},
            {"name": "pai-secrets", "mountPath": SECRETS, "readOnly": True},
            *code,
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
        "volumeMounts": [{"name": _VOLUME_NAME, "mountPath": VOLUME, "readOnly": True}],
    }


def _app(run: RunObjects, role: TaskRole, plan: Plan, image: str, storages: Mounts) -> dict[str, Any]:
    shm = [{"name": "shm", "mountPath": _SHM}] if role.shm_mb else []
    capabilities = {*_OF_A_ROOT_SHELL, *(each for use in plan.uses for each in use.capabilities)}
    return {
        "name": labels.APP,
        "image": image,
        "imagePullPolicy": run.profile.image_pull_policy,
        "command": [LAUNCHER],
        **({"workingDir": f"{VOLUME}/{CODE}"} if run.code_config else {}),
        "resources": task_resources(role, run.profile),
        "securityContext": _without_capabilities(*sorted(capabilities)),
        "terminationMessagePath": TERMINATION_LOG,
        "volumeMounts": [{"name": _VOLUME_NAME, "mountPath": VOLUME}, *shm, *_bundle(run), *storages],
    }


def _without_capabilities(*but: str) -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], **({"add": list(but)} if but else {})},
    }
