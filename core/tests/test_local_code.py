"""The code of a job: what its tasks find in their working directories, and what they leave of it."""

import json
import os
import shlex
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.engines.code import MUCH, Code, CodeEntry, check_code, find_code
from pai_runtime.engines.ignoring import Ignored
from pai_runtime.engines.local.code_copy import copy_code
from pai_runtime.runs.errors import CannotRun
from pai_task.folder import MOST_LEVELS, Folder
from tests.job_harness import load_file
from tests.support import PROGRAM, cli, cli_each, job, write_job

MODES = pytest.mark.parametrize("isolation", ["auto", "none"])
SECRET = "a-secret-of-the-job"
_NOBODY = 65534


def _project(folder: Path, worker: dict[str, Any], **fields: Any) -> Path:
    """A job beside its code."""
    for name, text in {
        "train.py": "train\n",
        "unwanted": "unwanted\n",
        "package/module.py": "module\n",
        "package/weights.ckpt": "weights\n",
        "data/table": "table\n",
        ".git/HEAD": "history\n",
        ".pai-runs/other-1/run.json": "{}\n",
        ".paiignore": "# what no task needs\n*.ckpt\n/data/\n!.pai-runs\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "link").symlink_to("train.py")
    (folder / "outside").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo")
    (folder / "secrets.yaml").write_text(f"key: {SECRET}\n")
    return write_job(folder, job(worker=worker, **{"extras": {"code": "."}, **fields}))


def _contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else str(path.lstat().st_mode)
        for path in folder.rglob("*")
        if not path.is_relative_to(folder / "results")
    }


@pytest.mark.process
@MODES
def test_every_task_has_the_code_for_itself_and_the_users_files_stay_as_they_are(
    tmp_path: Path, isolation: str
) -> None:
    commands = [
        'if [ "$PAI_TASK_INDEX" = 1 ]; then find . ! -name . | sort; readlink link; cat link; fi',
        "echo changed > train.py; rm unwanted; rm -r package; mkdir package; echo new > package/new",
        "cat train.py; ls package",
    ]
    project = tmp_path / "project"
    path = _project(project, {"instances": 2, "commands": commands})
    before = _contents(project)
    run = project / "results"
    options = ("--secrets", project / "secrets.yaml", "--isolation", isolation)
    ended = cli("run", path, "--out", run, *options)
    assert ended.returncode == 0, ended.stderr
    found = ["./.paiignore", "./link", "./outside", "./package", "./package/module.py", "./train.py"]
    lines = [line.partition(" | ")[2] for line in ended.stdout.splitlines() if line.startswith("worker/1")]
    assert lines == [*found, "./unwanted", "train.py", "train", "changed", "new"]
    for index in (0, 1):
        assert (run / f"worker/{index}/work/train.py").read_text() == "changed\n"
        assert (run / f"worker/{index}/work/package/new").read_text() == "new\n"
    assert "fifo" in ended.stderr
    assert _contents(project) == before


@pytest.mark.process
@pytest.mark.needs("user namespaces")
def test_isolated_tasks_share_one_copy_of_the_code(tmp_path: Path) -> None:
    path = _project(tmp_path / "project", {"instances": 3, "commands": ["test -s train.py", "echo > result"]})
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "required")
    assert ended.returncode == 0, ended.stderr
    found = [str(each.relative_to(tmp_path / "run")) for each in (tmp_path / "run").rglob("train.py")]
    assert found == [".code/train.py"]
    for index in range(3):
        assert [each.name for each in (tmp_path / f"run/worker/{index}/work").iterdir()] == ["result"]


@pytest.mark.process
@MODES
def test_another_attempt_starts_with_the_code_as_it_was_when_the_run_began(
    tmp_path: Path, isolation: str
) -> None:
    project = tmp_path / "project"
    change = f"echo changed | tee train.py > {shlex.quote(str(project))}/train.py"
    commands = ["cat train.py", change, "exit $((1 - FC_TASK_ATTEMPT_ID))"]
    extras = {"code": ".", "gangAllocation": False}
    path = _project(project, {"taskRetryCount": 1, "commands": commands}, extras=extras)
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", isolation)
    assert (ended.returncode, ended.stdout) == (0, "train\ntrain\n"), ended.stderr
    for attempt in ("worker/0", "worker/0/attempts/0"):
        assert (tmp_path / "run" / attempt / "work/train.py").read_text() == "changed\n"


