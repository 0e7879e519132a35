"""`pai-runtime analyze` and `pai-runtime exit-codes`, and commands of plugins at all."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_failure_analysis import evidence
from pai_failure_analysis.rules import shipped_rules
from pai_runtime import cli as command_line
from pai_runtime.host.policies_in_force import POLICY_VARIABLE
from tests.plugin_factory import Site, policy_rule, write_policy
from tests.support import PROGRAM, cli

SPEC = [
    {
        "containerExitCode": 10,
        "phrase": "NoLicence",
        "behavior": "TRANSIENT",
        "reason": "The simulator has found no licence.",
        "solution": ["Ask for one.", "Wait for one."],
        "patterns": [{"userLogRegex": r"SimError: [^\n]*\n[^\n]*licence"}],
    },
    {
        "code": 11,
        "phrase": "Peer",
        "becauseOfPeer": True,
        "patterns": [{"exitCode": 5}, {"signal": 9, "exitCode": 137}],
    },
    {"code": 12, "phrase": "Both", "patterns": [{"userLogRegex": "us+er", "platformLogRegex": "plat+form"}]},
]
LOG = "".join(f"line {n}\n" for n in range(1, 10)) + "SimError: \x1b[31mcode 7\n  no licence\nafter\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, without a policy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(POLICY_VARIABLE, raising=False)


@pytest.fixture
def spec(tmp_path: Path) -> str:
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    return "spec.yaml"


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *args: str
) -> tuple[int, str, str]:
    """The command in this process: exit status, standard output, standard error."""
    monkeypatch.setattr("sys.argv", ["pai-runtime", *args])
    try:
        status = command_line.main()
    except SystemExit as error:
        status = int(str(error.code))
    return status, *capsys.readouterr()


@pytest.fixture
def analyze(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda *args: run(capsys, monkeypatch, "analyze", *args)


@pytest.mark.process
def test_a_failure_is_explained_with_the_lines_around_what_was_found(tmp_path: Path, spec: str) -> None:
    (tmp_path / "train.log").write_text(LOG)
    done = cli("analyze", "--spec", spec, "train.log", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == """\
10 NoLicence: a retry may help

Why: The simulator has found no licence.
What to do:
  - Ask for one.
  - Wait for one.

train.log:10:
       7 | line 7
       8 | line 8
       9 | line 9
>     10 | SimError: code 7
>     11 |   no licence
      12 | after

