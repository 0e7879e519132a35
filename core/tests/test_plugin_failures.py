"""A plugin that fails: one message that names it, its use's failurePolicy is followed, others go on."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.plugin import EVENTS
from tests.plugin_factory import Site, uses
from tests.support import callback, job, write_job

pytestmark = pytest.mark.process

HOOK = "@hookimpl\ndef pai_prerequisite(use, task):\n    "


@dataclass(frozen=True)
class Failure:
    """One way to fail: what is installed, and what the message says of it after the plugin's name.

    ``NUMBER`` in its texts stands for that of the plugin.
    """

    message: str
    code: str = ""
    files: dict[str, str | None] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)


IN_HOOK = "hook pai_prerequisite: "


def hook(message: str, body: str) -> Failure:
    return Failure(IN_HOOK + message, HOOK + body)


def answer(message: str, contribution: str) -> Failure:
    return hook(message, f"return Contribution({contribution})")


FAILURES = {
    "raises on import": Failure("import: RuntimeError: boom (", "raise RuntimeError('boom')"),
    "raises text of several lines": Failure("import: ValueError: a b (", "raise ValueError('a\\n\\n  b')"),
    "raises what cannot be shown": Failure(
        "import: Bad: (cannot be shown: RuntimeError) (",
        "class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad",
    ),
    "raises no Exception": Failure("import: BaseException: x (", "raise BaseException('x')"),
    "exits on import": Failure("import: called sys.exit(3)", "raise SystemExit(3)"),
    "exits on import with 0": Failure("import: called sys.exit(0)", "import sys; sys.exit(0)"),
    "exits with a text": Failure("import: called sys.exit(so long)", "raise SystemExit('so long')"),
    "is not Python": Failure("import: SyntaxError: invalid syntax", "def ("),
    "is not text": Failure("import: SyntaxError: ", "\udcff"),
    "misses a dependency": Failure(
        "import: ModuleNotFoundError: No module named 'not_installed' (", "import not_installed"
    ),
    "misses a part of its own": Failure(
        "import: ModuleNotFoundError: No module named 'org_badNUMBER.part' (",
        "from . import x\nimport org_badNUMBER.part",
        {"{package}/x.py": ""},
    ),
    "has a hook with another signature": Failure(
        "import: the hook pai_prerequisite has the argument tasks, which nobody gives it: it may have use",
        "@hookimpl\ndef pai_prerequisite(use, tasks): pass",
    ),
    "has a hook that there is not": Failure(
        "import: there is no hook pai_prerequisit; did you mean pai_prerequisite?",
        "@hookimpl\ndef pai_prerequisit(use, task): pass",
    ),
    "needs another API": Failure(
        "is refused: it needs plugin API 2; this runtime supports 1", fields={"api": 2}
    ),
    "has no manifest": Failure("is refused: its manifest ", files={"{package}/manifest.json": None}),
    "returns a number": hook("returned int, not a Contribution", "return 3"),
    "returns the class": hook("returned type, not a Contribution", "return Contribution"),
    "returns a generator": hook("returned generator, not a Contribution", "yield Contribution()"),
    "raises": hook("KeyError: 'nothing' (", "return use.parameters['nothing']"),
    "exits": hook("called sys.exit(1)", "import sys; sys.exit(1)"),
    "exits with nothing": hook("called sys.exit(None)", "import sys; sys.exit()"),
    "calls itself for ever": hook("RecursionError: ", "return pai_prerequisite(use, task)"),
    "changes what it was given": hook("FrozenInstanceError: ", "use.name = 'x'"),
    "says why in words for the user": hook(
        "no such port",
        "from pai_runtime.plugin import UserError; raise UserError('no such\\n port')",
    ),
    "environment is a list": answer("TypeError: Contribution.environment: ", "environment=['A=1']"),
    "environment raises": Failure(
        IN_HOOK + "RuntimeError: mine (",
        "class Mine(dict):\n    def items(self): raise RuntimeError('mine')\n"
        + HOOK
        + "return Contribution(environment=Mine(a='b'))",
    ),
    "variable is a number": answer("TypeError: Contribution.environment['A']: ", "environment={'A': 1}"),
    "variable is nothing": answer("TypeError: Contribution.environment['A']: ", "environment={'A': None}"),
    "variable's name is a number": answer("TypeError: Contribution.environment[1]: ", "environment={1: 'A'}"),
    "variable has no name": answer("ValueError: Contribution.environment['']: ", "environment={'': 'A'}"),
    "variable's name has =": answer("ValueError: Contribution.environment['A=B']", "environment={'A=B': ''}"),
    "variable's name has NUL": answer("ValueError: Contribution.environment[", "environment={'A\\0': ''}"),
    "variable has NUL": answer("ValueError: Contribution.environment['A']: ", "environment={'A': 'a\\0b'}"),
    "variable has half a character": answer(
        "ValueError: Contribution.environment['A']: ", "environment={'A': '\\udc80'}"
    ),
    "steps are a step": answer("TypeError: Contribution.steps: ", "steps=ShellStep('taskStarts', ':')"),
    "steps are text": answer("TypeError: Contribution.steps: ", "steps='echo'"),
    "step is text": answer("TypeError: Contribution.steps: ", "steps=['echo']"),
    "script is a list": answer("TypeError: ShellStep.script: ", "steps=[ShellStep('taskStarts', ['echo'])]"),
    "script has NUL": answer("ValueError: ShellStep.script: ", "steps=[ShellStep('taskStarts', 'a\\0')]"),
    "step of an unknown event": answer(
        f"ValueError: ShellStep.event: expected one of {', '.join(EVENTS)}, found 'x'",
        "steps=[ShellStep('x', 'echo')]",
    ),
    "step for init": answer("ValueError: ShellStep.event: ", "steps=[ShellStep('init', 'echo')]"),
    "step with an unknown policy": answer(
        "ValueError: ShellStep.failure_policy: ", "steps=[ShellStep('taskExits', 'echo', 'warn')]"
    ),
    "exit rule with a secret": answer(
        "ValueError: Contribution.exit_rules: ", "exit_rules=[{'reason': '\\0s\\0'}]"
    ),
    "mount at no place": answer(
        "ValueError: Mount.path: ",
        "mounts=[__import__('pai_runtime.plugin').plugin.Mount('/a/../b', 'data')]",
    ),
    "changes what was checked": hook(
        "returned an invalid contribution: Contribution.environment['A']: ",
        "made = Contribution({'A': 'a'}); made.environment['A'] = 1; return made",
    ),
}


REFUSED = [failure for failure in FAILURES.values() if failure.message.startswith("is refused")]
CALLED = [failure for failure in FAILURES.values() if failure not in REFUSED]


def job_of_failing(
    site: Site, folder: Path, failures: list[Failure], severity: str, policy: str
) -> tuple[Path, list[str]]:
    """A job that uses plugins which fail, each in another way, and a good one around them.

    And how the message of each begins, in the order of their uses.
    """
    site.add("org.good")
    bad = [f"org.bad{number}" for number in range(len(failures))]
    path = write_job(folder, job(**uses("org.good", *bad, "org.good", failurePolicy=policy)))
    messages = []
    for number, failure in enumerate(failures):
        code, message = (text.replace("NUMBER", f"{number}") for text in (failure.code, failure.message))
        made = site.add(bad[number], code, files=failure.files, **failure.fields)
        label = f"{made.label}{' ' if message.startswith('is refused') else ', '}"
        messages.append(f"{path}:{12 + 4 * number}:3: {severity}: use 'use{number + 1}': {label}{message}")
    return path, messages


def by_line(messages: list[str]) -> list[str]:
    return sorted(messages, key=lambda message: int(message.split(":")[1]))


@pytest.mark.parametrize("failures", [REFUSED, CALLED], ids=["refused", "called"])
def test_a_plugin_that_fails_is_one_message_and_the_job_has_no_plan(
    site: Site, tmp_path: Path, failures: list[Failure]
) -> None:
    path, messages = job_of_failing(site, tmp_path, failures, "error", "fail")
    result = site.cli("plan", path, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    for line, message in zip(by_line(result.stderr.splitlines()), messages, strict=True):
        assert line.startswith(message)


def test_a_plugin_that_fails_and_is_ignored_is_left_out_with_a_warning(site: Site, tmp_path: Path) -> None:
    path, messages = job_of_failing(site, tmp_path, [*REFUSED, *CALLED], "warning", "ignore")
    result = site.cli("plan", path, "--json", "--task", "worker/0")
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    plan = json.loads(result.stdout)
    for warning, message in zip(by_line(plan["warnings"]), messages, strict=True):
        assert warning.startswith(message)
        assert warning.endswith("; it is left out, as its failurePolicy says")
    last = f"use{len(FAILURES) + 1}"
    assert [use["name"] for use in plan["uses"]] == ["use0", last, "failure_analysis", "hang"]
    scripts = [step["script"] for step in plan["steps"] if step["phase"] == "taskStarts"]
    assert scripts == ["echo hello from use0", f"echo hello from {last}"]
    greeted = {each["name"] for each in plan["environment"] if each["source"].startswith("use")}
    assert greeted == {"GREETED_BY_USE0", f"GREETED_BY_{last.upper()}"}


def test_a_message_names_the_line_of_the_plugins_own_code(site: Site, tmp_path: Path) -> None:
    made = site.add("org.bad", "import json\njson.loads('{')\n")
    result = site.cli("plan", write_job(tmp_path, job(**uses("org.bad"))))
    line = made.code.read_text().splitlines().index("json.loads('{')") + 1
    assert result.stderr.endswith(f"({made.code}:{line})\n")


def test_every_plugin_that_fails_is_named_at_once(site: Site, tmp_path: Path) -> None:
    bad = [site.add(f"org.bad{number}", f"raise RuntimeError('boom {number}')") for number in range(3)]
    site.add("org.raises", HOOK + "raise RuntimeError(f'role {task.role}')")
    document = job(**uses(*(made.id for made in bad), "org.raises"))
    document["taskRoles"]["ps"] = {**document["taskRoles"]["worker"], "instances": 3}
    result = site.cli("plan", write_job(tmp_path, document))
    assert result.returncode == 1
    said = re.findall(r"boom \d|role \w+", result.stderr)
    assert sorted(said) == ["boom 0", "boom 1", "boom 2", "role ps", "role worker"]


@pytest.mark.parametrize("how", ["missing", "refused", "broken", "raises"])
@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_a_run_without_a_plugin_goes_as_the_failure_policy_says(
    site: Site, tmp_path: Path, how: str, policy: str
) -> None:
    code = {"broken": "raise RuntimeError", "raises": HOOK + "raise RuntimeError"}.get(how, "")
    if how != "missing":
        site.add("org.bad", code, api=2 if how == "refused" else 1)
    site.add("org.good")
    path = write_job(tmp_path, job(**uses("org.good", "org.bad", "org.good", failurePolicy=policy)))
    result = site.cli("run", path, cwd=tmp_path)
    assert "Traceback" not in result.stderr
    runs = tmp_path / ".pai-runs"
    if policy == "fail":
        assert result.returncode == 2
        assert result.stderr.endswith("pai-runtime: nothing was started\n")
        assert "12:3: error: use 'use1': " in result.stderr
        assert not runs.exists()
        return
    assert result.returncode == 0, result.stderr
    log = (runs / "test-1" / "worker" / "0" / "logs" / "runtime.log").read_text()
    assert "[WARNING]" in log
    assert "use 'use1'" in log
    said = [line.partition("[openpai-runtime] ")[2] for line in log.splitlines() if "hello" in line]
    assert said == ["hello from use0", "hello from use2"]


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_a_plugin_that_is_not_installed_is_named_with_the_one_that_was_meant(
    site: Site, tmp_path: Path, policy: str
) -> None:
    document = job(**uses("cmdd", failurePolicy=policy))
    document["prerequisites"][1]["callbacks"] = [callback("taskStarts", "echo")]
    result = site.cli("plan", write_job(tmp_path, document))
    assert result.returncode == (1 if policy == "fail" else 0)
    message = "plugin com.microsoft.pai.runtimeplugin.cmdd is not installed"
    assert message in result.stderr + result.stdout
    assert "did you mean com.microsoft.pai.runtimeplugin.cmd?" in result.stderr + result.stdout


NOISE = [
    "print('noise', flush=True)",
    "print('noise')",
    "import sys; sys.stdout.write('noise\\n'); sys.stdout.flush()",
    "import os; os.write(1, b'noise\\n')",
    "import subprocess; subprocess.run(['echo', 'noise'], check=True)",
]


def test_what_a_plugin_prints_is_not_part_of_a_plan(site: Site, tmp_path: Path) -> None:
    for number, noise in enumerate(NOISE):
        site.add(f"org.imported{number}", noise + "\n")
        site.add(f"org.called{number}", HOOK + noise.replace("; ", "\n    "))
    loud = [f"org.{where}{number}" for number in range(len(NOISE)) for where in ("imported", "called")]
    result = site.cli("plan", write_job(tmp_path, job(**uses(*loud))), "--json", "--task", "worker/0")
    assert result.returncode == 0
    assert json.loads(result.stdout)["role"] == "worker"
    assert "noise" not in result.stdout
    assert result.stderr.split() == ["noise"] * len(loud)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"$ref": "#/$defs/none"}, "cannot be used to check parameters"),
        ({"$ref": "#"}, "cannot be used to check parameters"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_manifest_that_cannot_check_parameters_is_blamed_on_its_plugin(
    site: Site, tmp_path: Path, command: str, parameters: dict[str, Any], message: str
) -> None:
    made = site.add("org.bad", parameters=parameters)
    path = write_job(tmp_path, job(**uses("org.bad")))
    result = site.cli(command, path, cwd=tmp_path)
    assert result.returncode == (2 if command == "run" else 1)
    assert f"{path}:8:3: error: the manifest of {made.label} {message}" in result.stderr
    assert "Traceback" not in result.stderr


def test_all_parameters_of_all_uses_are_checked_before_any_plugin_is_imported(
    site: Site, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "additionalProperties": False}
    site.add("org.one", parameters=schema)
    site.add("org.two", parameters=schema)
    document = job(**uses("org.one", "org.two"))
    document["prerequisites"][1]["size"] = "big"
    document["prerequisites"][2]["parameters"] = {"sise": 1}
    path = write_job(tmp_path, document)
    result = site.cli("run", path, cwd=tmp_path)
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"{path}:11:9: error: prerequisites[1].size: expected")
    assert lines[1].startswith(f"{path}:16:5: error: prerequisites[2].parameters.sise: unknown field")
    assert lines[1].endswith("did you mean size?")
    assert site.imported == set()


@pytest.mark.parametrize("failure_policy", ["fail", "ignore"])
@pytest.mark.parametrize(
    "command", [["plan"], ["validate"], ["run", "--dry-run"]], ids=lambda words: words[0]
)
def test_the_lines_that_led_to_an_exception_are_shown_on_request(
    tmp_path: Path, command: list[str], failure_policy: str
) -> None:
    site = Site(tmp_path)
    made = site.add("org.bad", "def inner(): raise KeyError('x')\n" + HOOK + "inner()")
    path = write_job(tmp_path, job(**uses("org.bad", failurePolicy=failure_policy)))
    brief = site.cli(*command, path)
    shown = site.cli(*command, path, "--debug")
    assert brief.returncode == shown.returncode
    assert " in inner" not in brief.stderr
    lines = [line.strip() for line in shown.stderr.splitlines() if line.startswith("    ")]
    assert [line.partition(" in ")[2] for line in lines] == ["pai_prerequisite", "inner"]
    assert all(line.startswith(f"{made.code}:") for line in lines)


def test_lines_of_a_plugin_are_shown_escaped_and_without_secrets(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.bad", HOOK + r"exec(compile('x', __file__ + '\x1b[2J s3cret-w0rd', 'exec'))")
    path = write_job(tmp_path, job(secrets={"word": "s3cret-w0rd"}, **uses("org.bad")))
    shown = site.cli("validate", path, "--debug")
    (line,) = (line for line in shown.stderr.splitlines() if line.endswith(" in <module>"))
    assert ("\x1b" in line, "s3cret-w0rd" in line, "******" in line) == (False, False, True)
