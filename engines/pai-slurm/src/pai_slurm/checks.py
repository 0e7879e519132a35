"""What a job cannot have on Slurm: without asking it, and as its partition is."""

import os
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from pai_runtime.engine import Job, Plan, Problem, Problems, TaskRole
from pai_runtime.engine.classes import record
from pai_runtime.engine.jobs import UseRecord, asked_mounts, report_unknown_storage, use_location
from pai_runtime.engine.local import secrets_among
from pai_runtime.engine.messages import Severity
from pai_runtime.engine.records import TaskName
from pai_slurm.commands import Call, Refused, call
from pai_slurm.images import OCI, PYXIS, Images, role_images
from pai_slurm.profile import SlurmProfile
from pai_slurm.shapes import is_array, tasks_by_shape
from pai_slurm.storages import is_in_place
from pai_slurm.times import seconds_of

_MOST_COMPONENTS: Final = 128
_FORMAT: Final = "%P|%D|%c|%m|%G|%l"
_NOT_NOW: Final = "Requested node configuration is not available"
"""What a test says, too, while all nodes that would do are down; a submission is then accepted."""
_GPUS: Final = re.compile(r"\bgpu:(?:[^:,()]+:)?(\d+)")


def check_job(job: Job, problems: Problems, *, requeues: bool) -> None:
    """Report what no cluster of Slurm gives to a job; with `requeues`, one that is to be started again."""
    for name in secrets_among(job.environment):
        message = (
            f"{name} is secret, and the environment of a job is for all to keep; make it a secret of the job"
        )
        problems.add(Problem("secret-variable", message, job.position, "extras.environment"))
    if requeues and is_array(job):
        message = (
            "an array is not started again; set extras.gangAllocation to true,"
            " or leave out --requeue and 'requeue' in the engine profile"
        )
        extras = job.value.get("extras") or job.value
        problems.add((extras.get("gangAllocation") or extras).problem("array-requeue", message))


def check_images(job: Job, images: Images, problems: Problems) -> None:
    """Report images that are not there, and what cannot be done with them."""
    role_images(job, images, problems)
    if images.program == PYXIS and "--container-image" not in call("srun", "--help"):
        message = "srun has no --container-image here, and the engine profile runs images by pyxis"
        problems.add(Problem("no-pyxis", message))
    with_gpus = [role for role in job.roles.values() if role.gpu]
    if images.program == OCI and with_gpus and " 22.05." in call("srun", "--version"):
        message = "Slurm 22.05 does not tell a container which GPUs it has; use another program for images"
        for role in with_gpus:
            problems.add(role.value.at(("resourcePerInstance", "gpu")).problem("gpus-not-told", message))


def check_storages(
    job: Job, plans: Mapping[TaskName, Plan], profile: SlurmProfile, problems: Problems
) -> None:
    """Report storages that the profile has not, or whose directory is not where the job wants it."""
    for role, mount, use in asked_mounts(plans):
        storage = profile.storages.get(mount.source)
        where = use_location(job, role, use, mount.source)
        if storage is None and mount.kind == "storage":
            report_unknown_storage(mount.source, use, where, profile.name, profile.storages, problems)
        elif storage and not profile.images and not is_in_place(mount.path, storage / mount.sub_path):
            message = (
                f"cannot be mounted at {mount.path}: without images, tasks see the nodes as they are;"
                f" expected a profile with 'images', or {storage / mount.sub_path} mounted there on all nodes"
            )
            problems.add(where.problem("not-mounted", message, found=mount.path, severity=_severity(use)))
        elif storage and mount.read_only and profile.images and not profile.images.can_mount_read_only:
            message = f"cannot be mounted read-only: {profile.images.program} always mounts writable"
            problems.add(where.problem("not-read-only", message, severity=_severity(use)))


def _severity(use: UseRecord) -> Severity:
    return "warning" if use.failure_policy == "ignore" else "error"


def check_cluster(
    job: Job, runs: Path, allocation: Mapping[str, str], script: str, problems: Problems
) -> None:
    """Report what the partition cannot give to a job, and what Slurm says of its script.

    Raises `ClusterError` if it does not answer.
    """
    with closing(Call("sbatch", "--test-only", text=script)) as test:
        _check_partition(job, runs, allocation, problems)
        if problems.has_errors:  # of which its answer would be one, without its line
            return
        try:
            test.answer()
        except Refused as error:
            severity: Severity = "warning" if _NOT_NOW in str(error) else "error"
            problems.add(Problem("refused", f"sbatch: {error}", job.position, severity=severity))


def _check_partition(job: Job, runs: Path, allocation: Mapping[str, str], problems: Problems) -> None:
    if not _is_writable(runs):
        message = f"cannot write to {runs}, the directory of runs in the engine profile"
        problems.add(Problem("no-shared-directory", message))
    partition = allocation.get("partition", "")
    kinds = _kinds(partition)
    for role in job.roles.values():
        _check_role(role, kinds, problems)
    asked, most = allocation.get("time", ""), max((kind.time for kind in kinds), key=seconds_of, default="")
    if asked and seconds_of(asked) > seconds_of(most):
        message = f"the time limit {asked} is over that of the partition, {most}; the job would never start"
        problems.add(Problem("too-long", message, found=asked, expected=f"at most {most}"))
    components, nodes = len(tasks_by_shape(job)), sum(kind.nodes for kind in kinds)
    if components > min(nodes, _MOST_COMPONENTS):
        message = (
            f"its tasks have {components} shapes (CPUs, memory, GPUs), and the partition {nodes} nodes;"
            " Slurm wants a node for each shape, so this would wait for ever: give roles the same resources"
        )
        problems.add(Problem("too-many-shapes", message, job.position, "taskRoles"))


def _is_writable(path: Path) -> bool:
    existing = next(each for each in (path, *path.parents) if each.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


@record(frozen=True)
class _Kind:
    """Some nodes of a partition that are the same."""

    nodes: int
    cpus: int
    memory_mb: int
    gpus: int
    time: str


def _kinds(partition: str) -> list[_Kind]:
    chosen = [f"--partition={partition}"] if partition else []
    rows = [
        line.split("|") for line in call("sinfo", "--noheader", f"--format={_FORMAT}", *chosen).splitlines()
    ]
    return [
        _Kind(_number(row[1]), _number(row[2]), _number(row[3]), sum(map(int, _GPUS.findall(row[4]))), row[5])
        for row in rows
        if len(row) == _FORMAT.count("|") + 1 and (partition or row[0].endswith("*"))
    ]


def _number(text: str) -> int:
    """Parse the beginning of an amount such as ``8`` or ``8000+``."""
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0


def _check_role(role: TaskRole, kinds: list[_Kind], problems: Problems) -> None:
    for field, asked, most, unit in (
        ("cpu", role.cpu, max((kind.cpus for kind in kinds), default=0), "CPUs"),
        ("memoryMB", role.memory_mb, max((kind.memory_mb for kind in kinds), default=0), "MB of memory"),
        ("gpu", role.gpu, max((kind.gpus for kind in kinds), default=0), "GPUs"),
    ):
        if asked > most:
            at = role.value.at(("resourcePerInstance", field))
            message = f"no node of the partition has so much: at most {most} {unit}"
            found, expected = str(asked), f"at most {most}"
            problems.add(at.problem("too-much", message, found=found, expected=expected))
