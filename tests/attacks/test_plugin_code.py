"""Promise 1: no code of a plugin runs that the policy did not see."""

import importlib.metadata
import importlib.util
import json
import marshal
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import ruamel.yaml
from packaging.requirements import Requirement

from pai_document.problems import InvalidInput
from pai_runtime.host import policies_in_force as policies
from pai_runtime.host.code import GROUP
from pai_runtime.host.core_imports import OWN
from pai_runtime.host.host import Host, Unavailable
from tests.attacks.test_task_folder import isolated
from tests.fault_server import FaultServer, Reply
from tests.git_server import make_repository
from tests.needs import MOUNT_NAMESPACE
from tests.plugin_factory import (
    GREETS,
    PIP,
    SEEN,
    USES_API,
    UV,
    Made,
    Site,
    manifest,
    policy_rule,
    uses,
    write_policy,
)
from tests.support import JOBS, PROGRAM, cli, job, runtime_log, write_job

pytestmark = pytest.mark.process

EVIL = f"""\
import os, pathlib
if {SEEN!r} in os.environ:
    (pathlib.Path(os.environ[{SEEN!r}]) / "evil").touch()
"""
"""Leaves the name ``evil`` among the modules that were imported."""

COMMAND = """
def add_arguments(parser):
    pass
def main(args, output):
    print("the command of the source")
    return 0
"""


def pinned(folder: Path, *made: Made) -> Path:
    """A policy that allows these plugins with the code that they have now."""
    return write_policy(folder, *(policy_rule(each, digest=each.digest) for each in made))


# Byte code


def _unchecked(_source: Path) -> bytes:
    return importlib.util.MAGIC_NUMBER + (0b01).to_bytes(4, "little") + bytes(8)


def _forged_time(source: Path) -> bytes:
    status = source.stat()
    numbers = (0, int(status.st_mtime), status.st_size)
    return importlib.util.MAGIC_NUMBER + b"".join(each.to_bytes(4, "little") for each in numbers)


def _forge(source: Path, header: Callable[[Path], bytes], code: str, *, optimization: str = "") -> Path:
    """Byte code of other code, where and with the header by which Python takes it for the source's."""
    cached = Path(importlib.util.cache_from_source(str(source), optimization=optimization))
    cached.parent.mkdir(exist_ok=True)
    cached.write_bytes(header(source) + marshal.dumps(compile(code, str(source), "exec")))
    return cached


@pytest.mark.parametrize("header", [_unchecked, _forged_time])
@pytest.mark.parametrize("listed", [False, True])
def test_byte_code_beside_the_source_is_run_neither_in_planning_nor_in_hooks_nor_in_commands(
    site: Site, tmp_path: Path, header: Callable[[Path], bytes], *, listed: bool
) -> None:
    made = site.add(
        "org.one",
        GREETS + "import org_one.part\n@hookimpl\ndef pai_init(use, task): print('init of the source')\n",
        files={"{package}/part.py": "", "{package}/command.py": COMMAND},
        hooks=["pai_prerequisite", "pai_init"],
        commands=[{"name": "greet", "module": "org_one.command", "summary": "greet"}],
    )
    before = made.digest
    cached = [_forge(made.package / f"{name}.py", header, EVIL) for name in ("__init__", "part", "command")]
    if listed:
        files = [line.partition(",")[0] for line in (made.info / "RECORD").read_text().splitlines()]
        site.write_record(made, [*files, *(str(path.relative_to(site.folder)) for path in cached)])
    assert made.digest == before
    policy = pinned(tmp_path, made)
    ran = site.cli(
        "run", write_job(tmp_path, job(**uses("org.one"))), "--policy", policy, "--out", tmp_path / "run"
    )
    assert ran.returncode == 0, ran.stderr
    assert "init of the source" in (tmp_path / "run/worker/0/logs/runtime.log").read_text()
    command = site.cli("greet", env={"PAI_RUNTIME_POLICY": str(policy)})
    assert (command.returncode, command.stdout) == (0, "the command of the source\n")
    assert "org_one" in site.imported
    assert "evil" not in site.imported


