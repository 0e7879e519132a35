"""What `pai-runtime plugins check` finds in a plugin beyond what its manifest says."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pai_runtime import hooks
from pai_runtime.host import plugin_check, separate_process
from pai_runtime.host.host import Host
from pai_runtime.host.plugin_check import Fault, check_plugins
from tests.plugin_factory import Site, uses
from tests.support import job, write_job

pytestmark = pytest.mark.process

PARAMETERS = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "word": {"enum": ["one", "two"]}},
    "examples": [{"text": "hello", "word": "one"}],
}


def hook(*lines: str) -> str:
    return "@hookimpl\ndef pai_prerequisite(use, task):\n" + "".join(f"    {line}\n" for line in lines)


def answer(contribution: str) -> str:
    return hook(f"return Contribution({contribution})")


TEXT = "use.parameters['text']"


@pytest.fixture
def faults(site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Checks a plugin with this code, in this process, and returns the codes of what is found."""
    for name, value in site.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(site.folder))

    def found(code: str, **fields: Any) -> Sequence[Fault]:
        site.add("org.one", code, **{"parameters": PARAMETERS, **fields})
        host = Host()
        return check_plugins(host, [host.find("org.one")])["org.one"]

    return found


FOUND: Mapping[str, tuple[str, str]] = {
    "a name of no variable": (answer("{'A B': ''}"), "variable-name"),
    "the search path": (answer("{'PATH': '/opt/bin'}"), "overwritten"),
    "a variable of the platform": (answer("{'PAI_TASK_INDEX': '1'}"), "overwritten"),
    "an exit code of a rule": (answer("exit_rules=[{'containerExitCode': 2000}]"), "exit-code"),
    "a secret in capitals": (answer(f"{{'A': {TEXT}.upper()}}"), "secret"),
    "the length of a secret": (answer(f"{{'A': str(len({TEXT}))}}"), "secret"),
    "an encoded secret": (answer(f"{{'A': {TEXT}.encode().hex()}}"), "secret"),
    "a secret compared": (answer(f"{{'A': str({TEXT} > '\\0check.p')}}"), "secret"),
    "a secret parsed": (hook(f"return Contribution({{'A': str({{'hello': 1}}[{TEXT}])}})"), "secret"),
    "chance": (
        hook("import random", "return Contribution({'A': str(random.random())})"),
        "not-deterministic",
    ),
    "the order of a set": (answer("{'A': ' '.join({str(each) for each in range(99)})}"), "not-deterministic"),
    "what it has been asked": (
        "asked = []\n" + hook("asked.append(1)", "return Contribution({'A': str(len(asked))})"),
        "not-deterministic",
    ),
    "a file": (hook("open('/tmp/pai-made-by-a-plugin', 'w')"), "side-effect"),
    "a file, with exceptions caught": (
        hook("try: open('/tmp/pai-made-by-a-plugin', 'w')", "except Exception: pass"),
        "side-effect",
    ),
    "a directory": (hook("import os", "os.makedirs('/tmp/pai-made-by-a-plugin')"), "side-effect"),
    "the network": (
        hook("import socket", "socket.create_connection(('127.0.0.1', 9))"),
        "side-effect",
    ),
    "a program": (hook("import subprocess", "subprocess.run(['true'])"), "side-effect"),
    "a side effect of its import": ("open('/tmp/pai-made-by-a-plugin', 'w')\n" + answer(""), "side-effect"),
    "a step that may not be ignored": (
        answer("steps=[ShellStep('taskStarts', 'true', 'fail')]"),
        "failure-policy",
    ),
    "an exception under one policy": (
        hook("if use.failure_policy == 'ignore': raise KeyError('x')", "return Contribution()"),
        "hook",
    ),
}


@pytest.mark.parametrize(("code", "fault"), FOUND.values(), ids=FOUND)
def test_what_breaks_a_rule_for_plugins_is_found(faults: Any, code: str, fault: str) -> None:
    assert {each.code for each in faults(code)} == {fault}
    assert not Path("/tmp/pai-made-by-a-plugin").exists()


