"""Job files in an editor: what yaml-language-server says by the schema that their first line names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.language_server import Editor, editor
from tests.support import cli

pytestmark = [pytest.mark.process, pytest.mark.needs("nodejs", "npm", "yaml-language-server")]

JOB = """# yaml-language-server: $schema=job.schema.json
protocolVersion: 2
name: hello
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: "debian:12"}
  - name: code
    type: script
    plugin: git
    repo_url: x
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: one, memoryMB: 100, gpu: 0}
    comands: [echo]
extras:
  com.microsoft.pai.runtimeplugin:
    - plugin: ssh
      parameters:
        jobssh: true
        sshb
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "job.schema.json").write_text(cli("schema", "job").stdout)
    return folder


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[Editor]:
    with editor(folder) as started:
        yield started


def place(text: str) -> tuple[int, int]:
    """The line and the column at which a text begins, from 0."""
    before = JOB[: JOB.index(text)]
    return before.count("\n"), len(before.rpartition("\n")[2])


def test_a_job_that_is_valid_has_no_fault(opened: Editor, folder: Path) -> None:
    path = folder / "valid.yaml"
    valid = JOB.replace("one", "1").replace("comands", "commands").replace("        sshb\n", "")
    path.write_text(valid.replace("repo_url", "repo_uri"))
    assert opened.open(path) == []


def test_faults_are_told_at_their_places_and_what_can_be_written_is_offered(
    opened: Editor, folder: Path
) -> None:
    path = folder / "wrong.yaml"
    path.write_text(JOB)
    starts = {
        (each["range"]["start"]["line"], each["range"]["start"]["character"]) for each in opened.open(path)
    }
    assert {place("repo_url"), place("one"), place("comands")} <= starts

    line, column = place("sshb\n")
    offered = opened.completions(path, line, column + len("sshb"))
    assert {"sshbarrier", "sshbarrierTimeout"} <= offered.keys()
    line, column = place("ssh\n")
    offered = opened.completions(path, line, column)
    assert {"ssh", "git", "tensorboard"} <= offered.keys()
    assert "Memory in MB" in opened.hover(path, *place("memoryMB"))
