"""``lsp``: an editor is told what ``validate`` finds, also what no schema knows."""

from pathlib import Path
from typing import Any

import pytest

from tests.language_server import editor
from tests.support import PROGRAM

pytestmark = pytest.mark.process

JOB = """protocolVersion: 2
name: hello
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: "debian:12"}
parameters: {lr: 0.1}
taskRoles:
  worker:
    dockerImage: imag
    prerequisites: [nope]
    resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 0}
    commands: ["😀 <% $parameters.rate %>"]
"""


def found(diagnostics: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """The code of each fault, and the text at which it is for an editor, which counts in UTF-16."""
    lines = [line.encode("utf-16-le") for line in JOB.splitlines()]
    ranges = ((each["code"], each["range"]["start"], each["range"]["end"]) for each in diagnostics)
    return {
        (code, lines[start["line"]][start["character"] * 2 : end["character"] * 2].decode("utf-16-le"))
        for code, start, end in ranges
    }


def test_what_only_validate_knows_is_told_at_its_place_and_again_when_the_file_is_saved(
    tmp_path: Path,
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    with editor(tmp_path, PROGRAM, "lsp") as opened:
        before = opened.open(path)
        path.write_text(JOB.replace("imag\n", "image\n").replace("[nope]", "[]").replace("rate", "lr"))
        after = opened.save(path)
    assert found(before) == {
        ("no-such-prerequisite", "imag"),
        ("no-such-prerequisite", "nope]"),
        ("reference-to-nothing", '<% $parameters.rate %>"]'),
    }
    assert after == []


def test_a_file_that_is_no_job_has_no_faults(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("a: [1\n")
    with editor(tmp_path, PROGRAM, "lsp") as opened:
        assert opened.open(path) == []
