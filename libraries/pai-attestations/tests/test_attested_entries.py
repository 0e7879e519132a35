"""A policy that says who built a plugin: only what the same workflow has built takes the place of that."""

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_attestations import wheels
from pai_attestations.entries import verify_entries
from pai_attestations.verification import NotVerified
from pai_attestations.wheels import installed_digest
from pai_runtime.host.host import Host
from pai_runtime.host.policy import read_policy
from tests.plugin_factory import Made, Site
from tests.sigstore_instance import WORKFLOW, SigstoreInstance

ID = "org.one"
OURS, OTHERS = SigstoreInstance(), SigstoreInstance()


class Machine:
    """A machine with a policy and an installed plugin, and a directory with its wheel and attestation."""

    def __init__(self, folder: Path) -> None:
        self.site, self.policy, self.wheels = Site(folder), folder / "policy.yaml", folder / "wheels"
        self.kept = folder / "policy.yaml.attestations"
        self._root = OURS.write_trusted_root(folder / "root.json")
        self.wheels.mkdir()

    def install(self, version: str, code: str = "", distribution: str = "org-one") -> Made:
        """Install a version in the place of another, of which a wheel lies there."""
        for old in self.site.folder.glob("*.dist-info"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        made = self.site.add(ID, code, version=version, distribution=distribution)
        with zipfile.ZipFile(self.wheel(made), "w") as wheel:
            for file in (*made.package.iterdir(), *made.info.iterdir()):
                wheel.write(file, file.relative_to(self.site.folder))
        return made

    def wheel(self, made: Made) -> Path:
        return self.wheels / f"{made.distribution.replace('-', '_')}-{made.version}-py3-none-any.whl"

    def attest(self, made: Made, by: SigstoreInstance = OURS, workflow: str = WORKFLOW) -> Path:
        wheel = self.wheel(made)
        attestation = by.attest(wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest(), workflow)
        path = wheel.with_name(f"{wheel.name}.publish.attestation")
        path.write_text(json.dumps(attestation))
        return path

    def verify(self, name: str | None = ID, built_by: str | None = None, *, downgrade: bool = False) -> int:
        return verify_entries(
            name, built_by, self.policy, wheels=self.wheels, trusted_root=self._root, downgrade=downgrade
        )

    @property
    def entries(self) -> list[Mapping[str, Any]]:
        listed: list[Mapping[str, Any]] = yaml.safe_load(self.policy.read_text())["plugins"]
        return listed

    @property
    def refusal(self) -> str | None:
        """Why the policy refuses the plugin as it is installed."""
        return Host(read_policy(self.policy)).refusal(ID)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.syspath_prepend(made.site.folder)
    return made


@pytest.fixture
def allowed(machine: Machine) -> Machine:
    """Version 1.1 is allowed as built by the workflow."""
    machine.attest(machine.install("1.1"))
    assert machine.verify(ID, WORKFLOW) == 0
    assert machine.refusal is None
    return machine


def entry(made: Made, built_by: str = WORKFLOW) -> dict[str, str]:
    versions = f"=={made.version}"
    return {
        "id": ID,
        "distribution": made.distribution,
        "versions": versions,
        "digest": made.digest,
        "builtBy": built_by,
    }


def test_a_plugin_is_allowed_by_who_built_it(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    made = machine.install("1.1")
    attestation = machine.attest(made)
    assert machine.verify("Org_One", WORKFLOW) == 0
    assert machine.entries == [entry(made)]
    assert "refs/tags/v1.0" in capsys.readouterr().err
    assert not machine.site.imported
    kept = machine.kept / attestation.name
    assert json.loads(kept.read_text()) == json.loads(attestation.read_text())
    assert list(machine.kept.iterdir()) == [kept]


def test_an_entry_is_printed_too(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    made = machine.install("1.1")
    machine.attest(made)
    root = machine.wheels.parent / "root.json"
    assert verify_entries(ID, WORKFLOW, None, wheels=machine.wheels, trusted_root=root, downgrade=False) == 0
    assert yaml.safe_load(capsys.readouterr().out) == [entry(made)]
    assert not machine.policy.exists()


def test_what_was_verified_once_needs_its_wheel_only(allowed: Machine) -> None:
    for attestation in allowed.wheels.glob("*.attestation"):
        attestation.unlink()
    assert allowed.verify(None) == 0


def test_a_new_version_of_the_same_workflow_takes_the_place_of_the_old_one(allowed: Machine) -> None:
    made = allowed.install("1.2", "new = True\n")
    allowed.attest(made)
    assert allowed.refusal is not None
    assert allowed.verify(None) == 0
    assert allowed.entries == [entry(made)]
    assert allowed.refusal is None


def _unattested(machine: Machine) -> None:
    machine.install("1.2")


def _of_another_repository(machine: Machine) -> None:
    machine.attest(machine.install("1.2"), workflow=WORKFLOW.replace("example", "mallory"))


def _of_another_instance(machine: Machine) -> None:
    machine.attest(machine.install("1.2"), OTHERS)


def _replayed(machine: Machine) -> None:
    machine.install("1.2")
    old = machine.wheels / "org_one-1.1-py3-none-any.whl.publish.attestation"
    old.rename(machine.wheels / "org_one-1.2-py3-none-any.whl.publish.attestation")


def _another_wheel(machine: Machine) -> None:
    made = machine.install("1.2")
    machine.attest(made)
    machine.wheel(made).write_bytes(machine.wheel(made).read_bytes() + b"\n")


def _changed_after_installation(machine: Machine) -> None:
    made = machine.install("1.2")
    machine.attest(made)
    made.code.write_text("changed = True\n")


def _entry_points_changed(machine: Machine) -> None:
    made = machine.install("1.2")
    machine.attest(made)
    points = made.info / "entry_points.txt"
    points.write_text(f"{points.read_text()}org.two = org_one\n")


def _downgraded(machine: Machine) -> None:
    machine.attest(machine.install("1.0"))


def _renamed(machine: Machine) -> None:
    machine.attest(machine.install("1.2", distribution="org-other"))


def _old_wheel_with_a_new_name(machine: Machine) -> None:
    made = machine.install("1.2")
    (machine.wheels / "org_one-1.1-py3-none-any.whl").replace(machine.wheel(made))
    machine.attest(made)


def _huge_attestation(machine: Machine) -> None:
    path = machine.attest(machine.install("1.2"))
    path.write_text(path.read_text() + " " * 2**20)


def _pipe(machine: Machine) -> None:
    path = machine.attest(machine.install("1.2"))
    path.unlink()
    os.mkfifo(path)


def _no_wheel(machine: Machine) -> None:
    made = machine.install("1.2")
    machine.attest(made)
    machine.wheel(made).unlink()


def _not_installed(machine: Machine) -> None:
    made = machine.install("1.2")
    made.info.joinpath("entry_points.txt").unlink()


REFUSED = {
    f.__name__.strip("_").replace("_", " "): f
    for f in (
        *(_unattested, _of_another_repository, _of_another_instance, _replayed, _another_wheel),
        *(
            _changed_after_installation,
            _entry_points_changed,
            _downgraded,
            _renamed,
            _old_wheel_with_a_new_name,
        ),
        *(_huge_attestation, _pipe, _no_wheel, _not_installed),
    )
}


@pytest.mark.parametrize("attack", REFUSED)
def test_nothing_else_takes_the_place_of_what_is_allowed(allowed: Machine, attack: str) -> None:
    before, kept = allowed.policy.read_bytes(), sorted(allowed.kept.iterdir())
    REFUSED[attack](allowed)
    assert allowed.verify(None) == 1
    assert allowed.policy.read_bytes() == before
    if attack != "downgraded":
        assert sorted(allowed.kept.iterdir()) == kept


def test_a_downgrade_is_made_if_it_is_asked_for(allowed: Machine) -> None:
    made = allowed.install("1.0")
    allowed.attest(made)
    assert allowed.verify(downgrade=True) == 0
    assert allowed.entries == [entry(made)]


def test_another_workflow_takes_over_only_if_it_is_named(allowed: Machine) -> None:
    other = WORKFLOW.replace("release", "publish")
    made = allowed.install("1.2")
    allowed.attest(made, workflow=other)
    assert allowed.verify() == 1
    assert allowed.verify(ID, other) == 0
    assert allowed.entries == [entry(made, other)]


def test_what_is_missing_in_a_command_line_is_said(machine: Machine) -> None:
    machine.install("1.1")
    for name, built_by in ((None, None), (None, WORKFLOW), (ID, None), ("org.none", WORKFLOW), (ID, "x")):
        with pytest.raises(ValueError, match=r"name|expected|installed"):
            machine.verify(name, built_by)
    assert not machine.policy.exists()


def _zipped(folder: Path, **files: str) -> bytes:
    path = folder / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_INFO", ".dist-info"), text)
    return path.read_bytes()


def test_what_cannot_be_compared_with_what_is_installed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "MOST_BYTES", 1000)
    record = {"a_INFO__RECORD": "a.py,,\n", "a.py": ""}
    assert installed_digest(_zipped(tmp_path, **record)).startswith("sha256:")
    for data in (
        b"",
        b"PK\3\4",
        _zipped(tmp_path, **{"a.py": ""}),
        _zipped(tmp_path, **record, b_INFO__RECORD="a.py,,\n"),
        _zipped(tmp_path, **record, **{"a.data/purelib/b.py": ""}),
        _zipped(tmp_path, **record, **{"a.txt": "0" * 1001}),
    ):
        with pytest.raises(NotVerified):
            installed_digest(data)
