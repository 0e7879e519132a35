"""What ``plan`` shows unless all is asked for: a page of what is done, in order, by whom, in which tasks."""

import json
import os
import re
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.plugin_factory import Site, uses
from tests.screen import Screen
from tests.support import PROGRAM, callback, cli, job, write_job

pytestmark = pytest.mark.process


def two_roles() -> dict[str, object]:
    document = job(
        prerequisites=[
            {"name": "data", "callbacks": [callback("taskStarts", "fetch", "unpack")]},
            {"name": "report", "callbacks": [callback("taskExits", "report it")]},
        ],
        worker={"prerequisites": ["data", "report"], "commands": ["train", "evaluate"], "instances": 3},
    )
    worker = document["taskRoles"]["worker"]
    server = {**worker, "prerequisites": ["report"], "commands": ["serve"], "instances": 1}
    document["taskRoles"]["server"] = server
    return document


def rows(text: str) -> list[list[str]]:
    """Return the cells of the table on a page, without its titles and places."""
    lines = text.split("\n\n")[1].splitlines()
    cells = [re.split(r" {2,}", line) for line in lines]
    assert cells[0] == ["WHEN", "BY", "FROM", "TASKS", "DOES"]
    return [[*row[:2], *row[3:]] for row in cells[1:] if row[0] not in ("analysis", "service")]


def screen_of(path: Path, columns: int) -> list[str]:
    """Return the lines that a terminal shows of the page of a job."""
    with closing(Screen(columns)) as screen:
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        argv: list[str | Path] = [PROGRAM, "plan", path.name]
        subprocess.run(argv, cwd=path.parent, env=environment, stdout=screen.fd, check=True, timeout=60)
        return screen.everything()


def test_steps_are_in_order_with_who_does_them_and_which_tasks_have_them(tmp_path: Path) -> None:
    shown = cli("plan", write_job(tmp_path, two_roles())).stdout
    assert shown.startswith("job test: worker (3 tasks), server/0\n")
    assert rows(shown) == [
        ["taskStarts", "data (cmd)", "worker", "fetch (2 lines)"],
        ["command", "the job", "worker", "train (2 lines)"],
        ["command", "the job", "server/0", "serve"],
        ["taskExits", "failure_analysis", "all", "# note what the log shows (9 lines, failures are ignored)"],
        ["taskExits", "report (cmd)", "all", "report it"],
    ]
    assert shown.splitlines()[-1].endswith(f"pai-runtime plan {tmp_path}/job.yaml --full")


@pytest.mark.parametrize(("task", "command"), [("server", "serve"), ("worker/1", "train (2 lines)")])
def test_the_page_of_a_role_or_task_has_its_steps_alone(tmp_path: Path, task: str, command: str) -> None:
    shown = rows(cli("plan", write_job(tmp_path, two_roles()), "--task", task).stdout)
    assert [row[2:] for row in shown if row[0] == "command"] == [["all", command]]


@pytest.mark.parametrize(("task", "tasks"), [("worker", [0, 1, 2]), ("server", [0])])
def test_a_role_stands_for_its_tasks_in_json_too(tmp_path: Path, task: str, tasks: list[int]) -> None:
    ended = cli("plan", write_job(tmp_path, two_roles()), "--json", "--task", task)
    assert [plan["index"] for plan in json.loads(ended.stdout)["plans"]] == tasks


def test_tasks_of_a_role_that_differ_are_named(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add(
        "org.example.odd",
        "@hookimpl\ndef pai_prerequisite(use, task):\n"
        "    return Contribution({'ODD': ''} if task.index in (2, 3) else {})\n",
    )
    document = job(**uses("org.example.odd"))
    document["taskRoles"]["worker"]["instances"] = 6
    shown = site.cli("plan", write_job(tmp_path, document)).stdout
    assert shown.startswith(
        "job test: worker/0 to 1 (2 tasks), worker/2 to 3 (2 tasks), worker/4 to 5 (2 tasks)\n"
    )
    assert "worker/2 to 3  sets ODD\n" in shown


@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal_each_step_has_one_line_that_fits(tmp_path: Path, columns: int) -> None:
    lines = screen_of(write_job(tmp_path, two_roles()), columns)
    table = lines[2 : lines.index("", 2)]
    assert [line.split()[0] for line in table] == [
        "WHEN",
        "taskStarts",
        "service",
        "command",
        "command",
        "analysis",
        "taskExits",
        "taskExits",
    ]
    assert max(map(len, lines)) <= columns


def test_what_does_not_fit_a_terminal_is_cut_before_what_is_said_of_it(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["train " + "--option " * 30, "evaluate"]}))
    (line,) = (each for each in screen_of(path, 80) if each.startswith("command "))
    assert (len(line), "train --" in line, line.endswith("… (2 lines)")) == (80, True, True)
