"""What is said before a job is posted to OpenPAI, by the job and the profile alone."""

from pathlib import Path
from typing import Any

import pytest

from pai_document.document import parse_document
from pai_document.problems import Problem, Problems
from pai_openpai.first_runtime import PLUGINS
from pai_openpai.job_check import check_for_openpai
from pai_openpai.submission_check import check_submission
from pai_openpai.submitted_text import submitted_text
from pai_runtime.job.model import Job
from pai_task.record import replace
from tests.job_harness import yaml_text
from tests.openpai.planned_jobs import cmd, loaded, planned
from tests.openpai.submission import read_submission
from tests.support import JOBS, job

EXAMPLES = JOBS.parents[1] / "examples"
_LIST = "com.microsoft.pai.runtimeplugin"

# The fields of each example that OpenPAI's own runtime does not do; the others are for it, too.
_BEYOND_THE_FIRST: dict[str, list[str]] = {
    "all-plugins": [
        "prerequisites[2]",
        "prerequisites[3].callbacks[1]",
        f"extras.{_LIST}[1]",
        f"extras.{_LIST}[2]",
    ],
    "callbacks": ["prerequisites[1].callbacks[1]", "prerequisites[2].callbacks[2]"],
    "demo": ["prerequisites[2]", "prerequisites[2].callbacks[1]"],
    "settings": ["prerequisites[1]"],
    "shared": ["parameters.callbacks[0]"],
}


def found_in(job: Job, **given: Any) -> tuple[Problem, ...]:
    problems = Problems()
    check_submission(job, problems, **given)
    return problems.in_order


def checked(more: dict[str, Any], **given: Any) -> list[tuple[str, str, str]]:
    """The severity, code and field of all that is said of a job."""
    return [
        (each.severity, each.code, each.field) for each in found_in(loaded(yaml_text(job(**more))), **given)
    ]


def extra(plugin: str, **parameters: Any) -> dict[str, Any]:
    return {"extras": {_LIST: [{"plugin": plugin, "parameters": parameters}]}}


def used(prerequisite: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"prerequisites": [prerequisite], "worker": {"prerequisites": [prerequisite["name"]]}, **more}


@pytest.mark.process
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("runtime", ["pai-runtime", "openpai"])
def test_an_example_is_accepted_or_refused_before_any_request(path: Path, runtime: str) -> None:
    found, plans = planned(path)
    problems = Problems()
    check_submission(found, problems, is_first_runtime=runtime == "openpai")
    expected = _BEYOND_THE_FIRST.get(path.stem, []) if runtime == "openpai" else []
    assert [each.field for each in problems.in_order] == expected
    if not expected:
        assert read_submission(submitted_text(found, plans, "run_1").text).name == "run_1"


_NEEDS = ("error", "needs-pai-runtime")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"extras": {"retryOn": "always"}}, ("warning", "no-effect-on-openpai", "extras.retryOn")),
        ({"extras": {"retryOn": "retryable"}}, None),
        (
            {"extras": {"firstPorts": {"worker": {"ssh": 2222}}}},
            ("warning", "no-effect-on-openpai", "extras.firstPorts"),
        ),
        ({"extras": {"environment": ["HOME"]}}, ("warning", "no-effect-on-openpai", "extras.environment")),
        ({"extras": {"environment": []}}, None),
        ({"jobRetryCount": 0}, ("note", "no-effect-on-openpai", "jobRetryCount")),
        ({"jobRetryCount": 1}, None),
        (
            {"worker": {"completion": {"minFailedInstances": 0}}},
            ("warning", "no-effect-on-openpai", "taskRoles.worker.completion.minFailedInstances"),
        ),
        ({"worker": {"completion": {"minFailedInstances": -1}}}, None),
        (
            {"extras": {"hivedScheduler": {"jobPriorityClass": "high"}}},
            ("warning", "refused-by-hived", "extras.hivedScheduler.jobPriorityClass"),
        ),
        (
            {"extras": {"hivedScheduler": {"taskRoles": {"wroker": {"skuType": "K80"}}}}},
            ("warning", "refused-by-hived", "extras.hivedScheduler.taskRoles.wroker"),
        ),
        (
            {
                "extras": {
                    "hivedScheduler": {"taskRoles": {"worker": {"skuType": "K80", "pinnedCellId": "c"}}}
                }
            },
            ("warning", "refused-by-hived", "extras.hivedScheduler.taskRoles.worker"),
        ),
        (
            {
                "extras": {
                    "hivedScheduler": {"jobPriorityClass": "oppo", "taskRoles": {"worker": {"skuType": "K"}}}
                }
            },
            None,
        ),
    ],
)
def test_what_openpai_takes_for_something_else_is_said(
    more: dict[str, Any], expected: tuple[str, str, str] | None
) -> None:
    expect = [] if expected is None else [expected]
    assert checked(more) == expect
    problems = Problems()
    fields = {**more, "worker": {"instances": 1, **more.get("worker", {})}}
    check_for_openpai(parse_document(yaml_text(job(**fields)), "job.yaml"), problems)
    assert [(each.severity, each.code, each.field) for each in problems.in_order] == expect


