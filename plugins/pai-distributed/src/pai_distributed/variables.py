"""The variables from which frameworks learn who they are and where they meet, and the host file.

One process of each task is assumed to join, which is what those without a launcher need: PyTorch
(``RANK``, …), JAX (``JAX_*``) and TensorFlow (``TF_CONFIG``). A launcher in each task finds its own settings:
torchrun those that begin with ``PET_``. It sets the variables of the processes that it starts itself.
"""

import json

from pai_distributed.group import Group, slots

HOST_FILE = "PAI_HOSTFILE"

_TYPES = ("chief", "master", "ps", "evaluator")
"""The types of tasks in ``TF_CONFIG`` that a role's name may begin with; all others are workers."""


def variables(group: Group, processes: int | None, hosts: str) -> dict[str, str]:
    """Return the variables of a task; `processes` are those in each task, `hosts` the host file's path.

    Raises `UserError` for an address that is not known.
    """
    own, count = group.members[group.rank], str(len(group.members))
    first, rank = group.address(group.members[0]), str(group.rank)
    each = str(dict(slots(group, processes))[own])
    return {
        "MASTER_ADDR": first.host,
        "MASTER_PORT": str(first.port),
        "RANK": rank,
        "WORLD_SIZE": count,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NNODES": count,
        "NODE_RANK": rank,
        "PET_MASTER_ADDR": first.host,
        "PET_MASTER_PORT": str(first.port),
        "PET_NNODES": count,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": each,
        "JAX_COORDINATOR_ADDRESS": str(first),
        "JAX_NUM_PROCESSES": count,
        "JAX_PROCESS_ID": rank,
        "TF_CONFIG": _tf_config(group),
        HOST_FILE: hosts,
    }


def host_file(group: Group, processes: int | None) -> str:
    """Return the host file of Open MPI and DeepSpeed: the names by which ssh knows the tasks, with slots."""
    return "".join(f"{role}-{index} slots={count}\n" for (role, index), count in slots(group, processes))


def _tf_config(group: Group) -> str:
    """Return the value of ``TF_CONFIG``; evaluators are no part of a cluster, though they know it."""
    cluster: dict[str, list[str]] = {}
    tasks = []
    for member in group.members:
        kind = _type(member[0])
        known = cluster.setdefault(kind, [])
        tasks.append({"type": kind, "index": len(known)})
        known.append(str(group.address(member)))
    cluster.pop("evaluator", None)
    return json.dumps({"cluster": cluster, "task": tasks[group.rank]})


def _type(role: str) -> str:
    name = role.partition("_")[0].lower()
    return name if name in _TYPES else "worker"
