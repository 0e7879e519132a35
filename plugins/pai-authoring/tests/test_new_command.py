"""``pai-runtime new``: a job to begin with, which is valid and runs as it is."""

from pathlib import Path

import pytest
import yaml

from tests.support import PROGRAM, cli
from tests.typed_terminal import Terminal

pytestmark = pytest.mark.process


@pytest.mark.parametrize("template", ["program", "roles"])
def test_what_it_writes_is_valid_runs_and_names_its_schema(tmp_path: Path, template: str) -> None:
    path = tmp_path / "new.yaml"
    options = ["--template", template, "--command", "echo \"it: 'works'\" # yes", "--memory", "64"]
    ended = cli("new", path, *options, "--name", "first")
    assert ended.returncode == 0, ended.stderr
    first = path.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=job.schema.json"
    assert (tmp_path / "job.schema.json").exists()
    checked = cli("validate", path)
    assert (checked.returncode, checked.stderr) == (0, "")
    run = cli("run", path, "--plain", "--out", tmp_path / "run", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "it: 'works'" in run.stdout


def test_it_asks_at_a_terminal_and_again_after_a_wrong_answer(tmp_path: Path) -> None:
    path = tmp_path / "asked.yaml"
    terminal = Terminal(PROGRAM, "new", path, "--cpu", "2")
    for question, answer in (
        ("several roles", "neither"),
        ("expected program or roles", ""),
        ("name of the job", "asked"),
        ("command", "true"),
        ("image", ""),
        ("memory", ""),
        ("GPUs", "1"),
    ):
        terminal.wait_for(question)
        terminal.type(f"{answer}\n")
    assert terminal.end() == 0
    job = yaml.safe_load(path.read_bytes())
    assert job["name"] == "asked"
    assert job["taskRoles"]["main"]["resourcePerInstance"] == {"cpu": 2, "memoryMB": 1024, "gpu": 1}


def test_nothing_is_overwritten_and_a_wrong_option_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("mine")
    for words in ([path], [tmp_path / "other.yaml", "--cpu", "many"], [tmp_path / "none" / "job.yaml"]):
        ended = cli("new", *words)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("pai-runtime: ")
    assert path.read_text() == "mine"
    assert not (tmp_path / "other.yaml").exists()