@pytest.mark.process
def test_a_directory_that_is_given_takes_precedence(tmp_path: Path) -> None:
    path = _project(tmp_path / "project", {"commands": ["cat other.py; ls -A"]}, extras={"code": "absent"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other/other.py").write_text("other\n")
    ended = cli("run", path, "--out", tmp_path / "run", "--code", tmp_path / "other")
    assert (ended.returncode, ended.stdout) == (0, "other\nother.py\n"), ended.stderr


@pytest.mark.process
def test_a_directory_that_is_no_code_is_found_before_anything_starts(tmp_path: Path) -> None:
    wrong = {
        "absent": "no-such-directory",
        "file": "no-such-directory",
        "fifo": "no-such-directory",
        "a" * 5000: "no-such-directory",
        "/etc": "absolute-path",
        "\u0000": "nul",
    }
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    paths = [
        write_job(tmp_path, job(extras={"code": name}), f"{number}.yaml") for number, name in enumerate(wrong)
    ]
    lines: list[list[str | Path]] = [["validate", path, "--json"] for path in paths]
    validated = cli_each(*lines)
    for done, code in zip(validated, wrong.values(), strict=True):
        problems = json.loads(done.stdout)["problems"]
        assert [(each["code"], each["severity"]) for each in problems] == [(code, "error")]
        assert code == "nul" or problems[0]["field"] == "extras.code"
    run, given = cli_each(
        ["run", paths[0], "--out", tmp_path / "run"],
        ["run", paths[0], "--out", tmp_path / "run", "--code", tmp_path / "file"],
    )
    assert (run.returncode, given.returncode) == (2, 2)
    assert "extras.code" in run.stderr
    assert "--code" in given.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.process
@pytest.mark.parametrize("kind", ["pattern", "fifo", "link", "large"])
def test_an_ignore_file_that_is_of_no_use_is_an_error(tmp_path: Path, kind: str) -> None:
    ignore = tmp_path / ".paiignore"
    if kind == "fifo":
        os.mkfifo(ignore)
    elif kind == "link":
        ignore.symlink_to("/dev/zero")
    else:
        ignore.write_text("\ufefffine\n!\n" if kind == "pattern" else "#" * 300_000)
    (done,) = cli_each(["validate", write_job(tmp_path, job(extras={"code": "."})), "--json"])
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["file"] == str(ignore)
    assert (problem["code"], problem.get("line")) == (
        ("wrong-pattern", 2) if kind == "pattern" else ("unreadable", None)
    )


@pytest.mark.process
def test_what_cannot_be_copied_leaves_nothing_behind(tmp_path: Path) -> None:
    project = tmp_path / "project"
    path = _project(project, {})
    (project / "large").write_bytes(bytes(1024 * 1024))
    limited = f'ulimit -f 512; exec "{PROGRAM}" run "{path}" --out "{tmp_path}/run"'
    ended = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"cannot copy the code: {project}/large" in ended.stderr
    assert not (tmp_path / "run").exists()


def _paths(code: Code) -> list[str]:
    faults: list[OSError] = []
    found = [entry.path for entry in code.entries(faults.append)]
    assert not faults
    return found


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ((), ["a", "a/keep.log", "a/x.log", "b", "b/a", "b/a/x.log"]),
        (("*.log",), ["a", "b", "b/a"]),
        (("*.log", "!keep.log"), ["a", "a/keep.log", "b", "b/a"]),
        (("/a/",), ["b", "b/a", "b/a/x.log"]),
        (("a/", "!a/keep.log"), ["b"]),
        (("**/x.log", "b/"), ["a", "a/keep.log"]),
        (("*",), []),
    ],
)
def test_patterns_mean_what_they_mean_to_git(
    tmp_path: Path, patterns: Sequence[str], left: list[str]
) -> None:
    for name in ("a/keep.log", "a/x.log", "b/a/x.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert _paths(Code(tmp_path, patterns)) == left


ODD_NAMES = [
    *["a", "b", "ab", "a.b", "aab", "-", "]", "[", "^", "!", "*", "#a", "a b", "a ", "\\", "1", "A"],
    *["\n", "d/a", "d/ab", "d/d/a", "d/d/b", "d/d/d/x/b", "x/d/a", "x/y/z/b", "**/a", "a*/b", "a]/a"],
    *["a[/b"],
]
ODD_PATTERNS = [
    *["?", "??", "*b", "a*b", "*a*b*", "**", "***", "d**", "**b", "[ab]", "[!ab]", "[^ab]", "[a-c]"],
    *["[c-a]", "[]]", "[]-]", "[!]]", "[a-]", "[-a]", "[[:alpha:]]", "[[:digit:]-b]"],
    *["[[:upper:][:space:]]", "[[:none:]]", "[[:al]", "[", "[a", "[\\]]", "[/]", "a[/]b", "\\a", "\\*"],
    *["\\\\", "\\#a", "#a", "\\!", "a ", "a\\ ", "a\\\\ ", "\\[", " ", "/", "/a", "a/", "/d/", "d/"],
    *["d//a", "//a", "d/a", "d/*", "d/**", "d/**/a", "d/**/**/a", "**/", "**/d/", "/**", "**/d/a"],
    *["d/**/x/**/b", "**/d/**/b", "*/**/b", "**/*/b", "/**/a", "d/*/*", "***/b", "d/***/b", "a\\/b"],
    *["a\r", "*\n!a", "*\n!d", "*\n!d/\n!d/a", "d/*\n!d/d", "d\n!d/a", "**/b\n!/x/**/b", "*\n!**"],
    *["a*\n!ab\na[b]"],
]


@pytest.mark.process
def test_odd_patterns_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    tree, ignore = tmp_path / "tree", tmp_path / "ignore"
    for name in ODD_NAMES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    subprocess.run(["git", "init", "-q", tree], check=True)
    for text in ODD_PATTERNS:
        ignore.write_bytes(f"{text}\n".encode())
        argv: list[str | Path] = ["git", "-C", tree, "ls-files", "-z", "--others", "--exclude-from", ignore]
        kept = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]
        found = _paths(Code(tree, text.split("\n"), [tree / ".git"]))
        assert sorted(kept) == sorted(each for each in found if (tree / each).is_file()), text


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 30 + "b",
        "[a-z]*" * 30 + "!",
        "**/" + "a/**/" * 30 + "b",
        "**/*a*a/" * 30 + "b",
        "?*" * 30 + "b",
    ],
    ids=lambda pattern: pattern[:12],
)
def test_no_pattern_takes_longer_than_its_length_and_that_of_the_path(pattern: str) -> None:
    ignored = Ignored([pattern])
    for path in ("a" * 255, "/".join(["a"] * MOST_LEVELS), "/".join(["aaaaaaaa"] * MOST_LEVELS)):
        assert not ignored(path, is_folder=False)


