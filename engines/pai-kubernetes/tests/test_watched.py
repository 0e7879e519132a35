"""The pods of a run's tasks, as each change of one is taken up: the same as if all were read anew."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pai_kubernetes.api.access import Access
from pai_kubernetes.api.client import Api
from pai_kubernetes.run.pods import by_task, latest_pods, task_pods
from pai_kubernetes.run.roles import read_roles
from pai_kubernetes.run.watched import Watched
from tests.kubernetes.run_objects import NAME, jobset, pod, running, terminated

JOBSET = jobset({"worker": 2, "ps": 1})
PODS = st.builds(
    pod,
    st.sampled_from(["worker", "ps", "other"]),
    st.integers(0, 2),
    restart=st.integers(0, 1),
    failures=st.integers(0, 1),
    status=st.sampled_from([running(), terminated(0), terminated(1)]),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(PODS, st.booleans()), max_size=12), st.sets(st.integers(0, 12)))
def test_each_change_of_a_pod_is_taken_up(
    changes: list[tuple[dict[str, Any], bool]], looks: set[int]
) -> None:
    watched = Watched(
        Api(Access("https://cluster.example.com", "jane", "a kubeconfig", "a"), "", "lab"), NAME
    )
    watched._jobsets._objects[NAME] = JOBSET
    watched._on_jobset("SYNCED", {})
    there: dict[str, dict[str, Any]] = watched._pods._objects
    gone: list[dict[str, Any]] = []
    for number, (document, is_deleted) in enumerate(changes):
        name = document["metadata"]["name"]
        there[name] = document
        if is_deleted:
            del there[name]
            gone.append(document)
        watched._pods._taken = None
        watched._on_pod("DELETED" if is_deleted else "MODIFIED", document)
        if number in looks:  # what was never looked at is read as a whole
            watched.task_pods()
    roles = read_roles(JOBSET)
    last = latest_pods(task_pods(roles, gone, gone=True))
    expected = by_task([*last.values(), *task_pods(roles, there.values())])
    assert {task: pods for task, pods in watched.task_pods().items() if pods} == expected
