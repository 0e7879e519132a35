"""The environments with what only a job of a test needs, made when a test asks for one: they are large."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.plugin_factory import UV
from tests.support import ROOT


def job_environment(name: str) -> Path:
    """The directory with the programs of what ``requirements-NAME.txt`` locks.

    Raises CalledProcessError if no index has its packages.
    """
    requirements = ROOT / f"requirements-{name}.txt"
    folder = ROOT / f".venv/{name}-{sys.version_info.major}.{sys.version_info.minor}"
    folder.parent.mkdir(exist_ok=True)
    stamp, wanted = folder / "stamp", hashlib.sha256(requirements.read_bytes()).hexdigest()
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes that run tests may want it at the same time
        if not stamp.exists() or stamp.read_text() != wanted:
            _make(folder, requirements)
            stamp.write_text(wanted)
    return folder / "bin"


def _make(folder: Path, requirements: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install: list[str | Path] = [
        UV,
        "pip",
        "install",
        "--quiet",
        "--system-certs",
        "--python",
        folder / "bin/python",
    ]
    subprocess.run([*install, "--require-hashes", "--requirement", requirements], check=True)
