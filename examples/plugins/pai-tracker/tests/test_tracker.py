from collections.abc import Callable

from pai_plugin_kit import JobRun, call, conformance, make_job, make_task, make_use

ID = "com.example.tracker"
test_it_keeps_the_rules_for_plugins = conformance(ID)


def test_a_run_is_known_by_its_task() -> None:
    contribution = call(
        "pai_prerequisite", make_use(ID, {"project": "mnist"}), make_task(run="me~mnist", index=3)
    )
    assert contribution.environment["TRACKER_RUN"] == "me~mnist-worker-3"


def test_the_summary_of_a_task_has_its_exit_code(run_job: Callable[..., JobRun]) -> None:
    run = run_job(make_job({"plugin": ID, "project": "mnist"}, commands=["exit 3"]))
    assert run.status == 3
    assert '"exitCode": 3' in (run.task("worker/0").folder / "tracker/summary.json").read_text()
