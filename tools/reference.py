# ruff: noqa: SLF001 - argparse shows its arguments only in its formatted help, and that differs by version
"""Writes docs/reference.md and docs/exit-codes.md from what the program itself reads and does.

And the shipped exit spec, and the words of its failures, in the form that is read when a task has failed.

``--check`` only compares.
"""

import argparse
import ast
import inspect
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar, get_args

import yaml

from pai_container.engine import ContainerEngine
from pai_document.problems import Problems
from pai_document.schemas import expectation, package_schema
from pai_failure_analysis.exit_codes_command import by_code
from pai_failure_analysis.likeness import LEARNED, as_json, learned
from pai_failure_analysis.permanent_codes import SHIPPED
from pai_failure_analysis.regex import span
from pai_failure_analysis.rules import COMPILED, compiled, shipped_entries, shipped_rules
from pai_kubernetes.cluster import KubernetesCluster
from pai_openpai.client.engine import OpenpaiCluster
from pai_runtime import cli, hooks, plugin
from pai_runtime.cli.plugin_commands import add_plugin_command
from pai_runtime.engines.interface import Engine
from pai_runtime.engines.local.machine import LocalEngine
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.discovery import Plugin, declared_commands
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.model import PLUGIN_PREFIX
from pai_runtime.plan.attempt_variables import Attempt, attempt_variables
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.plugin import API_VERSION, job_format
from pai_slurm.allocation_engine import AllocationEngine
from pai_slurm.cluster import SlurmCluster
from pai_task import exit_codes as own_exit_codes
from pai_task.names import framework_name
from pai_task.vocabulary import Outcome, Phase

ROOT: Final = Path(__file__).resolve().parents[1]
TARGET: Final = ROOT / "docs" / "reference.md"
EXIT_CODES: Final = ROOT / "docs" / "exit-codes.md"
ANALYSIS: Final = ROOT / "plugins" / "pai-failure-analysis"
SPEC: Final = ANALYSIS / "src" / "pai_failure_analysis" / COMPILED
WORDS: Final = SPEC.with_name(LEARNED)
EXAMPLE: Final = ROOT / "examples" / "roles.yaml"

Schema = Mapping[str, Any]

_EXIT_CODES: Final = """\
What the exit code and the phrase of a failed task mean, by the rules of the plugin
[failure_analysis](../plugins/pai-failure-analysis/README.md); codes of the runtime itself are in the
[reference](reference.md#exit-codes). A code stands for a kind of failure, and the phrase for one of them. The
first rule that matches decides, in an order that is not the one here. A retry may help after a `TRANSIENT`
failure; after a `PERMANENT` one it fails again unless something is changed.

The controllers of a cluster see only the exit code of a task. They do not retry a task that ends with a code
that only permanent failures have; by the shipped rules, these are
{codes}.
A job's own rules add to them or take from them. All other codes are retried there, whatever the failure was;
and a command that itself ends with one of these is not retried. On one machine, `pai-runtime run` decides by
the failure. With `extras.retryOn: always`, both retry all failures.

OpenPAI decides by its own exit spec. What that does not list, or no rule explains, is
[255 there](runtime-image.md#exit-codes-on-openpai)."""

ENGINES: Final[Mapping[str, type[Engine]]] = {
    "this machine": LocalEngine,
    "containers": ContainerEngine,
    "Kubernetes": KubernetesCluster,
    "OpenPAI": OpenpaiCluster,
    "Slurm": SlurmCluster,
    "an allocation of Slurm": AllocationEngine,
}