GIT_IGNORED = {
    "repository": {
        ".gitignore": "*.log\n/data\n!important.log\nout/\n",
        "data": "",
        "a.log": "",
        "important.log": "",
        "sub/.gitignore": "!b.log\n/deep/c\n!\nodd\\\n[\n\ufefflast\n",
        "sub/b.log": "",
        "sub/c.log": "",
        "sub/data": "",
        "sub/deep/c": "",
        "sub/deep/.gitignore": "*.log\n!/d\n",
        "sub/deep/b.log": "",
        "sub/other/deep/c": "",
        "out/.gitignore": "!*\n",
        "out/kept": "",
    },
    "all but some": {".gitignore": "*\n!*/\n!*.py\n", "a.py": "", "b": "", "c/d.py": "", "c/e": ""},
    "whole folder": {".gitignore": "/sub\n*.x\n", "sub/a.x": "", "sub/b": ""},
    "byte order mark": {".gitignore": "\ufeff*.x\n", "a.x": "", "sub/b.x": ""},
    "no file": {".gitignore/a": "", "b": "", "sub/.gitignore/c": "", "sub/d": ""},
}


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "below"),
    [*((name, "") for name in GIT_IGNORED), ("repository", "sub/deep"), ("all but some", "c")],
)
def test_what_git_ignores_is_no_code(tmp_path: Path, name: str, below: str) -> None:
    for path, text in GIT_IGNORED[name].items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "to-file").symlink_to(".gitignore")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    folder = tmp_path / below
    argv: list[str | Path] = [
        "git",
        "-C",
        folder,
        "-c",
        "core.excludesFile=",
        "ls-files",
        "-z",
        "-o",
        "--exclude-standard",
    ]
    kept = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]
    found = _paths(Code(folder, is_selected=True))
    assert sorted(kept) == sorted(each for each in found if not stat.S_ISDIR((folder / each).lstat().st_mode))


