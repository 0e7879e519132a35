"""The plugin ``com.microsoft.pai.runtimeplugin.storage``: a storage of the cluster, or an NFS export."""

import os
import re
import sys

from pai_runtime.plugin import Contribution, Mount, Task, Use, hookimpl
from pai_storage import pvc_storage
from pai_storage.mounting import SECONDS, contribution, nfs_export
from pai_storage.nfs import ask


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """One mount."""
    if "server" in use.parameters:
        return contribution(_export(use), options=use.parameters.get("options", ""))
    named: Contribution = pvc_storage.pai_prerequisite(use, task)
    return named


@hookimpl
def pai_init(use: Use, task: Task) -> None:  # noqa: ARG001 - pluggy matches by name
    """Ask the server for the export, so that one that is not there is known before anything waits for it."""
    if "server" not in use.parameters:
        return
    mount = _export(use)
    if _named(mount.path) in os.environ.get("PAI_LOCAL_FOLDERS", "").splitlines():
        return
    server, path = use.parameters["server"], _named(use.parameters["path"])
    port = re.search(r"(?:^|,)port=(\d{1,5})(?:,|$)", use.parameters.get("options", ""))
    answer = ask(server, int(port[1]) if port else 2049, path, SECONDS)
    sys.stdout.write(f"{server}:{path}: {answer}\n")


def _export(use: Use) -> Mount:
    given = use.parameters
    path = given.get("mountPath", f"/mnt/{use.name}")
    return nfs_export(given["server"], given["path"], path, read_only=given.get("readOnly", False))


def _named(text: str) -> str:
    names = {"%USER": os.environ["PAI_USER_NAME"], "%JOB": os.environ["PAI_JOB_NAME"]}
    return re.sub("%USER|%JOB", lambda match: names[match[0].upper()], text, flags=re.IGNORECASE)
