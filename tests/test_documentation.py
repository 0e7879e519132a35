"""The documentation shows what the program does: its jobs are valid, and its commands give what it shows."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.schemas import package_schema
from pai_runtime.plan.attempt_variables import Attempt, attempt_variables
from pai_task import exit_codes
from pai_task.exit_codes import CALLBACK_FAILED, CANNOT_RUN, RUNTIME_ERROR, SETUP_FAILED, TIMEOUT
from pai_task.launch import LaunchOptions
from tests.forked_command import forked_command
from tests.support import JOBS, PROGRAM, ROOT, callback, cli, cli_each, job, made_once, validator, write_job
from tools import reference

_NO_JOBS = {
    path
    for folder in ("pods", "definitions", "kubernetes", "marketplace")
    for path in (ROOT / "examples" / folder).rglob("*.yaml")
}
EXAMPLES = sorted({*(ROOT / "examples").rglob("*.yaml")} - _NO_JOBS)
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "core/README.md",
    *sorted(ROOT.glob("plugins/*/README.md")),
    *sorted(ROOT.glob("engines/*/README.md")),
    *sorted(ROOT.glob("libraries/*/README.md")),
    *sorted(ROOT.glob("marketplace/*/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
_OF_FRAMEWORKS = {f"examples/distributed/{each}.yaml" for each in ("jax", "mpi", "torch", "torchrun")}
_NEEDS = {
    "docs/local-runs.md": ["user namespaces"],
    "docs/tutorial.md": ["user namespaces"],
    "docs/watching-a-run.md": ["user namespaces"],
    "docs/when-it-fails.md": ["user namespaces"],
    "docs/writing-jobs.md": ["user namespaces"],
    "docs/your-code.md": ["user namespaces"],
    "plugins/pai-ssh/README.md": ["openssh-client", "openssh-server"],
    "plugins/pai-storage/README.md": ["user namespaces"],
}
_RUN_ELSEWHERE = {"docs/first-plugin.md"}  # by test_first_plugin.py, in an environment of its own
SHOWING_COMMANDS = [
    pytest.param(document, marks=pytest.mark.needs(*_NEEDS.get(name, ())), id=name)
    for name, document in ((str(each.relative_to(ROOT)), each) for each in DOCUMENTS)
    if "```console" in document.read_text("utf-8") and name not in _RUN_ELSEWHERE
]

_BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`(?P<append>, at the end)?:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_NEEDS_A_SHELL = re.compile(r"[|<>&;`$(){}*?~#\[\]]")
_THEN_A_SHELL = re.compile(
    rf"{PROGRAM.name} (?P<args>[^|<>&;`$(){{}}*?~#\[\]]+) (?P<rest>(?:2?>|\|)(?:(?!{PROGRAM.name}).)*[^&])"
)
"""Only what the command prints is for the shell, which neither makes its arguments nor leaves it running."""
_TEST = re.compile(r"`((?:[\w-]+/)*tests/[\w/]+\.py)(?:::(\w+))?`")
_MODULE = re.compile(r"`(\w+)/(\w+\.py|)`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


@dataclass(frozen=True)
class Block:
    """A block of code; `file` is the name of the file that it is said to be, or to be the end of."""

    language: str
    text: str
    line: int
    file: str | None
    append: bool


def blocks(document: Path) -> list[Block]:
    text = document.read_text("utf-8")
    return [
        Block(
            match["language"],
            match["text"],
            text.count("\n", 0, match.start("language")) + 1,
            match["file"],
            bool(match["append"]),
        )
        for match in _BLOCK.finditer(text)
    ]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shown_jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every job, or part of one, that a document shows, with the place where it does."""
    for document in DOCUMENTS:
        for block in blocks(document):
            if block.language == "yaml":
                content = yaml.safe_load(block.text)
                if any(key in content for key in ("prerequisites", "taskRoles", "extras")):
                    yield f"{name(document)}:{block.line}", content


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our plugins installed in it: not editable, as it is where the documents are read."""
    plugins = sorted((ROOT / "plugins").iterdir())
    return made_once(tmp_path_factory, "installed", lambda folder: _install(folder, *plugins))


_BUILD = """
import os, sys
from hatchling.build import build_wheel
wheels, *projects = sys.argv[1:]
for project in projects:
    os.chdir(project)
    print(build_wheel(wheels))