def test_ignore_files_above_that_leave_out_the_directory_itself_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "repository/scratch/job").mkdir(parents=True)
    (tmp_path / "repository/.git").touch()  # as in a work tree
    (tmp_path / "repository/.gitignore").write_text("scratch\n*.log\n")
    (tmp_path / "repository/scratch/job/a.log").touch()
    assert _paths(Code(tmp_path / "repository/scratch/job", is_selected=True)) == ["a.log"]


LEFT_OUT = [
    *[".git/HEAD", "__pycache__/a.pyc", "sub/__pycache__/a.pyc", ".mypy_cache/a", ".pytest_cache/a"],
    *[".ruff_cache/a", ".tox/a", "node_modules/a", "env/pyvenv.cfg", "sub/.venv/pyvenv.cfg"],
    *[
        "conda/conda-meta/history",
        ".env",
        "sub/.env",
        ".env.local",
        ".netrc",
        ".pypirc",
        "id_rsa",
        ".ssh/key",
    ],
    *[".aws/credentials", "sub/.kube/config", "kubeconfig", "prod.kubeconfig", "secrets.yaml", "private.pem"],
    *[".pai-runs/a"],
]
TAKEN = [
    ".env.example",
    ".aws/config",
    "id_rsa.pub",
    "ca.pem",
    "model.key",
    "secrets.py",
    "env.py",
    "cache/a",
]


def _files(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"-----BEGIN {'EC PRIVATE KEY' if 'private' in name else 'X'}-----\n")


def _found(folder: Path, patterns: str = "") -> Code:
    (folder / ".paiignore").write_text(f".paiignore\n{patterns}")
    parsed, _ = load_file(write_job(folder.parent, job()))
    code = find_code(parsed, folder, ())
    assert code
    return code