def test_variables_of_the_command_line_are_an_error() -> None:
    (problem,) = found_in(replace(loaded(yaml_text(job())), variables={"A": "secret value"}))
    assert (problem.code, problem.found) == ("variables-not-taken", "A")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"extras": {"holdOnFailure": "1h"}}, "extras.holdOnFailure"),
        ({"extras": {"strictCallbacks": True}}, "extras.strictCallbacks"),
        ({"extras": {"strictCallbacks": False}}, None),
        ({"extras": {"timeout": "1h"}}, "extras.timeout"),
        ({"extras": {"onPreemption": {"time": "30s"}}}, "extras.onPreemption"),
        (extra("preflight", diskMB=100), f"extras.{_LIST}[0]"),
        (extra("git", repo_uri="https://git.example/x"), None),
        (extra("git", repo_uri="https://git.example/x", ref="v1"), f"extras.{_LIST}[0].parameters.ref"),
        (extra("ssh", jobssh=True, sshbarrier=True), None),
        (extra("ssh", jobssh=True, publicKeys=["ssh-rsa A"]), f"extras.{_LIST}[0].parameters.publicKeys"),
        (extra("tensorboard", logdir={"a": "/b"}, port=6006), None),
        (extra("tensorboard", logdir={"a": "/b"}), f"extras.{_LIST}[0]"),
        (extra("tensorboard"), None),
        (used({"name": "s", "type": "storage", "plugin": "pvc_storage"}), "prerequisites[1]"),
        ({"extras": {"storages": [{"name": "data"}]}}, None),
        (used(cmd("prepare", "true", requireStorages=[{"name": "data"}])), None),
        (used(cmd("prepare", "echo 'one'", dir="x")), None),
        (used(cmd("prepare", "echo one\necho two")), "prerequisites[1]"),
        (used(cmd("prepare", 'echo "it\'s" \\x')), "prerequisites[1]"),
        (used({**cmd("end", "true"), "callbacks": [{"event": "taskSucceeds", "commands": ["true"]}]}), None),
        (
            used({**cmd("end", "true"), "callbacks": [{"event": "taskFails", "commands": ["true"]}]}),
            "prerequisites[1].callbacks[0]",
        ),
        (used(cmd("prepare", "echo <% $secrets.a %>"), secrets={"a": "plain"}), None),
        (used(cmd("prepare", "echo <% $secrets.a %>"), secrets={"a": "it's"}), "prerequisites[1]"),
        (used(cmd("prepare", "echo <% $secrets.a[0] %>"), secrets={"a": ["plain"]}), "prerequisites[1]"),
        ({"worker": {"commands": ["echo <% $secrets.a[0] %>"]}, "secrets": {"a": ["plain"]}}, None),
        (
            {"worker": {"commands": ["echo '<% $secrets.a %>'"]}, "secrets": {"a": "a&b"}},
            "taskRoles.worker.commands",
        ),
    ],
)
def test_what_the_first_runtime_does_not_do_is_an_error_only_for_it(
    more: dict[str, Any], field: str | None
) -> None:
    assert checked(more) == []
    assert checked(more, is_first_runtime=True) == ([] if field is None else [(*_NEEDS, field)])


@pytest.mark.parametrize("is_first", [0, 1])
@pytest.mark.parametrize(
    ("plugins", "is_known"), [(("preflight",), 1), ((f"{_LIST}.preflight",), 1), ((), 0)]
)
def test_only_the_plugins_that_the_cluster_has_are_accepted(
    is_first: int, plugins: tuple[str, ...], is_known: int
) -> None:
    given = {"is_first_runtime": bool(is_first), "plugins": plugins}
    assert (checked(extra("preflight", diskMB=100), **given) == []) == bool(is_known)


def test_the_first_runtime_with_more_plugins_has_its_own_too() -> None:
    assert checked(extra("tensorboard"), is_first_runtime=True, plugins=(*PLUGINS, "own")) == []