def test_the_attack_by_byte_code_would_work_on_python_itself(site: Site) -> None:
    """So that the test above does not pass because its forgery is a poor one."""
    made = site.add("org.one")
    _forge(made.code, _unchecked, EVIL)
    subprocess.run(
        [sys.executable, "-c", "import org_one"], env={**os.environ, **site.environment()}, check=True
    )
    assert site.imported == {"evil"}


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_wheel_with_the_same_sources_and_other_byte_code_runs_its_sources(
    site: Site, tmp_path: Path, installer: str
) -> None:
    made = site.add("org.one", GREETS)
    wheel = tmp_path / "org_one-1.0-py3-none-any.whl"
    info = made.info.name
    (made.info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    cached = _forge(made.code, _unchecked, EVIL)
    files = [made.code, made.package / "manifest.json", cached]
    files += [made.info / name for name in ("METADATA", "WHEEL", "entry_points.txt")]
    site.write_record(made, [*(str(path.relative_to(site.folder)) for path in files), f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in (*files, made.info / "RECORD"):
            archive.write(path, path.relative_to(site.folder))
    target = tmp_path / "target"
    if installer == "pip":
        argv: list[str | Path] = [sys.executable, *PIP, "--no-compile", "--target", target, wheel]
    else:
        argv = [UV, "pip", "install", "--offline", "--no-index", "--no-deps", "--python", sys.executable]
        argv += ["--target", target, wheel]
    subprocess.run(argv, check=True, capture_output=True)
    assert list(target.glob("org_one/__pycache__/*.pyc"))
    path = write_job(tmp_path, job(**uses("org.one")))
    planned = site.cli("plan", path, "--policy", pinned(tmp_path, made), env={"PYTHONPATH": str(target)})
    assert planned.returncode == 0, planned.stderr
    assert "GREETED_BY_USE0" in planned.stdout
    assert site.imported == {"org_one"}


def test_byte_code_without_a_source_is_not_run_though_it_is_listed(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one", "import org_one.part\n" + GREETS)
    (made.package / "part.pyc").write_bytes(_unchecked(made.code) + marshal.dumps(compile(EVIL, "x", "exec")))
    files = [line.partition(",")[0] for line in (made.info / "RECORD").read_text().splitlines()]
    site.write_record(made, [*files, "org_one/part.pyc"])
    planned = site.cli(
        "plan", write_job(tmp_path, job(**uses("org.one"))), "--policy", pinned(tmp_path, made)
    )
    assert planned.returncode == 1
    assert f"{made.label}, import: ImportError: the module org_one.part would be" in planned.stderr
    assert "evil" not in site.imported


def test_a_module_that_another_plugin_has_imported_before_is_from_its_source_too(
    site: Site, tmp_path: Path
) -> None:
    made = [site.add("org.first", "import org_second\n" + GREETS), site.add("org.second")]
    _forge(made[1].code, _unchecked, EVIL)
    path = write_job(tmp_path, job(**uses("org.first", "org.second")))
    planned = site.cli("plan", path, "--policy", pinned(tmp_path, *made))
    assert planned.returncode == 0, planned.stderr
    assert site.imported == {"org_first", "org_second"}


def test_a_module_of_another_plugin_that_a_hook_imports_is_from_its_source_too(
    site: Site, tmp_path: Path
) -> None:
    hook = "@hookimpl\ndef pai_init(use, task):\n    import org_second\n    print('imported')\n"
    made = [site.add("org.first", hook, hooks=["pai_init"]), site.add("org.second")]
    _forge(made[1].code, _unchecked, EVIL)
    path = write_job(tmp_path, job(**uses("org.first")))
    options = "--policy", pinned(tmp_path, *made), "--out", tmp_path / "run", "--isolation", "none"
    ran = site.cli("run", path, *options)
    assert ran.returncode == 0, ran.stderr
    assert "imported" in (tmp_path / "run/worker/0/logs/runtime.log").read_text()
    assert "org_second" in site.imported
    assert "evil" not in site.imported


def test_nothing_leaves_byte_code_of_a_plugin(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one")
    env = {"PYTHONDONTWRITEBYTECODE": ""}
    assert site.cli("plan", write_job(tmp_path, job(**uses("org.one"))), env=env).returncode == 0
    assert not list(made.package.glob("__pycache__/*"))


# Code of other distributions


LAZY = """
@hookimpl
def pai_prerequisite(use, task):
    try:
        import {module}
    except ImportError as error:
        return Contribution(environment={{"REFUSED": str(error)}})
    return Contribution(environment={{"REFUSED": "no"}})
"""
"""Imports a module while it is called, and goes on without it."""


def _foreign(site: Site, file: str, *, listed: bool) -> Path:
    """A file of another distribution, or of nobody."""
    if listed:
        site.add("org.other", files={file: EVIL})
    else:
        path = site.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(EVIL)
    return site.folder / file


def _refused(site: Site, folder: Path, made: Made) -> str:
    """What the plugin's own import was told."""
    planned = site.cli(
        "plan", write_job(folder, job(**uses(made.id))), "--json", "--policy", pinned(folder, made)
    )
    assert planned.returncode == 0, planned.stderr
    variables = {
        each["name"]: each["value"] for each in json.loads(planned.stdout)["plans"][0]["environment"]
    }
    refused: str = variables["REFUSED"]
    return refused


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("org_one.sub", "org_one/sub/__init__.py"),
        ("org_one.extra", "org_one/extra.py"),
        ("org_one.extra", "org_one/extra/__init__.py"),
        ("org_one.space.extra", "org_one/space/extra.py"),
        ("org_one.data.extra", "org_one/data/extra.py"),
        ("org_one.sub.extra", "org_one/sub/extra.py"),
        ("org_one.__pycache__.extra", "org_one/__pycache__/extra.py"),
        ("plain", "plain/__init__.py"),
        ("wide", "wide/__init__.py"),
        ("wide.part", "wide/__init__.py"),
        ("wide.part", "wide/part/__init__.py"),
    ],
)
def test_nothing_of_another_distribution_is_imported_as_a_part_of_a_plugins_packages(
    site: Site, tmp_path: Path, module: str, file: str, *, listed: bool
) -> None:
    files: dict[str, str | None] = {
        "{package}/sub.py": "",
        "{package}/data/text.txt": "",
        "{package}/space/own.py": "",
        "plain.py": "",
        "wide/part.py": "",
    }
    made = site.add("org.one", LAZY.format(module=module), files=files)
    foreign = _foreign(site, file, listed=listed)
    refused = _refused(site, tmp_path, made)
    assert "evil" not in site.imported
    if "org_one/sub/extra.py" not in file:  # there, Python itself finds the module `sub`, which is no package
        assert f"would be imported from {foreign}, which belongs to" in refused
        assert ("org-other 1.0" in refused) == listed


@pytest.mark.parametrize("suffix", [".abi3.so", ".so"])
def test_an_extension_module_beside_a_source_is_not_loaded_in_its_place(
    site: Site, tmp_path: Path, suffix: str
) -> None:
    made = site.add("org.one", LAZY.format(module="org_one.sub"), files={"{package}/sub.py": ""})
    (made.package / f"sub{suffix}").write_bytes(b"")
    assert f"sub{suffix}, which belongs to" in _refused(site, tmp_path, made)


def test_the_package_of_another_distribution_around_a_plugin_is_not_run(site: Site, tmp_path: Path) -> None:
    made = site.add(
        "org.deep",
        files={
            "{info}/entry_points.txt": f"[{GROUP}]\norg.deep = acme.plug\n",
            "acme/plug.py": USES_API + GREETS,
            "acme/plug.manifest.json": json.dumps(manifest("org.deep")),
        },
    )
    path = write_job(tmp_path, job(**uses("org.deep")))
    policy = pinned(tmp_path, made)
    assert site.cli("plan", path, "--policy", policy).returncode == 0
    # Beside it, a part of the same namespace stays possible.
    (site.folder / "acme/other.py").write_text("")
    assert site.cli("plan", path, "--policy", policy).returncode == 0
    foreign = _foreign(site, "acme/__init__.py", listed=True)
    refused = site.cli("plan", path, "--policy", policy)
    assert refused.returncode == 1
    message = f"{made.label}, import: ImportError: the module acme would be imported from {foreign}, which "
    assert f"{message}belongs to org-other 1.0, not to org-deep" in refused.stderr
    assert "evil" not in site.imported


def test_a_refused_distribution_cannot_make_the_modules_of_others_its_own(site: Site, tmp_path: Path) -> None:
    """It lists a library of the runtime, and a part of another plugin; neither is its own by that."""
    made = site.add("org.one", LAZY.format(module="org_one.extra"))
    evil = site.add("org.evil", files={"org_one/extra.py": EVIL, "pluggy.py": EVIL, "yaml/__init__.py": EVIL})
    for file in ("pluggy.py", "yaml/__init__.py"):
        (site.folder / file).unlink()
    assert f"belongs to {evil.distribution} 1.0" in _refused(site, tmp_path, made)
    assert "evil" not in site.imported


@pytest.mark.parametrize("file", ["__init__.py", "sub.py", "manifest.json"])
def test_a_distribution_that_overwrites_anothers_file_gets_it_refused_by_any_policy(
    site: Site, tmp_path: Path, file: str
) -> None:
    """Installers let it."""
    made = site.add("org.one", "import org_one.sub\n" + GREETS, files={"{package}/sub.py": ""})
    text = (made.package / file).read_text()
    site.add("org.other", files={f"org_one/{file}": EVIL + text if file.endswith("py") else text + "\n"})
    policy = write_policy(tmp_path, policy_rule(made))
    planned = site.cli("plan", write_job(tmp_path, job(**uses("org.one"))), "--policy", policy)
    assert planned.returncode == 1
    assert f"{made.label} is refused: policy {policy} refuses it: its file org_one/{file} " in planned.stderr
    assert site.imported == set()


def test_other_distributions_are_imported_as_ever(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one", LAZY.format(module="library.part"))
    for file in ("library/__init__.py", "library/part.py"):
        path = site.folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert _refused(site, tmp_path, made) == "no"


OPTIONAL = [
    "brotli",
    "brotlicffi",
    "backports/__init__",
    "h2",
    "socks",
    "idna",
    "fqdn",
    "rfc3987",
    "webcolors",
]
"""Files of modules that libraries of the runtime import if they are there."""


@pytest.mark.parametrize("is_plugin", [True, False])
def test_libraries_of_the_runtime_import_nothing_that_they_do_not_require(
    site: Site, tmp_path: Path, *, is_plugin: bool
) -> None:
    files: dict[str, str | None] = {f"{name}.py": EVIL for name in OPTIONAL}
    if is_plugin:
        site.add("org.evil", files=files)
    for file in files:
        (site.folder / file).parent.mkdir(exist_ok=True)
        (site.folder / file).write_text(EVIL)
    environment = {**os.environ, **site.environment(), "NO_PROXY": "127.0.0.1"}
    policy = tmp_path / "policy.yaml"
    with FaultServer(Reply(404)) as server:
        plugin = (
            "{id: com.microsoft.pai.runtimeplugin.definitions, distribution: pai-definitions, versions: '*'}"
        )
        sources = f"{{sources: ['{server.url}/']}}"
        policy.write_text(f"policyVersion: 1\nplugins: [{plugin}]\ndefinitions: {sources}\n")
        document = job(worker={"prerequisites": [f"{server.url}/definition.yaml"], "instances": "many"})
        # A process that has imported nothing yet.
        argv: list[str | Path] = [PROGRAM, "validate", write_job(tmp_path, document), "--policy", policy]
        ended = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert "no such file (404)" in ended.stderr  # asked by urllib3
    assert "instances: expected" in ended.stderr  # found by jsonschema
    assert ended.returncode == 1
    assert site.imported == set()


def test_what_writes_yaml_imports_no_extension_that_others_have_put_into_its_package(site: Site) -> None:
    package = site.folder / "ruamel" / "yaml"
    shutil.copytree(Path(ruamel.yaml.__file__).parent, package)
    (package / "evil").mkdir()
    for name in ("__init__.py", "__plug_in__.py"):
        (package / "evil" / name).write_text(EVIL)
    argv: list[str | Path] = [PROGRAM, "convert", next(JOBS.glob("legacy/*.json"))]
    subprocess.run(argv, env={**os.environ, **site.environment()}, capture_output=True, check=True)
    assert site.imported == set()


def test_no_plugin_imports_a_module_of_a_distribution_whose_plugins_are_refused(
    site: Site, tmp_path: Path
) -> None:
    made = site.add("org.one", LAZY.format(module="brotli"))
    site.add("org.evil", files={"brotli.py": EVIL})
    assert "org-evil" in _refused(site, tmp_path, made)
    assert "evil" not in site.imported
    other = site.add("org.two", files={"library.py": EVIL})
    made = site.add("org.one", LAZY.format(module="library"))
    policy = pinned(tmp_path, made, other)
    assert site.cli("plan", write_job(tmp_path, job(**uses("org.one"))), "--policy", policy).returncode == 0
    assert "evil" in site.imported  # that of an allowed one is as ever


_HOOK_IMPORTS = """
@hookimpl
def pai_task_starts(use, task):
    for name in ("brotli", "oddly", "library"):
        try:
            __import__(name)
        except ImportError as error:
            print(f"not imported: {error}")
"""


@pytest.mark.parametrize("mode", ["auto", "none"])
def test_nor_does_a_hook_in_a_task(site: Site, tmp_path: Path, mode: str) -> None:
    made = site.add("org.one", _HOOK_IMPORTS, hooks=["pai_task_starts"])
    site.add("org.evil", files={"brotli.py": EVIL})
    record = site.add("org.odd", files={"oddly.py": EVIL}).info / "RECORD"
    record.write_text(record.read_text().replace("oddly.py", '"oddly".py'))  # which is the same in CSV
    other = site.add("org.two", files={"library.py": "print('allowed')"})
    run = tmp_path / "run"
    policy, path = pinned(tmp_path, made, other), write_job(tmp_path, job(**uses("org.one")))
    ended = site.cli("run", path, "--policy", policy, "--out", run, "--isolation", mode)
    assert ended.returncode == 0, ended.stderr
    said = runtime_log(run / "worker/0")
    assert "evil" not in site.imported
    assert [line.split(": ", 1)[-1] for line in said if "not imported" in line] == [
        "the module brotli belongs to org-evil, whose plugins are refused",
        "the module oddly belongs to org-odd, whose plugins are refused",
    ]
    assert "allowed" in said


def test_the_modules_of_the_runtime_and_of_what_it_requires_are_named_as_they_are_installed() -> None:
    required, tops = {"pai-runtime", "pai-definitions", "pai-kubernetes"}, set()
    left = list(required)
    while left:
        found = importlib.metadata.distribution(left.pop())
        tops |= {
            file.parts[0].partition(".")[0] for file in found.files or () if file.suffix in (".py", ".so")
        }
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.name not in required and (
                needed.marker is None or needed.marker.evaluate({"extra": ""})
            ):
                required.add(needed.name)
                left.append(needed.name)
    assert {top for top in tops if top.isidentifier()} - OWN == set()


def test_a_plugin_still_knows_its_source_and_its_data(site: Site, tmp_path: Path) -> None:
    code = (
        "import inspect, importlib.resources, pathlib\nfrom org_one import sub\n"
        "@hookimpl\ndef pai_prerequisite(use, task):\n"
        "    data = importlib.resources.files('org_one') / 'data.txt'\n"
        "    told = [inspect.getsource(sub.f), data.read_text()]\n"
        "    told += [pathlib.Path(sub.__file__).name, __package__]\n"
        "    return Contribution(environment={'REFUSED': '|'.join(told)})\n"
    )
    source = "def f():\n    return 1\n"
    made = site.add("org.one", code, files={"{package}/sub.py": source, "{package}/data.txt": "data"})
    assert _refused(site, tmp_path, made) == f"{source}|data|sub.py|org_one"


def test_a_module_that_was_changed_after_it_was_measured_is_run_as_it_was_measured(
    site: Site, tmp_path: Path
) -> None:
    """There is no time between the check and the use."""
    changes = f"import pathlib\npathlib.Path(__file__).with_name('sub.py').write_text({EVIL!r})\n"
    made = site.add(
        "org.one",
        changes + "from org_one import sub\n" + LAZY.format(module="org_one.sub"),
        files={"{package}/sub.py": ""},
    )
    assert _refused(site, tmp_path, made) == "no"
    assert (made.package / "sub.py").read_text() == EVIL
    assert "evil" not in site.imported


# Commands


def _command(site: Site, module: str, code: str = COMMAND, **fields: Any) -> Made:
    command = {"name": "greet", "module": module, "summary": "greet"}
    return site.add("org.one", "", files={"{package}/command.py": code}, commands=[command], **fields)


@pytest.mark.parametrize(
    "fields",
    [{"summary": ""}, {"api": "1"}, {"hooks": ["pai_none"]}, {"parameters": {"type": "text"}}],
    ids=str,
)
def test_a_command_of_a_plugin_whose_manifest_is_wrong_is_not_imported(
    site: Site, fields: dict[str, Any]
) -> None:
    _command(site, "org_one.command", EVIL + COMMAND, **fields)
    ended = site.cli("greet")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert site.imported == set()


def test_a_command_is_a_module_of_its_own_distribution(site: Site) -> None:
    made = _command(site, "library.command")
    (site.folder / "library").mkdir()
    (site.folder / "library/command.py").write_text(EVIL + COMMAND)
    ended = site.cli("greet")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"{made.label}, command greet: ModuleNotFoundError" in ended.stderr
    assert "evil" not in site.imported


# Hooks in the task

HOOK = """
import sys
@hookimpl
def pai_init(use, task): print('known', use.parameters)
@hookimpl
def pai_task_exits(use, task):
    frame, known = sys._getframe(), []
    while frame:
        known += [repr(value) for value in frame.f_locals.values()]
        frame = frame.f_back
    print('known', known)
"""
"""Tells all that there is in the process of the hook."""


@pytest.mark.parametrize("file", ["__init__.py", "sub.py", "manifest.json"])
def test_a_hook_does_not_run_code_that_the_task_has_changed(site: Site, tmp_path: Path, file: str) -> None:
    made = site.add("org.one", "import org_one.sub\n" + HOOK, files={"{package}/sub.py": ""})
    document = job(**uses("org.one"))
    change = f"cat >> {shlex.quote(str(made.package))}/{file} <<'END'\n{EVIL}END\n"
    document["taskRoles"]["worker"]["commands"] = [change]
    ran = site.cli("run", write_job(tmp_path, document), "--isolation", "none", "--out", tmp_path / "run")
    assert ran.returncode == 0, ran.stderr
    log = (tmp_path / "run/worker/0/logs/runtime.log").read_text()
    assert f"the code of {made.label} has changed " in log
    assert log.count("known") == 1
    assert "evil" not in site.imported


def test_a_hook_is_told_by_nothing_that_the_task_can_write(site: Site, tmp_path: Path) -> None:
    site.add("org.one", HOOK)
    site.add("org.two", HOOK.replace("known", "wrong"))
    document = job(**uses("org.one"))
    document["taskRoles"]["worker"]["commands"] = ["sed -i s/org.one/org.two/g ../plan.json"]
    ran = site.cli("run", write_job(tmp_path, document), "--isolation", "none", "--out", tmp_path / "run")
    assert ran.returncode == 0, ran.stderr
    log = (tmp_path / "run/worker/0/logs/runtime.log").read_text()
    assert log.count("known") == 2
    assert "wrong" not in log


def test_a_hook_has_the_secrets_of_its_use_and_no_others(site: Site, tmp_path: Path) -> None:
    """Those of others are told apart by their length, since what is shown of a secret is masked."""
    tells = HOOK.replace(
        "print('known', known)", "print('known', [len(w) for w in ' '.join(known).split('!')])"
    )
    site.add("org.one", tells)
    site.add("org.two", HOOK)
    secrets = {"mine": f"!{'a' * 1001}!", "theirs": f"!{'b' * 2002}!"}
    document = job(**uses("org.one", "org.two"), secrets=secrets)
    document["prerequisites"][1]["key"] = "<% $secrets.mine %>"
    document["prerequisites"][2]["key"] = "<% $secrets.theirs %>"
    ran = site.cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ran.returncode == 0, ran.stderr
    log = (tmp_path / "run/worker/0/logs/runtime.log").read_text()
    assert "1001" in log
    assert "2002" not in log


# The policy of the machine


def _with_machine_policy(
    folder: Path, text: str | None, argv: Sequence[str | Path], **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a command where `/etc` has this policy, and little else; None: a link to nothing."""
    etc = folder / "etc/pai-runtime"
    etc.mkdir(parents=True, exist_ok=True)
    if text is None:
        (etc / "policy.yaml").symlink_to("nothing")
    else:
        (etc / "policy.yaml").write_text(text)
    for name in ("ld.so.cache", "passwd", "group"):
        if (source := Path("/etc") / name).exists():
            (etc.parent / name).write_bytes(source.read_bytes())
    return subprocess.run(
        [*MOUNT_NAMESPACE, "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', etc.parent, *argv],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.needs("mounts")
@pytest.mark.parametrize("given_by", ["nothing", "flag", "environment", "both"])
def test_nobody_can_allow_what_the_policy_of_the_machine_refuses(
    site: Site, tmp_path: Path, given_by: str
) -> None:
    made = site.add("org.one", commands=[{"name": "greet", "module": "org_one", "summary": "greet"}])
    wide = write_policy(tmp_path, policy_rule(made))
    argv: list[str | Path] = [PROGRAM, "plan", write_job(tmp_path, job(**uses("org.one")))]
    env = site.environment()
    if given_by in ("flag", "both"):
        argv += ["--policy", wide]
    if given_by in ("environment", "both"):
        env["PAI_RUNTIME_POLICY"] = str(wide)
    planned = _with_machine_policy(tmp_path, "policyVersion: 1\nplugins: []\n", argv, **env)
    assert planned.returncode == 1
    assert f"{made.label} is refused: policy /etc/pai-runtime/policy.yaml does not" in planned.stderr
    command = _with_machine_policy(tmp_path, "policyVersion: 1\nplugins: []\n", [PROGRAM, "greet"], **env)
    assert command.returncode == 2
    assert "there is no command greet" in command.stderr
    assert site.imported == set()


@pytest.mark.needs("mounts")
@pytest.mark.parametrize("text", [None, "", "policyVersion: 1\n", "plugins: all\n"])
def test_a_policy_of_the_machine_that_cannot_be_used_allows_nothing(
    site: Site, tmp_path: Path, text: str | None
) -> None:
    made = site.add("org.one")
    argv: list[str | Path] = [PROGRAM, "plan", write_job(tmp_path, job(**uses("org.one")))]
    argv += ["--policy", write_policy(tmp_path, policy_rule(made))]
    planned = _with_machine_policy(tmp_path, text, argv, **site.environment())
    assert planned.returncode == 2
    assert re.match(r"/etc/pai-runtime/policy\.yaml(:\d+:\d+)?: error: ", planned.stderr)
    assert site.imported == set()


def test_a_plugin_must_be_allowed_by_every_policy_and_the_one_that_refuses_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = site.add("org.one")
    files = {}
    for name in ("machine", "environment", "flag"):
        (tmp_path / name).mkdir()
        files[name] = write_policy(tmp_path / name, policy_rule(made))
    monkeypatch.syspath_prepend(site.folder)
    monkeypatch.setattr(policies, "MACHINE_POLICY", files["machine"])
    monkeypatch.setenv("PAI_RUNTIME_POLICY", str(files["environment"]))

    def host() -> Host:
        return policies.given_host(files["flag"])

    assert host().find("org.one").id == "org.one"
    for name, file in files.items():
        allowed = file.read_text()
        write_policy(tmp_path / name)
        with pytest.raises(Unavailable, match=f"policy {file} does not list it"):
            host().find("org.one")
        file.write_text(allowed)
    files["machine"].unlink()
    assert host().find("org.one").id == "org.one"
    # What cannot be looked at may be there.
    monkeypatch.setattr(policies, "MACHINE_POLICY", files["flag"] / "policy.yaml")
    with pytest.raises(InvalidInput):
        host()


# What runs without being asked


@pytest.mark.parametrize(
    ("file", "text", "runs"),
    [
        ("zz.pth", "import org_one\n", True),
        ("zz.pth", "# comment\n/some/path\nimport\torg_one\n", True),
        ("zz.pth", "\ufeffimport org_one\n", True),
        ("zz.pth", "/some/path\x0cimport org_one\n", True),
        ("../site/zz.pth", "import org_one\n", True),
        ("sitecustomize.py", "", True),
        ("usercustomize/__init__.py", "", True),
        ("zz.pth", "/some/path\nimportant\n", False),
        ("org_one/zz.pth", "import org_one\n", False),
        ("org_one/sitecustomize.py", "", False),
    ],
)
def test_a_distribution_that_runs_code_at_every_start_of_python_is_named(
    site: Site, tmp_path: Path, file: str, text: str, *, runs: bool
) -> None:
    site.add("org.one", files={file: text})
    policy = write_policy(tmp_path)
    name = file.removeprefix("../site/")
    rows = json.loads(site.cli("plugins", "list", "--json", "--policy", policy).stdout)
    (row,) = (row for row in rows if row["id"] == "org.one")
    assert row["startupFiles"] == [name] * runs
    table = site.cli("plugins", "list", "--policy", policy).stdout
    assert table.count(f"org-one: its file {name} runs code") == runs


# Storages


SETTINGS = "[core]\n  hooksPath = {mount}/hooks\n"
GIT_HOOK = {"hooks/post-checkout": "#!/bin/sh\ntouch '{mount}/evil'\n"}
PLANTED: dict[str, dict[str, str]] = {
    "home": {".gitconfig": SETTINGS, **GIT_HOOK},
    "home/.config": {"git/config": SETTINGS, **GIT_HOOK},
    "home/bin": {"git": "#!/bin/sh\ntouch '{mount}/evil'\nexit 1\n"},
}


@isolated
@pytest.mark.parametrize("mounted", PLANTED)
def test_whoever_writes_to_a_storage_chooses_no_program_and_no_settings_of_a_hook(
    tmp_path: Path, mounted: str
) -> None:
    """A hook may hold a secret which the definition that requires the storage was never given."""
    home, storage, mount = tmp_path / "home", tmp_path / "data", tmp_path / mounted
    home.mkdir()
    make_repository(tmp_path / "code")
    for name, text in PLANTED[mounted].items():
        path = storage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(mount=mount))
        path.chmod(0o755)
    clone = {"plugin": "git", "parameters": {"repo_uri": str(tmp_path / "code")}}
    listed = {"name": "data", "mountPath": str(mount)}
    document = job(
        extras={"com.microsoft.pai.runtimeplugin": [clone], "storages": [listed]},
        worker={"commands": ["echo $HOME $PATH"]},
    )
    own = {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}"}
    path = write_job(tmp_path, document)
    ended = cli("run", path, "--out", tmp_path / "run", "--storage", f"data={storage}", env=own)
    assert (ended.returncode, ended.stdout) == (0, f"{home} {own['PATH']}\n"), ended.stderr
    assert not (storage / "evil").exists()
