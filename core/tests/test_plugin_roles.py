"""What a manifest says that a plugin is to jobs: on by default, for storage, for callbacks, with ports."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plugin_factory import Site, policy_rule, uses, write_policy
from tests.support import job, runtime_log, write_job

pytestmark = pytest.mark.process

TELLS = """
@hookimpl
def pai_prerequisite(use, task):
    return Contribution({"TOLD": repr(sorted(use.parameters.items()))})
"""


def plan(site: Site, folder: Path, document: dict[str, Any], *args: str) -> dict[str, Any]:
    ended = site.cli("plan", write_job(folder, document), "--task", "worker/0", "--json", *args)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def names(plan_: dict[str, Any]) -> list[tuple[str, str]]:
    return [(use["plugin"], use["failurePolicy"]) for use in plan_["uses"]]


def told(plan_: dict[str, Any]) -> str:
    return str(next(each["value"] for each in plan_["environment"] if each["name"] == "TOLD"))


def test_every_job_uses_what_is_on_by_default_and_ignores_its_failures(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.example.watch", default=True)
    site.add("org.example.other")
    assert ("org.example.watch", "ignore") in names(plan(site, tmp_path, job()))
    assert "org.example.other" not in dict(names(plan(site, tmp_path, job())))
    named = names(plan(site, tmp_path, job(**uses("org.example.watch"))))
    assert [each for each in named if each[0] == "org.example.watch"] == [("org.example.watch", "fail")]


def test_the_field_of_extras_with_the_name_of_a_default_plugin_has_its_parameters(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.example.watch", TELLS, default=True)
    extras = {"watch": {"greeting": "hi"}}
    found = plan(site, tmp_path, job(extras=extras))
    assert ("org.example.watch", "fail") in names(found)
    assert told(found) == "[('greeting', 'hi')]"
    wrong = site.cli("validate", write_job(tmp_path, job(extras={"watch": 5})), "--json")
    (problem,) = json.loads(wrong.stdout)["problems"]
    assert (problem["code"], problem["field"]) == ("wrong-type", "extras.watch")


def test_what_is_on_by_default_and_refused_by_the_policy_is_left_out(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.example.watch", default=True)
    policy = write_policy(tmp_path)
    assert names(plan(site, tmp_path, job(), "--policy", str(policy))) == []
    assert site.imported == set()


def test_what_a_policy_puts_on_by_default_comes_first_and_fails_the_task_unless_the_job_says_otherwise(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    check, other = (site.add(f"org.example.{name}", TELLS) for name in ("check", "other"))
    gone = {**policy_rule(check), "id": "org.example.gone", "default": True}
    policy = write_policy(tmp_path, {**policy_rule(check), "default": True}, policy_rule(other), gone)
    document = job(**uses("org.example.other"))
    found = plan(site, tmp_path, document, "--policy", str(policy))
    assert names(found) == [("org.example.check", "fail"), ("org.example.other", "fail")]
    assert found["uses"][0]["source"].startswith(f"{policy}:")
    given = plan(site, tmp_path, job(extras={"check": {"a": 1}}), "--policy", str(policy))
    assert told(given) == "[('a', 1)]"
    own = {"plugin": "org.example.check", "failurePolicy": "ignore"}
    document = job(extras={"com.microsoft.pai.runtimeplugin": [own]})
    assert names(plan(site, tmp_path, document, "--policy", str(policy))) == [("org.example.check", "ignore")]
    ended = site.cli("validate", write_job(tmp_path, job()), "--policy", policy, "--json")
    (problem,) = json.loads(ended.stdout)["problems"]
    assert (problem["code"], problem["severity"]) == ("no-such-plugin", "warning")
    assert problem["field"] == "plugins[2].default"


def test_a_storage_of_any_plugin_says_where_it_is_mounted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.example.disk", TELLS, storage={"name": "volume", "mountPath": "where"})
    disk = {"name": "d", "type": "storage", "plugin": "org.example.disk", "volume": "big"}
    document = job(
        prerequisites=[disk],
        worker={"prerequisites": ["d"], "data": "d", "commands": ["ls <% $data.where %>"]},
    )
    found = plan(site, tmp_path, document)
    assert found["command"]["script"] == "ls /mnt/big\n"
    assert told(found) == "[('volume', 'big'), ('where', '/mnt/big')]"


def test_a_use_knows_its_own_roles_and_those_that_have_the_plugin_by_another_use(tmp_path: Path) -> None:
    site = Site(tmp_path)
    tells = """
