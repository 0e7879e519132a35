"""Discovery: from metadata alone, whoever installed it, and no broken distribution spoils another."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import importlib_metadata
import pytest

from pai_runtime.host import installed
from pai_runtime.host.code import GROUP
from pai_runtime.host.discovery import InstalledPlugins
from pai_runtime.host.metadata import normalized
from tests.plugin_factory import GREETS, PIP, UV, Site, manifest, policy_rule, project, uses, write_policy
from tests.support import cli, job, made_once, runtime_log, write_job


def rows(result: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """What `plugins list --json` printed, by id."""
    assert result.returncode == 0, result.stderr
    return {row["id"]: row for row in json.loads(result.stdout)}


# No plugin is imported


@pytest.mark.process
@pytest.mark.parametrize(
    "args",
    [
        ("plugins", "list"),
        ("plugins", "list", "--json"),
        ("plugins", "show", "org.one"),
        ("plugins", "digest", "org-one"),
    ],
    ids=" ".join,
)
def test_what_only_looks_at_plugins_imports_none(site: Site, args: tuple[str, ...]) -> None:
    site.add("org.one")
    site.add("org.two")
    result = site.cli(*args)
    assert result.returncode == 0, result.stderr
    assert site.imported == set()


@pytest.mark.process
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_what_looks_at_a_job_imports_the_plugins_that_it_uses_and_no_other(
    site: Site, tmp_path: Path, command: str
) -> None:
    site.add("org.one")
    site.add("org.two")
    result = site.cli(command, str(write_job(tmp_path, job(**uses("org.one")))))
    assert result.returncode == 0, result.stderr
    assert site.imported == {"org_one"}


@pytest.mark.process
def test_check_imports_the_plugin_that_it_checks_and_no_other(site: Site) -> None:
    site.add("org.one")
    site.add("org.two")
    assert site.cli("plugins", "check", "org.one").returncode == 0
    assert site.imported == {"org_one"}


@pytest.mark.process
def test_a_plan_imports_only_what_the_uses_of_its_tasks_name(site: Site, tmp_path: Path) -> None:
    for name in "named", "other_role", "extra", "extra_of_other_role", "not_in_a_role", "not_in_the_job":
        site.add(f"org.{name}")
    document = job(**uses("org.named"))
    document["prerequisites"] += [
        {"name": "other", "type": "x", "plugin": "org.other_role"},
        {"name": "unused", "type": "x", "plugin": "org.not_in_a_role"},
    ]
    document["taskRoles"]["ps"] = {**document["taskRoles"]["worker"], "prerequisites": ["other"]}
    document["extras"] = {
        "com.microsoft.pai.runtimeplugin": [
            {"plugin": "org.extra"},
            {"plugin": "org.extra_of_other_role", "taskroles": ["ps"]},
        ]
    }
    path = write_job(tmp_path, document)
    assert site.cli("plan", path, "--task", "worker/0").returncode == 0
    assert site.imported == {"org_named", "org_extra"}
    assert site.cli("plan", path).returncode == 0
    assert site.imported == {"org_named", "org_extra", "org_other_role", "org_extra_of_other_role"}


@pytest.mark.process
def test_a_run_imports_only_what_its_tasks_use(site: Site, tmp_path: Path) -> None:
    site.add("org.named")
    site.add("org.other")
    result = site.cli("run", write_job(tmp_path, job(**uses("org.named"))), "--out", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert site.imported == {"org_named"}


# Whoever installed it


_READS_PTH = {**os.environ, "LC_ALL": "C.UTF-8"}
"""Python before 3.13 reads what an editable install writes, a path, in the encoding of the locale."""


@dataclass(frozen=True)
class Installed:
    """One way to have the same plugin installed: a folder on the search path, or a Python of its own."""

    folder: Path | None = None
    python: Path | None = None

    def run(self, *args: str | Path) -> subprocess.CompletedProcess[str]:
        if self.python is None:
            return cli(*args, env={"PYTHONPATH": str(self.folder)})
        return subprocess.run(
            [self.python, "-c", _MAIN, *args],
            env=_READS_PTH,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def _call(*argv: str | Path, cwd: Path | None = None) -> None:
    result = subprocess.run(
        argv, cwd=cwd, env=_READS_PTH, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def _environment_with_ours(folder: Path) -> Path:
    """The Python of a fresh virtual environment that also has all that this one has."""
    _call(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    (own,) = folder.glob("lib/python*/site-packages")
    ours = sysconfig.get_path("purelib")
    (own / "ours.pth").write_text(f"import site; site.addsitedir({ours!a})\n")
    return python


_MAIN = "import sys; from pai_runtime.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Installed]:
    """The plugin org.real, with a console script, built and installed in each way that there is."""
    folder = made_once(tmp_path_factory, "real-plugin", _install_in_each_way)
    names = ("pip by name", "pip from a file", "uv by name", "unpacked")
    targets = {name: Installed(folder / name) for name in names}
    return {**targets, "editable": Installed(python=folder / "environment/bin/python")}


def _install_in_each_way(folder: Path) -> None:
    more = 'scripts = { real-tool = "org_real.part:main" }'
    source = project(folder / "org-real", "org.real", version="1.2", more=more)
    wheels = folder / "wheels"
    _call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels, cwd=source)
    (wheel,) = wheels.iterdir()
    targets = {name: folder / name for name in ("pip by name", "pip from a file", "uv by name", "unpacked")}
    _call(sys.executable, *PIP, "--target", targets["pip by name"], "--find-links", wheels, "org-real")
    _call(sys.executable, *PIP, "--target", targets["pip from a file"], wheel)
    by_uv = ("--offline", "--no-index", "--no-deps", "--target", targets["uv by name"])
    _call(UV, "pip", "install", "--python", sys.executable, *by_uv, "--find-links", wheels, "org-real")
    zipfile.ZipFile(wheel).extractall(targets["unpacked"])
    python = _environment_with_ours(folder / "environment")
    _call(python, *PIP, "--no-build-isolation", "--editable", source)


@pytest.mark.process
def test_a_plugin_is_seen_alike_whoever_installed_it(ways: dict[str, Installed]) -> None:
    seen = {name: rows(way.run("plugins", "list", "--json"))["org.real"] for name, way in ways.items()}
    origins = {name: row.pop("origin") for name, row in seen.items()}
    assert origins == {
        **dict.fromkeys(ways, "index"),
        "pip from a file": "path",
        "editable": "editable",
    }
    assert list(seen.values()) == [
        {
            "id": "org.real",
            "distribution": "org-real",
            "version": "1.2",
            "api": 1,
            "summary": "The plugin org.real",
            "allowed": True,
            "reason": None,
            "startupFiles": [],
        }
    ] * len(ways)


@pytest.mark.process
def test_a_plugin_works_alike_whoever_installed_it(ways: dict[str, Installed], tmp_path: Path) -> None:
    path = write_job(tmp_path, job(**uses("org.real")))
    plans = {name: json.loads(way.run("plan", path, "--json").stdout) for name, way in ways.items()}
    assert plans["editable"]["plans"][0]["uses"][0].pop("digest") is None
    digest = ways["unpacked"].run("plugins", "digest", "org-real").stdout.split()[1]
    assert all(
        plan["plans"][0]["uses"][0].pop("digest") == digest
        for name, plan in plans.items()
        if name != "editable"
    )
    assert "GREETED_BY_USE0" in json.dumps(plans["editable"])
    assert list(plans.values()) == [plans["editable"]] * len(ways)


@pytest.mark.process
def test_a_plugin_has_one_digest_whoever_installed_it(ways: dict[str, Installed]) -> None:
    digests = {name: way.run("plugins", "digest", "org-real") for name, way in ways.items()}
    editable = digests.pop("editable")
    assert editable.returncode == 2
    assert "is an editable install" in editable.stderr
    assert {result.returncode for result in digests.values()} == {0}
    assert len({result.stdout for result in digests.values()}) == 1


@pytest.mark.process
def test_what_the_factory_lays_out_is_what_an_installer_leaves(site: Site, tmp_path: Path) -> None:
    source = project(tmp_path / "org-real", "org.real", version="1.2")
    wheels = tmp_path / "wheels"
    _call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels, cwd=source)
    zipfile.ZipFile(next(wheels.iterdir())).extractall(tmp_path / "unpacked")
    built = Installed(tmp_path / "unpacked")
    info = tmp_path / "unpacked" / "org_real-1.2.dist-info"
    files = {f"{{info}}/{name}": (info / name).read_text() for name in ("METADATA", "WHEEL")}
    site.add("org.real", version="1.2", files={**files, "{package}/part.py": "PART = 1\n"})
    laid_out = Installed(site.folder)
    for args in (("plugins", "list", "--json"), ("plugins", "digest", "org-real")):
        assert laid_out.run(*args).stdout == built.run(*args).stdout


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, "index"),
        ({"url": "file:///a.whl", "archive_info": {}}, "path"),
        ({"url": "file:///a", "dir_info": {}}, "path"),
        ({"url": "file:///a", "dir_info": {"editable": False}}, "path"),
        ({"url": "file:///a", "dir_info": {"editable": True}}, "editable"),
    ],
)
def test_the_origin_is_what_the_installer_wrote(
    site: Site, monkeypatch: pytest.MonkeyPatch, direct_url: object, expected: str
) -> None:
    files = {"{info}/direct_url.json": json.dumps(direct_url)} if direct_url else {}
    site.add("org.one", files=files)
    monkeypatch.syspath_prepend(site.folder)
    assert InstalledPlugins()["org.one"][0].origin == expected


@pytest.mark.process
@pytest.mark.parametrize("value", ["space.part.plugin", "space.part.plugin:OBJECT.inner", "space.plain"])
@pytest.mark.parametrize("editable", [False, True])
def test_a_plugin_may_be_in_a_package_without_a_file_of_its_own(
    site: Site, tmp_path: Path, value: str, *, editable: bool
) -> None:
    text = json.dumps(manifest("org.deep"))
    files: dict[str, str | None] = {
        "{info}/entry_points.txt": f"[{GROUP}]\norg.deep = {value}\n",
        "space/part/__init__.py": "",
        "space/part/plugin/__init__.py": (
            "from types import SimpleNamespace\nfrom pai_runtime.plugin import Contribution, hookimpl\n"
            "class Inner:\n @hookimpl\n def pai_prerequisite(self, use, task): return pai_prerequisite(use)\n"
            "OBJECT = SimpleNamespace(inner=Inner())\n"
            "@hookimpl\ndef pai_prerequisite(use): return Contribution(environment={'DEEP': 'yes'})\n"
        ),
        "space/part/plugin/manifest.json": text,
        "space/plain.py": "from space.part.plugin import *\n",
        "space/plain.manifest.json": text,
    }
    if editable:
        files["{info}/direct_url.json"] = json.dumps(
            {"url": site.folder.as_uri(), "dir_info": {"editable": True}}
        )
    site.add("org.deep", files=files)
    # Another part of the same namespace, earlier on the path.
    shutil.copytree(site.folder / "space" / "part", tmp_path / "before" / "space" / "other")
    result = site.cli(
        "plan", write_job(tmp_path, job(**uses("org.deep"))), "--json", before=(tmp_path / "before",)
    )
    assert result.returncode == 0, result.stderr
    assert {"name": "DEEP", "value": "yes", "source": "use0"} in json.loads(result.stdout)["plans"][0][
        "environment"
    ]


# Wherever it is


class _Finder(importlib_metadata.DistributionFinder):
    """A finder of somebody else's, which brings distributions from where only it looks."""

    def __init__(self, found: Callable[[], Iterator[importlib_metadata.Distribution]]) -> None:
        self._found = found

    def find_distributions(self, *_args: object) -> Iterator[importlib_metadata.Distribution]:
        return self._found()