FINE = {
    "passes its secret on": answer(f"{{'A': {TEXT}}}, steps=[ShellStep('taskStarts', 'x ' + {TEXT})]"),
    "asks whether it is one": hook(
        "from pai_runtime.plugin import has_secret",
        f"return Contribution({{'A': '1' if has_secret({TEXT}) else {TEXT}.upper()}})",
    ),
    "says that it can be none": hook(
        "from pai_runtime.plugin import UserError, has_secret",
        f"if has_secret({TEXT}): raise UserError('text cannot be a secret')",
    ),
    "looks at a word that can be none": answer("{'A': use.parameters['word'].upper()}"),
    "reads a file": hook("open('/etc/passwd').close()", "return Contribution()"),
    "answers by a sorted set": answer("{'A': ' '.join(sorted({'b', 'a', 'c'}))}"),
    "has a step that is ignored": answer("steps=[ShellStep('taskStarts', 'true', 'ignore')]"),
}


@pytest.mark.parametrize("code", FINE.values(), ids=FINE)
def test_what_breaks_no_rule_passes(faults: Any, code: str) -> None:
    assert faults(code) == []


def test_a_hook_that_hangs_is_found(faults: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separate_process, "LONGEST_CALL", 1)
    (fault,) = faults(hook("import time", "time.sleep(1000)"))
    assert (fault.code, "timed out" in fault.message) == ("hook", True)


def test_an_import_is_measured_by_the_start_of_python(faults: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = "import time\nuntil = time.process_time() + 1\nwhile time.process_time() < until: pass\n"
    monkeypatch.setattr(plugin_check, "MOST_IMPORT_RATIO", 3)
    assert [each.code for each in faults(busy + answer(""))] == ["slow-import"]


def test_the_lines_that_led_to_an_exception_are_shown_on_request(site: Site) -> None:
    made = site.add("org.one", "def inner(): raise KeyError('x')\n" + hook("inner()"), parameters=PARAMETERS)
    brief = site.cli("plugins", "check", "org.one")
    shown = site.cli("plugins", "check", "org.one", "--debug")
    assert str(made.code) in brief.stderr
    assert " in inner" not in brief.stderr
    lines = [line.strip() for line in shown.stderr.splitlines() if line.startswith(" ")]
    assert [line.partition(" in ")[2] for line in lines[:2]] == ["pai_prerequisite", "inner"]
    assert all(line.startswith(f"{made.code}:") for line in lines)


# Versions of the plugin API

_NEXT_VERSION = """
import sys
import pai_runtime.plugin
pai_runtime.plugin.API_VERSION = 2
from pai_runtime.cli import main
sys.exit(main())
"""


def test_a_plugin_of_the_version_before_works_unchanged_and_others_are_refused(
    site: Site, tmp_path: Path
) -> None:
    """In a runtime of the next version."""
    for id_, api in (("org.before", 1), ("org.current", 2), ("org.later", 3)):
        site.add(id_, api=api, parameters=PARAMETERS)

    def cli(*args: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", _NEXT_VERSION, *map(str, args)]
        env = {**os.environ, **site.environment()}
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    path = write_job(tmp_path, job(**uses("org.before", "org.current")))
    planned = cli("plan", path, "--json", "--task", "worker/0")
    assert planned.returncode == 0, planned.stderr
    assert [use["plugin"] for use in json.loads(planned.stdout)["uses"]][:2] == ["org.before", "org.current"]
    refused = cli("plan", write_job(tmp_path, job(**uses("org.later"))))
    assert (refused.returncode, "this runtime supports 1 and 2" in refused.stderr) == (1, True)


def test_a_deprecated_hook_is_a_warning_in_a_check_and_works(
    faults: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    deprecated = DeprecationWarning("use steps instead")
    monkeypatch.setitem(hooks.pai_task_starts.pai_runtime_spec, "warn_on_impl", deprecated)  # type: ignore[attr-defined]
    (fault,) = faults("@hookimpl\ndef pai_task_starts(): pass\n", hooks=["pai_task_starts"])
    assert (fault.code, fault.severity) == ("deprecated", "warning")
    assert "use steps instead" in fault.message
