"""The shell around scripts: what carries from step to step, in every shell that an image may have."""

import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pai_task.launch import LaunchOptions
from pai_task.plan import Step
from pai_task.supervisor.exec_form import words
from pai_task.supervisor.shell import exported
from tests.task_harness import TaskRun, plan, run_task, shell

Run = Callable[..., TaskRun]

_SHELLS = [
    "bash",
    pytest.param("dash", marks=pytest.mark.needs("dash")),
    pytest.param("busybox", marks=pytest.mark.needs("busybox-static")),
]


@pytest.fixture(params=_SHELLS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs start steps of one use each, then a command, where the image has only this shell."""
    name: str = request.param
    image = tmp_path / "image"
    image.mkdir()
    (image / ("bash" if name == "bash" else "sh")).symlink_to(str(shutil.which(name)))
    for tool in ("cat", "env", "sleep"):
        (image / tool).symlink_to(str(shutil.which("busybox" if name == "busybox" else tool)))

    def run(command: str, *starts: str, exits: str = "", nounset: bool = False, **more: Any) -> TaskRun:
        steps = [shell("taskStarts", number, script) for number, script in enumerate(starts)]
        steps += [shell("taskExits", 0, exits)] if exits else []
        env = {"PATH": str(image), **more.pop("env", {})}
        whole = plan(tmp_path / "task", command, steps)
        whole = replace(whole, command=replace(whole.command, nounset=nounset))
        return run_task(whole, env=env, **more)

    return run


@pytest.mark.process
def test_exports_reach_later_steps_the_command_and_the_exit_callbacks(run: Run) -> None:
    task = run(
        'echo "$A$B"',
        "export A=1",
        "export B=$A$A",
        exits='echo "exit $A $B"; echo "ended $PAI_TASK_OUTCOME"',
    )
    assert task.stdout_log == b"111\n"
    assert "exit 1 11" in task.runtime_log
    assert "ended ok" in task.runtime_log


@pytest.mark.process
@pytest.mark.parametrize(
    "ending",
    [
        "",
        "exit 0",
        "exit",
        "trap 'true' EXIT",
        "trap - EXIT",
        "set -u; set +e",
        "false || true",
        "(exit 3) || exit 0",
    ],
)
def test_the_environment_flows_on_however_a_step_ends(run: Run, ending: str) -> None:
    assert run('echo "$A"', f"export A=here\n{ending}").stdout_log == b"here\n"


@pytest.mark.process
def test_what_a_failing_step_exported_reaches_the_exit_callbacks(run: Run) -> None:
    task = run("true", "export A=here\nfalse\nexport A=never", exits='echo "A is $A"')
    assert "A is here" in task.runtime_log


@pytest.mark.process
def test_the_working_directory_and_functions_stay_in_their_step(run: Run, tmp_path: Path) -> None:
    task = run("pwd; greet", 'greet() { echo hello; }\n[ -z "$BASH_VERSION" ] || export -f greet\ncd /')
    assert task.stdout_log.decode() == f"{tmp_path / 'task' / 'work'}\n"
    assert task.process.returncode == 127


@pytest.mark.process
def test_a_variable_that_is_unset_stays_unset(run: Run) -> None:
    assert run('echo "${GONE-unset}"', "unset GONE", env={"GONE": "here"}).stdout_log == b"unset\n"


@pytest.mark.process
def test_values_carry_byte_for_byte(run: Run) -> None:
    value = "two\nlines, 'quotes\" $dollars \\ and = \t\u00e9"
    task = run(
        'env -0 2>/dev/null | cat; printf "[%s]" "$COPY"', 'export COPY="$VALUE"', env={"VALUE": value}
    )
    assert task.stdout_log.endswith(f"[{value}]".encode())


@pytest.mark.process
def test_one_script_may_hold_an_if_over_several_commands_and_stops_at_the_first_error(run: Run) -> None:
    script = "if true; then\necho yes\nelse\necho no\nfi\nfalse\necho never\n"
    task = run("true", script)
    assert "yes" in task.runtime_log
    assert "never" not in task.runtime_log
    assert task.record["outcome"] == "setup-failed"


@pytest.mark.process
def test_an_ignored_step_goes_on_after_an_error(tmp_path: Path) -> None:
    step = shell("taskStarts", 0, "echo one\nfalse\necho two\nexit 4\n", "ignore")
    task = run_task(plan(tmp_path, "echo ran", [step]))
    assert [line for line in task.runtime_log if not line.startswith("[INFO]")][:2] == ["one", "two"]
    assert task.stdout_log == b"ran\n"


@pytest.mark.process
def test_messages_of_the_shell_count_the_lines_of_the_script(tmp_path: Path) -> None:
    task = run_task(
        plan(tmp_path, "echo 1\nnosuchprogram", [shell("taskStarts", 0, "echo\nnosuch || true\n")])
    )
    assert "a: line 2: nosuch: command not found" in task.runtime_log
    assert b"command: line 2: nosuchprogram: command not found" in task.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("false\ntrue", 1),
        ("false || true", 0),
        ("nosuchprogram", 127),
        ("/etc/passwd", 126),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
        ("if true; then", 2),
    ],
)
def test_the_users_exit_code_is_the_tasks(run: Run, command: str, code: int) -> None:
    task = run(command)
    assert task.process.returncode == code
    assert task.record["originUserExitCode"] == code
    assert task.record["signal"] == (code - 128 if code in (137, 139) else None)


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "command", "outcome", "printed"),
    [
        ({}, "echo in $UNSET; echo on", "ok", b"in\non\n"),
        ({"nounset": True}, "echo start; echo in $UNSET; echo on", "failed", b"start\n"),
        ({"nounset": True}, "echo $DATA ${UNSET-none}", "ok", b"/data none\n"),
        ({"nounset": True}, "set +u; echo in $UNSET", "ok", b"in\n"),
    ],
)
def test_an_unset_variable_ends_the_command_if_the_plan_says_so(
    run: Run, options: dict[str, bool], command: str, outcome: str, printed: bytes
) -> None:
    task = run(command, env={"DATA": "/data"}, **options)
    assert (task.record["outcome"], task.stdout_log) == (outcome, printed)


@pytest.mark.process
def test_a_script_of_a_megabyte_runs(run: Run) -> None:
    assert run("# " + "x" * 1_000_000 + "\necho ran").stdout_log == b"ran\n"


@pytest.mark.process
def test_a_script_that_allows_itself_few_open_files_ends_as_it_says(run: Run) -> None:
    task = run("ulimit -n 3; echo here; exit 7")
    assert (task.process.returncode, task.stdout_log, task.stderr) == (7, b"here\n", b"")


_SHELLS_OWN = {
    "SHELLOPTS": "braceexpand",
    "PS4": "> ",
    "RANDOM": "1",
    "PPID": "2",
    "SECONDS": "3",
    "OPTIND": "4",
}


@pytest.mark.process
def test_what_a_shell_sets_for_itself_is_the_same_after_a_step_as_before(tmp_path: Path) -> None:
    """Seen by a program that no shell has started."""
    hook = Step("taskExits", 1, "fail", hook="NOTHING")
    whole = plan(tmp_path, "true", [shell("taskStarts", 0, "true"), hook])
    task = run_task(whole, LaunchOptions(hook_argv=("/usr/bin/env", "-u")), env=_SHELLS_OWN)
    found = dict(line.split("=", 1) for line in task.runtime_log if "=" in line)
    assert {name: found.get(name) for name in _SHELLS_OWN} == _SHELLS_OWN


@pytest.mark.process
def test_the_command_has_no_standard_input_and_no_open_files_of_ours(tmp_path: Path) -> None:
    task = run_task(plan(tmp_path, "cat; ls /proc/self/fd"))
    assert task.stdout_log.split() == [b"0", b"1", b"2", b"3"]  # 3 is the folder that ls reads


@pytest.mark.process
def test_an_image_without_any_shell_is_said_so_before_anything_runs(tmp_path: Path) -> None:
    task = run_task(plan(tmp_path / "task"), env={"PATH": str(tmp_path)})
    assert task.process.returncode == 241
    assert b"neither bash nor sh was found on PATH" in task.stderr
    assert "neither bash nor sh" in task.record["message"]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image with a program, and without a shell."""
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "show").symlink_to("/bin/echo")
    return folder


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """What the runtime brings for such images."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for program in ("bash", "cat", "sleep"):
        (folder / program).symlink_to(str(shutil.which(program)))
    return folder


@pytest.mark.process
def test_in_an_image_without_any_shell_that_of_the_runtime_is_used(
    tmp_path: Path, image: Path, tools: Path
) -> None:
    whole = plan(tmp_path / "task", 'show "$A" "$PATH"; sleep 0', [shell("taskStarts", 0, "export A=1")])
    task = run_task(whole, LaunchOptions(tools=str(tools)), env={"PATH": str(image)})
    assert (task.process.returncode, task.stdout_log.decode()) == (0, f"1 {image}:{tools}\n")
    assert f"[INFO] this image has no shell: commands run in {tools}/bash" in task.runtime_log


@pytest.mark.process
@pytest.mark.parametrize("own", ["bash", "sh"])
def test_in_an_image_with_a_shell_it_is_used_and_nothing_else_of_the_runtimes_is_seen(
    tmp_path: Path, image: Path, tools: Path, own: str
) -> None:
    (image / own).symlink_to(f"/bin/{own}")
    command = 'echo "$0 $PATH"; sleep 0 || echo no sleep'
    whole = plan(tmp_path / "task", command, [shell("taskStarts", 0, "export A=1")])
    task = run_task(whole, LaunchOptions(tools=str(tools)), env={"PATH": str(image)})
    assert task.stdout_log.decode() == f"command {image}\nno sleep\n"
    assert not [line for line in task.runtime_log if "no shell" in line]


@pytest.mark.parametrize(
    ("script", "argv"),
    [
        ("prog", ["prog"]),
        ("  /bin/prog -a --b=c,d x:y@z\n", ["/bin/prog", "-a", "--b=c,d", "x:y@z"]),
        ("prog 'a  $b' \"c;d\" e'f'\"g\"h ''", ["prog", "a  $b", "c;d", "efgh", ""]),
        ("", None),
        ("A=1 prog", None),
        ("prog\nprog", None),
        ("prog;prog", None),
        ("prog & ", None),
        ("prog | prog", None),
        ("prog >file", None),
        ("prog $A", None),
        ('prog "$A"', None),
        ('prog "`a`"', None),
        ("prog *.txt", None),
        ("prog ~", None),
        ("prog a\\ b", None),
        ("prog # comment", None),
        ("{ prog; }", None),
        ("prog 'unfinished", None),
        ("prog '\0s:a\0'", None),
    ],
)
def test_one_program_with_its_arguments_needs_no_shell(script: str, argv: list[str] | None) -> None:
    assert words(script) == argv


@given(st.text("ab1 -./'\"\\$`;|&<>(){}*?[]!~#=%\t\n\0é"))
def test_words_without_a_shell_are_those_that_a_shell_would_make(script: str) -> None:
    found = words(script)
    assert found is None or found == shlex.split(script)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_words_in_quotes_may_hold_anything(argv: list[str]) -> None:
    assume("=" not in argv[0])
    assert words(" ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in argv)) == argv


@pytest.mark.process
def test_where_there_is_no_shell_at_all_a_command_in_exec_form_runs(tmp_path: Path, image: Path) -> None:
    task = run_task(plan(tmp_path / "task", "show 'one  word'"), env={"PATH": str(image)})
    assert (task.process.returncode, task.stdout_log) == (0, b"one  word\n")


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "start"), [("show one; show two", None), ("exit 3", None), ("show", "true")]
)
def test_where_there_is_no_shell_at_all_whatever_needs_one_is_not_begun(
    tmp_path: Path, image: Path, command: str, start: str | None
) -> None:
    steps = [shell("taskStarts", 0, start)] if start else []
    task = run_task(plan(tmp_path / "task", command, steps), env={"PATH": str(image)})
    assert (task.process.returncode, task.stdout_log) == (241, b"")
    assert "neither bash nor sh" in task.record["message"]


@pytest.mark.process
def test_a_step_that_takes_the_path_away_does_not_take_the_command_away(run: Run) -> None:
    task = run("echo here; exit 3", "export PATH=/nowhere")
    assert (task.process.returncode, task.stdout_log) == (3, b"here\n")


_CATS = {
    "none": None,
    "one that prints nothing": "",
    "one that stops in between": "head -c 9",
    "one that fails": "/bin/cat; exit 1",
}
"""The program of an image by which scripts are read, as a script of `sh`."""


def _image_with(folder: Path, cat: str | None) -> Path:
    image = folder / "image"
    image.mkdir()
    (image / "sh").symlink_to("/bin/sh")
    (image / "head").symlink_to("/usr/bin/head")
    if cat is not None:
        (image / "cat").write_text(f"#!/bin/sh\n{cat}\n")
        (image / "cat").chmod(0o755)
    return image


@pytest.mark.process
@pytest.mark.parametrize("cat", _CATS.values(), ids=_CATS)
@pytest.mark.parametrize("phase", ["command", "taskStarts"])
def test_a_script_that_is_not_read_to_its_end_is_not_run(tmp_path: Path, cat: str | None, phase: str) -> None:
    script = "echo one\necho two"
    steps = [shell("taskStarts", 0, script if phase == "taskStarts" else "")]
    whole = plan(tmp_path / "task", script, steps[: phase == "taskStarts"])
    task = run_task(whole, env={"PATH": str(_image_with(tmp_path, cat))})
    assert (task.record["phase"], task.record["originUserExitCode"]) == (
        phase,
        126 if phase == "command" else None,
    )
    assert (b"one" in task.stdout, "one" in task.runtime_log) == (False, False)


@pytest.mark.process
@pytest.mark.parametrize("cat", _CATS.values(), ids=_CATS)
def test_in_a_pod_scripts_are_read_by_the_bundles_own_program(
    tmp_path: Path, tools: Path, cat: str | None
) -> None:
    steps = [shell("taskStarts", 0, "export A=1"), shell("taskExits", 0, 'echo "over $A"')]
    whole = plan(tmp_path / "task", 'echo "here $A"; exit 7', steps)
    image = _image_with(tmp_path, cat)
    task = run_task(whole, LaunchOptions(tools=str(tools)), env={"PATH": str(image)})
    assert (task.process.returncode, task.stdout_log) == (7, b"here 1\n")
    assert "over 1" in task.runtime_log


@pytest.mark.process
def test_a_command_that_takes_the_bundle_away_does_not_take_its_callbacks_away(
    tmp_path: Path, tools: Path
) -> None:
    take = shlex.join(["mv", str(tools), f"{tools}.gone"])
    whole = plan(tmp_path / "task", f"{take}; exit 7", [shell("taskExits", 0, "echo over")])
    task = run_task(whole, LaunchOptions(tools=str(tools)))
    assert task.process.returncode == 7
    assert "over" in task.runtime_log


@pytest.mark.process
@pytest.mark.parametrize("end", ["", "\n", "\\", " # comment", "\ncat <<E\nhere\nE"])
def test_how_a_script_ends_means_what_it_means_alone(run: Run, end: str) -> None:
    alone = subprocess.run(["bash", "-c", f"echo a{end}"], capture_output=True, check=False)
    assert run(f"echo a{end}").stdout_log == alone.stdout


def test_a_variable_without_a_name_does_not_carry() -> None:
    assert exported(b"=x\0A=1\0B==\0") == {"A": "1", "B": "="}
