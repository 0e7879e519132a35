"""The checks of OpenPAI's REST server for HiveDScheduler, which is on where the cluster has SKU types."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.openpai.job_schema import schema_error
from tests.openpai.submission import Refused, invalid

_PRIORITIES = ["prod", "test", "oppo"]


@dataclass(frozen=True)
class Quota:
    """The SKUs of a virtual cluster, each by its type."""

    skus: tuple[str, ...]

    def total(self, known: Mapping[str, Any], resource: str) -> int:
        return sum(known[sku][resource] for sku in self.skus)


def check_hived(config: Mapping[str, Any], skus: Mapping[str, Any], name: str, quota: Quota) -> None:
    """`name` is the virtual cluster's."""
    hived = (config.get("extras") or {}).get("hivedScheduler") or {}
    priority = hived.get("jobPriorityClass", "prod")
    if priority not in _PRIORITIES:
        message = "should be equal to one of the allowed values"
        raise invalid([schema_error(".extras.hivedScheduler.jobPriorityClass", "enum", message)])
    for role, wish in (hived.get("taskRoles") or {}).items():
        _check_role(config, role, wish)
        sku = wish.get("skuType")
        if sku is not None and sku not in skus:
            raise Refused(500, None, "Cannot read properties of undefined (reading 'gpu')")
        if sku is not None and priority != "oppo" and sku not in quota.skus:
            allowed = ",".join(dict.fromkeys(quota.skus))
            raise _refused(f"Taskrole {role} has skuType {sku}, VC {name} only allows {allowed}.")
    wanted = sum(_wanted(config, hived, skus, quota))
    gang = (config.get("extras") or {}).get("gangAllocation", True)
    if gang and priority != "oppo" and wanted > len(quota.skus):
        raise _refused(f"Job requests {wanted} SKUs, exceeds maximum {len(quota.skus)} SKUs in VC {name}.")


def _check_role(config: Mapping[str, Any], role: str, wish: Mapping[str, Any]) -> None:
    if role not in config["taskRoles"]:
        raise _refused(f"Taskrole {role} does not exist.")
    if {"skuType", "pinnedCellId"} <= set(wish):
        raise _refused(f"Taskrole {role} has both skuType and pinnedCellId, only one is allowed.")


def _wanted(
    config: Mapping[str, Any], hived: Mapping[str, Any], skus: Mapping[str, Any], quota: Quota
) -> Iterator[int]:
    """`skuNum` is not read: what counts is the most of what a task asks for.

    Without a type, the SKU is as small as the smallest in each resource.
    """
    allowed = skus if hived.get("jobPriorityClass") == "oppo" else quota.skus
    for role, each in config["taskRoles"].items():
        sku = ((hived.get("taskRoles") or {}).get(role) or {}).get("skuType")
        counts = [0]
        for key, resource in (("gpu", "gpu"), ("cpu", "cpu"), ("memoryMB", "memory")):
            asked = each["resourcePerInstance"][key]
            size = min(skus[one][resource] for one in ([sku] if sku else allowed))
            if asked and not size:
                text = f"Taskrole {role} requests {asked} {resource}, but SKU does not configure {resource}."
                raise _refused(text)
            counts.append(math.ceil(asked / size) if asked else 0)
        yield max(counts) * each.get("instances", 1)


def _refused(message: str) -> Refused:
    return Refused(400, "InvalidProtocolError", message)
