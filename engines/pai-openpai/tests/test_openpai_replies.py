"""Whatever a server replies, it is read as a run or refused; what it says of tokens is in its words."""

import base64
import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_openpai.client.job_view import Config, job_view, listed_run
from pai_openpai.client.profile import OpenpaiProfile
from pai_openpai.client.token import Token, refused
from pai_openpai.client.variables import known_variables
from pai_runtime.runs.errors import RequestError
from pai_runtime.runs.state import Run
from tests.openpai.lab import Lab, run_of
from tests.openpai.rest_server import Fault
from tests.support import job

_KEYS = [
    *("jobStatus", "taskRoles", "worker", "ps_server", "psserver", "taskStatuses", "taskIndex", "taskState"),
    *("attemptId", "subState", "state", "instances", "containerPorts", "containerExitCode", "extras", "name"),
    *("appExitTriggerTaskRoleName", "appExitTriggerTaskIndex", "submissionTime", "completedTime", "retries"),
]
_WORDS = ("Completed", "FAILED", "RUNNING", "WAITING", "worker", "\x1b[31m", "a/b", "")
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 5)
    | st.just(1795403355000)
    | st.floats()
    | st.sampled_from(_WORDS),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), below, max_size=6),
    max_leaves=30,
)
_ROWS = st.lists(st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=6), max_size=3)
_DETAILS = _VALUES | st.fixed_dictionaries(
    {
        "jobStatus": st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=8),
        "taskRoles": st.dictionaries(
            st.sampled_from(_KEYS), st.fixed_dictionaries({"taskStatuses": _ROWS}), max_size=2
        ),
    }
)


def _is_sound(run: Run) -> bool:
    shown = (run.user, run.job, run.note, *(each for task in run.tasks for each in (task.name, task.note)))
    return all(each.isprintable() for each in shown) and (run.outcome is None) == (run.ended is None)


@given(_DETAILS, st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=6))
def test_any_detail_of_a_job_is_read_as_a_run(detail: Any, config: dict[str, Any]) -> None:
    view = job_view(detail, Config(config), {})
    assert _is_sound(view.run)
    for task in view.run.tasks[:3]:
        assert known_variables(Config(config), view, task, "alice", "name").known
        assert (view.attempt(task.name) is None) == (task.name not in view.rows)


@given(st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=8))
def test_any_entry_of_a_list_is_read_as_a_run(entry: dict[str, Any]) -> None:
    assert _is_sound(listed_run(entry))


def test_a_job_has_no_more_tasks_than_a_cluster_can_have() -> None:
    role = {"instances": 10**400}
    view = job_view({}, Config({"taskRoles": {"worker": role, "other": role}}), {})
    assert len(view.run.tasks) == 20_000


@pytest.mark.process
@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"[1, 2]", b"null", b"[" * 100_000])
def test_a_reply_that_is_none_of_openpais_is_no_fault_of_the_engine(openpai: Lab, body: bytes) -> None:
    reader = openpai.submit(job(worker={"commands": ["exec tail -f /dev/null"]}))
    run_of(reader)
    openpai.server.arm(Fault(200, body), path=f"~{reader.named}", times=2)
    other = openpai.opened().open_run(reader.named)
    with contextlib.suppress(RequestError):
        assert _is_sound(run_of(other))


def _jwt(**claims: Any) -> Token:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return Token(f"x.{part}.y", "PAI_TOKEN")


def test_an_expired_token_is_told_from_one_that_was_revoked() -> None:
    profile = OpenpaiProfile("lab", "https://pai.example.com")
    assert "has expired" in refused(profile, _jwt(exp=time.time() - 1))
    for token in (
        _jwt(exp=time.time() + 100),
        _jwt(),
        _jwt(exp="x"),
        _jwt(exp=-1e300),
        _jwt(exp=float("nan")),
        _jwt(exp=[]),
        Token("opaque", "/a/file"),
    ):
        assert "revoked" in refused(profile, token)
        assert token.text not in refused(profile, token)
    assert "pai-runtime login --on lab" in refused(profile, Token("opaque", "/a/file"))


@pytest.mark.parametrize(
    "config",
    [
        {"extras": {"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh"}, 1, {}]}},
        {"prerequisites": [{"plugin": "com.microsoft.pai.runtimeplugin.ssh"}]},
    ],
)
def test_the_plugins_of_a_job_are_found_wherever_they_are_used(config: dict[str, Any]) -> None:
    assert next(Config(config).plugins()) == "ssh"
