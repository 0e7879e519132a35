"""Loading: the one import, of the distribution's own code, apart from the others."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pai_runtime.host import own_modules
from pai_runtime.host.blame import PluginError, blamed, stdout_is_stderr
from pai_runtime.host.code import GROUP
from pai_runtime.host.discovery import InstalledPlugins
from pai_runtime.host.host import Host
from pai_runtime.host.loading import LoadedPlugin, load
from pai_runtime.host.planning import contribution_of
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plugin import Task, Use
from tests.plugin_factory import GREETS, RECORDS_ITSELF, Made, Site, manifest, uses
from tests.support import job, write_job

USE = Use("org.one", "use", {}, "fail", "job.yaml:1:1")
TASK = Task("job", "worker", 0, {"worker": 1}, {}, Path("/nowhere"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site on this process's own search path; what is imported from it is forgotten at the end."""
    site = Site(tmp_path)
    monkeypatch.syspath_prepend(site.folder)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    monkeypatch.setattr(own_modules, "_FINDER", own_modules._OwnModules())
    return site


def loaded(made: Made) -> LoadedPlugin:
    return load(InstalledPlugins()[made.id][0])


# Only the distribution's own code

IMPOSTOR = RECORDS_ITSELF.replace("__name__", "'impostor'") + "import pai_runtime.plugin\n"


@pytest.mark.process
@pytest.mark.parametrize("kind", ["package", "module", "extension module", "namespace package with a part"])
@pytest.mark.parametrize("place", ["PYTHONPATH", "working directory"])
def test_a_module_of_the_same_name_earlier_on_the_path_is_not_imported(
    site: Site, tmp_path: Path, place: str, kind: str
) -> None:
    made = site.add("org.one")
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    if kind == "package":
        (earlier / "org_one").mkdir()
        (earlier / "org_one" / "__init__.py").write_text(IMPOSTOR)
    elif kind == "module":
        (earlier / "org_one.py").write_text(IMPOSTOR)
    elif kind == "extension module":
        (earlier / "org_one.abi3.so").write_bytes(b"")
    else:
        # Not a module of this name: a regular package behind it wins.
        (earlier / "org_one").mkdir()
        (earlier / "org_one" / "part.py").write_text(IMPOSTOR)
    # An empty entry is the working directory.
    pythonpath = f"{earlier if place == 'PYTHONPATH' else ''}:{site.folder}"
    path = write_job(tmp_path, job(**uses("org.one")))
    result = site.cli("plan", path, cwd=earlier, env={"PYTHONPATH": pythonpath})
    assert "impostor" not in site.imported
    if kind == "namespace package with a part":
        assert result.returncode == 0
        assert site.imported == {"org_one"}
        return
    assert result.returncode == 1
    assert site.imported == set()
    assert f"{made.label}, import: ImportError: the module org_one would be imported from" in result.stderr
    assert "which belongs to" in result.stderr