class _InMemory(importlib_metadata.Distribution):
    """A distribution that has texts, and no files."""

    def __init__(self, texts: dict[str, str] | None) -> None:
        self._texts = texts

    def read_text(self, filename: str) -> str | None:
        if self._texts is None:
            raise RuntimeError("a finder may fail in any way")
        return self._texts.get(filename)

    def locate_file(self, path: object) -> Any:
        raise NotImplementedError


def _archive(site: Site, path: Path) -> Path:
    """What is installed, in an archive and no longer in the folder."""
    shutil.make_archive(str(path), "zip", site.folder)
    shutil.rmtree(site.folder)
    return path.with_name(f"{path.name}.zip")


@pytest.mark.process
def test_a_plugin_in_an_archive_works_as_an_installed_one_does_and_one_that_is_refused_there_does_not(
    site: Site, tmp_path: Path
) -> None:
    hook = """
import org_one.part
@hookimpl
def pai_init(use, task):
    try:
        import org_refused
    except ImportError as error:
        print("init of", use.name, error)
"""
    files = {"{package}/part.py": ""}
    made = site.add("org.one", GREETS + hook, files=files, hooks=["pai_prerequisite", "pai_init"])
    site.add("org.refused")
    policy = write_policy(tmp_path, policy_rule(made, digest=made.digest))
    archive = _archive(site, tmp_path / "plugins")
    path = write_job(tmp_path, job(**uses("org.one")))
    ran = site.cli("run", path, "--policy", policy, "--out", tmp_path / "run", before=(archive,))
    assert ran.returncode == 0, ran.stderr
    message = "the module org_refused belongs to org-refused, whose plugins are refused"
    assert f"init of use0 {message}" in runtime_log(tmp_path / "run/worker/0")
    assert site.imported == {"org_one"}


