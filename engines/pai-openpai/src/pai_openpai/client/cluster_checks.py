"""What a cluster would refuse of a job, as far as it says when it is asked: its user, SKUs and storages."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from pai_network.fields import mapping, mappings, string
from pai_openpai.client.api import Api
from pai_openpai.client.fields import number
from pai_runtime.engine import ClusterError, Job, Plan, Problems, TaskRole
from pai_runtime.engine.jobs import asked_mounts, use_location
from pai_runtime.engine.messages import Severity, listed, printable
from pai_runtime.engine.records import TaskName

_LEAST: Final = (1, 4)
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_RESOURCES: Final = ("gpu", "cpu", "memory")


def check_cluster(
    api: Api, job: Job, plans: Mapping[TaskName, Plan], problems: Problems, *, has_code: bool
) -> Collection[str]:
    """Report what the cluster would refuse; return the names of the storages that its user may mount.

    Raises `ClusterError`.
    """
    _check_version(api)
    given = job.value.get("defaults", "virtualCluster")
    name = job.virtual_cluster if given else api.profile.virtual_cluster or "default"
    if _check_virtual_cluster(api, job, name, problems):
        _check_machines(api, job, name, problems)
    found = mappings(api.get("/storages", what="ask for storages"), "storages")
    known = {string(each, "name"): each for each in found}
    _check_storages(job, plans, known, problems)
    if has_code and api.profile.code_storage:
        _check_code_storage(api, job, known, problems)
    return known


def _check_version(api: Api) -> None:
    version = string(api.info(), "version")
    found = _VERSION.match(version)
    if found and (int(found[1]), int(found[2])) < _LEAST:
        name, needed = api.profile.name, ".".join(map(str, _LEAST))
        raise ClusterError(f"{name}: its OpenPAI is {printable(version)}; {needed} or newer is needed")


def _check_virtual_cluster(api: Api, job: Job, name: str, problems: Problems) -> bool:
    user = mapping(api.get(f"/users/{quote(api.user, safe='')}", what="ask for your virtual clusters"))
    own = user.get("virtualCluster")
    known = [str(each) for each in own] if isinstance(own, list) else []
    if name in known:
        return True
    message = f"you may not use the virtual cluster '{name}'; you may use {listed(known) or 'none'}"
    where = job.value.at(("defaults", "virtualCluster"))
    meant = problems.suggestions.near_miss(name, known)
    problems.add(where.problem("unknown-virtual-cluster", message, found=name, suggestion=meant))
    return False


def _check_machines(api: Api, job: Job, cluster: str, problems: Problems) -> None:
    """Report SKUs that the virtual cluster does not have, and a job that is larger than it."""
    every = mapping(api.get("/cluster/sku-types", what="ask for SKUs"))
    if not every:  # HiveDScheduler is off: what a job says of SKUs is not read
        found = [role.sku_type for role in job.roles.values() if role.sku_type]
        for each in found:
            message = "has no effect: the cluster has no SKUs, as HiveDScheduler is off"
            problems.add(each.problem("unknown-sku-type", message, severity="warning"))
        _check_size(api, job, cluster, {}, problems)
        return
    known = mapping(api.get("/cluster/sku-types", what="ask for SKUs", vc=cluster))
    is_known = True
    for role in job.roles.values():
        name = role.sku_type.text if role.sku_type else ""
        may_be_any = name in every and _is_opportunistic(job)
        if role.sku_type is not None and name not in known and not may_be_any:
            is_known = False
            message = f"the virtual cluster '{cluster}' has no machines of the type '{name}'; it has"
            meant = problems.suggestions.near_miss(name, known)
            problems.add(
                role.sku_type.problem(
                    "unknown-sku-type", f"{message} {listed(list(known)) or 'none'}", name, suggestion=meant
                )
            )
    if is_known and known:
        for role in job.roles.values():
            _check_sku(role, every if _is_opportunistic(job) else known, problems)
        _check_size(api, job, cluster, known, problems)


def _check_size(api: Api, job: Job, cluster: str, skus: Mapping[str, Any], problems: Problems) -> None:
    """Report a job that needs more than its virtual cluster has; with SKUs, the cluster refuses it."""
    if _is_opportunistic(job) or not job.gang:
        return
    clusters = api.get("/virtual-clusters", what="ask for virtual clusters")
    total = mapping(clusters, cluster, "resourcesTotal")
    needs = [dict(_needs(role, skus)) for role in job.roles.values()]
    severity: Severity = "error" if skus else "warning"
    for resource in _RESOURCES:
        needed, most = sum(each[resource] for each in needs), number(total, resource)
        if most is not None and needed > most:
            what = "MB of memory" if resource == "memory" else f"{resource.upper()}s"
            message = (
                f"its tasks need {needed} {what} at once, and the virtual cluster '{cluster}' has {most}"
            )
            where = job.value.at(("taskRoles",))
            expected = f"at most {most}"
            found = str(needed)
            problems.add(
                where.problem("too-much", message, found=found, expected=expected, severity=severity)
            )
            return


def _check_sku(role: TaskRole, skus: Mapping[str, Any], problems: Problems) -> None:
    """Report what the tasks of a role need, and their SKU may not have any of."""
    sizes = _sizes(role, skus)
    for resource, wish in _wishes(role).items():
        if wish and not sizes[resource]:
            what = resource if resource == "memory" else f"{resource.upper()}s"
            given = f"the SKU '{role.sku_type.text}' has" if role.sku_type else "some SKUs here have"
            message = f"its tasks need {what}, and {given} none; name a skuType that has"
            problems.add(role.value.problem("unknown-sku-type", message, found=str(wish)))


def _needs(role: TaskRole, skus: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield what the tasks of a role take: with SKUs, whole ones, as many as its largest wish needs."""
    wishes, sizes = _wishes(role), _sizes(role, skus)
    count = max((math.ceil(wishes[each] / size) for each, size in sizes.items() if size), default=0)
    for each in _RESOURCES:
        yield each, (count * sizes[each] if skus else wishes[each]) * role.instances


