"""The plugin ``com.microsoft.pai.runtimeplugin.storage``, for a storage of the cluster or an NFS export.

Nobody asks the NFS server for the export before it is mounted: whoever mounts it hears from the server
itself whether it has it, and the check passes on what ``mount`` says.
"""

from pai_runtime.plugin import Contribution, Task, Use, hookimpl
from pai_storage import pvc_storage
from pai_storage.mounting import contribution, nfs_export, public_parameters


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """Contribute the mount of an NFS export, or of a storage of the cluster if no server is given."""
    given = public_parameters(use)
    if "server" not in given:
        return pvc_storage.pai_prerequisite(use, task)
    path = given.get("mountPath", f"/mnt/{use.name}")
    mount = nfs_export(task, given["server"], given["path"], path, read_only=given.get("readOnly", False))
    return contribution(mount, options=given.get("options", ""))
