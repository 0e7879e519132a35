"""Names of objects on a cluster."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_kubernetes.names import LONGEST_RUN, is_run_name, label_value, role_names, run_name

_SUFFIXES = st.text("bcdfghjklmnpqrstvwxz2456789", min_size=5, max_size=8)
_JOBS = st.from_regex("[a-zA-Z0-9_-]{1,255}", fullmatch=True)
_ROLES = st.lists(st.from_regex("[a-zA-Z_][a-zA-Z0-9_]{0,60}", fullmatch=True), unique=True, max_size=8)
_DNS_LABEL = re.compile("[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile("([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


@settings(max_examples=50)
@given(_JOBS, _SUFFIXES, _ROLES, st.integers(1, 100_000))
def test_pods_have_names_that_kubernetes_allows(
    job: str, suffix: str, roles: list[str], instances: int
) -> None:
    run = run_name(job, suffix)
    assert is_run_name(run)
    names = role_names(roles, run, dict.fromkeys(roles, instances))
    assert list(names) == roles
    assert len(set(names.values())) == len(roles)
    for name in names.values():
        assert _DNS_LABEL.fullmatch(f"{run}-{name}-0-{instances - 1}-x1y2z")


@settings(max_examples=50)
@given(_ROLES)
def test_a_run_with_the_longest_name_has_room_for_its_roles(roles: list[str]) -> None:
    run = "r" * LONGEST_RUN
    names = role_names(roles, run, dict.fromkeys(roles, 100_000))
    assert len(set(names.values())) == len(roles)
    assert all(_DNS_LABEL.fullmatch(f"{run}-{name}-0-99999-x1y2z") for name in names.values())


@pytest.mark.parametrize(
    ("roles", "names"),
    [
        (["worker", "ps_server"], ["worker", "ps-server"]),
        (["_Worker_1", "worker1"], ["worker-1", "worker1"]),
        (["Worker", "worker"], ["worker", "worker-68a5f"]),
        (["__", "_0"], ["r-83512", "r-e13e0"]),
    ],
)
def test_roles_keep_their_names_as_far_as_they_can(roles: list[str], names: list[str]) -> None:
    assert list(role_names(roles, "job-bcdfg", dict.fromkeys(roles, 1)).values()) == names


@pytest.mark.parametrize(
    ("job", "run"),
    [
        ("mnist", "mnist-bcdfg"),
        ("My_Job-2", "my-job-2-bcdfg"),
        ("42_", "job-bcdfg"),
        ("x" * 300, f"{'x' * 26}-bcdfg"),
    ],
)
def test_runs_are_named_after_their_job(job: str, run: str) -> None:
    assert run_name(job, "bcdfg") == run


@given(st.lists(st.text(), unique=True, max_size=20))
def test_labels_hold_any_text_and_tell_texts_apart(texts: list[str]) -> None:
    values = [label_value(text) for text in texts]
    assert len(set(values)) == len(texts)
    assert all(map(_LABEL_VALUE.fullmatch, values))


@given(st.from_regex("[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", fullmatch=True))
def test_what_a_label_can_hold_stays_as_it_is(text: str) -> None:
    assert label_value(text) == text


@pytest.mark.parametrize("name", ["", "1a", "a-", "A", "a.b", "a" * (LONGEST_RUN + 1)])
def test_other_names_are_none_of_a_run(name: str) -> None:
    assert not is_run_name(name)