def test_a_finder_of_somebody_else_brings_plugins(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made = site.add("org.one")
    brings = _Finder(lambda: iter([importlib_metadata.PathDistribution(made.info)]))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, brings])
    (plugin,) = InstalledPlugins()["org.one"]
    assert (plugin.fault, plugin.digest, plugin.location) == (None, made.digest, made.code)


def test_what_a_finder_or_an_archive_has_that_cannot_be_used_spoils_no_other(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"METADATA": "Name: org-text\nVersion: 1\n", "entry_points.txt": f"[{GROUP}]\norg.text = text\n"}
    finder = _Finder(lambda: map(_InMemory, (None, texts)))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    site.add("org.cut")
    archive = _archive(site, tmp_path / "plugins")
    cut = tmp_path / "cut.zip"
    cut.write_bytes(archive.read_bytes()[:-30])
    # The code of a member is wrong, while the directory of the archive is right.
    data = bytearray(archive.read_bytes())
    at = data.index(b"org_cut/manifest.json") + len("org_cut/manifest.json")
    data[at : at + 20] = bytes(20)
    archive.write_bytes(data)
    good = Site(tmp_path / "good")
    good.add("org.good")
    for each in (cut, archive, good.folder):
        monkeypatch.syspath_prepend(each)
    found = InstalledPlugins()
    assert found["org.good"][0].fault is None
    assert "has no module text" in (found["org.text"][0].fault or "")
    assert "manifest.json cannot be read" in (found["org.cut"][0].fault or "")


