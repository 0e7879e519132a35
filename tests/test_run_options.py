"""Options of ``run`` that say what is run, and how much of it."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import callback, cli, cli_each, job, write_job

STORAGE = {"extras": {"storages": [{"name": "data", "mountPath": "/mnt/of-a-job"}]}}


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.name != "job.yaml")


def test_a_dry_run_starts_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    prerequisite = {"name": "touches", "callbacks": [callback("taskStarts", f"touch {tmp_path}/touched")]}
    worker = {"prerequisites": ["touches"], "commands": [f"touch {tmp_path}/touched"], "instances": 3}
    write_job(tmp_path, job(prerequisites=[prerequisite], worker=worker))
    done = cli("run", "job.yaml", "--dry-run", "--isolation", "none", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "3 tasks" in done.stderr
    assert _left(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "options", "status"),
    [
        ({}, [], 0),
        ({"worker": {"commands": ["<% $parameters.x %>"]}}, [], 2),
        (STORAGE, [], 2),
        (STORAGE, ["--storage", "data={here}/absent"], 2),
        (STORAGE, ["--isolation", "none", "--storage", "data={here}"], 2),
    ],
    ids=["sound", "wrong job", "no storage", "storage not there", "storage without isolation"],
)
def test_a_dry_run_ends_as_the_run_would_begin(
    tmp_path: Path, fields: dict[str, Any], options: list[str], status: int
) -> None:
    path = write_job(tmp_path, job(**fields))
    given = [option.format(here=tmp_path) for option in options]
    dry, real = cli_each(
        ["run", path, *given, "--dry-run", "--out", tmp_path / "new/dry"],
        ["run", path, *given, "--out", tmp_path / "run"],
    )
    assert (dry.returncode, real.returncode) == (status, status), dry.stderr + real.stderr
    *notes, _ = dry.stderr.splitlines()
    assert not (tmp_path / "new").exists()
    assert set(notes) <= set(real.stderr.splitlines())


def test_a_dry_run_makes_no_directory_in_a_storage(tmp_path: Path) -> None:
    storage = tmp_path / "data"
    storage.mkdir()
    document = job(extras={"storages": [{"name": "data", "share": False, "mountPath": "/mnt/of-a-job"}]})
    path = write_job(tmp_path, document)
    done = cli("run", path, "--dry-run", "--storage", f"data={storage}", "--out", tmp_path / "run")
    assert (done.returncode in (0, 2), _left(storage)) == (True, []), done.stderr
