"""What is in a bundle: the plugins that the policies allow, as plans name them, and what all of it needs."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pai_pod.bundle import static_programs
from pai_pod.bundle.distributions import Bundled, bundled_distributions
from pai_pod.bundle.elf import Elf, read_elf
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.libraries import Libraries
from pai_pod.bundle.site import add_distribution
from pai_runtime.host.code import Code
from pai_runtime.host.host import Host
from pai_runtime.host.metadata import Distribution
from pai_runtime.host.policy import NO_POLICY, read_policy
from pai_task import paths
from tests.plugin_factory import Site, policy_rule, write_policy
from tests.support import ROOT, cli

PYTHON = Path(os.path.realpath(sys.executable))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path)
    monkeypatch.syspath_prepend(site.folder)
    return site


@pytest.fixture
def own_libraries(tmp_path: Path) -> Libraries:
    return Libraries(tmp_path / "bundle", str(read_elf(PYTHON).interpreter))


def names(*policies: Path) -> set[str]:
    host = Host(NO_POLICY, *map(read_policy, policies))
    return {each.code.distribution for each in bundled_distributions(host)}


def requires(*requirements: str) -> dict[str, str | None]:
    lines = "".join(f"Requires-Dist: {each}\n" for each in requirements)
    return {
        "{info}/METADATA": f"Metadata-Version: 2.1\nName: needs\nVersion: 1\n{lines}\nRequires-Dist: none\n"
    }


def test_it_has_the_runtime_and_all_that_this_needs() -> None:
    assert {"pai-runtime", "pai-cmd", "pai-ssh", "paramiko", "cryptography", "cffi", "pluggy"} <= names()
    assert not {"pytest", "mypy", "pip", "tensorboard"} & names()


def test_it_has_only_plugins_that_every_policy_allows(site: Site, tmp_path: Path) -> None:
    allowed, refused = site.add("org.example.allowed"), site.add("org.example.refused")
    assert {allowed.distribution, refused.distribution} <= names()
    policy = write_policy(tmp_path, policy_rule(allowed))
    found = names(policy)
    assert allowed.distribution in found
    assert not {refused.distribution, "pai-cmd", "pai-ssh", "paramiko"} & found


def test_it_has_no_plugin_that_no_task_needs(site: Site) -> None:
    engine = site.add("org.example.engine", hooks=["pai_engine"], engine="example")
    assert not {engine.distribution, "pai-definitions", "pai-job-v1"} & names()


def test_an_allowed_plugin_does_not_bring_in_a_refused_one(site: Site, tmp_path: Path) -> None:
    refused = site.add("org.example.refused")
    needs = site.add(
        "org.example.needs", distribution="needs", version="1", files=requires(refused.distribution)
    )
    with pytest.raises(CannotBundle, match=refused.distribution):
        names(write_policy(tmp_path, policy_rule(needs)))


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("pathspec; python_version >= '3'", True),
        ("pytest; python_version < '3'", False),
        ("pytest; extra == 'test'", False),
        ("needs[test]", False),
    ],
)
def test_requirements_hold_for_this_machine(
    site: Site, tmp_path: Path, requirement: str, *, expected: bool
) -> None:
    needs = site.add("org.example.needs", distribution="needs", version="1", files=requires(requirement))
    found = names(write_policy(tmp_path, policy_rule(needs)))
    assert (requirement.partition(";")[0] in found) is expected


def test_what_an_extra_adds_is_there_where_the_extra_is_asked_for(site: Site, tmp_path: Path) -> None:
    needs = site.add(
        "org.example.needs",
        distribution="needs",
        version="1",
        files=requires("needs[some]", "pyte; extra == 'some'", "pytest; extra == 'other'"),
    )
    found = names(write_policy(tmp_path, policy_rule(needs)))
    assert "pyte" in found
    assert "pytest" not in found


def test_what_is_not_installed_is_named(site: Site) -> None:
    site.add("org.example.needs", distribution="needs", version="1", files=requires("no-such-thing"))
    with pytest.raises(CannotBundle, match=r"no-such-thing.*needs"):
        names()


@pytest.mark.process
def test_a_plugin_has_the_digest_that_plans_name(
    site: Site, tmp_path: Path, own_libraries: Libraries
) -> None:
    made = site.add(
        "org.example.plugin",
        files={"{package}/part.py": "A = 1\n", "{package}/data.bin": "\0", "startup.pth": "import part\n"},
    )
    code = Code(Distribution(str(site.folder), made.info.name))
    add_distribution(tmp_path / "bundle", Bundled(code, is_plugin=True), own_libraries)
    copied = Code(Distribution(str(tmp_path / "bundle/site"), made.info.name))
    assert copied.digest == made.digest
    assert copied.changed_files == []


@pytest.mark.process
def test_plugins_are_what_they_were(bundle: Path) -> None:
    """Editable ones too, for which plans name no digest."""
    found = {}
    for plugin in json.loads((bundle / "bundle.json").read_text())["plugins"]:
        (info,) = (bundle / "site").glob(f"{plugin['distribution'].replace('-', '_')}-*.dist-info")
        found[plugin["id"]] = Code(Distribution(str(bundle / "site"), info.name)).pinned == plugin["digest"]
    assert len(found) >= 9
    assert all(found.values())


@pytest.mark.process
def test_it_has_nothing_that_runs_at_a_start_or_was_not_compiled_for_it(bundle: Path) -> None:
    assert list(bundle.rglob("*.pth")) == []
    assert list(bundle.rglob("*customize.py")) == []
    assert {path.read_bytes()[4] for path in bundle.rglob("*.pyc")} == {0b01}
    assert list((bundle / "site/pai_cmd").rglob("*.pyc")) == []


@pytest.mark.process
def test_a_module_is_there_once(bundle: Path) -> None:
    """As its source, if it is a plugin's, which plans pin; else as byte code: each pod gets a copy of it."""
    assert list(bundle.rglob("__pycache__")) == []
    with_sources = {path.relative_to(bundle).parts[1] for path in bundle.rglob("*.py")}
    plugins = json.loads((bundle / "bundle.json").read_text())["plugins"]
    assert with_sources == {each["distribution"].replace("-", "_") for each in plugins}