@pytest.mark.process
def test_the_working_directory_is_not_searched(site: Site, tmp_path: Path) -> None:
    site.add("org.one")
    (tmp_path / "org_one.py").write_text(IMPOSTOR)
    result = site.cli("plan", write_job(tmp_path, job(**uses("org.one"))), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert site.imported == {"org_one"}


@pytest.mark.process
@pytest.mark.parametrize("other", ["package", "compiled"])
def test_another_distributions_module_in_the_same_folder_is_not_imported(
    site: Site, tmp_path: Path, other: str
) -> None:
    """A package goes before a plain module of its name, and a compiled one before both."""
    site.add(
        "org.plain",
        files={
            "{info}/entry_points.txt": f"[{GROUP}]\norg.plain = plain\n",
            "plain.py": IMPOSTOR.replace("impostor", "plain"),
            "plain.manifest.json": json.dumps(manifest("org.plain")),
        },
    )
    path = write_job(tmp_path, job(**uses("org.plain")))
    assert site.cli("plan", path).returncode == 0
    if other == "package":
        (site.folder / "plain").mkdir()
        (site.folder / "plain" / "__init__.py").write_text(IMPOSTOR)
    else:
        (site.folder / "plain.abi3.so").write_bytes(b"")
    result = site.cli("plan", path)
    assert result.returncode == 1
    assert "plugin org.plain (org-plain 1.0), import: ImportError: the module plain would be" in result.stderr
    assert site.imported == {"plain"}


@pytest.mark.process
@pytest.mark.parametrize("part", ["space", "space.part", "space.part.plugin"])
def test_no_package_above_a_plugin_is_anothers_either(site: Site, tmp_path: Path, part: str) -> None:
    site.add(
        "org.deep",
        files={
            "{info}/entry_points.txt": f"[{GROUP}]\norg.deep = space.part.plugin\n",
            "space/part/plugin.py": "import pai_runtime.plugin\n",
            "space/part/plugin.manifest.json": json.dumps(manifest("org.deep")),
        },
    )
    path = write_job(tmp_path, job(**uses("org.deep")))
    assert site.cli("plan", path).returncode == 0
    impostor = tmp_path.joinpath("earlier", *part.split("."), "__init__.py")
    impostor.parent.mkdir(parents=True)
    impostor.write_text(IMPOSTOR)
    result = site.cli("plan", path, before=(tmp_path / "earlier",))
    assert result.returncode == 1
    assert f"import: ImportError: the module {part} would be imported from {impostor}" in result.stderr
    assert site.imported == set()


def test_a_module_that_was_imported_before_from_elsewhere_is_not_used(site: Site) -> None:
    made = site.add("org.one")
    sys.modules["org_one"] = json
    with pytest.raises(PluginError, match="the module org_one would be imported from"):
        loaded(made)


# The entry point


@pytest.mark.parametrize(
    ("value", "ok"),
    [
        ("org_one", True),
        ("org_one : HOOKS", True),
        ("org_one:HOOKS.inner", True),
        ("org_one:HOOKS.none", False),
        ("org_one:NONE", False),
    ],
)
def test_the_entry_point_names_a_module_or_an_object_in_it(site: Site, value: str, *, ok: bool) -> None:
    code = GREETS + (
        "\nclass Hooks:\n"
        "    @hookimpl\n"
        "    def pai_prerequisite(self, use, task): return pai_prerequisite(use, task)\n"
        "HOOKS = Hooks()\nHOOKS.inner = Hooks()\n"
    )
    made = site.add("org.one", code, files={"{info}/entry_points.txt": f"[{GROUP}]\norg.one = {value}\n"})
    if ok:
        assert contribution_of(loaded(made), USE, TASK).environment
        return
    with pytest.raises(PluginError, match=r"plugin org.one \(org-one 1.0\), import: AttributeError"):
        loaded(made)


def test_a_plugin_is_imported_once_and_fails_once(site: Site) -> None:
    site.add("org.one")
    site.add(
        "org.bad",
        "import pathlib\np = pathlib.Path(__file__).with_name('count')\n"
        "p.write_text(p.read_text() + 'x' if p.exists() else 'x')\nraise RuntimeError\n",
    )
    host = Host(NO_POLICY)
    assert host.load(host.find("org.one")) is host.load(host.find("org.one"))
    for _ in range(3):
        with pytest.raises(PluginError, match="RuntimeError"):
            host.load(host.find("org.bad"))
    assert (site.folder / "org_bad" / "count").read_text() == "x"


def test_the_hooks_of_one_plugin_are_not_called_for_another(site: Site) -> None:
    host = Host(NO_POLICY)
    for id_ in ("org.one", "org.two"):
        site.add(
            id_, f"@hookimpl\ndef pai_prerequisite(): return Contribution(environment={{'ID': '{id_}'}})\n"
        )
    for id_ in ("org.one", "org.two"):
        assert contribution_of(host.load(host.find(id_)), USE, TASK).environment == {"ID": id_}


# The call


def test_an_interrupt_by_the_user_is_not_the_plugins_fault(site: Site) -> None:
    site.add("org.one")
    with pytest.raises(KeyboardInterrupt), blamed(InstalledPlugins()["org.one"][0], "import"):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.process
def test_standard_output_is_the_hosts_again_after_a_call(capfd: pytest.CaptureFixture[str]) -> None:
    with stdout_is_stderr():
        sys.stdout.write("from the plugin\n")
        sys.stdout.flush()
        subprocess.run(["echo", "from its program"], check=True)
    os.write(1, b"from the host\n")
    out, err = capfd.readouterr()
    assert out == "from the host\n"
    assert sorted(err.splitlines()) == ["from its program", "from the plugin"]
