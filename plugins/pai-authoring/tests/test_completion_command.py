"""``pai-runtime completion``: what shells complete, in these shells, without a start of Python."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.played_run import PlayedRun
from tests.support import cli, made_once
from tests.typed_terminal import Terminal

pytestmark = pytest.mark.process

LINES = {
    "pai-runtime lo": {"logs", "lock", "login"},
    "pai-runtime plugins show tens": {"tensorboard"},
    "pai-runtime plugins che": {"check", "check-policy"},
    "pai-runtime plugins new --hoo": {"--hooks"},
    "pai-runtime logs --fol": {"--follow"},
    "pai-runtime logs tr": {"train-1", "train-2"},
    "pai-runtime logs lat": {"latest"},
    "pai-runtime logs train-1 ": {"worker/0", "worker/1"},
    "pai-runtime logs --follow train-1 w": {"worker/0", "worker/1"},
    "pai-runtime exec train-2 ser": {"server/0"},
}
"""What is typed, and all that may follow."""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with runs, and the scripts of all shells."""

    def make(folder: Path) -> None:
        for shell in ("bash", "zsh", "fish"):
            ended = cli("completion", shell)
            assert ended.returncode == 0, ended.stderr
            (folder / f"script.{shell}").write_text(ended.stdout)
        for name, roles in (("train-1", {"worker": 2}), ("train-2", {"server": 1})):
            run = PlayedRun(folder / ".pai-runs" / name, None, **roles)
            for task in run.run.tasks:
                (run.task_folder(task.name) / "plan.json").touch()

    return made_once(tmp_path_factory, "completion", make)


def in_bash(folder: Path, line: str) -> set[str]:
    """What bash offers, where it finds no program to start."""
    script = """
        source script.bash
        PATH=/nowhere
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _shtab_pai_runtime
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    words = line.split(" ")
    ended = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ended.stderr
    return set(ended.stdout.split())


@pytest.mark.parametrize("line", LINES)
def test_bash(scripts: Path, line: str) -> None:
    assert in_bash(scripts, line) == LINES[line]


@pytest.mark.needs("fish")
@pytest.mark.parametrize("line", LINES)
def test_fish(scripts: Path, line: str) -> None:
    ended = subprocess.run(
        ["fish", "--no-config", "-c", "source script.fish; complete -C $argv[1]", line],
        cwd=scripts,
        env={**os.environ, "HOME": str(scripts)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {each.partition("\t")[0] for each in ended.stdout.splitlines()} == LINES[line]


@pytest.mark.needs("zsh")
def test_zsh(scripts: Path) -> None:
    terminal = Terminal("zsh", "-f", "-i")
    terminal.resize(40, 120)
    terminal.type(f"cd {scripts}; autoload -Uz compinit; compinit -u -D; export TERM=vt100\n")
    terminal.type('eval "$(cat script.zsh)"; PS1="rea""dy "\n')
    terminal.wait_for("ready ")  # the prompt: from now on, keys are zsh's
    for line, offered in LINES.items():
        terminal.type(f"\x15{line}\t\t")
        for each in sorted(offered):
            terminal.wait_for(each.replace("-", r"\-"))
    terminal.type("\x15exit\n")
    assert terminal.end() == 0


def test_a_directory_with_a_name_that_a_shell_would_run_is_not_offered(tmp_path: Path, scripts: Path) -> None:
    (tmp_path / "script.bash").symlink_to(scripts / "script.bash")
    for name in ("good", "$(touch ran)", "`touch ran`", "a;b", "sp ace", "x\x1b[31m"):
        PlayedRun(tmp_path / ".pai-runs" / name)
    assert in_bash(tmp_path, "pai-runtime logs ") == {"latest", "good"}
    assert not (tmp_path / "ran").exists()