def _wishes(role: TaskRole) -> Mapping[str, int]:
    return {"gpu": role.gpu, "cpu": role.cpu, "memory": role.memory_mb}


def _sizes(role: TaskRole, skus: Mapping[str, Any]) -> Mapping[str, int]:
    """Return how large a SKU is; one of no type is as small as the smallest in each resource."""
    types = [role.sku_type.text] if role.sku_type else skus
    return {
        each: min((number(mapping(skus, name), each) or 0 for name in types), default=0)
        for each in _RESOURCES
    }


def _is_opportunistic(job: Job) -> bool:
    hived = job.value.get("extras", "hivedScheduler")
    return hived is not None and mapping(hived.data).get("jobPriorityClass") == "oppo"


def _check_storages(
    job: Job, plans: Mapping[TaskName, Plan], known: Mapping[str, Any], problems: Problems
) -> None:
    """Report storages that the user may not mount, once each."""
    passed = set(known)
    for role, mount, use in asked_mounts(plans):
        name = mount.source
        if mount.kind != "storage" or name in passed or use.failure_policy == "ignore":
            continue
        passed.add(name)
        may_use = f"you may use {listed(sorted(known)) or 'none'}"
        message = f"there is no storage '{name}', or you may not use it; {may_use}"
        meant = problems.suggestions.near_miss(name, known)
        where = use_location(job, role, use, name)
        problems.add(where.problem("unknown-storage", message, found=name, suggestion=meant))


def _check_code_storage(api: Api, job: Job, known: Mapping[str, Any], problems: Problems) -> None:
    """Report that tasks would not see what is written where this machine has the storage for code."""
    name = api.profile.code_storage
    if name not in known:
        fault = f"it does not exist, or you may not use it; you may use {listed(sorted(known)) or 'none'}"
    elif known[name].get("share") is False:  # whatever the job says: the server overwrites that
        fault = "it gives each user a separate directory; name one with `share: true`"
    else:
        return
    where = job.code or job.value.at(("extras", "code"))
    named = f"the profile '{api.profile.name}' names the storage '{name}' for code (`code.storage`)"
    message = f"{named}, but {fault}"
    problems.add(where.problem("wrong-code-storage", message, found=name))
