"""The schemas of a task's files say what the types say."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from pai_document.schemas import package_schema
from pai_task import plan as plans
from pai_task import vocabulary
from pai_task.exit_codes import RUNTIME_ERROR
from pai_task.launch import PHASES
from pai_task.plan import (
    Command,
    Mount,
    OnPreemption,
    Plan,
    PlanError,
    PlannedMount,
    PlannedRule,
    PlannedService,
    Service,
    SharedVariables,
    Step,
    UseRecord,
    Variable,
)
from pai_task.state import state_after
from tests.support import validator
from tests.task_harness import run_task

_WHOLE = Plan(
    job="job",
    role="worker",
    index=1,
    folder="/task",
    instances={"worker": 2},
    ports={"ssh": (1,), "http": (80, 81)},
    environment=(Variable("A", "1", "platform"),),
    uses=(
        UseRecord(
            "u", "org.example", "pai-x", "1.0", "sha256:0", {"p": [1]}, "fail", "f:1:1", ("r",), ("s",)
        ),
    ),
    steps=(Step("taskStarts", 0, "fail", script="true"), Step("init", 0, "ignore", hook="pai_init")),
    command=Command("true", "f:2:1", on_preemption=OnPreemption(9, "SIGINT", "save")),
    services=(
        PlannedService(
            0,
            Service(
                *("s", "run", "probe", 5, "always"),
                required=True,
                address="a",
                linger=1,
                when_silent=1,
                ancestor=("-m", "module"),
            ),
        ),
    ),
    mounts=(PlannedMount(0, Mount("/data", "store", "nfs", "below", read_only=True)),),
    exit_rules=(PlannedRule(0, {"phrase": "X"}),),
    timeout=60,
    hold=5,
    gang=False,
    strict_callbacks=True,
    warnings=("w",),
    shared=SharedVariables({"B": "2"}, {"C": "3"}),
    permanent_codes=(226,),
    listed_codes=(226, 255),
    refused=("pai-y",),
)
"""A plan in which nothing has its default value."""


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = dict(package_schema("pai_task", f"{name}.schema.json"))
    return schema


def _properties(schema: Any, *path: str) -> Any:
    for name in path:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return schema


def test_a_whole_plan_comes_back_and_fits_its_schema() -> None:
    document = _WHOLE.to_json()
    validator("pai_task", "plan.schema.json").validate(document)
    assert Plan.from_json(document) == _WHOLE


@pytest.mark.parametrize(
    "path", [[], ["uses"], ["services"], ["mounts"], ["exitRules"], ["environment"], ["command"]]
)
def test_a_plan_has_all_that_its_schema_names(path: list[str]) -> None:
    document: Any = _WHOLE.to_json()
    for name in path:
        document = document[name][0] if isinstance(document[name], list) else document[name]
    assert document.keys() == _properties(_schema("plan"), *path)["properties"].keys()


_WRONG: tuple[Any, ...] = (None, True, -1, 1e300, 7, "x", "a\0b", [], {}, [None], {"x": None})


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a document."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _places(inner, (*path, key))


@pytest.mark.parametrize("path", list(_places(_WHOLE.to_json())), ids=str)
def test_a_plan_with_a_value_of_another_type_or_without_it_is_refused_as_that(path: tuple[Any, ...]) -> None:
    checked = validator("pai_task", "plan.schema.json")
    for wrong in (..., *_WRONG):
        document: Any = deepcopy(_WHOLE.to_json())
        place = document
        for key in path[:-1]:
            place = place[key]
        if wrong is ...:
            del place[path[-1]]
        else:
            place[path[-1]] = wrong
        try:
            Plan.from_json(document)
        except PlanError:
            continue
        is_of_another_type = any(error.validator == "type" for error in checked.iter_errors(document))
        assert not is_of_another_type or isinstance(wrong, float)


@pytest.mark.process
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("steps", 0, "use"), 1),
        (("steps", 0, "use"), "x"),
        (("steps", 0, "script"), 5),
        (("command", "script"), None),
        (("environment", 0, "value"), 5),
        (("hold",), "x"),
        (("uses", 0, "parameters"), []),
        (("ports",), []),
        (("shared", "platform", "B"), 5),
    ],
    ids=str,
)
def test_the_supervisor_says_so_and_leaves_a_record(
    tmp_path: Path, path: tuple[Any, ...], wrong: object
) -> None:
    document = deepcopy(_WHOLE.to_json())
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = wrong
    whole = replace(_WHOLE, folder=str(tmp_path))
    task = run_task(whole, plan_text=json.dumps(document))
    assert (task.process.returncode, b"Traceback" in task.stderr) == (RUNTIME_ERROR, False)
    assert "not a plan" in task.record["message"]


def test_nothing_in_the_whole_plan_has_its_default_value() -> None:
    smallest = Plan("", "", 0, "", {}, {}, (), (), (), Command("", ""))
    defaults = (
        *("services", "mounts", "exit_rules", "hold", "gang", "warnings", "shared"),
        *("permanent_codes", "listed_codes", "refused"),
    )
    assert not [name for name in defaults if getattr(_WHOLE, name) == getattr(smallest, name)]


@pytest.mark.parametrize(
    ("kind", "schema", "path"),
    [
        (vocabulary.Phase, "plan", ["steps", "phase"]),
        (vocabulary.FailurePolicy, "plan", ["steps", "failurePolicy"]),
        (vocabulary.FailurePolicy, "plan", ["uses", "failurePolicy"]),
        (vocabulary.Restart, "plan", ["services", "restart"]),
        (vocabulary.MountKind, "plan", ["mounts", "kind"]),
        (vocabulary.Phase, "events", ["phase"]),
        (vocabulary.Outcome, "events", ["outcome"]),
        (vocabulary.Phases, "events", ["phases"]),
        (vocabulary.Outcome, "exit-record", ["outcome"]),
        (vocabulary.Behavior, "exit-record", ["behavior"]),
    ],
)
def test_words_are_the_same(kind: Any, schema: str, path: list[str]) -> None:
    expected = set(get_args(kind))
    if path == ["steps", "phase"]:
        expected -= {"command"}  # which is no step
    assert set(_properties(_schema(schema), *path)["enum"]) == expected


def test_the_state_has_all_phases_and_those_of_a_task_that_is_kept() -> None:
    phases = [phase for kind in get_args(vocabulary.StatePhase) for phase in (get_args(kind) or (kind,))]
    assert set(_properties(_schema("state"), "phase")["enum"]) == set(phases)


def test_a_state_has_all_that_its_schema_names() -> None:
    state = state_after({}, {"event": "supervisorStarted", "time": 1.0, "pid": 1})
    state = state_after(state, {"event": "commandStarted", "time": 2.0})
    assert state.keys() == _schema("state")["properties"].keys()
    validator("pai_task", "state.schema.json").validate(state)


def test_words_that_are_needed_without_their_types_are_the_same() -> None:
    assert get_args(vocabulary.Event) == plans.EVENTS
    assert get_args(vocabulary.Phases) == PHASES
