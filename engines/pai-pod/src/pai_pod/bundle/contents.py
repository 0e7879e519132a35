"""The content of ``bundle.json``, which describes a bundle."""

import hashlib
import os
import platform
import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pai_pod.bundle.distributions import Bundled, bundled_plugins
from pai_pod.bundle.files import files_below
from pai_pod.bundle.interpreter import STANDARD_LIBRARY
from pai_pod.bundle.site import SITE
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host
from pai_task.paths import BUNDLE


def contents(target: Path, host: Host, distributions: Iterable[Bundled]) -> dict[str, Any]:
    """Return the description of the bundle in `target`: its parts, their sizes in bytes, and its digest.

    The digest covers all files, their modes and links, and so identifies the bundle.
    """
    hashes, sizes = hashlib.sha256(), Counter[str]()
    for path in files_below(target):
        name, status = path.relative_to(target).as_posix(), path.lstat()
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        row = f"{name}\0{stat.filemode(status.st_mode)}\0{hashlib.sha256(data).hexdigest()}\n"
        hashes.update(row.encode())
        sizes[_part(name)] += len(data)
    return {
        "digest": f"sha256:{hashes.hexdigest()}",
        "prefix": BUNDLE,
        "machine": platform.machine(),
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "python": platform.python_version(),
        "policies": list(host.policy_files),
        "plugins": [_plugin(plugin) for plugin in bundled_plugins(host)],
        "distributions": {each.code.distribution: each.code.version for each in distributions},
        "size": sum(sizes.values()),
        "sizes": dict(sorted(sizes.items())),
    }


def _plugin(plugin: Plugin) -> dict[str, Any]:
    return {
        "id": plugin.id,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "digest": plugin.digest,
    }


def _part(name: str) -> str:
    """Return the part of the bundle that a file belongs to; installed files are divided by package."""
    top, _, rest = name.partition("/")
    if name.startswith(f"{STANDARD_LIBRARY}/"):
        return STANDARD_LIBRARY
    return f"{top}/{rest.partition('/')[0]}" if top in ("bin", SITE) else top
