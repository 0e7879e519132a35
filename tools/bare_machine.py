"""Runs a script in a clone of this checkout on a machine that has only what README.md names; as root.

usage: python -m tools.bare_machine SUITE KIND USER HOME SCRIPT

The machine is Debian SUITE, made by mmdebstrap. KIND is ``machine``, on which users may make namespaces, or
``container``, confined as Docker confines it. USER is ``root`` or ``user``. The directory HOME is made where
it is missing; its ``home`` is the user's home directory: what lies there is found by the script, and what
the script leaves there stays. The clone is in it.
"""

import os
import pwd
import subprocess
import sys
from pathlib import Path

from tests.containers.runc import Container, Mount, Running

_CHECKOUT = Path(__file__).resolve().parents[1]
_PACKAGES = "bash,ca-certificates,git,python3,python3-venv"
_USER = "someone"
_HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_OF_THE_MACHINE = ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt")
_OF_THE_INDEX = ("PIP_CERT", "PIP_INDEX_URL", "SSL_CERT_FILE", "UV_DEFAULT_INDEX")


def root_of(suite: str) -> Path:
    """Its files, kept from one time to the next."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pai-runtime-tests"
    made = cache / f"bare-{suite}"
    if not made.exists():
        cache.mkdir(parents=True, exist_ok=True)
        new = cache / f"bare-{suite}.{os.getpid()}"
        options = ["--quiet", "--variant=minbase", f"--include={_PACKAGES}"]
        # A mirror's copy of a suite that is not released yet may be some weeks old.
        options.append('--aptopt=Acquire::Check-Valid-Until "false"')
        subprocess.run(["unshare", "--mount", "mmdebstrap", *options, suite, new], check=True)
        subprocess.run(["chroot", new, "useradd", "--create-home", "--shell", "/bin/bash", _USER], check=True)
        new.rename(made)
    return made


def _user_of(root: Path, name: str) -> pwd.struct_passwd:
    fields = (line.split(":") for line in (root / "etc/passwd").read_text().splitlines())
    (found,) = (each for each in fields if each[0] == name)
    return pwd.struct_passwd((*found[:2], int(found[2]), int(found[3]), *found[4:]))


def main() -> int:
    suite, kind, who, home, script = sys.argv[1:]
    root, folder = root_of(suite), Path(home).resolve()
    user = _user_of(root, "root" if who == "root" else _USER)
    for each in (folder / "home", folder / "tmp"):
        each.mkdir(parents=True, exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    (root / "etc/hosts").write_text(_HOSTS)
    for name in _OF_THE_MACHINE:
        (root / name).write_bytes(Path("/", name).read_bytes())
    clone = folder / "home/pai-runtime"
    subprocess.run(["git", "clone", "--quiet", _CHECKOUT, clone], check=True)
    subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", folder / "home"], check=True)
    mounts = [
        Mount(folder / "home", user.pw_dir),
        Mount(folder / "tmp", "/tmp"),  # noqa: S108 - its own
    ]
    container = Container(
        root,
        ["/bin/bash", "-euc", script],
        {
            "HOME": user.pw_dir,
            "PATH": f"/usr/local/sbin:/usr/sbin:/sbin:{_PATH}" if who == "root" else _PATH,
            **{name: os.environ[name] for name in _OF_THE_INDEX if name in os.environ},
        },
        mounts,
        user=user.pw_uid,
        group=user.pw_gid,
        work=f"{user.pw_dir}/pai-runtime",
        is_confined=kind == "container",
    )
    running = Running(container, folder / "container", Path("/dev/stdout"))
    try:
        return running.process.wait()
    finally:
        if running.process.poll() is None:
            running.stop()


if __name__ == "__main__":
    sys.exit(main())
