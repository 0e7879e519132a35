"""The examples of the proposal for shared prerequisites run as written, from a folder of definitions.

What cannot be reached is replaced: an address by that of a server on this machine, the storage by a
directory, ``apt`` by a program that says how it was called. In the proposal ``wget -O`` names a directory,
which wget refuses; here it is ``-P``.
"""

import io
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from tests.local_server import LocalServer
from tests.support import cli, exit_record, runtime_log

pytestmark = pytest.mark.process

SHARED = Path(__file__).parent / "shared"
_APT = '#!/bin/sh\necho "apt was called: $*"\n'


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing is to be said of requests."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server that has mnist.zip."""
    served = tmp_path / "served"
    served.mkdir()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("train.txt", "seven\n")
    (served / "mnist.zip").write_bytes(data.getvalue())
    with LocalServer(partial(_Quiet, directory=served)) as server:
        yield server.url


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has a folder of the definitions as a source, and an ``apt``."""
    definitions, config, programs = (
        tmp_path / "definitions",
        tmp_path / "config/pai-runtime",
        tmp_path / "bin",
    )
    for folder in (definitions, config, programs):
        folder.mkdir(parents=True)
    for path in (SHARED / "definitions").iterdir():
        (definitions / path.name).write_text(path.read_text("utf-8"), "utf-8")
    (config / "marketplace.yaml").write_text(f"sources:\n  - {{name: proposal, folder: {definitions}}}\n")
    (programs / "apt").write_text(_APT)
    (programs / "apt").chmod(0o755)
    return {"XDG_CONFIG_HOME": str(config.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def _job(folder: Path, name: str, **replaced: str) -> Path:
    text = (SHARED / f"{name}.yaml").read_text("utf-8")
    for old, new in {"/dataset/": "dataset/", **replaced}.items():
        text = text.replace(old, new)
    path = folder / f"{name}.yaml"
    path.write_text(text, "utf-8")
    return path


def _adapt(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / "definitions" / f"{name}.yaml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.needs("wget", "unzip")
def test_mnist_is_fetched_and_unpacked_after_wget_is_installed(
    tmp_path: Path, home: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _adapt(tmp_path, "mnist", "http://1.2.3.4", address)
    _adapt(tmp_path, "mnist", "-O", "-P")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    job = _job(tmp_path, "mnist", **{"sleep 0s": "cat dataset/mnist/train.txt"})
    ended = cli("run", job, "--plain", "--out", tmp_path / "run", env=home)
    assert ended.returncode == 0, ended.stderr
    assert "seven" in ended.stdout
    log = runtime_log(tmp_path / "run/taskrole/0")
    called = [line for line in log if line.startswith("apt was called: ")]
    assert called == ["apt was called: update", "apt was called: install -y wget"]


@pytest.mark.needs("user namespaces")
@pytest.mark.parametrize(
    ("name", "files"), [("imagenet", "train validation"), ("imagenet_only_validation", "0001.jpeg")]
)
def test_imagenet_is_copied_from_the_storage_that_it_requires(
    tmp_path: Path, home: dict[str, str], name: str, files: str
) -> None:
    for path in ("train/0001.jpeg", "validation/0001.jpeg"):
        (tmp_path / "store/imagenet" / path).parent.mkdir(parents=True)
        (tmp_path / "store/imagenet" / path).touch()
    # Whoever may not mount anything reaches the storage at its own path.
    job = _job(tmp_path, name, **{"sleep 0s": "echo $(ls dataset/imagenet)"})
    storage = f"confignfs={tmp_path / 'store'}"
    ended = cli("run", job, "--plain", "--storage", storage, "--out", tmp_path / "run", env=home)
    assert ended.returncode == 0, ended.stderr
    assert files in ended.stdout


def test_the_debug_hook_waits_after_a_failure_only(tmp_path: Path, home: dict[str, str]) -> None:
    for name, command, waits in ("good", "exit 0", False), ("bad", "exit 3", True):
        job = _job(tmp_path, "debug_hook", **{"min: 30": "min: 0", "sleep 0s": command})
        cli("run", job, "--plain", "--out", tmp_path / name, env=home)
        assert exit_record(tmp_path / name / "taskrole/0")["exitCode"] == (3 if waits else 0)
        log = runtime_log(tmp_path / name / "taskrole/0")
        assert ("will sleep for 0 minutes for debugging..." in log) == waits


@pytest.mark.parametrize("name", ["mnist", "imagenet", "imagenet_only_validation", "debug_hook"])
def test_a_definition_that_is_required_without_its_variables_is_refused(
    tmp_path: Path, home: dict[str, str], name: str
) -> None:
    job = tmp_path / "job.yaml"
    text = (SHARED / f"{name}.yaml").read_text("utf-8")
    job.write_text(text[: text.index("          template_variables:")], "utf-8")
    ended = cli("validate", "--json", job, env=home)
    assert ended.returncode == 1
    assert '"missing-variable"' in ended.stdout
    assert f"{job.name}" in ended.stdout