def test_a_member_of_an_archive_is_read_up_to_a_limit(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("org.one", files={"{package}/data.txt": "a" * 100_000})
    archive = _archive(site, tmp_path / "plugins")
    monkeypatch.syspath_prepend(archive)
    (code,) = (code for code in InstalledPlugins().codes if code.distribution == "org-one")
    monkeypatch.setattr(installed, "_MOST_BYTES", 50_000)
    with pytest.raises(ValueError, match=r"data\.txt.*more than 50000 bytes"):
        _ = code.digest


# Broken distributions

ENTRY = "{info}/entry_points.txt"
MANIFEST = "{package}/manifest.json"
DIRECT_URL = "{info}/direct_url.json"


def _entry(value: str) -> dict[str, str | None]:
    return {ENTRY: f"[{GROUP}]\norg.bad = {value}\n"}


def _editable(value: str) -> dict[str, str | None]:
    return {**_entry(value), DIRECT_URL: '{"url": "file:///nowhere", "dir_info": {"editable": true}}'}


def _manifest(**fields: Any) -> dict[str, str | None]:
    return {MANIFEST: json.dumps(manifest("org.bad", **fields))}


BROKEN: dict[str, tuple[dict[str, str | None], str | None]] = {
    "no metadata": ({"{info}/METADATA": None}, "has no name or no version"),
    "metadata that is not text": ({"{info}/METADATA": "\udcff\udcfe"}, "has no name or no version"),
    "metadata without a name": ({"{info}/METADATA": "Version: 1.0\n"}, "has no name or no version"),
    "metadata without a version": ({"{info}/METADATA": "Name: org-bad\n"}, "has no name or no version"),
    "entry points that are not text": ({ENTRY: f"[{GROUP}]\norg.bad = \udcff\n"}, None),
    "an entry point without a value": ({ENTRY: f"[{GROUP}]\norg.bad\n"}, None),
    "an entry point that is nonsense": (_entry("!! nonsense ::"), "has no module !! nonsense"),
    "an empty entry point": (_entry(""), "has no module"),
    "an entry point without a module": (_entry(":object"), "has no module"),
    "a relative module": (_entry(".org_bad"), "has no module .org_bad"),
    "a path for a module": (_entry("../org_good"), "has no module ../org_good"),
    "another distribution's module": (_entry("org_good"), "has no module org_good"),
    "a module of the standard library": (_entry("json"), "has no module json"),
    "a very long module": (_entry("a" * 5000), "has no module aaa"),
    "an editable one without a module": (_editable(""), "has no module"),
    "an editable one whose module is main": (_editable("__main__"), "broken: ValueError: __main__"),
    "an editable one with another's module": (_editable("org_good"), "has no module org_good"),
    "an editable one with a very long module": (_editable("a" * 5000), "has no module aaa"),
    "the id twice": (
        {ENTRY: f"[{GROUP}]\norg.bad = org_bad\norg.bad = org_bad\n"},
        "both claim this id",
    ),
    "no list of files": ({"{info}/RECORD": None}, "has no module org_bad"),
    "a list of files that is not text": (
        {"{info}/RECORD": "\udcff\n"},
        "cannot read the list of the files of org-bad",
    ),
    "a list of files that is not one": ({"{info}/RECORD": "a,b,c\n"}, "has no module org_bad"),
    "no manifest": ({MANIFEST: None}, "cannot be read: No such file"),
    "a manifest that is not JSON": ({MANIFEST: "{"}, "manifest.json is not JSON"),
    "a manifest that is not text": ({MANIFEST: "\udcff"}, "manifest.json is not JSON"),
    "a manifest with half a character": (_manifest(summary="\udcff"), "manifest.json is not JSON"),
    "a manifest of 100,000 levels": ({MANIFEST: "[" * 100_000}, "manifest.json is not JSON"),
    "a schema of 400 levels": (_manifest(parameters=json.loads('{"not":' * 400 + "{}" + "}" * 400)), ""),
    "a manifest that is a list": ({MANIFEST: "[]"}, "expected the manifest of a plugin"),
    "a manifest without anything": ({MANIFEST: "{}"}, "missing field 'summary'"),
    "a key that is not known": (_manifest(author="me"), "author: unknown field"),
    "a summary of two lines": (_manifest(summary="a\nb"), "summary: expected a string of one line"),
    "a summary with an escape": (_manifest(summary="\x1b[2J"), "summary: expected"),
    "a hook that there is not": (_manifest(hooks=["pai_prerequisit"]), "hooks[0]: expected"),
    "another id": (
        _manifest(id="org.other"),
        "id: expected org.bad, as the entry point is named, found org.other",
    ),
    "API 0": (_manifest(api=0), "api: expected"),
    "API 2": (_manifest(api=2), "it needs plugin API 2; this runtime supports 1"),
    "an API in words": (_manifest(api="1"), "api: expected a whole number"),
    "parameters that are no schema": (_manifest(parameters={"type": "text"}), "invalid JSON Schema"),
    "a pattern that is none": (_manifest(parameters={"pattern": "("}), "invalid JSON Schema"),
    "a schema elsewhere": (
        _manifest(parameters={"properties": {"a": {"$ref": "http://127.0.0.1:9/a"}}}),
        "parameters: refers to http://127.0.0.1:9/a, but references to other documents are not allowed",
    ),
}


@pytest.mark.parametrize(("files", "expected"), BROKEN.values(), ids=BROKEN)
def test_a_broken_distribution_is_refused_with_its_fault_and_spoils_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch, files: dict[str, str | None], expected: str | None
) -> None:
    site.add("org.bad", files=files)
    site.add("org.good")
    monkeypatch.syspath_prepend(site.folder)
    found = InstalledPlugins()
    (good,) = found["org.good"]
    assert good.fault is None
    assert good.location == site.folder / "org_good" / "__init__.py"
    if expected is None:
        assert "org.bad" not in found
    elif expected == "both claim this id":
        assert len(found["org.bad"]) == 2
    elif expected:
        assert expected in (found["org.bad"][0].fault or "")


