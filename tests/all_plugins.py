"""The example with all built-in plugins, and the repository that it clones."""

import subprocess
from pathlib import Path

from tests.support import ROOT

EXAMPLE = ROOT / "examples" / "all-plugins.yaml"


def repository(folder: Path) -> Path:
    repository = folder / "model"
    repository.mkdir()
    for file in EXAMPLE.with_suffix("").iterdir():
        (repository / file.name).write_bytes(file.read_bytes())
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
    for command in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "--message", "Fit"]):
        subprocess.run(["git", "-C", repository, *command], check=True)
    return repository
