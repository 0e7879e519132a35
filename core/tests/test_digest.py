"""The digest of a distribution's code: of all of the code and of nothing else."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pai_runtime.host.code import GROUP
from pai_runtime.host.discovery import distribution_code
from tests.plugin_factory import Made, Site, policy_rule, uses, write_policy
from tests.support import job, write_job

MORE_CODE: dict[str, str | None] = {
    "{package}/part.py": "PART = 1\n",
    "{package}/data.bin": "\0\1\2",
    "{package}/inner/__init__.py": "",
}
CODE = [
    "{package}/__init__.py",
    "{package}/manifest.json",
    "{package}/part.py",
    "{package}/data.bin",
    "{package}/inner/__init__.py",
    "{info}/entry_points.txt",
    "{info}/METADATA",
]
NOT_CODE = [
    "{info}/INSTALLER",
    "{info}/REQUESTED",
    "{info}/direct_url.json",
    "{info}/uv_cache.json",
    "{package}/__pycache__/__init__.cpython-311.pyc",
    "{package}/inner/__pycache__/__init__.cpython-311.opt-1.pyc",
    "../bin/tool",
    "bin/tool",
]
"""What installers write; ``tool`` is a console script of the distribution."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path)
    monkeypatch.syspath_prepend(site.folder)
    return site


def digest(name: str) -> str:
    return distribution_code(name).digest


def recorded(made: Made) -> list[str]:
    return [line.partition(",")[0] for line in (made.info / "RECORD").read_text().splitlines()]


def installed_file(made: Made, name: str) -> str:
    return name.format(package=made.package.name, info=made.info.name)


@pytest.mark.parametrize("name", CODE)
def test_one_changed_byte_of_code_changes_the_digest(site: Site, name: str) -> None:
    made = site.add("org.one", files=MORE_CODE)
    before = digest("org-one")
    path = site.folder / installed_file(made, name)
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    assert digest("org-one") != before
    path.write_bytes(content)
    assert digest("org-one") == before


@pytest.mark.parametrize("name", CODE[2:5])
def test_a_renamed_or_removed_file_changes_the_digest(site: Site, name: str) -> None:
    made = site.add("org.one", files=MORE_CODE)
    old = installed_file(made, name)
    files = recorded(made)
    before = digest("org-one")
    site.write_record(made, [file for file in files if file != old])
    removed = digest("org-one")
    (site.folder / old).rename(site.folder / f"{old}x")
    site.write_record(made, [f"{file}x" if file == old else file for file in files])
    renamed = digest("org-one")
    assert len({before, removed, renamed}) == 3


@pytest.mark.parametrize("name", NOT_CODE)
def test_what_installers_write_themselves_is_not_in_the_digest(site: Site, name: str) -> None:
    points = f"[{GROUP}]\norg.one = org_one\n[console_scripts]\ntool = org_one:main\n"
    made = site.add("org.one", files={**MORE_CODE, "{info}/entry_points.txt": points})
    before = digest("org-one")
    file = installed_file(made, name)
    for content in ("one", "two"):
        path = site.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        site.write_record(made, sorted({*recorded(made), file}))
        assert digest("org-one") == before


@pytest.mark.parametrize(
    "name",
    [
        "{package}/part.pyc",
        "{package}/part.so",
        "{package}/without_suffix",
        "{package}/__pycache__/part.py",
        "{package}/__pycache__/no_source.cpython-311.pyc",
        "{package}/__pycache__/__init__.pyc",
        "{info}/part.py",
        "bin/code.py",
        "bin/code.pyc",
        "bin/without_suffix",
        "../site/part.py",
    ],
)
def test_code_in_any_form_and_place_is_in_the_digest(site: Site, name: str) -> None:
    made = site.add("org.one", files={name: "1"})
    before = digest("org-one")
    (site.folder / installed_file(made, name)).write_text("2")
    assert digest("org-one") != before


def test_the_folder_is_not_in_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for folder in ("one", "another"):
        site = Site(tmp_path / folder)
        site.add("org.one", files=MORE_CODE)
        monkeypatch.syspath_prepend(site.folder)
        digests.add(digest("org-one"))
    assert len(digests) == 1


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.randoms(use_true_random=False), data=st.data())
def test_the_digest_depends_on_paths_and_contents_alone(
    tmp_path_factory: pytest.TempPathFactory, seed: random.Random, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    names = st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3})?\.py", fullmatch=True)
    contents = data.draw(st.dictionaries(names, st.text(max_size=3), max_size=4))
    site = Site(folder)
    made = site.add("org.one", files={f"{{package}}/{name}": text for name, text in contents.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site.folder)
        before = digest("org-one")
        assert re.fullmatch("sha256:[0-9a-f]{64}", before)
        files = recorded(made)
        seed.shuffle(files)
        site.write_record(made, files)
        assert digest("org-one") == before
        for name, text in contents.items():
            path = made.package / name
            path.write_text(text + "x", newline="")
            assert digest("org-one") != before
            path.write_text(text, encoding="utf-8", newline="")


@pytest.mark.process
def test_there_is_no_digest_of_what_is_not_there_or_cannot_be_read(site: Site) -> None:
    site.add("org.unlisted", files={"{info}/RECORD": None})
    site.add("org.garbage", files={"{info}/RECORD": "\udcff"})
    for name, message in {
        "org-none": "no distribution org-none with plugins is installed",
        "org-unlisted": "org-unlisted has no list of the files that it installed",
        "org-garbage": "cannot read the list of the files of org-garbage",
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            digest(name)
        result = site.cli("plugins", "digest", name)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"pai-runtime: {message}")


@pytest.mark.process
def test_the_line_that_the_command_prints_allows_this_code_and_no_other(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one", files=MORE_CODE)
    result = site.cli("plugins", "digest", "Org_One")
    assert result.returncode == 0
    rule = policy_rule(made)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "policyVersion: 1\nplugins:\n"
        f"- id: {rule['id']}\n  distribution: {rule['distribution']}\n  versions: ==1.0\n  {result.stdout}"
    )
    path = write_job(tmp_path, job(**uses("org.one")))
    allowed = site.cli("plan", path, "--policy", policy)
    assert allowed.returncode == 0, allowed.stderr
    with (made.package / "part.py").open("a") as file:
        file.write("#")
    refused = site.cli("plan", path, "--policy", policy)
    assert refused.returncode == 1
    assert f"{made.label} is refused" in refused.stderr
    assert "allows only the digest sha256:" in refused.stderr


@pytest.mark.process
def test_a_policy_may_pin_several_plugins_of_one_environment(site: Site, tmp_path: Path) -> None:
    made = [site.add("org.one"), site.add("org.two")]
    rules = [policy_rule(each, digest=digest(each.distribution)) for each in made]
    path = write_job(tmp_path, job(**uses("org.one", "org.two")))
    assert site.cli("plan", path, "--policy", write_policy(tmp_path, *rules)).returncode == 0
    swapped = [{**rules[0], "digest": rules[1]["digest"]}, {**rules[1], "digest": rules[0]["digest"]}]
    refused = site.cli("plan", path, "--policy", write_policy(tmp_path, *swapped))
    assert refused.returncode == 1
    assert refused.stderr.count("allows only the digest") == 2
