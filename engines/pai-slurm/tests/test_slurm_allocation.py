"""Which node of an allocation a task has, and how Slurm writes times."""

import json

import pytest

from pai_document.document import parse_document
from pai_document.problems import Problems
from pai_runtime.engine import CannotRun, Job
from pai_runtime.host.host import Host
from pai_runtime.job.load import load_job
from pai_runtime.plan.planning import job_plugins
from pai_slurm.allocation import Component, Node, places_of
from pai_slurm.times import seconds_of
from tests.support import job


def loaded(**cpus: tuple[int, int]) -> Job:
    """A job whose roles have so many instances, and CPUs for each."""
    roles = {
        name: {
            "instances": instances,
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": cpu, "memoryMB": 100, "gpu": 0},
            "commands": ["true"],
        }
        for name, (instances, cpu) in cpus.items()
    }
    document = parse_document(json.dumps(job(taskRoles=roles)), "job.yaml")
    return load_job(document, None, job_plugins(Host()), Problems())


def nodes_of(made: Job, *components: Component) -> list[str]:
    return [place.node for place in places_of(made, list(components)).values()]


def test_tasks_are_where_slurm_has_chosen_nodes_for_them() -> None:
    component = Component(None, (Node("n1", 8, 2), Node("n2", 8, 1)))
    assert nodes_of(loaded(worker=(3, 2)), component) == ["n1", "n1", "n2"]


def test_in_an_allocation_for_something_else_they_are_where_there_are_cpus() -> None:
    component = Component(None, (Node("n1", 4, 1), Node("n2", 8, 1)))
    assert nodes_of(loaded(ps=(1, 2), worker=(2, 4)), component) == ["n1", "n2", "n2"]


def test_each_shape_has_the_nodes_of_its_component() -> None:
    components = (Component(0, (Node("n1", 2, 1),)), Component(1, (Node("n2", 4, 1),)))
    assert nodes_of(loaded(ps=(1, 2), worker=(1, 4)), *components) == ["n1", "n2"]


def test_an_allocation_without_room_is_refused_with_what_it_has() -> None:
    with pytest.raises(CannotRun, match=r"worker/1 asks for 4 CPUs.*6 CPUs on 1 nodes"):
        nodes_of(loaded(worker=(2, 4)), Component(None, (Node("n1", 6, 1),)))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("1:00:00", 3600),
        ("1-12", 129600),
        ("1-00:30", 88200),
        ("2-00:00:01", 172801),
        ("infinite", float("inf")),
        ("UNLIMITED", float("inf")),
    ],
)
def test_a_time_limit_is_as_slurm_means_it(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
