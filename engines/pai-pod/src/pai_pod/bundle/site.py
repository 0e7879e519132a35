"""The runtime, the plugins and their dependencies in a bundle, laid out as if installed there."""

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pai_pod.bundle.distributions import Bundled
from pai_pod.bundle.elf import is_elf
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.files import copy_file, files_below, write_file
from pai_pod.bundle.interpreter import add_module
from pai_pod.bundle.libraries import Libraries
from pai_runtime.host.code import Code
from pai_task.paths import BUNDLE

SITE = "site"
"""The directory of installed distributions in the bundle."""

_METADATA = ("METADATA", "entry_points.txt")
_UNUSED = (".pth", ".pyc", ".pyi")
"""Suffixes that are left out: run at startup, compiled again, or for type checkers."""


def add_distribution(target: Path, each: Bundled, libraries: Libraries) -> None:
    """Copy a distribution with its metadata.

    The code of plugins is unchanged, so that it keeps the digest in plans. An editable one stays editable,
    with the bundle as its source: plans name no digest for it.
    """
    code, site = each.code, target / SITE
    try:
        files = _editable(code) if code.origin == "editable" else _installed(each)
    except ValueError as error:
        raise CannotBundle(f"{error}") from None
    if not files:
        raise CannotBundle(
            f"cannot bundle {code.distribution}: its metadata lists no files; install it again with pip"
        )
    for name, path in sorted(files.items()):
        if each.is_plugin:
            copy_file(path, site / name)
            if is_elf(path):
                libraries.add_those_of(path, Path(code.folder))
        else:
            add_module(path, site / name, libraries, Path(code.folder))
    info = site / code.installed.info
    if code.origin == "editable":
        direct = {"url": f"file://{BUNDLE}/{SITE}", "dir_info": {"editable": True}}
        write_file(info / "direct_url.json", json.dumps(direct).encode())
    # Byte code will take the place of other sources.
    rows = [_row(site, name) for name in sorted(files) if each.is_plugin or not name.endswith(".py")]
    write_file(info / "RECORD", "".join([*rows, f"{info.name}/RECORD,,\n"]).encode())


def _installed(each: Bundled) -> Mapping[str, Path]:
    """Return the installed files by name; of dependencies only those that a task can use."""
    files = {name: Path(path) for name, path in each.code.files.items() if Path(path).is_file()}
    if each.is_plugin:
        return files
    return {name: path for name, path in files.items() if path.suffix not in _UNUSED}


def _editable(code: Code) -> Mapping[str, Path]:
    """Return all files of an editable distribution's packages, by name."""
    sources = {name.partition("/")[0]: Path(path.removesuffix(name)) for name, path in code.files.items()}
    own = find_spec(code.distribution.replace("-", "_"))
    if not sources and own and own.origin:  # without entry points of plugins, which say what its modules are
        sources = {own.name: Path(own.origin).parents[1]}
    found = {}
    for top, folder in sources.items():
        for path in files_below(folder / top) if (folder / top).is_dir() else [folder / top]:
            if "__pycache__" not in path.parts:
                found[path.relative_to(folder).as_posix()] = path
    metadata = Path(code.folder) / code.installed.info
    found |= {f"{metadata.name}/{name}": metadata / name for name in _METADATA if (metadata / name).exists()}
    return found


def _row(site: Path, name: str) -> str:
    data = (site / name).read_bytes()
    noted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f'"{name}",sha256={noted},{len(data)}\n' if "," in name else f"{name},sha256={noted},{len(data)}\n"
