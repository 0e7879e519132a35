"""Make what is published: each distribution, its version and the changes, from what is committed.

``python -m tools.release build FOLDER`` writes there a wheel and a source archive of each distribution,
``SHA256SUMS``, and ``sbom.json`` (CycloneDX) of what an installation of them has. All is built twice, from
two clones in different directories whose files have different rights, and has to be the same to the last
byte.

``python -m tools.release version VERSION`` gives all distributions that version, and makes the fragments in
``changes/`` its section of CHANGELOG.md; `./dev release` commits that, builds it and tags it.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from packaging.version import InvalidVersion, Version

from pai_runtime import __version__

ROOT = Path(__file__).parent.parent
_VERSION = re.compile(r'^version = ".*"$', re.MULTILINE)
_OURS = re.compile(r'"(pai-[a-z0-9-]+)>=[^,"]+,<1"')
"""A distribution of this repository as another one needs it."""


class NotReleased(Exception):
    """What keeps a release from being made, as a sentence for people."""


def main() -> None:
    match sys.argv[1:]:
        case ["build", folder]:
            build(Path(folder))
        case ["version", version]:
            set_version(version)
        case _:
            raise NotReleased("expected build FOLDER or version VERSION")


def build(folder: Path) -> None:
    """Write what is published to a folder that is empty or not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise NotReleased(f"{folder}: expected an empty folder, so that nothing else is published")
    with tempfile.TemporaryDirectory() as scratch:
        first = _built(Path(scratch, "one"), 0o022)
        second = _built(Path(scratch, "another", "place"), 0o077)
        differing = sorted(name for name in first | second if first.get(name) != second.get(name))
        if differing:
            raise NotReleased(f"a second build differs in {', '.join(differing)}")
        for name, data in first.items():
            (folder / name).write_bytes(data)
    _call("twine", "check", "--strict", *(str(folder / name) for name in sorted(first)))
    _write_sbom(folder)
    sums = (f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir()))
    (folder / "SHA256SUMS").write_text("".join(sums), "ascii")


def set_version(text: str) -> None:
    """Set the version of all distributions, which need each other in at least that version."""
    try:
        version = str(Version(text))
    except InvalidVersion:
        raise NotReleased(f"{text}: expected a version such as 0.2.0") from None
    for path in _tracked("*/pyproject.toml"):
        text = _VERSION.sub(f'version = "{version}"', path.read_text("utf-8"))
        path.write_text(_OURS.sub(rf'"\1>={version},<1"', text), "utf-8")
    for path in _tracked("README.md", "docs/*.md", "core/src/pai_runtime/__init__.py"):
        path.write_text(re.sub(rf"\b{re.escape(__version__)}\b", version, path.read_text("utf-8")), "utf-8")
    _call("towncrier", "build", "--yes", "--version", version)


def _tracked(*patterns: str) -> Iterable[Path]:
    return map(ROOT.joinpath, _call("git", "ls-files", "--", *patterns).split())


def _built(clone: Path, umask: int) -> dict[str, bytes]:
    before = os.umask(umask)
    try:
        _call("git", "clone", "--quiet", "--no-local", str(ROOT), str(clone))
        epoch = _call("git", "log", "-1", "--format=%ct", cwd=clone).strip()
        python = ("--python", sys.executable, "--no-build-isolation")
        _call(
            *("uv", "build", "--quiet", "--all-packages", *python, "--out-dir", "dist"),
            cwd=clone,
            SOURCE_DATE_EPOCH=epoch,
        )
    finally:
        os.umask(before)
    return {path.name: path.read_bytes() for path in (clone / "dist").glob("pai_*")}


def _write_sbom(folder: Path) -> None:
    """Describe what an installation of the wheels in a folder has, with the locked packages they need."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch, "environment")
        _call("python", "-m", "venv", "--without-pip", str(environment))
        install = ("pip", "-qq", "--disable-pip-version-check", "--python", str(environment), "install")
        _call(*install, "--require-hashes", "--requirement", "requirements-runtime.txt")
        _call(*install, "--no-index", "--find-links", str(folder), "pai-runtime[all,bundle,kubernetes]")
        _call(
            *("cyclonedx-py", "environment", "--output-reproducible", "--pyproject", "core/pyproject.toml"),
            *("--output-file", str(folder / "sbom.json"), str(environment / "bin/python")),
        )


def _call(*argv: str, cwd: Path = ROOT, **environment: str) -> str:
    """Call a program of this environment, or git; its standard output."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotReleased(
            f"{argv[0]} {argv[1]} ended with exit code {done.returncode}\n{done.stdout}".strip()
        )
    return done.stdout


if __name__ == "__main__":
    try:
        main()
    except NotReleased as error:
        sys.exit(f"release: {error}")