DOCUMENTS: Final = {
    "Job file": (
        "pai_runtime.job",
        "job.schema.json",
        "OpenPAI job protocol 2, in YAML. Beyond the schema, names and references must resolve.",
    ),
    "Definition file": (
        "pai_definitions",
        "definition.schema.json",
        "A shared prerequisite, or a list of them, in YAML. `{{ name }}` is a template variable.",
    ),
    "Lock file": (
        "pai_definitions",
        "lock.schema.json",
        "`JOB.lock` beside a job file; `definitions.lock` in a run's directory, and in `PAI_CONFIG_DIR`.",
    ),
    "Sources of definitions": (
        "pai_definitions",
        "marketplace.schema.json",
        "`marketplace.yaml`, in `/etc/pai-runtime` for all and in `~/.config/pai-runtime` for a user: YAML.",
    ),
    "Engine profiles": (
        "pai_runtime.engines",
        "engines.schema.json",
        "`engines.yaml`, in `/etc/pai-runtime` for all and in `~/.config/pai-runtime` for a user: YAML.",
    ),
    "Engine profile of Kubernetes": (
        "pai_kubernetes",
        "profile.schema.json",
        "What `engines.yaml` says of one cluster whose `engine` is `kubernetes`: YAML.",
    ),
    "Engine profile of OpenPAI": (
        "pai_openpai",
        "profile.schema.json",
        "What `engines.yaml` says of one cluster whose `engine` is `openpai`: YAML.",
    ),
    "Engine profile of Slurm": (
        "pai_slurm",
        "profile.schema.json",
        "What `engines.yaml` says of one cluster whose `engine` is `slurm`: YAML.",
    ),
    "Policy file": (
        "pai_runtime.host",
        "policy.schema.json",
        "`/etc/pai-runtime/policy.yaml`, and the YAML files that `PAI_RUNTIME_POLICY` and `--policy` name.",
    ),
    "Plugin manifest": (
        "pai_runtime.host",
        "manifest.schema.json",
        "`manifest.json` in the plugin's package; for a plain module, `<module>.manifest.json` beside it.",
    ),
    "Init plugins": (
        "pai_pod",
        "init-plugins.schema.json",
        "`INIT_CONFIG` in the init container of a pod, or `init_plugins.yaml` in `PAI_CONFIG_DIR`: YAML.",
    ),
    "Plan": (
        "pai_task",
        "plan.schema.json",
        r"What `pai-runtime plan --json` prints, and `plan.json`. The secret `y` is `\u0000y\u0000` in it.",
    ),
    "Exit record": (
        "pai_task",
        "exit-record.schema.json",
        "`exit.yaml` of a task: YAML, at most 4096 bytes.",
    ),
    "Event": (
        "pai_task",
        "events.schema.json",
        "A line of `events.jsonl` of a task. The file is renamed to `events.jsonl.1` when it reaches 1 MiB.",
    ),
    "State": ("pai_task", "state.schema.json", "`state.json` of a task, while it runs."),
    "Run": ("pai_runtime.runs", "run.schema.json", "`run.json` in the directory of a run."),
    "Event of a run": (
        "pai_runtime.runs",
        "events.schema.json",
        "A line of `events.jsonl` in the directory of a run; each task has its own file.",
    ),
}
"""The documents that people and other programs read or write: package and name of the schema."""