Found by rule NoLicence (entry 1 of spec.yaml): userLogRegex SimError: [^\\n]*\\n[^\\n]*licence
"""
    )


@pytest.mark.process
def test_the_shipped_rules_explain_a_log_on_standard_input() -> None:
    done = subprocess.run(
        [PROGRAM, "analyze", "-"],
        input=b"\xff\n"
        + b"x\n" * 5
        + b"Traceback (most recent call last):\nModuleNotFoundError: No module named 'q'\n",
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"standard input:8:" in done.stdout
    assert b">      8 | ModuleNotFoundError" in done.stdout


def test_a_script_that_is_missing_is_explained_by_how_code_comes_along(tmp_path: Path, analyze: Any) -> None:
    (tmp_path / "log").write_text(
        "python3: can't open file '/w/train.py': [Errno 2] No such file or directory\n"
    )
    status, out, _ = analyze("log")
    assert status == 0
    assert "extras.code" in out
    assert "--code" in out


def test_as_json_the_same_is_data(tmp_path: Path, spec: str, analyze: Any) -> None:
    (tmp_path / "train.log").write_text(LOG)
    status, out, _ = analyze("--json", "--spec", spec, "train.log")
    assert status == 0
    document = json.loads(out)
    assert document.pop("matches") == [
        {
            "log": "train.log",
            "line": 10,
            "text": "SimError: \x1b[31mcode 7\n  no licence",
            "context": [
                *({"line": n, "matched": False, "text": f"line {n}"} for n in (7, 8, 9)),
                {"line": 10, "matched": True, "text": "SimError: code 7"},
                {"line": 11, "matched": True, "text": "  no licence"},
                {"line": 12, "matched": False, "text": "after"},
            ],
        }
    ]
    assert document == {
        "code": 10,
        "phrase": "NoLicence",
        "behavior": "TRANSIENT",
        "reason": "The simulator has found no licence.",
        "solution": ["Ask for one.", "Wait for one."],
        "becauseOfPeer": False,
        "trigger": "rule NoLicence (entry 1 of spec.yaml): userLogRegex SimError: [^\\n]*\\n[^\\n]*licence",
    }


def test_where_no_rule_fits_that_is_said_and_the_exit_status_is_1(tmp_path: Path, analyze: Any) -> None:
    (tmp_path / "log").write_text("epoch 1: all is well\n")
    status, said, _ = analyze("log", "--exit-code", "3")
    assert (status, said.splitlines()[0]) == (1, "No rule matches exit code 3 and these logs.")
    assert analyze("log", "--exit-code", "3", "--json") == (1, "null\n", "")


def test_where_no_rule_fits_the_end_of_the_log_is_shown_with_a_guess(tmp_path: Path, analyze: Any) -> None:
    steps = "".join(f"step {number}\n" for number in range(20))
    (tmp_path / "log").write_text(f"{steps}cannot reach the licence server\n{steps}")
    _, said, _ = analyze("log")
    shown = [line for line in said.splitlines() if " | " in line]
    assert shown[0] == "?     21 | cannot reach the licence server"
    assert shown[1:] == [f"      {number + 22} | step {number}" for number in range(10, 20)]
    (tmp_path / "log").write_text(steps)
    _, said, _ = analyze("log")
    assert "?" not in said


def test_where_no_rule_fits_it_is_said_which_failure_the_log_is_like(tmp_path: Path, analyze: Any) -> None:
    (tmp_path / "log").write_text("puller: the name server has no address for host reg.example\n")
    status, said, _ = analyze("log")
    assert status == 1
    assert "DnsFailure" in said
    assert "\n  - " in said


@pytest.mark.parametrize(
    ("args", "phrase"),
    [
        (["--exit-code", "5"], "Peer"),
        (["--signal", "9"], "Peer"),
        (["--signal", "KILL"], "Peer"),
        (["--signal", "sigkill"], "Peer"),
        (["--signal", "KILL", "--exit-code", "5"], "Peer"),
    ],
)
def test_exit_code_and_signal_are_evidence(
    args: list[str], phrase: str, tmp_path: Path, spec: str, analyze: Any
) -> None:
    (tmp_path / "log").touch()
    status, out, _ = analyze(*args, "--spec", spec, "log")
    assert (status, out.split()[1]) == (0, f"{phrase}:")
    assert "Another task failed first: look there." in out
    assert "Why: the rule does not say" in out


@pytest.mark.parametrize(
    "args",
    [
        ["--signal", "NONE", "x"],
        ["--signal", "999", "x"],
        ["--exit-code", "x", "x"],
        ["--exit-code", "-1", "x"],
        ["--exit-code", "256", "x"],
    ],
)
def test_wrong_arguments_are_told(args: list[str], analyze: Any) -> None:
    status, _, err = analyze(*args)
    assert status == 2
    assert err.splitlines()[-1].startswith("pai-runtime analyze: ")
    assert "Traceback" not in err


def test_a_log_may_have_a_name_that_is_no_text(tmp_path: Path, spec: str, analyze: Any) -> None:
    (tmp_path / os.fsdecode(b"a\xff\x1b[31mb")).write_text(LOG)
    status, out, _ = analyze("--spec", spec, os.fsdecode(b"a\xff\x1b[31mb"))
    assert (status, "\na\\udcff\\x1b[31mb:10:\n" in out) == (0, True)


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path, analyze: Any) -> None:
    (tmp_path / "log").touch()
    for name, why in (("none.log", "No such file or directory"), (str(tmp_path), "Is a directory")):
        assert analyze("log", name) == (2, "", f"error: {name} cannot be read: {why}\n")


def test_several_logs_are_one_text_and_each_match_is_in_its_own(
    tmp_path: Path, spec: str, analyze: Any
) -> None:
    (tmp_path / "a").write_text("1\n2\nplatform")
    (tmp_path / "b").write_text("user\nlast")
    status, out, _ = analyze("--spec", spec, "a", "b")
    assert status == 0
    assert "\nb:1:\n>      1 | user\n       2 | last\n" in out
    assert "\na:3:\n       1 | 1\n       2 | 2\n>      3 | platform\n" in out
    assert "last" not in out.partition("a:3:")[2]


def test_what_is_wrong_with_a_spec_is_told_with_its_place_and_the_rest_of_it_holds(
    tmp_path: Path, analyze: Any
) -> None:
    (tmp_path / "spec.yaml").write_text(
        "- code: 9\n  phrase: Bad\n  patterns:\n    - userLogRegex: 'a('\n    - exitCode: 1\n- 5\n"
    )
    (tmp_path / "log").touch()
    status, out, err = analyze("--spec", "spec.yaml", "log")
    assert (status, out.split()[:2]) == (0, ["9", "Bad:"])
    first, second = err.splitlines()
    assert first.startswith(
        "warning: spec.yaml:4:21: entry 1 (Bad): patterns[0].userLogRegex: invalid RE2 expression 'a('"
    )
    assert first.endswith("expression 'a(': missing ): a(; the pattern is ignored")
    assert second == "warning: spec.yaml:6:3: entry 2: expected a mapping, found 5; the entry is ignored"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "warning: spec.yaml: cannot be read: No such file or directory"),
        ("a: [", "warning: spec.yaml:1:4: '[' is not closed"),
        ("a: b", "warning: spec.yaml:1:1: expected a list of entries, found a mapping"),
    ],
)
def test_a_spec_that_is_none_is_told_and_the_shipped_rules_hold(
    content: str | None, told: str, tmp_path: Path, analyze: Any
) -> None:
    if content:
        (tmp_path / "spec.yaml").write_text(f"{content}\n")
    (tmp_path / "log").write_text("ModuleNotFoundError: No module named 'q'\n")
    status, out, err = analyze("--spec", "spec.yaml", "log")
    assert status == 0
    assert out
    assert err.startswith(told)


OPERATORS_SPEC = Path(__file__).parent / "exit_specs" / "k8s-job-exit-spec.yaml"


def test_what_a_runtime_cannot_use_of_the_operators_spec_is_told_with_its_place(
    tmp_path: Path, analyze: Any
) -> None:
    (tmp_path / "spec.yaml").write_text(OPERATORS_SPEC.read_text())
    (tmp_path / "log").write_text("train.sh: 3: pythn: command not found\n")
    status, out, err = analyze("--exit-code", "127", "--spec", "spec.yaml", "log")
    assert (status, out.split()[:2]) == (0, ["220", "UserCommandInvalid:"])
    assert "Found by rule UserCommandInvalid (entry 4 of spec.yaml)" in out
    *warnings, note = err.splitlines()
    lines = OPERATORS_SPEC.read_text().splitlines()
    told = [
        re.fullmatch(r"warning: spec.yaml:(\d+):\d+: entry (\d+)(?: \(\w+\))?: (\S+): .*", each)
        for each in warnings
    ]
    assert [each and (int(each[2]), each[3], lines[int(each[1]) - 1].strip()) for each in told] == [
        (4, "pattern.controllerPodPatterns", "- containers:"),
        (
            4,
            "pattern.runtimeContainerPatterns[1].userLogRegex",
            '- userLogRegex: "(?i)ran out of (memory"',
        ),
        (5, "pattern.runtimeContainerPatterns", "- exitCode: 1"),
        (7, "code", '- code: "many"'),
        (8, "pattern", "runtimeContainerPattern:"),
    ]
    assert note.endswith("entries that are only for the platform's controller: Succeeded, PodEvicted")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("5", "1:7: expected a list of entries"),
        ("", "1:6: expected a list of entries"),
        ("[5]", "1:8: entry 1: expected a mapping"),
        ("[{code: 3, pattern: [x]}]", "1:27: entry 1 (3): pattern: expected a mapping"),
        (
            "[{code: 3, pattern: {runtimeContainerPatterns: x}}]",
            "1:54: entry 1 (ExitCode3): pattern.runtimeContainerPatterns: expected a list",
        ),
        (
            "[{code: 3, pattern: {runtimeContainerPatterns: [{exitcode: 3}]}}]",
            "1:55: entry 1 (ExitCode3): pattern.runtimeContainerPatterns[0]: unknown field",
        ),
        ("[{code: [], pattern: {runtimeContainerPatterns: [{}]}}]", "1:15: entry 1: code: expected a whole"),
        ("[{phrase: {}, code: true, pattern: {runtimeContainerPatterns: [{}]}}]", "1:27: entry 1: code: "),
    ],
)
def test_what_is_no_operators_spec_is_told_with_its_place(
    spec: str, told: str, tmp_path: Path, analyze: Any
) -> None:
    (tmp_path / "spec.yaml").write_text(f"spec: {spec}\n")
    (tmp_path / "log").write_text("all is well")
    status, _, err = analyze("--spec", "spec.yaml", "log")
    assert status == 1
    assert err.startswith(f"warning: spec.yaml:{told}")
    assert len(err.splitlines()) == 1


def test_control_characters_of_logs_and_specs_do_not_reach_the_terminal(tmp_path: Path, analyze: Any) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x9b2J\x00\x08"
    rule = {"code": 9, "phrase": "Bad", "reason": "\x1b[2Jred", "patterns": [{"userLogRegex": "bad.*"}]}
    (tmp_path / "spec.yaml").write_text(json.dumps([rule]))
    (tmp_path / "log").write_text(f"{evil}before\nbad{evil}end\n50%\r100%\n")
    status, out, _ = analyze("--spec", "spec.yaml", "log")
    assert status == 0
    assert not [character for character in out if not character.isprintable() and character != "\n"]
    for shown in ("before", "bad2Jend", "100%", "red"):
        assert shown in out


def test_of_a_very_long_line_what_is_around_the_match_is_shown(
    tmp_path: Path, spec: str, analyze: Any
) -> None:
    (tmp_path / "log").write_bytes(b"a" * 3_000_000 + b" user platform " + b"b" * 1_000_000)
    status, out, _ = analyze("--spec", spec, "log")
    assert status == 0
    assert f"|\u0020…{'a' * 59} user platform bbb" in out
    assert len(out) < 1500


def test_of_a_match_over_very_many_lines_some_are_shown(tmp_path: Path, analyze: Any) -> None:
    rule = {"code": 9, "phrase": "All", "patterns": [{"userLogRegex": "(?s)line 5.*"}]}
    (tmp_path / "spec.yaml").write_text(json.dumps([rule]))
    (tmp_path / "log").write_text("".join(f"line {n}\n" for n in range(1, 1000)))
    _, out, _ = analyze("--spec", "spec.yaml", "log")
    assert "       2 | line 2\n       3 | line 3\n       4 | line 4\n>      5 | line 5\n" in out
    assert ">     14 | line 14\n\n" in out


def test_the_end_of_a_log_is_searched_and_its_lines_are_counted_from_the_beginning(
    tmp_path: Path, spec: str, analyze: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pai_failure_analysis.searched_logs.LOG_BYTES", 30)
    assert evidence.LOG_BYTES == 10 * 1024 * 1024
    (tmp_path / "log").write_text("user platform\n" + "\n" * 100 + "user platform x\nend\n")
    _, out, _ = analyze("--spec", spec, "log")
    assert "log:102:" in out
    (tmp_path / "log").write_text("user platform\n" + "\n" * 100)
    assert analyze("--spec", spec, "--exit-code", "99", "log")[0] == 1


@pytest.mark.process
def test_the_table_of_exit_codes_has_every_rule(tmp_path: Path) -> None:
    done = cli("exit-codes", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
    assert [int(row[0]) for row in rows] == sorted(rule.code for rule in shipped_rules())
    assert {tuple(row[1:]) for row in rows} == {(r.phrase, r.behavior, r.reason) for r in shipped_rules()}


def test_an_exit_code_in_full_has_reason_and_solution_of_each_rule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [rule for rule in shipped_rules() if rule.code == 226]
    status, out, _ = run(capsys, monkeypatch, "exit-codes", "226")
    assert status == 0
    for rule in rules:
        assert f"226 {rule.phrase} ({rule.behavior})\n  {rule.reason}\n" in out
        for line in rule.solution:
            assert f"  - {line}\n" in out
    status, out, _ = run(capsys, monkeypatch, "exit-codes", "226", "--json")
    assert [each["phrase"] for each in json.loads(out)] == [rule.phrase for rule in rules]
    assert json.loads(out)[0].keys() == {"code", "phrase", "behavior", "reason", "solution"}


def test_a_code_that_no_rule_gives_is_the_commands_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = (1, "No rule gives exit code 77: it is the command's own, or the runtime's.\n", "")
    assert run(capsys, monkeypatch, "exit-codes", "77") == expected
    assert run(capsys, monkeypatch, "exit-codes", "77", "--json") == (1, "[]\n", "")


@pytest.mark.parametrize("name", ["CudaOutOfMemory", "cudaoutofmemory"])
def test_a_failure_is_explained_by_its_name(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = run(capsys, monkeypatch, "exit-codes", name)
    assert (status, out.splitlines()[0]) == (0, "226 CudaOutOfMemory (PERMANENT)")
    _, out, _ = run(capsys, monkeypatch, "exit-codes", name, "--json")
    assert [each["phrase"] for each in json.loads(out)] == ["CudaOutOfMemory"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CudaOutOfMemry", "CudaOutOfMemory"),
        ("cudnnerr", "CudnnError"),
        ("OutOfMemory", "HostOutOfMemory"),
        ("qqqqqqq", None),
        ("226\u0662", None),
        ("\x1b[2J", None),
    ],
)
def test_of_a_name_that_no_rule_has_similar_ones_are_told(
    name: str, meant: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, err = run(capsys, monkeypatch, "exit-codes", name)
    assert (status, err) == (1, "")
    assert (meant in out) if meant else ("did you mean" not in out)
    assert "\x1b" not in out


@pytest.mark.process
def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [PROGRAM, "exit-codes"], stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


COMMAND = {"name": "greet", "module": "org_greet.command", "summary": "say hello"}
GREET = """
def add_arguments(parser):
    parser.add_argument("name")