"""


def _install(folder: Path, *projects: Path) -> None:
    """What pip does with sources, which takes it seconds."""
    with tempfile.TemporaryDirectory() as wheels:
        argv: list[str | Path] = [sys.executable, "-c", _BUILD, wheels, *projects]
        built = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        for wheel in built:
            _remove(folder, wheel.partition("-")[0])
            with zipfile.ZipFile(Path(wheels, wheel)) as archive:
                archive.extractall(folder)


def _remove(folder: Path, distribution: str) -> None:
    for record in folder.glob(f"{distribution}-*.dist-info/RECORD"):
        for line in record.read_text("utf-8").splitlines():
            (folder / line.partition(",")[0]).unlink()


@pytest.mark.process
@pytest.mark.parametrize("document", SHOWING_COMMANDS)
def test_every_command_that_a_document_shows_gives_what_it_shows(
    document: Path, installed: Path, tmp_path: Path
) -> None:
    reader = Reader(tmp_path, installed)
    for block in blocks(document):
        if block.file:
            reader.write(block)
        elif block.language == "console":
            for match in COMMAND.finditer(block.text):
                given = reader.run(match["command"])
                if not re.fullmatch(shown_pattern(match["output"]), given):
                    pytest.fail(f"{name(document)}, from line {block.line}: $ {match['command']}\n{given}")


class Reader:
    """Somebody who does what a document says, in a folder of their own with the examples in it."""

    def __init__(self, folder: Path, installed: Path) -> None:
        self.folder = folder / "reader"
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        self.site = folder / "site"
        shutil.copytree(installed, self.site)
        self.environment = {
            **os.environ,
            "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.site),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self.environment.pop("PAI_RUNTIME_POLICY", None)

    def write(self, block: Block) -> None:
        path = self.folder / str(block.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if block.append else "w", encoding="utf-8") as file:
            file.write(block.text)

    def run(self, command: str) -> str:
        """What a command that succeeds prints."""
        if command.startswith("python -m pip install "):
            # What it would do to the environment of the tests, done to a folder.
            _install(self.site, self.folder / command.rpartition(" ")[2])
            return ""
        program, *args = shlex.split(command)
        if program == PROGRAM.name and not _NEEDS_A_SHELL.search(command):
            ended = forked_command(args, self.folder, self.environment, together=True)
            return ended.stdout.decode() if ended.returncode == 0 else f"{ended}"
        if match := _THEN_A_SHELL.fullmatch(command):
            command = self._run_already(match) + command
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout if done.returncode in (0, self._allowed(command)) else f"{done}"

    def _run_already(self, command: re.Match[str]) -> str:
        """Run the command, and return a function for the shell that does as if it were run."""
        together = command["rest"].startswith(("||", "2>&1"))
        ended = forked_command(shlex.split(command["args"]), self.folder, self.environment, together=together)
        (self.site / "stdout").write_bytes(ended.stdout)
        (self.site / "stderr").write_bytes(ended.stderr)
        show = f"cat {self.site}/stdout; cat {self.site}/stderr >&2; return {ended.returncode}"
        return f"{PROGRAM.name}() {{ {show}; }}; "

    def _allowed(self, command: str) -> int:
        """`grep` that finds nothing is what some commands show."""
        return 1 if command.startswith("grep ") else 0


def shown_pattern(shown: str) -> str:
    """What a shown output allows: ``…`` stands for any text in a line, or as a line for any lines."""
    return "".join(
        "(?:.*\n)*" if line == "…\n" else ".*".join(map(re.escape, line.split("…")))
        for line in shown.splitlines(keepends=True)
    )


@pytest.mark.process
def test_every_job_that_is_shown_is_valid(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/definitions", tmp_path / "definitions")
    shown = [
        write_job(tmp_path, {**job(), **content}, f"{place.replace('/', '-')}.yaml")
        for place, content in shown_jobs()
    ]
    assert len(shown) > 20
    (tmp_path / "code").mkdir()
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text("team: that of the tutorial\n", "utf-8")
    for done in cli_each(*(("validate", path, "--secrets", secrets) for path in shown)):
        assert done.returncode == 0, done.stderr


def test_a_job_that_is_shown_and_run_is_the_one_that_is_run() -> None:
    compared = set()
    for block, following in chain.from_iterable(pairwise(blocks(document)) for document in DOCUMENTS):
        run = re.search(r"run (?:.* )?(examples/[\w/]+\.yaml)", following.text)
        if block.language == "yaml" and not block.file and following.language == "console" and run:
            example = yaml.safe_load((ROOT / run[1]).read_text("utf-8"))
            shown = yaml.safe_load(block.text)
            assert shown == {key: example[key] for key in shown}, run[1]
            compared.add(run[1])
    assert len(compared) >= 5, compared


@pytest.mark.process
def test_every_example_job_that_needs_nothing_else_runs(tmp_path: Path) -> None:
    """Those that the documents run are run there, those of frameworks in those of pai-distributed."""
    documents = "".join(document.read_text("utf-8") for document in DOCUMENTS)
    for example in EXAMPLES:
        alone = "/path/to/" not in example.read_text("utf-8") and name(example) not in _OF_FRAMEWORKS
        if alone and not re.search(rf"^\$ pai-runtime run .*{name(example)}", documents, re.MULTILINE):
            done = cli("run", example, "--out", tmp_path / example.stem)
            assert done.returncode == 0, done.stderr


def test_every_link_leads_somewhere() -> None:
    checked = 0
    for document in DOCUMENTS:
        for file, anchor in _LINK.findall(document.read_text("utf-8")):
            target = (document.parent / file).resolve() if file else document
            assert target.exists(), f"{name(document)}: {file}"
            assert not anchor or anchor in _anchors(target), f"{name(document)}: {file}#{anchor}"
            checked += 1
    assert checked > 20, checked


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_document_is_a_page_of_the_site() -> None:
    pages = set(re.findall(r'"([\w./-]+\.md)"', (ROOT / "zensical.toml").read_text("utf-8")))
    assert {name(document) for document in DOCUMENTS} <= pages


def test_every_test_that_a_document_names_is_there() -> None:
    named = {found for document in DOCUMENTS for found in _TEST.findall(document.read_text("utf-8"))}
    written = {block.file for document in DOCUMENTS for block in blocks(document)}
    named = {(file, test) for file, test in named if file not in written}
    gone = [(file, test) for file, test in named if f"def {test}" not in (ROOT / file).read_text("utf-8")]
    assert not gone
    assert len(named) > 10, named


def test_every_module_of_the_runtime_that_a_document_names_is_there() -> None:
    others = (ROOT.glob(f"{folder}/*/src") for folder in ("engines", "libraries", "marketplace"))
    sources = (ROOT / "core/src/pai_runtime", *chain.from_iterable(others))
    packages = {path.name: path for source in sources for path in source.iterdir()}
    named = {found for document in DOCUMENTS for found in _MODULE.findall(document.read_text("utf-8"))}
    named = {(package, module) for package, module in named if package in packages}
    assert not [each for each in named if not (packages[each[0]] / each[1]).exists()]
    assert len(named) > 10, named


def test_the_exit_codes_that_are_told_are_those_of_the_runtime() -> None:
    told = re.findall(r"^\| (\d{3}) \|", (ROOT / "docs/when-it-fails.md").read_text("utf-8"), re.MULTILINE)
    assert set(map(int, told)) == {SETUP_FAILED, RUNTIME_ERROR, TIMEOUT, CALLBACK_FAILED}


def test_the_exit_codes_of_init_that_are_told_are_those_of_the_runtime() -> None:
    section = (ROOT / "docs/runtime-image.md").read_text("utf-8").split("## When init fails")[1]
    told = re.findall(r"^\| (\d+) \|", section.split("\n## ")[0], re.MULTILINE)
    own = {code for name, code in vars(exit_codes).items() if name.startswith("INIT_")}
    assert set(map(int, told)) == {0, CANNOT_RUN, *own}


def test_the_launch_options_that_are_told_are_all_there_are() -> None:
    section = (ROOT / "docs/running-a-cluster.md").read_text("utf-8").split("## Starting a supervisor")[1]
    told = re.findall(r"^\| `(\w+)` \|", section.split("\n## ")[0], re.MULTILINE)
    names = [re.sub("_(.)", lambda match: match[1].upper(), each.name) for each in fields(LaunchOptions)]
    assert sorted(told) == sorted(names)


@pytest.mark.process
def test_the_reference_is_in_step_with_the_program() -> None:
    tool = [sys.executable, str(ROOT / "tools/reference.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.process
def test_a_reference_that_is_out_of_step_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "TARGET", tmp_path / "reference.md")
    monkeypatch.setattr(sys, "argv", ["reference.py", "--check"])
    assert reference.main() == 1
    (tmp_path / "reference.md").write_text(reference.reference() + "more\n", "utf-8")
    assert reference.main() == 1
    assert set(capsys.readouterr().err.splitlines()) == {
        "reference.md is out of date; run python tools/reference.py"
    }


@pytest.mark.process
def test_the_reference_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = reference.reference()
    monkeypatch.setenv("COLUMNS", "30")
    assert reference.reference() == usual


@pytest.mark.process
def test_the_variables_of_a_running_task_are_those_of_its_plan_and_the_reference(tmp_path: Path) -> None:
    show = "env | grep -Eo '^(PAI_|FC_|PYTHON)[^=]*'"
    events = [callback(event, show) for event in ("taskStarts", "taskExits")]
    prerequisite = {"name": "show", "type": "script", "callbacks": events}
    path = write_job(
        tmp_path, job(prerequisites=[prerequisite], worker={"prerequisites": ["show"], "commands": [show]})
    )
    done = cli("run", path, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    task = tmp_path / "run/worker/0"
    plan = json.loads((task / "plan.json").read_text("utf-8"))
    shared = json.loads((task / "shared.json").read_text("utf-8"))
    planned = {variable["name"] for variable in plan["environment"]} | {*shared["platform"], *shared["peers"]}
    planned |= attempt_variables("run", "worker", 0, Attempt()).keys()
    command = set(done.stdout.split())
    lines = (task / "logs/runtime.log").read_text("utf-8").splitlines()
    steps = {line.split()[-1] for line in lines if re.search(r"\] (PAI_|FC_|PYTHON)\w+$", line)}
    told = {variable: where for variable, (where, _) in reference.SET_LATER.items()}
    assert command - planned == {each for each, where in told.items() if where == reference.EVERYWHERE}
    assert steps - planned == {each for each, where in told.items() if where != reference.MANY_TASKS}


PLANNED = [
    *EXAMPLES,
    *(JOBS / f"{each}.yaml" for each in ("pre1", "pre2", "backward_compatible", "data_prerequisite")),
    *(JOBS / f"{each}.yaml" for each in ("parameters_and_secrets", "tensorflow_cifar10")),
    *(JOBS / f"{each}.yaml" for each in ("covid_data_role_level", "covid_data_callbacks")),
]


@pytest.mark.process
def test_every_plan_fits_its_schema() -> None:
    schema = validator("pai_task", "plan.schema.json")
    for done in cli_each(*(("plan", path, "--json") for path in PLANNED)):
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["plans"]
        for plan in (*document["plans"], {**document["plans"][0], "shared": document["shared"]}):
            schema.validate(plan)


@pytest.mark.process
def test_the_records_of_a_run_fit_their_schemas(tmp_path: Path) -> None:
    events = [callback("taskStarts", "exit $PAI_TASK_INDEX"), callback("taskFails", "exit 3")]
    prerequisite = {"name": "fails", "type": "script", "callbacks": events}
    worker = {
        "instances": 2,
        "prerequisites": ["fails"],
        "completion": {"minFailedInstances": 2},
        "commands": ["kill -9 $$"],
    }
    path = write_job(tmp_path, job(prerequisites=[prerequisite], worker=worker))
    assert cli("run", path, "--out", tmp_path / "run").returncode
    records = [yaml.safe_load((tmp_path / f"run/worker/{index}/exit.yaml").read_text()) for index in (0, 1)]
    for record in records:
        validator("pai_task", "exit-record.schema.json").validate(record)
    keys = {key for record in records for key in record}
    assert keys <= package_schema("pai_task", "exit-record.schema.json")["properties"].keys()
    state = json.loads((tmp_path / "run/worker/0/state.json").read_text("utf-8"))
    validator("pai_task", "state.schema.json").validate(state)
    run = json.loads((tmp_path / "run/run.json").read_text("utf-8"))
    validator("pai_runtime.runs", "run.schema.json").validate(run)
    assert run.keys() == package_schema("pai_runtime.runs", "run.schema.json")["properties"].keys()


@pytest.mark.parametrize(("package", "file", "_"), reference.DOCUMENTS.values())
def test_every_schema_is_one_and_allows_no_field_that_it_does_not_name(
    package: str, file: str, _: str
) -> None:
    validator(package, file)
    is_open = file == "definition.schema.json"  # as any prerequisite: what it has, `this.` refers to
    assert is_open or package_schema(package, file)["additionalProperties"] is False