VARIABLES: Final = {
    "PAI_FRAMEWORK_NAME": "Name of this run of the job",
    "PAI_JOB_NAME": "Name of the job",
    "PAI_USER_NAME": "Who runs the job",
    "PAI_USERNAME": "Same as `PAI_USER_NAME`",
    "PAI_VIRTUAL_CLUSTER": "Virtual cluster, from the job's `defaults`",
    "PAI_DEFAULT_FS_URI": "Always empty",
    "PAI_TASK_ROLE_COUNT": "Number of task roles",
    "PAI_TASK_ROLES_NUM": "Same as `PAI_TASK_ROLE_COUNT`",
    "PAI_JOB_TASK_ROLE_COUNT": "Same as `PAI_TASK_ROLE_COUNT`",
    "PAI_TASK_ROLE_LIST": "Names of the task roles, as in the job file",
    "PAI_JOB_TASK_ROLE_LIST": "Same as `PAI_TASK_ROLE_LIST`",
    "PAI_TASKS_NUM": "Number of tasks of all roles",
    "PAI_JOB_TASK_COUNT": "Same as `PAI_TASKS_NUM`",
    "PAI_TASK_ROLE_TASK_COUNT_<role>": "Number of tasks of the role",
    "PAI_RESOURCE_<role>": "GPUs, CPUs, memory in MB, shared memory in MB of a task of the role",
    "PAI_MIN_FAILED_TASK_COUNT_<role>": "Completion policy: failed tasks of the role that fail the job",
    "PAI_MIN_SUCCEEDED_TASK_COUNT_<role>": "Completion policy: succeeded tasks that complete the job",
    "PAI_HOST_IP_<role>_<index>": "Host of that task",
    "PAI_PORT_LIST_<role>_<index>_<label>": "Ports of that task with this label",
    "PAI_<role>_<index>_<label>_PORT": "Same as `PAI_PORT_LIST_<role>_<index>_<label>`",
    "PAI_TASK_ROLE_<role>_HOST_LIST": "`host:port` of the role's tasks as far as known; first `http` port",
    "PAI_TASK_ROLE_INSTANCES": "`role:index` of every task",
    "PAI_CURRENT_TASK_ROLE_NAME": "Role of this task",
    "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "Index of this task in its role, from 0",
    "PAI_TASK_INDEX": "Same as `PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX`",
    "PAI_CURRENT_CONTAINER_IP": "Host of this task",
    "PAI_CURRENT_CONTAINER_PORT": "First `http` port of this task",
    "PAI_CONTAINER_HOST_IP": "Host of this task",
    "PAI_CONTAINER_HOST_PORT": "First `http` port of this task",
    "PAI_CONTAINER_SSH_PORT": "First `ssh` port of this task",
    "PAI_CONTAINER_HOST_PORT_LIST": "All ports of this task by label",
    "PAI_CONTAINER_HOST_<label>_PORT_LIST": "Ports of this task with this label",
    "FC_FRAMEWORK_NAMESPACE": "Namespace of the FrameworkController object that the task belongs to",
    "FC_FRAMEWORK_NAME": "Name of this run of the job",
    "FC_FRAMEWORK_UID": "Identifier of the framework",
    "FC_FRAMEWORK_ATTEMPT_ID": "Number of the attempt",
    "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": "Identifier of the attempt",
    "FC_CONFIGMAP_NAME": "Name of the attempt's ConfigMap",
    "FC_CONFIGMAP_UID": "Its identifier",
    "FC_TASKROLE_NAME": "Role of this task, in lower-case letters and digits",
    "FC_TASKROLE_UID": "Its identifier",
    "FC_TASK_INDEX": "Index of this task",
    "FC_TASK_UID": "Identifier of this task",
    "FC_TASK_ATTEMPT_ID": "Number of the task's attempt",
    "FC_TASK_ATTEMPT_INSTANCE_UID": "Its identifier",
    "FC_POD_NAME": "Name of the pod",
    "FC_POD_UID": "Its identifier",
    "NVIDIA_VISIBLE_DEVICES": "`none` if the role requests no GPU; otherwise unset",
}
"""What each variable means; the names themselves, and their values, come from a plan and a first attempt."""

