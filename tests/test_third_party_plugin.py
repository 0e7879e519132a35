"""A plugin of a third party: built, published in an index, installed, allowed, used, upgraded, refused."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.local_server import LocalServer
from tests.plugin_factory import UV
from tests.sigstore_instance import WORKFLOW, SigstoreInstance
from tests.support import ROOT, cli, exit_record, job, made_once, write_job

pytestmark = pytest.mark.process

ID, DISTRIBUTION = "com.example.tracker", "pai-tracker"
SOURCE = ROOT / "examples/plugins/pai-tracker"
VERSIONS = ("1.0", "1.1")

_BUILD = """
import os, sys
from hatchling.build import build_wheel
for project in sys.argv[2:]:
    os.chdir(project)
    build_wheel(sys.argv[1])
"""


def _publish(index: Path) -> None:
    """Fill an index, with files and pages as PEP 503 has them, with two versions of the distribution."""
    files = index / "files"
    files.mkdir()
    projects = []
    for version in VERSIONS:
        project = index / "sources" / version
        shutil.copytree(SOURCE, project)
        for file in ("pyproject.toml", "src/pai_tracker/__init__.py"):
            text = (project / file).read_text("utf-8")
            (project / file).write_text(text.replace('"1.0"', f'"{version}"'), "utf-8")
        projects.append(str(project))
    subprocess.run([sys.executable, "-c", _BUILD, str(files), *projects], check=True)
    page = index / "simple" / DISTRIBUTION / "index.html"
    page.parent.mkdir(parents=True)
    links = [
        f'<a href="../../files/{wheel.name}#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}">'
        f"{wheel.name}</a>"
        for wheel in sorted(files.iterdir())
    ]
    page.write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    assert len(links) == len(VERSIONS)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class Cluster:
    """A machine with a policy, on which plugins are installed from an index."""

    def __init__(self, folder: Path, index: str, source: Path) -> None:
        self.folder, self.site, self.policy = folder, folder / "site", folder / "policy.yaml"
        self.source, self._index = source, index

    def install(self, version: str) -> None:
        argv: list[str | Path] = [UV, "pip", "install", "--quiet", "--no-cache", "--no-deps", "--no-config"]
        argv += ["--target", self.site, "--default-index", f"{self._index}/simple"]
        subprocess.run([*argv, f"{DISTRIBUTION}=={version}"], check=True, env=_without_indexes())

    def run(self, *args: str | Path) -> subprocess.CompletedProcess[str]:
        return cli(*args, cwd=self.folder, env={"PYTHONPATH": str(self.site)})

    def run_job(self, name: str, *commands: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        tracker = {"name": "tracker", "type": "script", "plugin": ID, "project": "mnist"}
        tracker["key"] = "<% $secrets.tracker %>"
        worker = {"prerequisites": ["tracker"], "commands": list(commands)}
        document = job(prerequisites=[tracker], worker=worker, secrets={"tracker": "an-open-secret"})
        path, out = write_job(self.folder, document), self.folder / name
        return self.run("run", path, "--policy", self.policy, "--out", out), out / "worker/0"


def _without_indexes() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}


@pytest.fixture
def cluster(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    index = made_once(tmp_path_factory, "index", _publish)
    with LocalServer(partial(_Quiet, directory=str(index))) as server:
        yield Cluster(tmp_path, server.url, index / "sources/1.0")


def test_a_plugin_from_an_index_is_allowed_used_upgraded_and_refused(cluster: Cluster) -> None:
    cluster.install("1.0")
    assert cluster.run("plugins", "check", ID).returncode == 0
    cluster.policy.write_text("policyVersion: 1\nplugins: []\n")
    refused, _ = cluster.run_job("refused", "true")
    assert (refused.returncode, "does not list it" in refused.stderr) == (2, True)

    assert cluster.run("plugins", "allow", ID, "--write", cluster.policy).returncode == 0
    used, task = cluster.run_job(
        "used", 'test -e "$TRACKER_DIR/ready"', 'echo "$TRACKER_CLIENT $TRACKER_API_KEY"'
    )
    assert used.returncode == 0, used.stderr
    assert used.stdout == "1.0 ******\n"
    assert json.loads((task / "tracker/summary.json").read_text()) == {"task": "worker/0", "exitCode": 0}

    cluster.install("1.1")
    upgraded, _ = cluster.run_job("upgraded", "true")
    assert (upgraded.returncode, "allows only ==1.0" in upgraded.stderr) == (2, True)
    assert cluster.run("plugins", "freeze", "--update", cluster.policy).returncode == 0
    used, _ = cluster.run_job("used again", 'echo "$TRACKER_CLIENT"')
    assert (used.returncode, used.stdout) == (0, "1.1\n"), used.stderr

    code = cluster.site / "pai_tracker/__init__.py"
    code.write_text(code.read_text() + "# another byte\n")
    changed, _ = cluster.run_job("changed", "true")
    assert (changed.returncode, "allows only the digest" in changed.stderr) == (2, True)


def test_a_plugin_is_allowed_by_who_built_it_and_upgraded_from_there_only(cluster: Cluster) -> None:
    sigstore, wheels = SigstoreInstance(), cluster.folder / "wheels"
    shutil.copytree(cluster.source.parents[1] / "files", wheels)

    def attest(version: str, workflow: str = WORKFLOW) -> None:
        wheel = wheels / f"pai_tracker-{version}-py3-none-any.whl"
        attestation = sigstore.attest(wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest(), workflow)
        bundle = {"publisher": {"kind": "GitHub", "repository": "a/b", "workflow": "c.yml"}}
        provenance = {"version": 1, "attestation_bundles": [{**bundle, "attestations": [attestation]}]}
        wheel.with_name(f"{wheel.name}.provenance").write_text(json.dumps(provenance))

    def verify(*args: str) -> subprocess.CompletedProcess[str]:
        root = sigstore.write_trusted_root(cluster.folder / "trusted_root.json")
        given = ("--write", cluster.policy, "--wheels", wheels, "--trusted-root", root)
        return cluster.run("plugins", "verify", *args, *given)

    cluster.install("1.0")
    attest("1.0", WORKFLOW.replace("example", "mallory"))
    assert verify(ID, "--built-by", WORKFLOW).returncode == 1
    assert not cluster.policy.exists()
    attest("1.0")
    assert verify(ID, "--built-by", WORKFLOW).returncode == 0
    used, _ = cluster.run_job("used", "true")
    assert used.returncode == 0, used.stderr

    cluster.install("1.1")
    attest("1.1")
    assert cluster.run("plugins", "freeze", "--update", cluster.policy).returncode == 1
    upgraded, _ = cluster.run_job("upgraded", "true")
    assert (upgraded.returncode, "allows only ==1.0" in upgraded.stderr) == (2, True)
    assert verify().returncode == 0
    used, _ = cluster.run_job("used again", "true")
    assert used.returncode == 0, used.stderr


def test_what_only_its_service_knows_explains_a_failure(cluster: Cluster) -> None:
    cluster.install("1.0")
    cluster.run("plugins", "allow", ID, "--write", cluster.policy)
    analysis = "com.microsoft.pai.runtimeplugin.failure_analysis"  # editable here, so that it has no digest
    with cluster.policy.open("a") as policy:
        policy.write(f"  - {{id: {analysis}, distribution: pai-failure-analysis, versions: '*'}}\n")
    failed, task = cluster.run_job("failed", "echo tracker: quota of mnist exceeded", "exit 1")
    assert failed.returncode == 30, failed.stderr
    assert exit_record(task)["reason"] == "The project has used up its quota."


def test_its_own_tests_pass_where_it_is_installed(cluster: Cluster) -> None:
    cluster.install("1.0")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", cluster.source],
        cwd=cluster.folder,
        env={**os.environ, "PYTHONPATH": str(cluster.site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
