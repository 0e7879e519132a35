r"""For authors of plugins: what their tests need, and a start by ``pai-runtime plugins new``.

A test of a plugin's hook, one of a job that really runs with it, and one of all that holds for every plugin::

    from pai_plugin_kit import call, conformance, make_job, make_use

    ID = "org.example.greet"
    test_it_keeps_the_rules_for_plugins = conformance(ID)


    def test_it_greets():
        contribution = call("pai_prerequisite", make_use(ID, {"whom": "world"}))
        assert contribution.environment == {"GREETING": "hello world"}


    def test_the_command_sees_the_greeting(run_job):
        run = run_job(make_job({"plugin": ID, "whom": "world"}, commands=['echo "$GREETING"']))
        assert run.task("worker/0").output == "hello world\n"

`run_job` is a fixture, which pytest finds once this distribution is installed.
"""

from pai_plugin_kit.calls import call, make_task, make_use
from pai_plugin_kit.conformance import conformance
from pai_plugin_kit.runs import JobRun, TaskRun, make_job

__all__ = ["JobRun", "TaskRun", "call", "conformance", "make_job", "make_task", "make_use"]