EVERYWHERE: Final = "every step and the command"
STEPS: Final = "every step"
LATER_STEPS: Final = "steps after the command"
LATER_SCRIPTS: Final = "services, scripts after the command, and programs of `exec`"
MANY_TASKS: Final = "jobs with very many tasks"
SET_LATER: Final = {
    "PAI_WORK_DIR": (EVERYWHERE, "Working directory of the task"),
    "PYTHONUNBUFFERED": (EVERYWHERE, "`1`, unless the image or the job sets it, also to nothing"),
    "PAI_MASK": (
        EVERYWHERE,
        "File; each line that is written to it is masked in the logs from then on, up to 256 KiB in all",
    ),
    "PAI_ENV": (
        STEPS,
        (
            "File; what is appended to it, up to 8 MiB, sets environment variables: "
            "see [Writing jobs](callbacks.md#from-any-language)"
        ),
    ),
    "PAI_TASK_PHASE": (
        STEPS,
        f"One of {', '.join(phase for phase in get_args(Phase) if phase != 'command')}",
    ),
    "PAI_TASK_OUTCOME": (LATER_STEPS, f"One of {', '.join(get_args(Outcome))}"),
    "PAI_TASK_EXIT_CODE": (LATER_STEPS, "The task's exit code"),
    "PAI_USER_LOG": (LATER_SCRIPTS, "File with the output of the command; rotation may have shortened it"),
    "PAI_RUNTIME_PYTHON": (LATER_SCRIPTS, "The runtime's own Python, with its plugins"),
    "PAI_TASKS_FILE": (
        MANY_TASKS,
        "JSON file with all variables above, where they do not all fit into the environment",
    ),
    "PAI_TASKS_SCRIPT": (MANY_TASKS, "Shell script that sets all variables above, to be sourced"),
}
"""Variables that only the supervisor can know; tests/test_documentation.py sees them in a task."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if one of them is out of date")
    check = parser.parse_args().check
    status = 0
    # First what the others are made of.
    written: Sequence[tuple[Path, Callable[[], str]]] = (
        (SPEC, lambda: compiled(shipped_entries())),
        (WORDS, lambda: as_json(learned(texts_of_failures()))),
        (TARGET, reference),
        (EXIT_CODES, exit_codes),
    )
    for target, made in written:
        text = made()
        if not check:
            target.write_text(text, "utf-8")
        elif not target.exists() or target.read_text("utf-8") != text:
            sys.stderr.write(f"{target.name} is out of date; run python tools/reference.py\n")
            status = 1
    return status


def texts_of_failures() -> Iterator[tuple[str, bytes]]:
    """Yield texts of failures that logs tell, each with the name of its failure."""
    names = {rule.phrase for rule in shipped_rules()}
    for entry in shipped_entries():
        patterns = [each["userLogRegex"] for each in entry["patterns"] if "userLogRegex" in each]
        if patterns:
            yield entry["phrase"], f"{entry['phrase']} {entry['reason']}".encode()
        for sample in map(str.encode, entry.get("samples", ())):
            if any(span(pattern, sample) for pattern in patterns):
                yield entry["phrase"], sample
    labelled = [(name, text) for name, texts in _read(ANALYSIS / "messages.yaml").items() for text in texts]
    for path in sorted((ANALYSIS / "tests" / "corpus").rglob("*.yaml")):
        for each in _read(path):
            cause = each["cause"] if isinstance(each["cause"], str) else each["cause"][0]
            labelled += [(cause, each["log"])] if cause != "nothing" else []
    for name, text in labelled:
        if name not in names:
            raise SystemExit(f"a text is labelled {name}, which is no rule: {text[:80]}")
        yield name, text.encode()


def _read(path: Path) -> Any:
    return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe


def reference() -> str:
    return "\n".join(_lines()) + "\n"


def exit_codes() -> str:
    return "\n".join(_failures()) + "\n"


def _failures() -> Iterator[str]:
    yield "# Exit codes"
    yield ""
    yield "<!-- Written by tools/reference.py from the shipped exit spec; do not edit. -->"
    yield ""
    yield _EXIT_CODES.format(codes=", ".join(map(str, SHIPPED)))
    yield ""
    rules = by_code(shipped_rules())
    rows = [
        (str(rule.code), f"[{rule.phrase}](#{rule.phrase.lower()})", rule.behavior, rule.reason)
        for rule in rules
    ]
    yield from _table(("code", "failure", "", "why"), rows)
    for rule in rules:
        yield from ("", f"## {rule.phrase}", "")
        yield f"Exit code {rule.code}, `{rule.behavior}`. {_cell(rule.reason)}"
        if rule.solution:
            yield from ("", *(f"- {_cell(line)}" for line in rule.solution))


def _lines() -> Iterator[str]:
    sections: dict[str, Iterable[str]] = {
        "Command line": _command_line(),
        "Exit codes": _exit_codes(),
        "Engines": _engines(),
        "Environment variables": _environment(),
        **{title: _document(*document) for title, document in DOCUMENTS.items()},
        **{f"Plugin {each.id.removeprefix(PLUGIN_PREFIX)}": _plugin(each) for each in _own_plugins()},
        "Plugin API": _plugin_api(),
    }
    yield "# Reference"
    yield ""
    yield "<!-- Written by tools/reference.py from the program itself; do not edit. -->"
    yield ""
    for title in sections:
        yield f"- [{title}](#{title.lower().replace(' ', '-').replace('.', '')})"
    for title, lines in sections.items():
        yield from ("", f"## {title}", "", *lines)


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    titles = list(titles)
    for row in (titles, ["---"] * len(titles), *rows):
        yield "| " + " | ".join(map(_cell, row)) + " |"


def _cell(text: str) -> str:
    """A text in a table: what is not marked as code must not be read as HTML."""
    parts = text.replace("|", r"\|").split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def _command_line() -> Iterator[str]:
    """Not from argparse's formatted help, which depends on the terminal and on the version of Python."""
    for number, (name, parser) in enumerate(_commands(_parser(), "pai-runtime")):
        if number:
            yield ""
        yield f"### {name}"
        yield ""
        if parser.description:
            yield from (parser.description, "")
        if parser.epilog:
            yield from (f"`{parser.epilog.splitlines()[-1].strip()}`", "")
        yield from _table(("argument", "meaning"), _arguments(parser))


