"""What is posted to OpenPAI is what was planned, and its other users can read no secret in it.

A stand-in for its server, which is not to be had here, reads and renders as it did when it was asked.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Problems
from pai_openpai.job_check import MOST_BYTES
from pai_openpai.submitted_text import SubmittedText, submitted_text
from pai_pod.user_command import user_command
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job
from pai_runtime.plan.planning import job_plugins
from pai_task.placeholders import show
from tests.job_harness import yaml_text
from tests.openpai.planned_jobs import cmd, loaded, planned
from tests.openpai.submission import Submission, read_submission
from tests.support import JOBS, job, write_job

EXAMPLES = JOBS.parents[1] / "examples"
_HOST = Host(NO_POLICY)
_READER = "<% $parameters.x %>"


def submitted(given: Path | str | Mapping[str, Any]) -> tuple[Job, SubmittedText, Submission]:
    """The job, its text, and what the server makes of it. Only a job in a file has storages."""
    if isinstance(given, Path):
        found, plans = planned(given)
    else:
        found, plans = loaded(given if isinstance(given, str) else yaml_text(given)), {}
    text = submitted_text(found, plans, "run_1")
    return found, text, read_submission(text.text)


def sent(**more: Any) -> dict[str, Any]:
    """What the server reads of a job."""
    document: dict[str, Any] = yaml.safe_load(submitted(job(**more))[1].text)
    return document


def mounting(folder: Path, known: tuple[str, ...] | None = None, **more: Any) -> dict[str, Any]:
    """What the server reads of a job with storages, of which it has those that are known."""
    found, plans = planned(write_job(folder, job(**more)))
    document: dict[str, Any] = yaml.safe_load(submitted_text(found, plans, "run_1", storages=known).text)
    return document


def refused(**more: Any) -> list[tuple[str, str]]:
    """The codes and fields of what is wrong."""
    with pytest.raises(InvalidInput) as caught:
        submitted(job(**more))
    return [(each.code, each.field) for each in caught.value.problems]


def roles(**more: Mapping[str, Any]) -> dict[str, Any]:
    return {name: job(worker=fields)["taskRoles"]["worker"] for name, fields in more.items()}


@pytest.mark.process
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_accepted_and_its_commands_are_the_planned_ones(path: Path) -> None:
    found, text, submission = submitted(path)
    for role in found.roles:
        assert submission.commands[role] == show(found.uses[role].command.script).strip()
    assert submission.public == yaml.safe_load(text.shown)


@pytest.mark.process
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_pod_plans_of_the_text_what_was_planned_of_the_file(path: Path, tmp_path: Path) -> None:
    found, plans = planned(path)
    sent_file = tmp_path / "sent.yaml"
    sent_file.write_text(submitted_text(found, plans, found.name).text)
    _, again = planned(sent_file)
    for task, plan in plans.items():
        other = again[task]
        mounted = {use.name for use in other.uses} - {use.name for use in plan.uses}
        used = [use for use in other.uses if use.failure_policy != "fail" or use.name not in mounted]
        assert [_what(use) for use in plan.uses] == [
            each for each in map(_what, used) if each in map(_what, plan.uses)
        ]
        assert plan.command.script == other.command.script
        assert plan.ports == other.ports
        assert plan.shared == other.shared
        assert plan.gang == other.gang
        assert plan.hold == other.hold


@pytest.mark.process
def test_the_pod_makes_the_planned_command_of_the_one_that_it_is_given() -> None:
    path = EXAMPLES / "references.yaml"
    found, text, submission = submitted(path)
    shown = parse_document(text.shown, "job.yaml")
    problems, mounted = Problems(), parse_document(json.dumps(submission.secrets), "secrets.yaml")
    again = load_job(shown, mounted, job_plugins(Host(NO_POLICY)), problems)
    for role in found.roles:
        command = user_command(submission.commands[role], again, role, problems)
        assert command.script == found.uses[role].command.script
    assert problems.in_order == ()


def _what(use: Any) -> tuple[Any, ...]:
    return use.name, use.plugin, use.failure_policy, json.dumps(use.parameters)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("0.10", "0.10"),
        ("1.0", "1.0"),
        ("1e6", "1e6"),
        ("010", "010"),
        ("0x1F", "0x1F"),
        ("2020-01-01", "2020-01-01"),
        ("2020-01-01 10:00:00", "2020-01-01 10:00:00"),
        ("12345678901234567890", "12345678901234567890"),
        (".inf", ".inf"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("True", "True"),
        ("yes", "yes"),
        ("~", ""),
        ("[1, 0.10, '0.10', 010]", "1,0.10,0.10,010"),
        ("a & <b> \"c\" 'd'", "a & <b> \"c\" 'd'"),
        ("'a\\b'", "a\\b"),
        ('"tab\\tbell\\aend"', "tab\tbell\aend"),
        ('"\\u2028secrets:\\u2028x"', "\u2028secrets:\u2028x"),
        ('"one\\r\\ntwo  \\n\\tthree"', "one\r\ntwo  \n\tthree"),
        ('"\\U0001F600 \\u00e9"', "\U0001f600 \u00e9"),
        ("{y: 010}", None),
    ],
)
def test_a_value_is_inserted_as_it_was_written(written: str, text: str | None) -> None:
    name = "x.y" if text is None else "x"
    document = job(worker={"commands": [f"echo [<% $parameters.{name} %>]", "true"]})
    source = yaml_text(document) + f"parameters:\n  x: {written}\n"
    _, _, submission = submitted(source)
    assert submission.commands["worker"] == f"echo [{'010' if text is None else text}]\ntrue"


_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
_SECRETS = st.dictionaries(
    st.from_regex(r"[A-Za-z_][\w-]{0,5}", fullmatch=True).filter(str.isascii),
    _TEXTS.filter(lambda text: not _is_unreadable(text)),
    min_size=1,
    max_size=3,
)


def _is_unreadable(text: str) -> bool:
    """YAML has no such characters, and the runtime refuses them in a job."""
    return any(ord(each) in (*range(0xFDD0, 0xFDF0), 0xFFFE, 0xFFFF) for each in text)


@given(value=_TEXTS.filter(lambda text: "<%" not in text and not _is_unreadable(text)), secrets=_SECRETS)
@settings(max_examples=60)
def test_whatever_is_written_the_command_is_the_planned_one_and_no_secret_is_shown(
    value: str, secrets: dict[str, str]
) -> None:
    used = " ".join(f"<% $secrets.{name} %>" for name in secrets)
    document = job(
        worker={"commands": [f"echo [{_READER}]", used]},
        prerequisites=[cmd("prepare", f"{used} {_READER}")],
        parameters={"x": value},
        secrets=secrets,
        description="\nsecrets:\n  a: b\nc: d",
    )
    try:
        found, text, submission = submitted(document)
    except InvalidInput as error:
        assume({each.code for each in error.problems} != {"secrets-shown"})
        raise
    assert submission.commands["worker"] == show(found.uses["worker"].command.script).strip()
    assert submission.public == yaml.safe_load(text.shown)
    assert submission.public["secrets"] == "******"
    assert submission.secrets == secrets
    long = [each for each in secrets.values() if len(each.encode()) >= 4]
    assert not [(each, text) for each in long for text in texts(submission.public) if each in text]
    assert repr(text) == f"SubmittedText(shown={text.shown!r})"


def texts(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [text for key, each in data.items() for text in (key, *texts(each))]
    return [text for each in data for text in texts(each)] if isinstance(data, list) else [str(data)]


def test_secrets_keep_their_structure_and_are_texts() -> None:
    source = yaml_text(job(worker={"commands": ["echo <% $secrets.db.keys[1] %>"]}))
    source += "secrets:\n  db: {user: 'a b', keys: [010, 0.10, ~]}\n  2020-01-01: later\n"
    _, text, submission = submitted(source)
    assert submission.secrets == {"db": {"user": "a b", "keys": ["010", "0.10", ""]}, "2020-01-01": "later"}
    assert "later" not in text.shown
    assert submission.commands["worker"] == "echo <% $secrets.db.keys.1 %>"


@pytest.mark.parametrize(
    "key",
    ["1e5", "0x1", "1:30", "2020-01-01", "null", "yes", "~", "<<", "a\x85b", "a\u2028b", "\nsecrets:"],
)
def test_a_key_that_a_reader_might_take_for_something_else_is_in_quotes(key: str) -> None:
    _, text, submission = submitted(job(extras={"own": {key: "x"}}, secrets={key: "a value"}))
    assert f" {key}: " not in text.text
    assert (submission.public["extras"]["own"], submission.secrets) == ({key: "x"}, {key: "a value"})


@pytest.mark.parametrize(
    "secret", ["\n", "\n\n", "a\nb\n\n", "\n a\nb", " a\nb", "a\nb \n", "a\nb\n", "a\n\nb"]
)
def test_a_secret_of_several_lines_is_read_as_it_is(secret: str) -> None:
    _, text, submission = submitted(job(secrets={"key": secret}))
    assert submission.secrets == {"key": secret}
    assert not [line for line in text.text.splitlines() if line.startswith((".", "-")) and line[1:2] != " "]


def test_a_job_without_secrets_has_no_section() -> None:
    _, text, _ = submitted(job())
    assert text.shown == text.text
    assert "secrets" not in yaml.safe_load(text.text)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"worker": {"commands": ["true", "echo hunter22"]}}, "taskRoles.worker.commands[1]"),
        ({"description": "it is hunter22"}, "description"),
        ({"extras": {"note": {"hunter22": 1}}}, "extras.note.hunter22"),
        (
            {
                "prerequisites": [cmd("prepare", "echo aHVudGVyMjI=")],
                "worker": {"prerequisites": ["prepare"]},
            },
            "prerequisites[1]",
        ),
    ],
)
def test_the_value_of_a_secret_elsewhere_is_refused(more: dict[str, Any], field: str) -> None:
    found = refused(secrets={"password": "hunter22"}, **more)
    assert found[0][0] == "secrets-shown"
    assert found[0][1].startswith(field)


def test_a_literal_password_of_an_image_is_refused_and_a_secret_one_is_filled_in_by_the_server() -> None:
    def image(password: str) -> dict[str, Any]:
        return {
            "name": "own",
            "type": "dockerimage",
            "uri": "x",
            "auth": {"username": "<% $parameters.u %>", "password": password},
        }

    more = {"parameters": {"u": "me"}, "secrets": {"p": "0123456"}, "worker": {"dockerImage": "own"}}
    assert refused(prerequisites=[image("hunter22")], **more) == [
        ("secrets-shown", "prerequisites[1].auth.password")
    ]
    (own,) = sent(prerequisites=[image("<% $secrets.p %>")], **more)["prerequisites"]
    assert own["auth"] == {"username": "me", "password": "<% $secrets.p %>"}


def test_an_image_that_is_no_text_once_its_references_are_resolved_is_refused() -> None:
    own = {
        "name": "own",
        "type": "dockerimage",
        "uri": "<% $parameters.n %>",
        "auth": {"username": "<% $parameters.n %>"},
    }
    found = refused(prerequisites=[own], worker={"dockerImage": "own"}, parameters={"n": 1})
    fields = ["prerequisites[1].uri", "prerequisites[1].auth.username"]
    assert found == [("changed-by-openpai", field) for field in fields]


@pytest.mark.parametrize(
    "command",
    ["echo '<%= erb %>'", "printf '<%d'", "true # <%! a comment %>", "\ufeffecho", "echo <% foo %>"],
)
def test_a_command_that_the_server_would_change_is_refused_at_its_line(command: str) -> None:
    found = refused(worker={"commands": ["true" if "<" in command else command, command]})
    where = "taskRoles.worker.commands" + ("[1]" if "<" in command else "")
    assert found == [("changed-by-openpai", where)]


def test_text_that_the_pod_would_take_for_a_reference_is_refused() -> None:
    (found,) = refused(
        prerequisites=[cmd("prepare", "true # <% parameters.x %>")], worker={"prerequisites": ["prepare"]}
    )
    assert found == ("changed-by-openpai", "prerequisites[1]")


def test_more_than_the_server_takes_is_refused() -> None:
    fits = "#" * (MOST_BYTES - 1000)
    assert len(submitted(job(worker={"commands": [f"true {fits}"]}))[1].text) > MOST_BYTES - 1000
    (found,) = refused(worker={"commands": [f"true {fits}{fits[:1000]}"]})
    assert found == ("job-too-large", "")


def test_prerequisites_are_plain_and_in_the_order_of_their_use() -> None:
    document = sent(
        parameters={"dir": "d", "n": 5},
        prerequisites=[
            cmd(
                "last",
                "echo <% $data.uri[1] %> <% this.where %>",
                type="storage",
                require=["first"],
                where="<% $parameters.dir %>",
            ),
            cmd(
                "first",
                "true",
                uri=["a", "b"],
                n="<% $parameters.n %>",
                failurePolicy="ignore",
                type="output",
            ),
            {"name": "passive", "type": "data", "uri": ["p", "q"]},
        ],
        worker={"data": "passive", "prerequisites": ["last"]},
    )
    assert document["taskRoles"]["worker"]["prerequisites"] == ["first", "last"]
    _, first, last = document["prerequisites"]
    assert (first["name"], first["type"], first["n"], first["failurePolicy"]) == (
        "first",
        "data",
        5,
        "ignore",
    )
    assert (last["type"], last["where"]) == ("script", "d")
    assert last["callbacks"][0]["commands"] == ["echo q d"]
    assert "require" not in last


@pytest.mark.process
def test_a_parameter_with_the_name_of_a_field_stays_a_parameter(tmp_path: Path) -> None:
    storage = {"name": "data", "type": "storage", "plugin": "pvc_storage", "parameters": {"name": "nfs-1"}}
    document = mounting(tmp_path, prerequisites=[storage], worker={"prerequisites": ["data"]})
    assert document["prerequisites"][1]["parameters"] == {"name": "nfs-1"}
    assert document["extras"]["storages"] == [{"name": "nfs-1", "mountPath": "/mnt/nfs-1"}]


def test_uses_in_extras_are_written_for_the_roles_that_they_are_for() -> None:
    document = sent(
        prerequisites=[
            {"name": "d1", "type": "data", "uri": ["one"]},
            {"name": "d2", "type": "data", "uri": ["two"]},
        ],
        taskRoles=roles(worker={"data": "d1"}, other={"data": "d2"}),
        extras={
            "com.microsoft.pai.runtimeplugin": [
                {"plugin": "cmd", "parameters": {"preCommands": ["echo <% $data.uri[0] %>"]}},
                {
                    "plugin": "ssh",
                    "parameters": {"jobssh": True},
                    "failurePolicy": "ignore",
                    "taskroles": ["other"],
                },
            ]
        },
    )
    plugins = document["extras"]["com.microsoft.pai.runtimeplugin"]
    assert [(each["plugin"], each["taskroles"]) for each in plugins] == [
        ("cmd", ["worker"]),
        ("cmd", ["other"]),
        ("ssh", ["other"]),
    ]


def test_what_is_given_to_roles_differently_is_refused() -> None:
    (found,) = refused(
        prerequisites=[
            {"name": "d1", "type": "data", "uri": ["one"]},
            {"name": "d2", "type": "data", "uri": ["two"]},
            cmd("both", "echo <% $data.uri[0] %>"),
        ],
        taskRoles=roles(
            worker={"data": "d1", "prerequisites": ["both"]}, other={"data": "d2", "prerequisites": ["both"]}
        ),
    )
    assert found[0] == "changed-by-openpai"


@pytest.mark.process
def test_storages_that_the_tasks_mount_are_those_of_the_job(tmp_path: Path) -> None:
    document = mounting(
        tmp_path,
        extras={"storages": [{"name": "data", "readOnly": True}]},
        prerequisites=[
            cmd("prepare", "true", requireStorages=[{"name": "own", "mountPath": "/own", "share": False}])
        ],
        worker={"prerequisites": ["prepare"]},
    )
    assert document["extras"]["storages"] == [
        {"name": "data", "mountPath": "/mnt/data", "readOnly": True},
        {"name": "own", "mountPath": "/own", "share": False},
    ]


@pytest.mark.process
@pytest.mark.parametrize(("known", "is_there"), [((), 0), (("data",), 1), (None, 1)])
def test_a_storage_that_is_missing_is_left_out_where_that_is_no_failure(
    tmp_path: Path, known: tuple[str, ...] | None, is_there: int
) -> None:
    storage = {"name": "data", "type": "storage", "plugin": "pvc_storage", "failurePolicy": "ignore"}
    document = mounting(tmp_path, known, prerequisites=[storage], worker={"prerequisites": ["data"]})
    assert ("storages" in document["extras"]) == is_there


@pytest.mark.process
def test_a_storage_that_is_mounted_in_two_ways_is_refused(tmp_path: Path) -> None:
    uses = [cmd(name, "true", requireStorages=[{"name": "data", "mountPath": f"/{name}"}]) for name in "ab"]
    with pytest.raises(InvalidInput) as caught:
        mounting(tmp_path, prerequisites=uses, worker={"prerequisites": ["a", "b"]})
    assert [each.code for each in caught.value.problems] == ["changed-by-openpai"]


def test_a_run_has_its_name_its_number_and_the_virtual_cluster_of_its_job_or_else_the_profiles() -> None:
    for defaults, expected in (({}, "of-profile"), ({"defaults": {"virtualCluster": "of-job"}}, "of-job")):
        found = loaded(yaml_text(job(**defaults)))
        text = submitted_text(found, {}, "run_1", virtual_cluster="of-profile", submission="123")
        document = yaml.safe_load(text.text)
        assert document["name"] == "run_1"
        assert document["defaults"] == {"virtualCluster": expected}
        assert document["extras"] == {"submitFrom": "pai-runtime", "submission": "123"}


def test_what_is_not_written_is_what_the_runtime_takes_it_for() -> None:
    document = sent(
        worker={"completion": {"minFailedInstances": 0, "minSucceededInstances": None}, "taskRetryCount": -2},
        deployments=[],
        extras={
            "strictCallbacks": True,
            "onPreemption": {"time": "30s", "commands": ["echo <% $parameters.x %>"]},
            "code": ".",
        },
        parameters={"x": "0.10"},
        defaults={"virtualCluster": None},
    )
    role = document["taskRoles"]["worker"]
    assert role["instances"] == 1
    assert role.keys() == {"instances", "dockerImage", "resourcePerInstance", "commands"}
    assert document["extras"] == {
        "strictCallbacks": True,
        "onPreemption": {"time": "30s", "commands": ["echo 0.10"]},
        "submitFrom": "pai-runtime",
    }
    assert "deployments" not in document