def test_environments_caches_and_what_may_hold_credentials_are_no_code(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    _files(folder, [*LEFT_OUT, *TAKEN])
    found = [each for each in _paths(_found(folder)) if (folder / each).is_file()]
    assert sorted(found) == sorted(TAKEN)


@pytest.mark.parametrize("name", LEFT_OUT[:-1])
def test_the_ignore_file_takes_back_what_is_left_out(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "code"
    _files(folder, [name, "train.log"])
    (folder / ".gitignore").write_text(f"*.log\n.gitignore\n{name.partition('/')[0]}\n")
    assert _paths(_found(folder)) == []
    outer = name.split("/")
    lines = ["/".join(outer[: count + 1]) for count in range(len(outer))]
    code = _found(folder, "!*.log\n" + "".join(f"!/{line}\n" for line in lines))
    assert _paths(code) == sorted([*lines, "train.log"])


def test_gitignore_takes_no_credentials_back(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    _files(folder, [".env", "train.py"])
    (folder / ".gitignore").write_text("*\n!*.py\n!.env\n")
    assert _paths(_found(folder)) == ["train.py"]


def test_what_is_left_out_is_said_in_one_line_with_how_to_include_it(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    _files(
        folder, ["train.py", ".env", "secrets.yaml", "sub/.venv/pyvenv.cfg", "data/a", "__pycache__/a", "b"]
    )
    (folder / ".gitignore").write_text("/data\n")
    _, note = check_code(_found(folder, "/b\n"))
    for text in (".env, secrets.yaml (", "sub/.venv (", "data (.gitignore)", "!NAME", f"{folder}/.paiignore"):
        assert text in note
    for text in ("__pycache__", " b ", "data/a", "pyvenv"):
        assert text not in note
    assert len(check_code(_found(folder, "/b\n/data\n.env\nsecrets.yaml\n.venv\n"))) == 1


def test_files_are_left_out_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "secrets").touch()
    (tmp_path / "again").hardlink_to(tmp_path / "secrets")
    (tmp_path / "train.py").touch()
    assert _paths(Code(tmp_path, (), (tmp_path / "secrets", tmp_path / "absent"))) == ["train.py"]


def test_names_that_are_not_utf_8_match_as_others_do(tmp_path: Path) -> None:
    for name in (b"\xff.log", b"\xff.py", b"1", b"new\nline"):
        (Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))).touch()  # noqa: PTH118 - of bytes
    (tmp_path / ".paiignore").write_bytes(b"\xff.log\n.paiignore\n[[:digit:]]\n")
    parsed, _ = load_file(write_job(tmp_path, job()))
    code = find_code(parsed, tmp_path, (Path(parsed.file),))
    assert code
    assert _paths(code) == ["new\nline", "\udcff.py"]


def test_a_copy_has_the_modes_and_times_of_the_files_and_can_be_removed(tmp_path: Path) -> None:
    code, copy = tmp_path / "code", tmp_path / "copy"
    (code / "locked").mkdir(parents=True)
    (code / "locked/run.sh").write_text("echo\n")
    (code / "locked/run.sh").chmod(0o4755)
    (code / "empty").touch(0o640)
    os.utime(code / "locked/run.sh", (1, 1))
    (code / "locked").chmod(0o555)
    code.chmod(0o550)
    copy.mkdir()
    with Folder.at(copy) as folder:
        copy_code(Code(code), folder)
    assert copy.stat().st_mode & 0o7777 == 0o750
    modes = {str(path.relative_to(copy)): oct(path.stat().st_mode)[-4:] for path in copy.rglob("*")}
    assert modes == {"locked": "0755", "locked/run.sh": "0755", "empty": "0640"}
    assert (copy / "locked/run.sh").stat().st_mtime == 1
    assert (copy / "locked/run.sh").read_text() == "echo\n"
    code.chmod(0o755)
    (code / "locked").chmod(0o755)


def test_what_is_removed_or_becomes_another_thing_meanwhile_harms_nobody(tmp_path: Path) -> None:
    code, copy = tmp_path / "code", tmp_path / "copy"
    code.mkdir()
    copy.mkdir()
    (code / "a").touch()
    (code / "b").touch()
    entries = Code(code).entries(lambda error: pytest.fail(str(error)))
    next(entries)
    (code / "b").unlink()
    assert list(entries) == []

    (code / "b").touch()

    class Racing(Code):
        def entries(self, on_error: Any, *others: Any) -> Any:
            for entry in super().entries(on_error, *others):
                (code / entry.name).unlink()
                (code / entry.name).symlink_to("/etc/passwd")
                yield CodeEntry(entry.path, entry.name, entry.holder, entry.status)

    with Folder.at(copy) as folder, pytest.raises(OSError, match="code/a"):
        copy_code(Racing(code), folder)
    assert list(copy.iterdir()) == []


def test_much_code_is_told_with_what_is_largest(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, size in {"data/a": MUCH, "data/b": MUCH, "train.py": 10, "model": MUCH // 2}.items():
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)
    _, note = check_code(Code(tmp_path))
    assert "data (2.0 GiB), model (512.0 MiB), train.py (10 B)" in note
    assert str(tmp_path / ".paiignore") in note
    (note,) = check_code(Code(tmp_path, ["data/", "model"]))
    assert "1 file, 10 B" in note


def test_all_that_cannot_be_read_is_named_at_once() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to anybody else
        folder = Path(name)
        folder.chmod(0o755)
        check_code(Code(folder))  # and so may be what it imports
        for number in range(7):
            (folder / f"file{number}").touch(0o200)
        user = os.geteuid()
        try:
            if user == 0:  # who may read everything
                os.seteuid(_NOBODY)
            with pytest.raises(CannotRun, match=r"file0: .*; .*file4: .* and 2 more.*\.paiignore"):
                check_code(Code(folder))
        finally:
            os.seteuid(user)


def test_directories_without_end_are_refused(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(MOST_LEVELS + 1):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    with pytest.raises(CannotRun, match="levels deep"):
        check_code(Code(tmp_path))
    with Folder.at(tmp_path) as folder:
        folder.remove("d")
