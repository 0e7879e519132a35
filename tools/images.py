"""One task in images of many kinds, under many conditions: what it says, leaves and ends with is right.

usage: python -m tools.images [COUNT]

As root. All combinations of an image, a user, a root that is read-only or not, a umask of both containers
and a locale; or COUNT of them, spread evenly. Debian's images are made by mmdebstrap, once.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import gcd
from pathlib import Path

from pai_pod.bundle.make import make_bundle
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_task.exit_record import read_exit_record, read_termination_message
from pai_task.folder import Folder
from tests.containers import images
from tests.containers.pod import Pod
from tests.init_harness import config
from tests.support import callback

_LEGACY = "zh_CN.GBK"
_CODE = 7
_LOCALE_FILES = ("usr/lib/locale", "usr/lib/x86_64-linux-gnu/gconv")
_LOCALES = {"unset": None, "C.UTF-8": "C.UTF-8", "installed legacy": _LEGACY, "not installed": "ja_JP.EUC-JP"}
_CALLBACKS = [
    callback("taskStarts", "echo starts; export CARRIED=over"),
    callback("taskFails", "echo fails $PAI_TASK_EXIT_CODE"),
    callback("taskExits", "echo exits $PAI_TASK_OUTCOME"),
]
_COMMAND = ('echo "é $CARRIED"', "echo err >&2", f"exit {_CODE}")


def debian(suite: str, folder: Path) -> None:
    """One of its releases, with a legacy locale: kept from one time to the next."""
    made = images.kept(suite, f"{suite}-locales", "?essential", "locales")
    if not (made / _LOCALE_FILES[0] / "compiled").exists():
        argv = ["localedef", "-f", "GBK", "-i", "zh_CN", _LEGACY]
        subprocess.run(["chroot", made, *argv], check=True)
        (made / _LOCALE_FILES[0] / "compiled").touch()
    folder.rmdir()
    folder.symlink_to(made)


def _with_locales(make: Callable[[Path], None], folder: Path) -> None:
    """Files of a C library that the image has not, nor the bundle."""
    make(folder)
    made = images.kept("trixie", "trixie-locales", "?essential", "locales")
    for name in _LOCALE_FILES:
        shutil.copytree(made / name, folder / name, symlinks=True)


IMAGES: Mapping[str, Callable[[Path], None]] = {
    "bullseye": partial(debian, "bullseye"),
    "bookworm": partial(debian, "bookworm"),
    "trixie": partial(debian, "trixie"),
    "empty": partial(_with_locales, images.empty),
    "busybox": partial(_with_locales, images.busybox),
    "musl": partial(_with_locales, images.musl),
    "static program": partial(_with_locales, images.scratch),
}


@dataclass(frozen=True)
class Conditions:
    """One combination."""

    image: str
    user: int
    read_only: bool
    umask: int
    locale: str

    def __str__(self) -> str:
        root = "read-only" if self.read_only else "writable"
        return f"{self.image}, user {self.user}, {root} root, umask {self.umask:03o}, LANG {self.locale}"


ALL = [Conditions(*each) for each in product(IMAGES, (0, 12345), (False, True), (0o22, 0o27, 0o77), _LOCALES)]


def init(folder: Path, bundle: Path, umask: int) -> Path:
    """What an init container with a umask leaves on the volume."""
    pod = Pod(folder, bundle, "proposal")
    uses = [{"plugin": "cmd", "parameters": {"callbacks": _CALLBACKS}}]
    environment = {"RUNTIME_CONFIG": config(*_COMMAND, uses=uses), "INIT_CONFIG": ""}
    ended = pod.start_init(environment, umask).end()
    if ended.code:
        raise RuntimeError(f"init failed: {ended}")
    return pod.volume


def faults(conditions: Conditions, image: Path, prepared: Path, bundle: Path, folder: Path) -> Iterator[str]:
    """What is wrong with a task under some conditions; `prepared` is left by `init`, `folder` is empty."""
    pod = Pod(folder, bundle, "proposal")
    names = [each for each in prepared.iterdir() if each.name != "bundle"]  # which is mounted then
    subprocess.run(["cp", "-a", *names, pod.volume], check=True)
    locale = _LOCALES[conditions.locale]
    ended = pod.run_task(
        image,
        user=conditions.user,
        read_only=conditions.read_only,
        umask=conditions.umask,
        env={} if locale is None else {"LANG": locale},
    )
    with Folder.at(pod.logs) as logs:
        record = read_exit_record(logs)
    expected = {
        "exit code": (ended.code, _CODE),
        "output": ((ended.stdout, ended.stderr), ("é over\n", "err\n")),
        "log": ((pod.logs / "user-all/current").read_text("utf-8"), "é over\nerr\n"),
        "mode of the log": ((pod.logs / "user-all/current").stat().st_mode & 0o777, 0o644),
        "record": ([record.get(key) for key in ("exitCode", "outcome")], [_CODE, "failed"]),
        "failed callbacks": (record.get("callbackFailureCount"), None),
        "termination message": (read_termination_message(pod.termination_message), record),
        "callbacks": ([line for line in pod.runtime_log if line in _SAID], _SAID),
    }
    for what, (found, wanted) in expected.items():
        if found != wanted:
            yield f"{what}: expected {wanted!r}, found {found!r}"


_SAID = ["starts", f"fails {_CODE}", "exits failed"]


def check(conditions: Sequence[Conditions], made: Path, workers: int) -> int:
    """Try them, with what is made of images and bundles in `made`; in how many something is wrong."""
    bundle = made / "bundle"
    make_bundle(bundle, Host(NO_POLICY), lambda _: None)
    roots = {name: made / name for name in IMAGES}
    for name in dict.fromkeys(each.image for each in conditions):
        roots[name].mkdir()
        IMAGES[name](roots[name])
    prepared = {
        umask: init(made / f"init-{umask:03o}", bundle, umask)
        for umask in {each.umask for each in conditions}
    }

    def one(each: Conditions) -> bool:
        with tempfile.TemporaryDirectory(prefix="images-") as folder:
            Path(folder).chmod(0o755)
            found = list(faults(each, roots[each.image], prepared[each.umask], bundle, Path(folder, "pod")))
        for fault in found:
            print(f"{each}: {fault}", flush=True)
        return bool(found)

    with ThreadPoolExecutor(workers) as pool:
        bad = dict(zip(conditions, pool.map(one, conditions), strict=True))
    for name in IMAGES:
        own = [is_bad for each, is_bad in bad.items() if each.image == name]
        print(f"{name:15} {len(own):4} combinations, {sum(own)} of them wrong")
    return sum(bad.values())


def spread(count: int) -> list[Conditions]:
    """So many of all, in which every value occurs that can."""
    step = next(step for step in range(len(ALL) // count, 0, -1) if gcd(step, len(ALL)) == 1)
    return ALL[::step][:count]


def main() -> int:
    conditions = spread(int(sys.argv[1])) if sys.argv[1:] else ALL
    with tempfile.TemporaryDirectory(prefix="images-") as made:
        Path(made).chmod(0o755)
        return min(check(conditions, Path(made), 2 * (os.cpu_count() or 1)), 1)


if __name__ == "__main__":
    sys.exit(main())