def _parser() -> argparse.ArgumentParser:
    """That of the program, with the commands of our plugins."""
    parser, commands = cli.make_parser(cli.COMMANDS)
    for command in (command for each in _own_plugins() for command in declared_commands(each)):
        added = add_plugin_command(commands, command)
        import_module(command.module).add_arguments(added)
        added.set_defaults(module=command.module)
    return parser


def _own_plugins() -> list[Plugin]:
    """The plugins of this repository, by their ids."""
    folders = ("plugins", "engines", "libraries", "marketplace")
    own = {path.name for folder in folders for path in (ROOT / folder).iterdir()}
    installed = (plugin for claimants in Host(NO_POLICY).installed.values() for plugin in claimants)
    return [plugin for plugin in installed if plugin.distribution in own]


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for word, child in action.choices.items():
                yield from _commands(child, f"{name} {word}")


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, child in action.choices.items():
                yield f"`{word}`", child.description or ""
        elif isinstance(action, argparse._HelpAction):
            continue
        elif action.option_strings:
            option = ", ".join(action.option_strings)
            value = f" {action.metavar}" if action.metavar else ""
            yield f"`{option}{value}`", action.help or ""
        else:
            yield f"`{action.metavar}`", action.help or ""


def _exit_codes() -> Iterator[str]:
    yield "Of a task, and so of `pai-runtime run`, which exits with the code of the task that failed the job:"
    yield ""
    own = sorted(_constants(own_exit_codes, re.compile("(?!INIT_|MOST_)[A-Z_]+")))
    codes = [
        (str(code), meaning) for code, meaning in own if code > own_exit_codes.killed_by(signal.SIGRTMAX)
    ]
    yield from _table(
        ("code", "meaning"),
        [("0", "The command succeeded."), *codes, ("128 + n", "The task was killed by signal n.")],
    )
    yield ""
    yield "Any other code is that of the user's command. Exit statuses of the commands:"
    yield ""
    modules = {name: parser.get_default("module") for name, parser in _commands(_parser(), "pai-runtime")}
    yield from _table(
        ("command", "exit status"),
        [(f"`{name}`", _doc(import_module(module).main)) for name, module in modules.items() if module],
    )


