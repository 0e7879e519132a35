"""The definitions that come with the runtime: sound, and they do what they say in whatever image."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pai_definitions.rendering import rendered
from pai_definitions.sources import open_sources
from pai_definitions.variables import completed
from pai_document.document import parse_document
from pai_document.problems import Problems
from pai_runtime.definitions import Given
from tests.definition_sources import HERE, Network, find, library
from tests.fault_server import FaultServer, Reply

pytestmark = pytest.mark.process

CONTENT = b"zeros and ones\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
TOOLS = ("mkdir", "dirname", "rm", "mv", "cat", "mktemp")


def _script(name: str, variables: Mapping[str, Any]) -> str:
    """The one command of the definition."""
    sources, _ = open_sources([], {}, Network())
    definition = find(library(*sources), f"marketplace://name/{name}")
    asked = parse_document("name: asked\n", "job.yaml")
    given = {key: Given(value, str(value), HERE) for key, value in variables.items()}
    value = rendered(definition, completed(definition, given, asked), HERE)
    (command,) = value.data["parameters"]["callbacks"][0]["commands"]
    assert isinstance(command, str)
    return command


def _run(folder: Path, script: str, *programs: str) -> subprocess.CompletedProcess[str]:
    """Run a script where these are all programs that there are."""
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    for program in (*TOOLS, *programs):
        link, target = bin_ / program, sys.executable if program == "python3" else shutil.which(program)
        assert target
        if not link.exists():
            link.symlink_to(target)
    (folder / "work").mkdir(exist_ok=True)
    environment = {"PATH": str(bin_), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        ["/bin/sh", "-e", "-c", script],
        cwd=folder / "work",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_each_says_what_it_is_for_and_how_it_is_used() -> None:
    (source,), _ = open_sources([], {}, Network())
    problems = Problems()
    listed = source.list(problems)
    assert not problems.in_order
    assert {"debug_hook", "fetch_file", "pip_packages"} <= {each.name for each in listed}
    for each in listed:
        definition = find(library(source), each.reference)
        assert all((definition.title, definition.summary, definition.version, definition.variables))
        assert each.reference in definition.usage
        assert all(variable.description and variable.type for variable in definition.variables.values())


@pytest.mark.parametrize(
    "programs",
    [
        pytest.param(["curl", "sha256sum"], marks=pytest.mark.needs("curl")),
        pytest.param(["wget", "openssl"], marks=pytest.mark.needs("openssl", "wget")),
        ["python3"],
        pytest.param(["python3", "shasum", "perl"], marks=pytest.mark.needs("perl")),
    ],
    ids="+".join,
)
def test_a_file_is_fetched_with_what_the_image_has(tmp_path: Path, programs: list[str]) -> None:
    with FaultServer(Reply(body=CONTENT)) as server:
        url = f"{server.url}/it's $(here)?a=b&c"
        path = 'data/it\'s "here"/file'
        script = _script(
            "fetch_file", {"url": url.replace(" ", "%20"), "path": path, "sha256": SHA256.upper()}
        )
        done = _run(tmp_path, script, *programs)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "work" / path).read_bytes() == CONTENT
        assert [each.name for each in (tmp_path / "work" / path).parent.iterdir()] == ["file"]
        assert len(server.requests) == 1
        assert _run(tmp_path, script, *programs).returncode == 0
        assert len(server.requests) == 1


def test_a_file_with_another_checksum_is_not_kept(tmp_path: Path) -> None:
    with FaultServer(Reply(body=b"other")) as server:
        (tmp_path / "work").mkdir()
        (tmp_path / "work/file").write_bytes(b"before")
        variables = {"url": server.url, "path": "file", "sha256": SHA256}
        done = _run(tmp_path, _script("fetch_file", variables), "python3")
    assert done.returncode == 1
    assert SHA256 in done.stderr
    assert [each.read_bytes() for each in (tmp_path / "work").iterdir()] == [b"before"]


def test_a_file_that_cannot_be_fetched_stops_the_task(tmp_path: Path) -> None:
    with FaultServer(Reply(404)) as server:
        variables = {"url": server.url, "path": "file", "sha256": SHA256}
        assert _run(tmp_path, _script("fetch_file", variables), "python3").returncode != 0
    assert not (tmp_path / "work/file").exists()


def test_an_image_without_any_program_for_it_is_told_which_ones_would_do(tmp_path: Path) -> None:
    variables = {"url": "http://127.0.0.1:1", "path": "file", "sha256": SHA256}
    done = _run(tmp_path, _script("fetch_file", variables))
    assert done.returncode != 0
    assert "curl, wget or python3" in done.stderr


def test_packages_are_given_to_pip_as_lines_of_a_requirements_file(tmp_path: Path) -> None:
    pip = tmp_path / "bin/python3"
    pip.parent.mkdir()
    pip.write_text('#!/bin/sh\necho "$@"\nfor file; do :; done\ncat "$file"\n')
    pip.chmod(0o755)
    lines = ["numpy==2.1.0", "tqdm>=4; python_version < '3.99'", "$(false)", '"x"']
    done = _run(tmp_path, _script("pip_packages", {"packages": lines}))
    called, *given = done.stdout.splitlines()
    assert called.startswith("-m pip install ")
    assert given == lines
    assert done.returncode == 0
