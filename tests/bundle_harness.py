"""Programs in a user's image, with the bundle where every pod has it, in a mount namespace of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pai_pod.bundle.interpreter import SEARCH_PATH
from pai_pod.bundle.launcher import launcher
from pai_task.paths import BUNDLE, LAUNCHER
from tests.needs import MOUNT_NAMESPACE

USER = 12345 if os.geteuid() == 0 else 0
"""An ordinary user of the image; in an ordinary user's own namespace there is nobody else."""

_MOUNT = """
set -e
root=$1 bundle=$2
mount --rbind "$root" "$root"
mount --bind "$bundle" "$root$3"
mount -o remount,bind,ro "$root$3"
for device in /dev/null /dev/urandom; do
    if [ -e "$root$device" ]; then mount --bind $device "$root$device"; fi
done
if [ "$4" = proc ]; then mount --rbind /proc "$root/proc"; fi
if [ "$5" = ro ]; then mount -o remount,bind,ro "$root"; fi
shift 5
exec "$@"
"""

_ENTER = """
import json, os, sys
root, user, argv, env = json.loads(sys.argv[1])
os.chroot(root)
os.chdir("/")
if user:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
os.execve(argv[0], argv, env)
"""
"""Without groups, an ordinary user's namespace has only one user."""

_PROBE = """
import json, os, sys
sys.path.insert(0, {site!r})
from pai_pod.launcher_environment import image_environment
def main():
    told = dict(own=dict(os.environ), image=image_environment(os.environ), argv=sys.argv[1:])
    told["fs"] = sys.getfilesystemencoding()
    exec(open("/probe/work.py").read())
    if os.path.exists("/proc/self/maps"):
        files = (line.split()[-1] for line in open("/proc/self/maps"))
        told["mapped"] = sorted(set(each for each in files if each.startswith("/")))
    print(json.dumps(told))
"""


@dataclass(frozen=True)
class Told:
    """What the bundle's interpreter said of itself in an image."""

    own: Mapping[str, str]
    image: Mapping[str, str]
    argv: Sequence[str]
    fs: str
    mapped: Sequence[str] = ()
    work: object = None


@dataclass(frozen=True)
class Image:
    """An image as a tree of files; `user`: an ordinary user, who has no capabilities."""

    root: Path
    bundle: Path
    user: int = 0
    has_proc: bool = False
    is_read_only: bool = False

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program with this environment and no more."""
        (self.root / BUNDLE[1:]).mkdir(parents=True, exist_ok=True)
        (self.root / "proc").mkdir(exist_ok=True)
        entering = json.dumps([str(self.root), self.user, argv, env or {}])
        options = [BUNDLE, "proc" if self.has_proc else "", "ro" if self.is_read_only else ""]
        mounting = ["sh", "-c", _MOUNT, "sh", str(self.root), str(self.bundle), *options]
        return subprocess.run(
            [*MOUNT_NAMESPACE, *mounting, sys.executable, "-I", "-S", "-c", _ENTER, entering],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def launch(self, *args: str, env: Mapping[str, str] | None = None, work: str = "") -> Told:
        """Run the launcher, with a probe in the place of what a task runs; `work` is more that it does."""
        probe = self.root / "probe"
        probe.mkdir(exist_ok=True)
        (probe / "probe.py").write_text(_PROBE.format(site=f"{BUNDLE}/site"))
        (probe / "work.py").write_text(work)
        path = self.root / LAUNCHER[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(launcher(["/probe", *SEARCH_PATH], "probe"))
        path.chmod(0o755)
        ended = self.run(LAUNCHER, *args, env=env)
        assert (ended.returncode, ended.stderr) == (0, ""), ended
        return Told(**json.loads(ended.stdout))
