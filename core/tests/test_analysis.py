"""Why a task failed: when plugins are asked, what becomes of their answer, and whom the job blames."""

import shlex
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_runtime.cli.plugin_commands import DISTRIBUTIONS
from pai_runtime.host.discovery import InstalledPlugins, declared_commands
from pai_runtime.plugin import Analysis
from pai_runtime.runs.completion import first_failure
from pai_task.exit_codes import CALLBACK_FAILED, SETUP_FAILED, TIMEOUT, UNEXPLAINED
from pai_task.launch import LaunchOptions
from pai_task.plan import Step
from pai_task.supervisor.lifecycle import run_task as run_lifecycle
from pai_task.vocabulary import Phase
from tests.plugin_factory import Site, uses
from tests.support import job, write_job
from tests.task_harness import Pretend, TaskRun, make_fifo, plan, shell

_OOM = Analysis(226, "CudaOutOfMemory", "the GPU is full", ("use less of it",), "PERMANENT")

_ANALYZES = """
from pai_runtime.plugin import Analysis

@hookimpl
def pai_analyze(use, task, failure):
    {body}
"""


def _answer(**fields: Any) -> str:
    return f"return Analysis(**{ {'code': 226, 'phrase': 'Full', 'reason': 'no room', **fields}!r})"


def _run(folder: Path, body: str, command: str = "exit 3", **more: Any) -> tuple[Any, dict[str, Any], str]:
    """The process of a job with one plugin that analyses, the exit record of its task and its log."""
    site = Site(folder)
    hooks = ["pai_analyze"]
    site.add("org.example.why", _ANALYZES.format(body=body), hooks=hooks)
    fields = uses("org.example.why", **more)
    fields["worker"]["commands"] = [command]
    file = write_job(folder, job(**fields))
    ended = site.cli("run", "--isolation", "none", "--out", folder / "run", file)
    task = folder / "run" / "worker" / "0"
    record = yaml.safe_load((task / "exit.yaml").read_text())
    return ended, record, (task / "logs" / "runtime.log").read_text()