def _constants(module: ModuleType, name: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The numbers of a module that have a name like this and a docstring."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.Assign([ast.Name(id)], ast.Constant(int(value))),
                ast.Expr(ast.Constant(str(text))),
            ) if name.fullmatch(id):
                yield value, text


def _engines() -> Iterator[str]:
    yield "What some engines can do and others cannot, as each declares it; all else is the same everywhere."
    yield ""
    words = sorted({word for engine in ENGINES.values() for word in engine.cannot})
    own = sorted({f"--{option.name}" for engine in ENGINES.values() for option in engine.options} - {*words})
    yield from _table(
        ("", *ENGINES),
        ((f"`{word}`", *map(partial(_can, word), ENGINES.values())) for word in [*own, *words]),
    )


def _can(word: str, engine: type[Engine]) -> str:
    if word in engine.cannot:
        return f"no: {engine.cannot[word]}"
    is_option = word.startswith("--") and any(
        word == f"--{option.name}" for each in ENGINES.values() for option in each.options
    )
    return "no" if is_option and word not in [f"--{option.name}" for option in engine.options] else "yes"


def _environment() -> Iterator[str]:
    yield (
        f"Of the task `worker/0` of `{EXAMPLE.relative_to(ROOT)}`, on one machine. For a role whose name has "
        "capitals or `_`, they are also set with FrameworkController's spelling: `ps_server` as `psserver`."
    )
    yield ""
    problems = Problems()
    planner = plan_job(
        JobFiles(EXAMPLE), Host(NO_POLICY), lambda job: example_placement(job, "alice"), problems
    )
    job, plan = planner.job, planner.plans(("worker", 0))["worker", 0]
    problems.check()
    left = {variable.name: variable.value for variable in plan.variables()}
    left |= attempt_variables(plan.job, plan.role, plan.index, Attempt())
    words = {
        "<role>": [*job.roles, *map(framework_name, job.roles)],
        "<index>": [r"\d+"],
        "<label>": plan.ports,
    }
    rows = []
    for name, meaning in VARIABLES.items():
        pattern = name
        for word, choices in words.items():
            pattern = pattern.replace(word, f"(?:{'|'.join(choices)})")
        matching = [variable for variable in left if re.fullmatch(pattern, variable)]
        if not matching:
            raise SystemExit(f"tools/reference.py describes {name}, but no plan has it")
        value = f"`{left[matching[0]]}`" if left[matching[0]] else ""
        rows.append((f"`{name}`", meaning, f"{value} (`{matching[0]}`)" if "<" in name else value))
        left = {variable: value for variable, value in left.items() if variable not in matching}
    if left:
        raise SystemExit(f"tools/reference.py does not describe {', '.join(left)}")
    yield from _table(("variable", "meaning", "example"), rows)
    yield ""
    yield "Only known while the task runs:"
    yield ""
    yield from _table(
        ("variable", "for", "meaning"),
        [(f"`{name}`", where, meaning) for name, (where, meaning) in SET_LATER.items()],
    )


def _document(package: str, name: str, about: str) -> Iterator[str]:
    yield about
    schema = package_schema(package, name)
    for path, mapping in _mappings(schema, schema, ""):
        yield ""
        if path:
            yield from (f"### {path}", "")
        yield from _fields(schema, mapping)


def _fields(root: Schema, mapping: Schema) -> Iterator[str]:
    required = mapping.get("required", ())
    rows = []
    for name, given in mapping["properties"].items():
        field = _resolved(root, given)
        needed = "yes" if name in required else ""
        rows.append((f"`{name}`", _kind(root, field), needed, field.get("description", "")))
    return _table(("field", "value", "needed", "meaning"), rows)


