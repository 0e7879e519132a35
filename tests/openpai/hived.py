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
    """The SKUs of a virtual cluster."""

    sku_types: tuple[str, ...]
    skus: int


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
        if sku is not None and priority != "oppo" and sku not in quota.sku_types:
            allowed = ", ".join(quota.sku_types)
            raise _refused(f"Taskrole {role} has skuType {sku}, VC {name} only allows {allowed}.")
    wanted = sum(_wanted(config, hived, skus, quota))
    gang = (config.get("extras") or {}).get("gangAllocation", True)
    if gang and priority != "oppo" and wanted > quota.skus:
        raise _refused(f"Job requests {wanted} SKUs, exceeds maximum {quota.skus} SKUs in VC {name}.")


def _check_role(config: Mapping[str, Any], role: str, wish: Mapping[str, Any]) -> None:
    if role not in config["taskRoles"]:
        raise _refused(f"Taskrole {role} does not exist.")
    if {"skuType", "pinnedCellId"} <= set(wish):
        raise _refused(f"Taskrole {role} has both skuType and pinnedCellId, only one is allowed.")


def _wanted(
    config: Mapping[str, Any], hived: Mapping[str, Any], skus: Mapping[str, Any], quota: Quota
) -> Iterator[int]:
    """`skuNum` is not read: what counts is the most of what a task asks for."""
    for role, each in config["taskRoles"].items():
        asked = each["resourcePerInstance"]
        chosen = ((hived.get("taskRoles") or {}).get(role) or {}).get("skuType", quota.sku_types[0])
        keys = {"gpu": "gpu", "cpu": "cpu", "memoryMB": "memory"}
        needs = [asked.get(key, 0) / skus[chosen][of] for key, of in keys.items() if skus[chosen][of]]
        yield math.ceil(max(needs)) * each.get("instances", 1)


def _refused(message: str) -> Refused:
    return Refused(400, "InvalidProtocolError", message)
