"""The environment with Jupyter Notebook, made when a test asks for it: it has some ninety packages."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.plugin_factory import UV

_ROOT = Path(__file__).resolve().parents[1]
_REQUIREMENTS = _ROOT / "requirements-notebook.txt"


def notebook_environment() -> Path:
    """The directory with its programs.

    Raises CalledProcessError if no index has its packages.
    """
    folder = _ROOT / f".venv/notebook-{sys.version_info.major}.{sys.version_info.minor}"
    folder.parent.mkdir(exist_ok=True)
    stamp, wanted = folder / "stamp", hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes that run tests may want it at the same time
        if not stamp.exists() or stamp.read_text() != wanted:
            _make(folder)
            stamp.write_text(wanted)
    return folder / "bin"


def _make(folder: Path) -> None:
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
    subprocess.run([*install, "--require-hashes", "--requirement", _REQUIREMENTS], check=True)