def _mappings(root: Schema, given: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Every mapping with fields of its own in a schema, with the path of its value."""
    schema = _resolved(root, given)
    if "properties" in schema:
        yield path, schema
        for name, child in schema["properties"].items():
            yield from _mappings(root, child, f"{path}.{name}" if path else name)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _mappings(root, schema["additionalProperties"], f"{path}.&lt;name&gt;")
    if "items" in schema:
        yield from _mappings(root, schema["items"], f"{path}[]")


def _resolved(root: Schema, schema: Schema) -> Schema:
    """A schema with what it refers to; its own keywords take precedence."""
    if "$ref" not in schema:
        return schema
    target: Any = root
    for part in schema["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return {**_resolved(root, target), **schema}


def _kind(root: Schema, schema: Schema) -> str:
    if "title" not in schema and schema.get("type") == "array":
        return f"a list of: {_kind(root, _resolved(root, schema['items']))}"
    return expectation(schema) or "any value"


def _plugin(shown_plugin: Plugin) -> Iterator[str]:
    manifest = shown_plugin.manifest
    programs = ", ".join(manifest.programs) or "no program"
    yield f"`{shown_plugin.id}`: {manifest.summary}. Needs in the image: {programs}."
    parameters = manifest.parameters
    shown: list[Schema] = []
    for path, mapping in _mappings(parameters, parameters, ""):
        if mapping["properties"] in shown:
            continue  # the same thing in a second place
        shown.append(mapping["properties"])
        yield ""
        if path:
            yield from (f"### {path}", "")
        yield from _fields(parameters, mapping)


def _plugin_api() -> Iterator[str]:
    yield f"API version {API_VERSION}. {_doc(hooks).partition('. API version')[0]}:"
    for node in _definitions(hooks, ast.FunctionDef):
        yield from ("", f"### {node.name}", "", f"`{_signature(node)}`", "")
        yield _prose(ast.get_docstring(node))
    yield from _names(plugin)
    yield from ("", "### Job formats", "", _doc(job_format))
    yield from _names(job_format)


def _names(module: ModuleType) -> Iterator[str]:
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield from ("", f"### {name}", "", *_api_entry(thing))


def _api_entry(thing: object) -> Iterator[str]:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body  # type: ignore[arg-type]
    if isinstance(node, ast.FunctionDef):
        yield from (f"`{_signature(node)}`", "", _doc(thing))
    elif isinstance(node, ast.ClassDef):
        yield _doc(thing)
        fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
        rows = [(f"`{ast.unparse(field.target)}`", f"`{ast.unparse(field.annotation)}`") for field in fields]
        if rows:
            yield from ("", *_table(("field", "type"), rows))
        members = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name[0] != "_"]
        if fields:  # data; how it is written down and read is nothing for a plugin
            members = [each for each in members if _is_property(each)]
        rows = [(f"`{_member(each)}`", " ".join(_prose(ast.get_docstring(each)).split())) for each in members]
        if rows:
            yield from ("", *_table(("member", "meaning"), rows))


def _is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def _member(node: ast.FunctionDef) -> str:
    """A method as its caller writes it, or a property."""
    if _is_property(node):
        return f"{node.name}: {ast.unparse(node.returns)}" if node.returns else node.name
    return _signature(node).replace("(self, ", "(", 1).replace("(self)", "()", 1)


def _signature(node: ast.FunctionDef) -> str:
    answer = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){answer}"


Definition = TypeVar("Definition", ast.FunctionDef, ast.ClassDef)


def _definitions(module: ModuleType, kind: type[Definition]) -> Iterator[Definition]:
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, kind) and not node.name.startswith("_"):
            yield node


def _doc(thing: object) -> str:
    return _prose(inspect.getdoc(thing))


def _prose(docstring: str | None) -> str:
    """A docstring as Markdown."""
    return (docstring or "").replace("``", "`")


if __name__ == "__main__":
    sys.exit(main())
