"""Podman with a storage of its own, and an image of busybox in it, for tests that run containers."""

import io
import json
import os
import resource
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

IMAGE: Final = "localhost/pai-test"
"""An image whose working directory is /srv, by root; `OF_USER` has the same content, by another user."""
OF_USER: Final = "localhost/pai-test-user"
USER: Final = 1234

_BUSYBOX: Final = Path("/bin/busybox")
_MOST_PROCESSES: Final = 32768
"""What Podman itself lowers the limit to, and so cannot raise it above without a capability."""


def podman_environment(folder: Path, volumes: Sequence[str] = ()) -> dict[str, str]:
    """The variables by which Podman keeps all in a folder, and asks for no limit that it may not have.

    Each container has the `volumes`, as ``--volume`` gives them.
    """
    storage, containers = folder / "storage.conf", folder / f"containers-{len(volumes)}.conf"
    if not containers.exists():
        if not storage.exists():  # else another test may be reading it
            roots = f'runroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n'
            storage.with_suffix(".new").write_text(f'[storage]\ndriver = "overlay"\n{roots}')
            storage.with_suffix(".new").rename(storage)
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        processes = min(resource.getrlimit(resource.RLIMIT_NPROC)[1], _MOST_PROCESSES)
        limits = f'default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]'
        # runc also runs where cgroups of both versions are mounted. By itself, Podman has one set of locks
        # for each user, which each storage numbers on its own: two storages that are in use would deadlock.
        engine = '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n'
        engine += f'lock_type = "file"\ntmp_dir = "{folder}/tmp"\n'
        containers.write_text(f"[containers]\n{limits}\nvolumes = {json.dumps(volumes)}\n{engine}")
    return {"CONTAINERS_CONF": str(containers), "CONTAINERS_STORAGE_CONF": str(storage)}


def podman(environment: Mapping[str, str], *args: str) -> str:
    """What Podman prints."""
    done = subprocess.run(
        ["podman", *args],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, (args, done.stderr.decode())
    return done.stdout.decode()


def make_images(folder: Path) -> None:
    """Make the images in a storage in a folder."""
    environment = podman_environment(folder)
    packed = folder / "image.tar"
    _pack(packed)
    podman(environment, "import", "--quiet", "--change", "WORKDIR /srv", str(packed), IMAGE)
    podman(environment, "import", "--quiet", "--change", f"USER {USER}", str(packed), OF_USER)
    packed.unlink()


def runs_containers(folder: Path) -> bool:
    """Whether a container runs here, in a network with names."""
    try:
        environment = podman_environment(folder)
        make_images(folder)
        network = f"pai-probe-{os.getpid()}"
        podman(environment, "network", "create", network)
        try:
            run = ("run", "--rm", f"--network={network}", "--network-alias=me", IMAGE, "nslookup", "me")
            podman(environment, *run)
        finally:
            podman(environment, "network", "rm", "--force", network)
    except (AssertionError, OSError, subprocess.TimeoutExpired):
        return False
    return True


def _pack(target: Path) -> None:
    applets = subprocess.run([_BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(target, "w") as archive:
        archive.add(_BUSYBOX, "bin/busybox", filter=_of_root)
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
        for name in ("etc", "srv", "tmp"):
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(made)
        passwd = b"root:x:0:0:root:/root:/bin/sh\n"
        file = tarfile.TarInfo("etc/passwd")
        file.size = len(passwd)
        archive.addfile(file, io.BytesIO(passwd))


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