@hookimpl
def pai_prerequisite(use, task):
    return Contribution({"TOLD": repr((use.roles, use.plugin_roles))})

@hookimpl
def pai_task_starts(use, task):
    print(f"{task.role} {use.roles} {use.plugin_roles}", flush=True)
"""
    site.add("org.example.tells", tells, hooks=["pai_prerequisite", "pai_task_starts"])
    document = job(worker={"completion": {"minSucceededInstances": -1}})  # the job ends with its last task
    worker = document["taskRoles"]["worker"]
    document["taskRoles"] = {"other": worker, "worker": worker, "without": worker}
    listed = [{"plugin": "org.example.tells", "taskroles": [role]} for role in ("worker", "other")]
    document["extras"] = {"com.microsoft.pai.runtimeplugin": listed}
    found = plan(site, tmp_path, document)
    assert told(found) == repr((("worker",), ("other", "worker")))
    ended = site.cli("run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "worker ('worker',) ('other', 'worker')" in runtime_log(tmp_path / "run/worker/0")


@pytest.mark.parametrize("field", ["extras", "requireStorages"])
def test_storages_that_are_listed_are_uses_of_the_plugin_that_is_for_them(tmp_path: Path, field: str) -> None:
    site = Site(tmp_path)
    # Of several that say so, the first by its id; pai-storage has one too.
    site.add("a.example.disk", TELLS, storage={"name": "name", "mountPath": "at", "forExtras": True})
    listed = [{"name": "big"}]
    prerequisite = {"name": "p", "type": "data", "requireStorages": listed}
    document = (
        job(extras={"storages": listed})
        if field == "extras"
        else job(prerequisites=[prerequisite], worker={"prerequisites": ["p"]})
    )
    found = plan(site, tmp_path, document)
    assert "a.example.disk" in dict(names(found))
    assert told(found) == "[('name', 'big')]"


def test_a_plugin_that_is_refused_does_not_take_storages_from_one_that_may_be_used(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("a.example.disk", TELLS, storage={"name": "name", "mountPath": "at", "forExtras": True})
    allowed = site.add(
        "b.example.disk", TELLS, storage={"name": "name", "mountPath": "at", "forExtras": True}
    )
    policy = write_policy(tmp_path, policy_rule(allowed))
    document = job(extras={"storages": [{"name": "big"}]})
    assert "b.example.disk" in dict(names(plan(site, tmp_path, document, "--policy", str(policy))))


CALLBACKS = {"name": "p", "type": "data", "callbacks": [{"event": "taskStarts", "commands": ["true"]}]}


def test_callbacks_of_no_named_plugin_are_uses_of_the_plugin_that_is_for_them(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("a.example.shell", TELLS, callbacks=True)
    document = job(prerequisites=[CALLBACKS], worker={"prerequisites": ["p"]})
    assert "a.example.shell" in dict(names(plan(site, tmp_path, document)))


def test_a_plugin_that_the_policy_refuses_does_not_get_the_callbacks_of_jobs(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("a.example.refused", callbacks=True)
    allowed = site.add("b.example.allowed", TELLS, callbacks=True)
    document = job(prerequisites=[CALLBACKS], worker={"prerequisites": ["p"]})
    policy = write_policy(tmp_path, policy_rule(allowed))
    found = plan(site, tmp_path, document, "--policy", str(policy))
    assert names(found) == [("b.example.allowed", "fail")]


def test_a_task_has_the_ports_of_its_plugins_after_its_own(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.example.mesh", ports={"mesh": 2, "http": 3})
    site.add("org.example.other", ports={"other": 1})
    before = plan(site, tmp_path, job())["ports"]
    found = plan(site, tmp_path, job(**uses("org.example.mesh")))["ports"]
    assert {label: len(ports) for label, ports in found.items()} == {"ssh": 1, "http": 1, "mesh": 2}
    assert before.items() <= found.items()
    requested = job(**uses("org.example.mesh"))
    requested["taskRoles"]["worker"]["resourcePerInstance"]["ports"] = {"mesh": 1}
    found = plan(site, tmp_path, requested)["ports"]
    assert {label: len(ports) for label, ports in found.items()} == {"mesh": 1, "ssh": 1, "http": 1}