def main(args, output):
    output.write_lines([f"hello {args.name}"])
    return 7
"""


def greet(site: Site, code: str = GREET, **fields: Any) -> Any:
    return site.add("org.greet", files={"{package}/command.py": code}, **{"commands": [COMMAND], **fields})


@pytest.mark.process
@pytest.mark.parametrize(
    ("fields", "code", "told"),
    [
        ({"api": 7}, GREET, "there is no command greet"),
        (
            {},
            "import no_such_module",
            "error: plugin org.greet (org-greet 1.0), command greet: ModuleNotFound",
        ),
        ({}, "def add_arguments(parser):\n    1 / 0", "ZeroDivisionError: division by zero"),
        (
            {},
            GREET.partition("def main")[0] + "def main(args, output):\n    1 / 0",
            "error: plugin org.greet (org-greet 1.0), command greet: ZeroDivisionError",
        ),
        (
            {},
            GREET.partition("def main")[0] + "def main(args, output):\n    raise SystemExit(0)",
            "error: plugin org.greet (org-greet 1.0), command greet: called sys.exit(0)",
        ),
        (
            {},
            "from pai_runtime.runs.errors import ClusterError\n"
            + GREET.partition("def main")[0]
            + "def main(args, output):\n    raise ClusterError('no answer')",
            "pai-runtime: no answer",
        ),
    ],
)
def test_a_command_of_a_plugin_that_is_broken_is_told(
    fields: Mapping[str, Any], code: str, told: str, tmp_path: Path
) -> None:
    site = Site(tmp_path)
    greet(site, code, **fields)
    done = site.cli("greet", "you")
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_under_a_policy_a_command_is_there_if_its_plugin_is_allowed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    policy = write_policy(tmp_path, policy_rule(greet(site)))
    assert site.cli("greet", "you", env={"PAI_RUNTIME_POLICY": str(policy)}).stdout == "hello you\n"


@pytest.mark.process
def test_two_plugins_with_one_command_do_not_hide_one_another_unseen(tmp_path: Path) -> None:
    site = Site(tmp_path)
    greet(site)
    site.add(
        "org.again",
        files={"{package}/command.py": GREET},
        commands=[{**COMMAND, "module": "org_again.command"}],
    )
    assert site.cli("greet", "you").stdout == "hello you\n"
    assert site.imported == {"org_again"}
