"""``pai-runtime engines add slurm``: a first engine profile, from what Slurm says of the cluster."""

import argparse
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pai_runtime.engine.local import user_directory
from pai_runtime.engine.messages import printable
from pai_runtime.plugin import Output, UserError
from pai_slurm.commands import call

_FILE: Final = "engines.yaml"
_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}")
_SHARED: Final = frozenset(
    (
        *(
            "9p",
            "afs",
            "beegfs",
            "ceph",
            "cifs",
            "glusterfs",
            "gpfs",
            "lustre",
            "nfs",
            "nfs4",
            "orangefs",
            "panfs",
        ),
        *("pvfs2", "smb3", "virtiofs", "wekafs"),
    )
)
"""Types of file systems that are on other machines."""
_MOST_READ: Final = 1 << 20


class Partition(NamedTuple):
    """A partition of the cluster, with what `sinfo` says of it."""

    name: str
    is_default: bool
    nodes: str
    cpus: str
    gpus: str
    time: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the profile's name (default: the cluster's)")
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path("~/pai-runs"),
        metavar="DIR",
        help="the directory of runs, on a file system that all nodes share (default: ~/pai-runs)",
    )


def main(args: argparse.Namespace, output: Output) -> int:
    """Write the profile, or print it if there are others already. Raises `UserError` and `ClusterError`."""
    name = _cluster_name() if args.name is None else args.name
    if not _NAME.fullmatch(name):
        raise UserError(
            f"the name of a profile has letters, digits, '-' and '_', not {name!r}; give another one"
        )
    folder = user_directory("XDG_CONFIG_HOME", ".config")
    if folder is None:
        raise UserError(f"there is no home directory for {_FILE}")
    runs = args.runs.expanduser().absolute()
    lines = list(_profile(name, args.runs, _partitions()))
    path = folder / _FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join(("enginesVersion: 1", "engines:", *lines, "")))
    except FileExistsError:
        output.report(f"{path} exists already; add this below its 'engines:'")
        output.write_lines(lines)
        return 1
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
    output.report(*_doubts(runs))
    output.write_lines([str(path), f"to see what a job lacks there: pai-runtime validate JOB --on {name}"])
    return 0


def _cluster_name() -> str:
    found = re.search(r"^ClusterName\s*=\s*(\S+)", call("scontrol", "show", "config"), re.MULTILINE)
    return found[1] if found else "slurm"


def _partitions() -> list[Partition]:
    """Return the partitions that take jobs, in Slurm's order, each once."""
    found: dict[str, Partition] = {}
    for line in call("sinfo", "--noheader", "--format=%P|%a|%D|%c|%G|%l").splitlines():
        name, is_up, *rest = line.split("|")
        if is_up == "up" and len(rest) == len(Partition._fields) - 2:
            found.setdefault(name.rstrip("*"), Partition(name.rstrip("*"), name.endswith("*"), *rest))
    if not found:
        raise UserError("sinfo lists no partition that takes jobs of yours")
    return list(found.values())


def _profile(name: str, runs: Path, partitions: list[Partition]) -> Iterator[str]:
    """Yield the lines of the profile below ``engines``; JSON strings are YAML, too."""
    chosen = next((each for each in partitions if each.is_default), partitions[0])
    yield f"  {name}:"
    yield "    engine: slurm"
    yield f"    runs: {json.dumps(str(runs))}"
    for each in partitions:
        has = f"{each.nodes} nodes, {each.cpus} CPUs each, GPUs: {each.gpus}, at most {each.time}"
        mark = "" if each is chosen else "# "
        yield f"    {mark}partition: {json.dumps(each.name)}  # {printable(has)}"
    yield '    # time: "2:00:00"  # of an allocation, unless run --time-limit says otherwise'
    yield "    # account: NAME"


def _doubts(runs: Path) -> Iterator[str]:
    """Yield what people have to look at themselves."""
    kind = _file_system(runs)
    if kind not in _SHARED and not kind.startswith("fuse."):
        yield (
            f"{runs} is on a file system of this machine ({kind}); unless the nodes share it, write a"
            " directory that they do share into the profile"
        )


def _file_system(path: Path) -> str:
    """Return the type of the file system that a path is on, or will be."""
    there = next(each for each in (path, *path.parents) if each.exists())
    device = there.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with Path("/proc/self/mountinfo").open(encoding="utf-8", errors="replace") as file:
        mounts = [line.split() for line in file.read(_MOST_READ).splitlines()]
    kinds = [mount[mount.index("-") + 1] for mount in mounts if mount[2] == number]
    return kinds[-1] if kinds else "unknown"
