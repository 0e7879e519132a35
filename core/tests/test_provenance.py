"""What produced a run is kept with it, without secrets; it can be repeated, and compared with another."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.cli import rerun
from pai_runtime.cli.given_run import NotThere
from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.provenance import PROVENANCE
from pai_runtime.runs.repository import commit_of
from tests.support import cli, job, write_job

SECRET = "hunter2-is-secret"


def trained(folder: Path, *args: str, **fields: Any) -> dict[str, Any]:
    """What is kept of a run of a job that prints a parameter, in a directory."""
    ran = cli("run", write_job(folder, printing(**fields)).name, *args, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return newest(folder)


def printing(**fields: Any) -> dict[str, Any]:
    worker = {"commands": ["echo lr is <% $parameters.lr %>"]}
    return job(parameters={"lr": 0.1, "of": "x"}, worker=worker, **fields)


def newest(folder: Path) -> dict[str, Any]:
    path = max((folder / ".pai-runs").glob(f"*/{PROVENANCE}"), key=lambda each: each.stat().st_mtime_ns)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.process
def test_a_run_keeps_what_produced_it(tmp_path: Path) -> None:
    found = trained(
        tmp_path, "--set", "lr=0.2", "--set", f"of={SECRET}", "--timeout", "1h", secrets={"s": SECRET}
    )
    assert found["set"] == {"lr": "0.2", "of": "******"}
    assert found["arguments"][0] == "job.yaml"
    assert found["arguments"][-2:] == ["--timeout", "3600.0s"]
    assert found["job"]["file"] == str(tmp_path / "job.yaml")
    assert "lr is" in found["job"]["text"]
    assert {"id", "distribution", "version", "digest"} == found["plugins"][0].keys()
    assert SECRET not in json.dumps(found)
    (listed,) = json.loads(cli("ps", "--json", cwd=tmp_path).stdout)
    assert listed["set"] == found["set"]


@pytest.mark.process
@pytest.mark.parametrize(
    "elsewhere", [SECRET, f"https://host/data?sig={SECRET}", f"https://me:{SECRET}@host/data"]
)
def test_a_job_with_a_secret_elsewhere_is_not_kept(tmp_path: Path, elsewhere: str) -> None:
    secrets = {"s": SECRET if elsewhere == SECRET else "another"}
    found = trained(tmp_path, "--set", f"lr={elsewhere}", secrets=secrets, contributor=elsewhere)
    assert found["job"]["text"] is None
    assert SECRET not in json.dumps(found)


@pytest.mark.process
def test_the_commit_is_known_and_whether_files_differ_from_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    git(tmp_path, "init")
    assert commit_of(tmp_path) is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "x")
    (tmp_path / "below").mkdir()
    commit = commit_of(tmp_path / "below")
    assert commit
    assert (commit.id, commit.is_dirty) == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "b.py").write_text("1")
    new = commit_of(tmp_path)
    assert new
    assert new.is_dirty
    (tmp_path / ".gitignore").write_text("b.py\n.gitignore\n")
    ignored = commit_of(tmp_path)
    assert ignored
    assert not ignored.is_dirty
    (tmp_path / "a.py").write_text("changed")
    changed = commit_of(tmp_path)
    assert changed
    assert changed.is_dirty


@pytest.mark.process
def test_nothing_that_a_repository_configures_is_run(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "a.py").write_text("1")
    (tmp_path / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "x")
    evil = f"touch {tmp_path}.ran"
    for name in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor", "diff.evil.command"):
        git(tmp_path, "config", name, evil)
    git(tmp_path, "config", "diff.evil.textconv", evil)
    (tmp_path / ".git/hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman"):
        path = tmp_path / ".git/hooks" / hook
        path.write_text(f"#!/bin/sh\n{evil}\n")
        path.chmod(0o755)
    os.utime(tmp_path / "a.py", (1, 1))
    assert commit_of(tmp_path)
    assert not Path(f"{tmp_path}.ran").exists()


@pytest.mark.process
def test_a_run_is_repeated_with_changes_even_if_its_job_has_changed(tmp_path: Path) -> None:
    trained(tmp_path, "--set", "lr=0.2")
    write_job(tmp_path, job(worker={"commands": ["echo other"]}))
    again = cli("rerun", "latest", "--set", "of=y", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "lr is 0.2\n")
    assert newest(tmp_path)["set"] == {"lr": "0.2", "of": "y"}
    (tmp_path / "job.yaml").unlink()
    assert cli("rerun", "--set", "lr=0.3", cwd=tmp_path).stdout == "lr is 0.3\n"


@pytest.mark.process
def test_a_run_whose_secrets_are_in_its_job_is_repeated_with_those_that_are_there(tmp_path: Path) -> None:
    trained(tmp_path, secrets={"s": SECRET})
    again = cli("rerun", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "lr is 0.1\n")
    assert "has changed" not in again.stderr
    (tmp_path / "job.yaml").unlink()
    assert cli("rerun", cwd=tmp_path).returncode == 2
    (tmp_path / "secrets.yaml").write_text(json.dumps({"s": SECRET}))
    assert cli("rerun", "latest", "--secrets", "secrets.yaml", cwd=tmp_path).stdout == "lr is 0.1\n"


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"arguments": 1}', '{"arguments": ["--set", "a=******"]}']
)
def test_what_is_not_known_cannot_be_repeated(tmp_path: Path, content: str) -> None:
    (tmp_path / PROVENANCE).write_text(content)
    with pytest.raises(NotThere):
        rerun._words(rerun._own_provenance(LocalRunReader(tmp_path)))


@pytest.mark.process
def test_what_differed_between_two_runs_is_shown(tmp_path: Path) -> None:
    trained(tmp_path)
    trained(tmp_path)
    trained(tmp_path, "--set", "lr=0.2", "--timeout", "1h", jobRetryCount=1)
    first, second, _ = sorted(path.parent.name for path in (tmp_path / ".pai-runs").glob(f"*/{PROVENANCE}"))
    same = cli("diff", first, second, cwd=tmp_path)
    assert (same.returncode, len(same.stdout.splitlines())) == (0, 1)
    other = cli("diff", first, cwd=tmp_path)  # and the latest
    assert other.returncode == 1
    assert "set lr: - → 0.2" in other.stdout
    assert "--timeout 3600.0s" in other.stdout
    assert "+jobRetryCount: 1" in other.stdout.replace('"', "").replace("  ", "")
    assert cli("diff", first, "nowhere", cwd=tmp_path).returncode == 2
