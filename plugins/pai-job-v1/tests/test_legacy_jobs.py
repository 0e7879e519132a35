"""Jobs of version 1, the JSON of before: taken as they are, and checked in their own words."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_document.document import MAX_NODES
from pai_document.problems import InvalidInput, Problem, errors
from pai_job_v1.names import identifiers, job_name
from pai_plugin_kit import conformance
from pai_runtime.job.model import Job
from pai_task.names import framework_name
from tests.job_harness import load_file, planned, validated
from tests.legacy_jobs import ABSENT, legacy_job, port, role, written
from tests.support import JOBS, cli, cli_each, job, write_job

test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance("job_v1"))

SAMPLES = sorted((JOBS / "legacy").glob("*.json"))


def loaded(folder: Path, document: Mapping[str, Any]) -> Job:
    found, problems = load_file(written(folder, document))
    assert not errors(problems)
    return found


def problems_of(folder: Path, document: Mapping[str, Any]) -> tuple[Problem, ...]:
    return validated(written(folder, document))


def codes(problems: Sequence[Problem], severity: str = "error") -> list[tuple[str, str]]:
    return [(each.code, each.field) for each in problems if each.severity == severity]


def commands(folder: Path, document: Mapping[str, Any]) -> list[str]:
    return loaded(folder, document).uses["worker"].command.script.splitlines()


@pytest.mark.process
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_valid_and_said_once_to_be_of_version_1(path: Path) -> None:
    problems = validated(path)
    assert not errors(problems)
    (note,) = [each for each in problems if each.code == "version-1"]
    assert note.severity == "note"


@pytest.mark.process
def test_validate_plan_and_run_take_one_and_say_so(tmp_path: Path) -> None:
    path = written(tmp_path, legacy_job())
    lines = [("validate", path), ("plan", path), ("run", path, "--out", tmp_path / "run")]
    for done in (*cli_each(*lines[:2]), cli(*lines[2])):
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if ": note: " in line and "version 1" in line]


@pytest.mark.process
def test_what_was_decided_to_no_harm_does_not_fail_a_strict_check(tmp_path: Path) -> None:
    sample = JOBS / "legacy/helloworld.json"
    harmful = written(tmp_path, legacy_job(authFile="hdfs://host/auth"))
    assert [done.returncode for done in cli_each(("validate", "--strict", sample, "--json"))] == [0]
    assert [done.returncode for done in cli_each(("validate", "--strict", harmful, "--json"))] == [1]


WRONG: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    (legacy_job(jobName=ABSENT), [("missing-field", "")]),
    (legacy_job(jobName="a b"), [("wrong-value", "jobName")]),
    (legacy_job(image=ABSENT), [("missing-field", "")]),
    (legacy_job(image=""), [("wrong-value", "image")]),
    (legacy_job(taskRoles=[]), [("wrong-value", "taskRoles")]),
    (legacy_job(taskRoles={"worker": {}}), [("wrong-type", "taskRoles")]),
    (legacy_job(retryCount=-3), [("wrong-value", "retryCount")]),
    (legacy_job(retryCount="many"), [("wrong-type", "retryCount")]),
    (legacy_job(role(cpuNumber="0")), [("wrong-value", "taskRoles[0].cpuNumber")]),
    (legacy_job(role(cpuNumber="2x")), [("wrong-type", "taskRoles[0].cpuNumber")]),
    (legacy_job(dataDir=1), [("wrong-type", "dataDir")]),
    (legacy_job(jobEnvs={"PAI_X": "1"}), [("wrong-name", "jobEnvs.PAI_X")]),
    (legacy_job(jobEnvs={"FC_X": "1"}), [("wrong-name", "jobEnvs.FC_X")]),
    (legacy_job(jobEnvs={"a-b": "1"}), [("wrong-name", "jobEnvs.a-b")]),
    (legacy_job(jobEnvs={"UID": "1"}), [("wrong-name", "jobEnvs.UID")]),
    (legacy_job(jobEnvs={"A": None}), [("wrong-type", "jobEnvs.A")]),
    (legacy_job(jobEnvs={"A": []}), [("wrong-type", "jobEnvs.A")]),
    (legacy_job(jobEnvs={"isDebug": "yes"}), [("wrong-type", "jobEnvs.isDebug")]),
    (legacy_job(extras=[]), [("wrong-type", "extras")]),
    (legacy_job(role(name="a b")), [("wrong-value", "taskRoles[0].name")]),
    (legacy_job(role(taskNumber=0)), [("wrong-value", "taskRoles[0].taskNumber")]),
    (legacy_job(role(cpuNumber=0)), [("wrong-value", "taskRoles[0].cpuNumber")]),
    (legacy_job(role(memoryMB=99)), [("wrong-value", "taskRoles[0].memoryMB")]),
    (legacy_job(role(gpuNumber=-1)), [("wrong-value", "taskRoles[0].gpuNumber")]),
    (legacy_job(role(command=" \n")), [("wrong-value", "taskRoles[0].command")]),
    (legacy_job(role(command=ABSENT)), [("missing-field", "taskRoles[0]")]),
    (legacy_job(role(minFailedTaskCount=0)), [("wrong-value", "taskRoles[0].minFailedTaskCount")]),
    (legacy_job(role(minSucceededTaskCount=0)), [("wrong-value", "taskRoles[0].minSucceededTaskCount")]),
    (legacy_job(role(), role()), [("duplicate-name", "taskRoles[1].name")]),
    (legacy_job(role(portList=[port("a b")])), [("wrong-value", "taskRoles[0].portList[0].label")]),
    (legacy_job(role(portList=[port(number=0)])), [("wrong-value", "taskRoles[0].portList[0].portNumber")]),
    (legacy_job(role(portList=[port(begin_at=-1)])), [("wrong-value", "taskRoles[0].portList[0].beginAt")]),
    (legacy_job(role(portList=[port(), port()])), [("duplicate-name", "taskRoles[0].portList[1].label")]),
]


@pytest.mark.process
@pytest.mark.parametrize(("document", "expected"), WRONG, ids=lambda each: str(each)[-60:])
def test_what_is_wrong_is_said_of_the_field_of_version_1(
    document: dict[str, Any], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert codes(problems_of(tmp_path, document)) == expected


@pytest.mark.process
def test_all_that_is_wrong_is_said_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text('{\n"jobName": "old",\n"retryCount": -3,\n"taskRoles": [{"name": "a"},\n7]}\n')
    found = errors(validated(path))
    assert {each.position.line for each in found if each.position} == {1, 3, 4, 5}
    assert len(found) == 4
    assert {each.code for each in found} == {"missing-field", "wrong-value", "wrong-type"}


@pytest.mark.process
@pytest.mark.parametrize("without", ["image", "taskRoles", "jobName"])
def test_a_broken_one_is_still_one_of_version_1(without: str, tmp_path: Path) -> None:
    problems = problems_of(tmp_path, legacy_job(**{without: ABSENT}))
    assert [each.code for each in problems] == ["version-1", "missing-field"]


def test_a_job_of_version_2_never_is_one(tmp_path: Path) -> None:
    document = {**job(), "jobName": "old"}
    problems = validated(write_job(tmp_path, document))
    assert codes(problems) == [("unknown-field", "jobName")]
    del document["protocolVersion"], document["jobName"]
    assert codes(validated(write_job(tmp_path, document))) == [("missing-field", "")]


@pytest.mark.process
def test_unknown_fields_are_told_once_and_misspelt_ones_with_the_right_word(tmp_path: Path) -> None:
    document = legacy_job(role(killAll=1), retryCuont=1, tmp={}, more=2)
    warnings = [each for each in problems_of(tmp_path, document) if each.severity == "warning"]
    misspelt, others = sorted(warnings, key=lambda each: each.suggestion is None)
    assert (misspelt.field, misspelt.suggestion) == ("retryCuont", "retryCount")
    assert all(name in others.message for name in ("killAll", "tmp", "more"))


@pytest.mark.process
def test_empty_texts_and_nulls_are_absent(tmp_path: Path) -> None:
    empty: dict[str, Any] = dict.fromkeys(("authFile", "dataDir", "codeDir", "virtualCluster", "gpuType"), "")
    found = loaded(tmp_path, legacy_job(**empty, outputDir=None, jobEnvs=None, extras=None, retryCount=None))
    assert [name for name, _ in found.prerequisites] == ["docker_image_0"]
    assert (found.virtual_cluster, found.retries) == ("default", 0)
    assert codes(problems_of(tmp_path, legacy_job(**empty)), "warning") == []


@pytest.mark.process
def test_every_field_gets_its_meaning(tmp_path: Path) -> None:
    worker = role(
        taskNumber=3,
        cpuNumber=4,
        memoryMB=2048,
        shmMB=128,
        gpuNumber=2,
        minFailedTaskCount=2,
        minSucceededTaskCount=1,
        portList=[port("web", 0, 2), port("grpc", 8800)],
    )
    fields = {"retryCount": 5, "virtualCluster": "vc", "extras": {"mine": [1]}, "gpuType": "K80"}
    found = loaded(tmp_path, legacy_job(worker, **fields))
    made = found.roles["worker"]
    assert (found.name, found.retries, found.virtual_cluster) == ("old", 5, "vc")
    assert (made.instances, made.cpu, made.memory_mb, made.shm_mb, made.gpu) == (3, 4, 2048, 128, 2)
    assert (made.min_failed, made.min_succeeded, made.ports) == (2, 1, {"web": 2, "grpc": 1})
    assert found.docker_images() == ["ubuntu"]
    assert found.first_ports
    assert found.first_ports.data == {"worker": {"grpc": 8800}}
    assert found.first_ports.above
    extras = found.first_ports.above.data
    assert extras["mine"] == [1]
    assert extras["hivedScheduler"] == {"taskRoles": {"worker": {"skuType": "K80", "skuNum": 2}}}


@pytest.mark.process
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (None, -1)),
        ({"minFailedTaskCount": None, "minSucceededTaskCount": None}, (-1, -1)),
        ({"minFailedTaskCount": 2, "minSucceededTaskCount": 2}, (2, 2)),
    ],
)
def test_null_and_absent_completion_counts_mean_what_version_1_says(
    fields: dict[str, Any], expected: tuple[int | None, int], tmp_path: Path
) -> None:
    made = loaded(tmp_path, legacy_job(role(taskNumber=2, **fields))).roles["worker"]
    assert (made.min_failed, made.min_succeeded) == expected


@pytest.mark.process
def test_numbers_have_the_defaults_of_the_platform(tmp_path: Path) -> None:
    fields = dict.fromkeys(("taskNumber", "cpuNumber", "memoryMB", "gpuNumber"), ABSENT)
    made = loaded(tmp_path, legacy_job(role(**fields, portList=[{"label": "web"}]))).roles["worker"]
    assert (made.instances, made.cpu, made.memory_mb, made.gpu) == (1, 1, 100, 0)
    assert made.ports == {"web": 1}


@pytest.mark.process
def test_numbers_may_be_written_as_strings(tmp_path: Path) -> None:
    numbers = {"taskNumber": "3", "cpuNumber": "4", "memoryMB": "2048", "gpuNumber": "2", "shmMB": "128"}
    counts = {"minFailedTaskCount": "2", "minSucceededTaskCount": "1"}
    ports = [{"label": "grpc", "beginAt": "8800", "portNumber": "2"}]
    found = loaded(tmp_path, legacy_job(role(**numbers, **counts, portList=ports), retryCount="5"))
    made = found.roles["worker"]
    assert (made.instances, made.cpu, made.memory_mb, made.gpu, made.shm_mb) == (3, 4, 2048, 2, 128)
    assert (made.min_failed, made.min_succeeded, made.ports, found.retries) == (2, 1, {"grpc": 2}, 5)
    assert found.first_ports
    assert found.first_ports.data == {"worker": {"grpc": 8800}}


@pytest.mark.process
@pytest.mark.parametrize("count", [-1, -2, "-2"])
def test_retries_without_limit_are_none_and_a_warning(tmp_path: Path, count: Any) -> None:
    document = legacy_job(retryCount=count)
    assert loaded(tmp_path, document).retries == 0
    assert codes(problems_of(tmp_path, document), "warning") == [("decided", "retryCount")]


COMMENTED = """\
// a job of mine
{
  "jobName": "old", /* its name
  "jobName": "other" */ "image": "hub//ubuntu", // "image": "debian"
  "jobEnvs": {"A": "/* no comment // \\" */"},
  "taskRoles": [{"name": "worker", "command": "echo // $A"}] //
}
/* the end */
"""


@pytest.mark.process
def test_comments_are_left_out_of_the_json_and_of_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(COMMENTED)
    found, problems = load_file(path)
    assert not errors(problems)
    assert (found.name, found.docker_images()) == ("old", ["hub//ubuntu"])
    script = found.uses["worker"].command.script
    assert "export A='/* no comment // \" */'\n" in script
    assert "echo // $A\n" in script
    (note,) = [each for each in problems if each.code == "comments"]
    assert (note.severity, note.position and note.position.line) == ("note", 1)
    path.write_text(COMMENTED.replace("jobEnvs", "jobEnv"))
    (warning,) = [each for each in validated(path) if each.severity == "warning"]
    assert warning.position
    assert (warning.position.line, warning.position.column) == (5, 3)


@pytest.mark.parametrize(
    "text", ['{"a": "b" // c', '{ /* "a": 1', '{"a": ' + '"\\' * 500_000, "{" + "/*" * 500_000]
)
def test_what_is_no_json_without_comments_either_is_read_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        load_file(path)


SECRET = {"DB_PASSWORD": 'it\'s $x `y` "z"\\', "API_TOKEN": "t0ken", "PIN_KEY": 1234}


@pytest.mark.process
def test_what_is_named_like_a_password_becomes_a_secret(tmp_path: Path) -> None:
    show = 'printf \'%s|\' "$DB_PASSWORD" "$API_TOKEN" "$PIN_KEY" "$USER_NAME" > $SHOWN'
    variables = {**SECRET, "USER_NAME": "me", "EMPTY_TOKEN": "", "SHOWN": "shown", "IS_KEY": True}
    path = written(tmp_path, legacy_job(role(command=show), jobEnvs=variables))
    told = [each for each in validated(path) if each.code == "secret" and each.severity == "note"]
    assert [each.field for each in told] == [f"jobEnvs.{name}" for name in SECRET]
    (planned_now,) = cli_each(("plan", path, "--json"))
    assert "t0ken" not in planned_now.stdout + planned_now.stderr
    assert cli("run", path, "--out", tmp_path / "run").returncode == 0
    shown = (tmp_path / "run/worker/0/work/shown").read_text()
    assert shown == "".join(f"{value}|" for value in (*SECRET.values(), "me"))


@pytest.mark.process
def test_shared_memory_is_64_mb_by_default(tmp_path: Path) -> None:
    assert loaded(tmp_path, legacy_job()).roles["worker"].shm_mb == 64


@pytest.mark.process
def test_variables_are_exported_as_json_writes_them_whatever_is_in_them(tmp_path: Path) -> None:
    variables = {"TEXT": 'it\'s $HOME `x` \\ "y"\n2', "COUNT": 3, "RATE": 0.5, "ON": True, "OFF": False}
    show = "printf '%s|' \"$TEXT\" $COUNT $RATE $ON $OFF > $SHOWN"
    path = written(tmp_path, legacy_job(role(command=show), jobEnvs={**variables, "SHOWN": "shown"}))
    assert cli("run", path, "--out", tmp_path / "run").returncode == 0
    shown = (tmp_path / "run/worker/0/work/shown").read_text()
    assert shown == f"{variables['TEXT']}|3|0.5|true|false|"


@pytest.mark.process
def test_a_job_for_debugging_is_held_when_it_fails(tmp_path: Path) -> None:
    document = legacy_job(jobEnvs={"isDebug": True})
    assert loaded(tmp_path, document).hold == 24 * 3600
    assert "export isDebug='true'" in commands(tmp_path, document)
    assert loaded(tmp_path, legacy_job(jobEnvs={"isDebug": False})).hold == 0


@pytest.mark.process
def test_folders_are_variables_and_prerequisites_and_nothing_is_fetched(tmp_path: Path) -> None:
    document = legacy_job(
        role(command="true"),
        dataDir="${PAI_DEFAULT_FS_URI}/$data",
        outputDir="hdfs://host:9000/out",
        codeDir="hdfs://host:9000/code",
        authFile="hdfs://host:9000/auth",
    )
    found = loaded(tmp_path, document)
    assert commands(tmp_path, document) == [
        "export PAI_DATA_DIR=\"$PAI_DEFAULT_FS_URI\"'/$data'",
        "export PAI_OUTPUT_DIR='hdfs://host:9000/out'",
        "export PAI_CODE_DIR='hdfs://host:9000/code'",
        "true",
    ]
    uris = {key: each.value.data["uri"] for key, each in found.prerequisites.items()}
    assert uris["data", "data"] == document["dataDir"]
    assert uris["output", "output"] == document["outputDir"]
    refers = {key: name.text for key, name in found.roles["worker"].refers.items()}
    assert refers == {"$data": "data", "$output": "output"}
    fields = [field for _, field in codes(problems_of(tmp_path, document), "warning")]
    assert sorted(fields) == ["authFile", "codeDir", "dataDir", "outputDir"]


@pytest.mark.process
def test_the_output_has_a_place_by_default_named_after_the_job_as_it_was(tmp_path: Path) -> None:
    made = commands(tmp_path, legacy_job(jobName="a.b~c"))
    assert made[0] == 'export PAI_OUTPUT_DIR="$PAI_DEFAULT_FS_URI/Output/a.b~c"'


@pytest.mark.process
def test_code_beside_the_job_file_is_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.sh").write_text("echo trained > result")
    path = written(tmp_path, legacy_job(role(command='sh "$PAI_CODE_DIR/train.sh"'), codeDir="code"))
    done = cli("run", path, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/worker/0/work/result").read_text() == "trained\n"


@pytest.mark.process
@pytest.mark.parametrize("code", ["nowhere", "/", "x" * 5000])
def test_code_that_is_no_directory_beside_the_job_file_is_told(code: str, tmp_path: Path) -> None:
    problems = problems_of(tmp_path, legacy_job(codeDir=code))
    assert codes(problems, "warning") == [("no-such-directory", "codeDir")]


@pytest.mark.process
def test_what_looks_like_a_reference_of_version_2_is_text(tmp_path: Path) -> None:
    text = "<% $secrets.x %> <<%$parameters.y%> <% this.z %> <%= erb %>"
    document = legacy_job(role(command=f"echo '{text}' # <% $parameters.z %>"), jobEnvs={"A": text})
    made = commands(tmp_path, document)
    assert made[-2:] == [f"export A='{text}'", f"echo '{text}' # <% $parameters.z %>"]


@pytest.mark.process
def test_what_extras_say_themselves_takes_precedence(tmp_path: Path) -> None:
    extras = {"holdOnFailure": "5m", "hivedScheduler": {}}
    document = legacy_job(role(gpuNumber=1), extras=extras, gpuType="K80", jobEnvs={"isDebug": True})
    assert loaded(tmp_path, document).hold == 300
    problems = problems_of(tmp_path, document)
    assert {"extras.holdOnFailure", "extras.hivedScheduler"} <= {each.field for each in problems}


@pytest.mark.process
def test_later_problems_point_into_the_json_file(tmp_path: Path) -> None:
    path = written(tmp_path, legacy_job(role(portList=[port("a", 8800, 2), port("b", 8801)])))
    (problem,) = errors(validated(path))
    assert problem.code == "port-conflict"
    assert problem.position
    line = path.read_text().splitlines()[problem.position.line - 1]
    assert line.strip() == '"beginAt": 8801,'


@pytest.mark.process
def test_variables_that_would_make_the_job_too_large_are_refused(tmp_path: Path) -> None:
    roles = [role(name=f"r{number}") for number in range(400)]
    variables = {f"V{number}": "" for number in range(MAX_NODES // 400 + 1)}
    problems = problems_of(tmp_path, legacy_job(*roles, jobEnvs=variables))
    assert codes(problems) == [("too-many-values", "jobEnvs")]


NAMES = [
    (["worker", "ps_1"], ["worker", "ps_1"]),
    (["a.b"], ["a_b"]),
    (["a.b", "a_b"], ["a_b_2", "a_b"]),
    (["a.b", "a~b", "a_b_2"], ["a_b", "a_b_3", "a_b_2"]),
    (["ab", "a_b"], ["ab", "a_b_2"]),
    (["1st"], ["role_1st"]),
    (["~", "_"], ["role__", "role___2"]),
]


@pytest.mark.parametrize(("given", "expected"), NAMES)
def test_names_that_version_2_does_not_allow_are_replaced(given: list[str], expected: list[str]) -> None:
    found = identifiers(given, framework_name, "role")
    assert [found[name] for name in given] == expected


_NAME = st.from_regex(r"[A-Za-z0-9._~]{1,6}", fullmatch=True)


@settings(max_examples=50)
@given(st.lists(_NAME, unique=True, max_size=8))
def test_names_that_replace_others_are_allowed_and_differ_on_a_cluster(names: list[str]) -> None:
    found = identifiers(names, framework_name, "role")
    assert found.keys() == set(names)
    assert len({framework_name(each) for each in found.values()} - {""}) == len(names)
    assert all(each.isidentifier() and each.isascii() for each in found.values())


def test_names_of_any_number_and_length_are_replaced_in_no_time() -> None:
    names = [f"{number:013b}".replace("0", ".").replace("1", "~") for number in range(8192)]
    assert len(set(identifiers(names, framework_name, "role").values())) == 8192
    assert len(next(iter(identifiers(["." * 255], framework_name, "role").values()))) <= 255


@pytest.mark.process
def test_a_new_name_is_told_with_the_variables_that_it_changes(tmp_path: Path) -> None:
    document = legacy_job(role(name="ps.1", portList=[port("a.b")]), jobName="x.y")
    found = loaded(tmp_path, document)
    assert (found.name, list(found.roles), list(found.roles["ps_1"].ports)) == ("x_y", ["ps_1"], ["a_b"])
    told = {field for code, field in codes(problems_of(tmp_path, document), "warning") if code == "renamed"}
    assert told == {"jobName", "taskRoles[0].name", "taskRoles[0].portList[0].label"}
    assert job_name("a-b_c") == "a-b_c"


VARIABLES = {
    "PAI_JOB_NAME": "old",
    "PAI_USER_NAME": None,
    "PAI_DEFAULT_FS_URI": "",
    "PAI_TASK_ROLE_COUNT": "2",
    "PAI_TASK_ROLE_LIST": "main,work",
    "PAI_TASK_ROLE_TASK_COUNT_main": "1",
    "PAI_TASK_ROLE_TASK_COUNT_work": "2",
    "PAI_HOST_IP_work_1": "127.0.0.1",
    "PAI_PORT_LIST_main_0_jupyter": None,
    "PAI_PORT_LIST_work_1_grpc": None,
    "PAI_CONTAINER_HOST_jupyter_PORT_LIST": None,
    "PAI_RESOURCE_main": "0,1,100,64",
    "PAI_RESOURCE_work": "0,2,200,128",
    "PAI_MIN_FAILED_TASK_COUNT_main": "1",
    "PAI_MIN_SUCCEEDED_TASK_COUNT_work": "2",
    "PAI_CURRENT_TASK_ROLE_NAME": "main",
    "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
    "PAI_OUTPUT_DIR": "/Output/old",
}
"""All of the table of version 1, for the task main/0; None: any value but none."""


@pytest.mark.process
def test_every_variable_of_version_1_is_there_when_the_command_runs(tmp_path: Path) -> None:
    main = role(name="main", command="env -0 > seen", portList=[port("jupyter", number=2)])
    work = role(
        name="work",
        taskNumber=2,
        cpuNumber=2,
        memoryMB=200,
        shmMB=128,
        minSucceededTaskCount=2,
        portList=[port("grpc")],
    )
    done = cli("run", written(tmp_path, legacy_job(main, work)), "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    seen = (tmp_path / "run/main/0/work/seen").read_text().split("\0")
    environment = dict(each.split("=", 1) for each in seen if each)
    for name, value in VARIABLES.items():
        assert environment[name] == (environment[name] or "none" if value is None else value), name
    assert environment["PAI_CONTAINER_HOST_jupyter_PORT_LIST"] == environment["PAI_PORT_LIST_main_0_jupyter"]
    assert len(environment["PAI_PORT_LIST_main_0_jupyter"].split(",")) == 2


@pytest.mark.process
def test_a_plan_of_one_is_made_for_every_task(tmp_path: Path) -> None:
    path = written(tmp_path, legacy_job(role(taskNumber=3)))
    assert list(planned(path)) == [("worker", 0), ("worker", 1), ("worker", 2)]
    with pytest.raises(InvalidInput):
        planned(written(tmp_path, legacy_job(image="")))


@pytest.mark.process
def test_one_in_yaml_is_taken_as_well(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(json.dumps(legacy_job()).replace('{"jobName": "old", ', "{jobName: old, # mine\n "))
    assert not errors(validated(path))