@pytest.mark.process
def test_the_package_of_each_of_our_distributions_is_there(bundle: Path) -> None:
    """Also of those that are installed as a checkout, and of libraries, which no entry point names."""
    distributions = json.loads((bundle / "bundle.json").read_text())["distributions"]
    own = {name.replace("-", "_") for name in distributions if name.startswith("pai-")}
    assert {"pai_document", "pai_network", "pai_task"} <= own
    assert own <= {path.name for path in (bundle / "site").iterdir()}


@pytest.mark.process
def test_everybody_can_read_it(bundle: Path) -> None:
    modes = {stat.filemode(path.lstat().st_mode) for path in bundle.rglob("*")}
    assert modes == {"drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"}


@pytest.mark.process
@pytest.mark.needs("binutils")
def test_libraries_are_looked_for_in_the_bundle_only(bundle: Path) -> None:
    paths = [*bundle.rglob("*.so"), *bundle.rglob("*.so.*")]
    assert len(paths) > 50
    assert [path for path in paths if any(not each.startswith("$ORIGIN") for each in search_path(path))] == []


def search_path(path: Path) -> list[str]:
    output = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return [
        part for line in output.splitlines() if "PATH)" in line for part in line.split("[")[1][:-1].split(":")
    ]


@pytest.mark.parametrize("name", ["bash", "busybox"])
def test_the_programs_of_images_that_have_none_must_be_static(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for places in ("/bin/sh",), ("/no/such/program",):
        monkeypatch.setattr(static_programs, "PROGRAMS", {name: ("some-package", places)})
        with pytest.raises(CannotBundle, match="apt-get install some-package"):
            static_programs.add_static_programs(tmp_path / places[0][1:].replace("/", "-"))


@pytest.mark.process
def test_without_patchelf_it_says_how_to_get_it(
    own_libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotBundle, match="pip install"):
        own_libraries.add_program(PYTHON, tmp_path / "bundle/bin/python3")


@pytest.mark.process
def test_the_same_inputs_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    before = os.umask(0o077)
    try:
        ended = cli("bundle", made, cwd=tmp_path, env={"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC-9"})
    finally:
        os.umask(before)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert (made / "bundle.json").read_bytes() == (bundle / "bundle.json").read_bytes()
    assert f"{made} is a bundle" in ended.stderr


@pytest.mark.process
def test_a_directory_with_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    ended = cli("bundle", tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert str(tmp_path) in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


SAMPLE = PYTHON.read_bytes()[:4096]


@given(st.binary(max_size=200), st.integers(0, 1000))
@example(b"\x80", 39)  # the table of segments is beyond what an address can be
def test_no_file_breaks_the_reading_of_elf(junk: bytes, at: int) -> None:
    data = SAMPLE[:at] + junk + SAMPLE[at + len(junk) :]
    for content in (junk, b"\x7fELF\x02\x01\x01" + junk, data):
        try:
            elf = Elf(content)
            elf.relocated()
            assert isinstance(elf.is_static, bool)
        except ValueError:
            pass


def test_a_path_that_containers_and_images_agree_on_stands_in_one_module() -> None:
    agreed = (paths.VOLUME, paths.IMAGE, paths.IMAGE_SCRIPTS, paths.MACHINE, paths.TERMINATION_LOG)
    modules = [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("*/*/src/**/*.py")]
    sources = {module: module.read_text("utf-8") for module in modules}
    found = {path.name for path, text in sources.items() for each in agreed if f'"{each}' in text}
    assert found == {"paths.py"}