def _lifecycle(
    codes: dict[str, int],
    knows: dict[str, Analysis],
    changes: Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[Pretend, Any]:
    phases: tuple[Phase, ...] = ("taskStarts", "taskFails", "taskExits", "taskSucceeds")
    steps = [shell(phase, number, "true") for number in range(2) for phase in phases]
    steps += [Step("analysis", number, "ignore", hook="pai_analyze") for number in range(2)]
    runner = Pretend(codes, **more)
    runner.knows = knows
    whole = replace(plan(Path("/nowhere"), steps=steps, uses=2), hold=5, **(changes or {}))
    return runner, run_lifecycle(whole, runner, lambda _: None)[0]


def test_plugins_are_asked_once_the_outcome_is_known_before_the_task_is_held_and_the_first_answer_wins() -> (
    None
):
    runner, result = _lifecycle({"command": 1}, {"a": _OOM, "b": replace(_OOM, code=9)})
    assert runner.ran[2:6] == ["command", "analysis a failed", "hold failed", "taskFails b"]
    assert (result.outcome, result.code, result.user_code, result.analysis) == ("failed", 226, 1, _OOM)


def test_a_plugin_that_does_not_know_leaves_it_to_the_next_and_without_an_answer_the_code_is_the_users() -> (
    None
):
    runner, result = _lifecycle({"command": 1}, {})
    assert runner.ran[3:5] == ["analysis a failed", "analysis b failed"]
    assert (result.code, result.analysis) == (1, None)


@pytest.mark.parametrize("listed", [None, (143, 226, 250, 255), (255,)])
@pytest.mark.parametrize(
    ("codes", "more", "answer", "code"),
    [
        ({}, {}, None, 0),
        ({"command": 1}, {}, None, 1),
        ({"command": 250}, {}, None, 250),
        ({"command": 226}, {}, None, 226),
        ({"command": 1}, {}, _OOM, 226),
        ({"command": 1}, {}, replace(_OOM, code=239), 239),
        ({"taskStarts a": 1}, {}, None, SETUP_FAILED),
        ({}, {"stop_at": "command", "reason": "timeout"}, None, TIMEOUT),
        ({}, {"stop_at": "command", "reason": "cancelled"}, None, 143),
        ({"taskExits a": 1}, {"strict": True}, None, CALLBACK_FAILED),
    ],
)
def test_where_the_platform_lists_exit_codes_no_other_is_told_and_none_only_because_the_command_returned_it(
    codes: dict[str, int],
    more: dict[str, Any],
    answer: Analysis | None,
    code: int,
    listed: tuple[int, ...] | None,
) -> None:
    more = {**more}
    changes = {"listed_codes": listed, "strict_callbacks": more.pop("strict", False)}
    runner, result = _lifecycle(codes, {"a": answer} if answer else {}, changes, **more)
    stays = code == 0 or listed is None or (code in listed and (answer is not None or code == 143))
    assert result.code == (code if stays else UNEXPLAINED)
    assert result.user_code == (None if "taskStarts a" in codes else codes.get("command", 0))
    assert runner.on_disk == result


@pytest.mark.parametrize(
    ("codes", "more", "asked"),
    [
        ({}, {}, []),
        ({"command": 1}, {}, ["analysis a failed"]),
        ({"taskStarts a": 1}, {}, ["analysis a setup-failed"]),
        ({}, {"stop_at": "command", "reason": "timeout"}, ["analysis a timeout"]),
        ({}, {"stop_at": "command", "reason": "cancelled"}, []),
        ({"taskExits a": 1}, {}, []),
    ],
)
def test_plugins_are_asked_about_failures_only(
    codes: dict[str, int], more: dict[str, Any], asked: list[str]
) -> None:
    runner, _ = _lifecycle(codes, {"a": _OOM}, **more)
    assert [what for what in runner.ran if what.startswith("analysis")] == asked


@pytest.mark.process
def test_the_answer_is_the_tasks_exit_code_and_in_the_record_in_the_log_and_at_the_end_of_the_run(
    tmp_path: Path,
) -> None:
    body = _answer(solution=("make room",), behavior="PERMANENT", user_match="no space", trigger="a rule")
    ended, record, log = _run(tmp_path, body)
    assert ended.returncode == 226
    assert (record["exitCode"], record["originUserExitCode"]) == (226, 3)
    expected = {
        "phrase": "Full",
        "reason": "no room",
        "solution": ["make room"],
        "behavior": "PERMANENT",
        "becauseOfPeer": False,
        "trigger": "a rule",
        "matchedUserLogString": "no space",
    }
    assert {key: record[key] for key in expected} == expected
    assert "[ERROR] exit code 226, Full: no room" in log
    assert "[INFO] - make room" in log
    for line in (
        "the job failed: task worker/0, exit code 226, Full",
        "why: no room",
        "it said: no space",
        "what to do:",
        "- make room",
    ):
        assert line in ended.stderr


@pytest.mark.process
def test_a_plugin_is_told_how_the_task_went(tmp_path: Path) -> None:
    body = "print(failure); return None"
    _, record, log = _run(tmp_path, body, "echo so it goes; kill -9 $$")
    assert record["exitCode"] == 137
    for text in (
        "outcome='failed', code=137, phase='command', user_code=137, signal=9, plugin=None, oom_kills=",
        "tails=('so it goes\\n'",
        "rules=()",
    ):
        assert text in log


@pytest.mark.process
def test_rules_that_uses_contribute_are_in_the_plan_and_are_handed_over(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.example.why", _ANALYZES.format(body="print(failure.rules)"), hooks=["pai_analyze"])
    rule = {"containerExitCode": 7, "patterns": [{"userLogRegex": "x"}]}
    code = f"""
@hookimpl
def pai_prerequisite(use, task):
    return Contribution(exit_rules=[{rule!r}], warnings=["mind the gap"])
"""
    site.add("org.example.rules", code)
    fields = uses("org.example.why", "org.example.rules")
    fields["worker"]["commands"] = ["false"]
    file = write_job(tmp_path, job(**fields))
    ended = site.cli("run", "--isolation", "none", "--out", tmp_path / "run", file)
    assert "warning: use 'use1': mind the gap" in ended.stderr
    log = (tmp_path / "run" / "worker" / "0" / "logs" / "runtime.log").read_text()
    assert f"(ContributedRule(plugin='org.example.rules', entry={rule!r}),)" in log
    assert "mind the gap" in log
    assert "1 exit rules  use1" in site.cli("plan", file, "--full").stdout
    validated = site.cli("validate", file)
    assert (validated.returncode, "mind the gap" in validated.stderr) == (0, True)


CANNOT_ANSWER = [
    ("raise ValueError('no idea')", "ValueError: no idea"),
    ("import sys; sys.exit(0)", "called sys.exit(0)"),
    ("import os; os._exit(5)", "it ended with exit code 5"),
    ("return 226", "returned int, not an Analysis"),
    (_answer(code=0), "has the code 0, not one of 1 to 255"),
    (_answer(code=256), "has the code 256, not one of 1 to 255"),
    (_answer(reason=None), "has a value that is not a string"),
    (_answer(solution="x"), "has a solution that is a str, not a tuple"),
    (_answer(behavior="FINE"), "has the behavior 'FINE'"),
    (_answer(because_of_peer="x"), "has a because_of_peer that is a str, not a bool"),
    (_answer(gpu={"a b": True}), "has a gpu with a key that is no name"),
    (_answer(gpu={"a": "sesame-open"}), "has a gpu whose values are not true, false, whole numbers"),
    (
        "import os; open(os.environ['PAI_ANALYSIS'], 'w').write('{')",
        "could not analyse why the task failed",
    ),
    (
        "import os; open(os.environ['PAI_ANALYSIS'], 'w').write('[' * 60000)",
        "could not analyse why the task failed",
    ),
    (_answer(reason="r" * 70000), "at most 65536 are read"),
]


@pytest.mark.process
def test_plugins_that_cannot_answer_leave_the_task_as_it_was_and_are_named(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number, (body, _) in enumerate(CANNOT_ANSWER):
        site.add(f"org.example.why{number}", _ANALYZES.format(body=body), hooks=["pai_analyze"])
    fields = uses(*(f"org.example.why{number}" for number in range(len(CANNOT_ANSWER))))
    fields["worker"]["commands"] = ["exit 3"]
    file = write_job(tmp_path, job(**fields))
    ended = site.cli("run", "--isolation", "none", "--out", tmp_path / "run", file)
    task = tmp_path / "run" / "worker" / "0"
    record = yaml.safe_load((task / "exit.yaml").read_text())
    assert (ended.returncode, record["exitCode"], "phrase" in record) == (3, 3, False)
    log = (task / "logs" / "runtime.log").read_text()
    for number, (_, why) in enumerate(CANNOT_ANSWER):
        of_it = [
            line
            for line in log.splitlines()
            if f"org.example.why{number} " in line or f"'use{number}'" in line
        ]
        assert any(why in line for line in of_it), (why, of_it)
        assert any("could not analyse why the task failed" in line for line in of_it)


@pytest.mark.process
def test_a_plugin_that_does_not_end_leaves_time_for_the_exit_callbacks_once_the_task_is_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    body = "import time; open('begun', 'w').close(); time.sleep(1000)"
    why = site.add("org.example.why", _ANALYZES.format(body=body), hooks=["pai_analyze"])
    monkeypatch.syspath_prepend(str(site.folder))
    folder = tmp_path / "task"
    steps = [Step("analysis", 0, "ignore", hook="pai_analyze"), shell("taskFails", 1, "echo tidied up")]
    whole = plan(folder, "exit 3", steps)
    uses = (
        replace(whole.uses[0], plugin=why.id, distribution=why.distribution, digest=why.digest),
        *whole.uses[1:],
    )
    folder.mkdir()
    make_fifo(folder, "begun")
    task = TaskRun(replace(whole, uses=uses), LaunchOptions(exit_budget=16))
    task.wait_for("begun")
    task.send(signal.SIGTERM)
    assert task.end() == 3
    assert "tidied up" in task.runtime_log


@pytest.mark.process
def test_a_secret_in_an_answer_is_masked(tmp_path: Path) -> None:
    site = Site(tmp_path)
    body = _answer(reason="it is sesame-open", user_match="sesame-open", trigger="sesame-open")
    site.add("org.example.why", _ANALYZES.format(body=body), hooks=["pai_analyze"])
    fields = uses("org.example.why")
    fields["worker"]["commands"] = ["false <% $secrets.word %>"]
    file = write_job(tmp_path, job(**fields, secrets={"word": "sesame-open"}))
    site.cli("run", "--isolation", "none", "--out", tmp_path / "run", file)
    folder = tmp_path / "run" / "worker" / "0"
    for name in ("exit.yaml", "logs/runtime.log"):
        text = (folder / name).read_text()
        assert "sesame" not in text
        assert "it is ******" in text


EARLIER, LATER, MUCH_LATER = (f"2026-01-02T03:05:{second}.000Z" for second in ("01", "04", "09"))


@pytest.mark.parametrize(
    ("records", "first"),
    [
        ({"a": {"decidedAt": LATER}, "b": {"decidedAt": EARLIER}}, "b"),
        ({"a": {"decidedAt": LATER}, "b": {"decidedAt": EARLIER, "becauseOfPeer": True}}, "a"),
        (
            {
                "a": {"decidedAt": LATER, "becauseOfPeer": True},
                "b": {"decidedAt": EARLIER, "becauseOfPeer": True},
            },
            "b",
        ),
        ({"a": {"decidedAt": LATER}, "b": {"decidedAt": EARLIER, "outcome": "cancelled"}}, "a"),
        ({"a": {"outcome": "cancelled"}}, "reported"),
        ({"a": {"decidedAt": LATER}, "b": {"decidedAt": EARLIER, "exitCode": 237}}, "a"),
        ({"a": {"decidedAt": LATER, "exitCode": 239}, "b": {"decidedAt": EARLIER, "exitCode": 237}}, "a"),
        ({"a": {"decidedAt": LATER, "exitCode": 237}, "b": {"decidedAt": EARLIER, "exitCode": 143}}, "a"),
        ({"a": {"decidedAt": LATER, "phrase": "Known"}, "b": {"decidedAt": EARLIER}}, "a"),
        ({"a": {"decidedAt": MUCH_LATER, "phrase": "Known"}, "b": {"decidedAt": EARLIER}}, "b"),
        ({"a": {"decidedAt": "x"}, "b": {"decidedAt": EARLIER}}, "b"),
        ({}, "reported"),
    ],
)
def test_the_first_failure_is_the_earliest_that_was_not_because_of_a_peer(
    records: dict[str, dict[str, Any]], first: str
) -> None:
    known = {(name, 0): {"outcome": "failed", **fields} for name, fields in records.items()}
    assert first_failure(known, ("reported", 0), clocks=5.0) == (first, 0)


def test_where_tasks_have_one_clock_a_failure_that_nothing_explains_can_be_the_first() -> None:
    records = {"a": {"decidedAt": LATER, "phrase": "Known"}, "b": {"decidedAt": EARLIER}}
    known = {(name, 0): {"outcome": "failed", **fields} for name, fields in records.items()}
    assert first_failure(known, ("reported", 0)) == ("b", 0)


@pytest.mark.process
def test_a_job_blames_the_task_that_failed_first_and_names_those_that_fell_with_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    body = "return Analysis(237, 'PeerGone', 'a peer has gone', because_of_peer=True) if task.index else None"
    site.add("org.example.why", _ANALYZES.format(body=body), hooks=["pai_analyze"])
    fields = uses("org.example.why")
    record = shlex.quote(str(tmp_path / "run" / "worker" / "1" / "exit.yaml"))
    wait = f"test $PAI_TASK_INDEX = 1 || until test -e {record}; do sleep 0.05; done; exit 5"
    completion = {"minFailedInstances": 2}
    fields["worker"] |= {"instances": 2, "completion": completion, "commands": [wait]}
    file = write_job(tmp_path, job(**fields))
    ended = site.cli("run", "--isolation", "none", "--out", tmp_path / "run", file)
    assert "the job failed: task worker/0, exit code 5" in ended.stderr
    assert "failed because worker/0 failed: worker/1 (exit code 237)" in ended.stderr
    assert ended.returncode == 5


_COMMAND = """
def add_arguments(parser):
    parser.add_argument("name")
def main(args, output):
    output.write_lines([f"hello {args.name}"])
    return 4
"""


@pytest.mark.process
def test_a_plugin_adds_commands_and_only_the_one_that_is_typed_is_imported(tmp_path: Path) -> None:
    site = Site(tmp_path)
    commands = [
        {"name": "greet", "module": "org_example_greet.greet", "summary": "say 100% hello to %(prog)s"}
    ]
    site.add(
        "org.example.greet",
        "",
        hooks=[],
        commands=commands,
        files={"{package}/greet.py": _COMMAND},
    )
    helped = site.cli("--help")
    assert "say 100% hello to %(prog)s" in helped.stdout
    assert site.imported == set()
    greeted = site.cli("greet", "you")
    assert (greeted.returncode, greeted.stdout) == (4, "hello you\n")
    assert site.imported == {"org_example_greet"}


@pytest.mark.process
def test_a_command_of_a_plugin_that_is_broken_or_refused_is_said(tmp_path: Path) -> None:
    site = Site(tmp_path)
    commands = [{"name": "greet", "module": "org_example_greet.nothing", "summary": "say hello"}]
    site.add("org.example.greet", "", hooks=[], commands=commands)
    broken = site.cli("greet")
    assert broken.returncode == 2
    assert (
        "plugin org.example.greet (org-example-greet 1.0), command greet: ModuleNotFoundError"
        in broken.stderr
    )
    policy = tmp_path / "policy.yaml"
    policy.write_text("policyVersion: 1\nplugins: []\n")
    refused = site.cli("greet", env={"PAI_RUNTIME_POLICY": str(policy)})
    assert (refused.returncode, "there is no command greet" in refused.stderr) == (2, True)
    built_in = site.cli("marketplace", "list", env={"PAI_RUNTIME_POLICY": str(policy)})
    assert (built_in.returncode, "pai-definitions" in built_in.stderr) == (2, True)


def test_each_command_of_a_built_in_plugin_is_known_to_be_brought_by_it() -> None:
    installed = (plugin for claimants in InstalledPlugins().values() for plugin in claimants)
    brought = {each.name: plugin.distribution for plugin in installed for each in declared_commands(plugin)}
    assert brought == DISTRIBUTIONS