@pytest.mark.process
def test_fifty_plugins_are_listed_and_used_beside_every_kind_of_broken_one(
    site: Site, tmp_path: Path
) -> None:
    for number, (files, _) in enumerate(BROKEN.values()):
        renamed = {
            name: text and text.replace("org.bad", f"org.bad{number}").replace("org_bad", f"org_bad{number}")
            for name, text in files.items()
        }
        site.add(f"org.bad{number}", files=renamed)
    good = [site.add(f"org.plugin{number}") for number in range(50)]
    listed = rows(site.cli("plugins", "list", "--json"))
    assert [made.id for made in good if listed[made.id]["allowed"]] == [made.id for made in good]
    assert [id_ for id_, row in listed.items() if id_.startswith("org.bad") and row["allowed"]] == []
    text = site.cli("plugins", "list")
    assert text.returncode == 0
    assert text.stderr == ""
    assert len([line for line in text.stdout.splitlines() if line.startswith("org.plugin")]) == 50
    result = site.cli("run", write_job(tmp_path, job(**uses("org.plugin7"))), "--out", tmp_path / "run")
    assert result.returncode == 0, result.stderr


@pytest.mark.process
def test_the_first_of_two_folders_with_one_distribution_is_the_one_that_is_used(tmp_path: Path) -> None:
    sites = [Site(tmp_path / name) for name in ("first", "second")]
    for number, each in enumerate(sites):
        each.add("org.one", version=f"{number}.0")
    result = cli("plugins", "list", "--json", env=sites[1].environment(sites[0].folder))
    assert rows(result)["org.one"]["version"] == "0.0"
    assert rows(result)["org.one"]["allowed"]


@pytest.mark.parametrize("again", ["the same", "a link"])
def test_one_folder_twice_on_the_search_path_is_one_folder(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    site.add("org.one")
    (tmp_path / "link").symlink_to(site.folder)
    second = site.folder if again == "the same" else tmp_path / "link"
    monkeypatch.setattr(sys, "path", [str(site.folder), *sys.path, str(second)])
    assert len(InstalledPlugins()["org.one"]) == 1


@pytest.mark.process
def test_two_versions_of_one_distribution_in_one_folder_are_refused(site: Site) -> None:
    site.add("org.one", version="1.0")
    site.add("org.one", version="2.0")
    row = rows(site.cli("plugins", "list", "--json"))["org.one"]
    assert not row["allowed"]
    assert "org-one 1.0" in row["reason"]
    assert "org-one 2.0" in row["reason"]


@pytest.mark.parametrize("name", ["A.b_C-d", "a-b-c-d", "a__b--c..d", "A-_.B-c-d"])
def test_the_spellings_of_a_distributions_name_are_one(name: str) -> None:
    assert normalized(name) == "a-b-c-d"
