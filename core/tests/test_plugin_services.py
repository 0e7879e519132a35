"""Services that a plugin contributes, from its code to the running job."""

from pathlib import Path

import pytest

from tests.plugin_factory import Site, uses
from tests.support import job, write_job

pytestmark = pytest.mark.process

SERVES = """
from pai_runtime.plugin import Service
@hookimpl
def pai_prerequisite(use, task):
    script = "echo serving $PAI_TASK_INDEX\\ntouch up\\nexec sleep 1000"
    return Contribution(services=[Service("web", script, probe="[ -e up ]", required=True)])
"""


def test_a_service_of_a_plugin_is_in_the_plan_and_up_when_the_command_runs(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.web", SERVES)
    fields = uses("org.web")
    fields["worker"]["commands"] = ["ls"]
    path = write_job(tmp_path, job(**fields))
    planned = site.cli("plan", path, "--full")
    assert "  service web  use0  " in planned.stdout
    assert ", the command waits for it" in planned.stdout
    ended = site.cli("run", path, "--out", tmp_path / "run")
    assert (ended.returncode, ended.stdout) == (0, "up\n")
    assert "serving 0" in (tmp_path / "run/worker/0/logs/runtime.log").read_text()


@pytest.mark.parametrize(
    ("contribution", "message"),
    [
        ("services=Service('a', 'b')", "TypeError: Contribution.services: "),
        ("services=['echo']", "TypeError: Contribution.services: "),
        ("services=[Service('a', 3)]", "TypeError: Service.script: "),
        ("services=[Service('a', 'b', probe=1)]", "TypeError: Service.probe: "),
        ("services=[Service('a', 'b', restart='sometimes')]", "ValueError: Service.restart: "),
        ("services=[Service('a', 'b', linger='1h')]", "TypeError: Service.linger: "),
        ("services=[Service('a', 'b', address=3)]", "TypeError: Service.address: "),
        (
            "services=[Service('a', 'b', address='\\0s\\0')]",
            "Service.address: ",
        ),
        ("services=[Service('a', 'b\\0')]", "ValueError: Service.script: "),
    ],
)
def test_a_service_that_is_none_is_one_message(tmp_path: Path, contribution: str, message: str) -> None:
    site = Site(tmp_path)
    imports = "from pai_runtime.plugin import Service\n"
    hook = f"@hookimpl\ndef pai_prerequisite(use, task):\n    return Contribution({contribution})\n"
    site.add("org.web", imports + hook)
    ended = site.cli("plan", write_job(tmp_path, job(**uses("org.web"))))
    assert ended.returncode == 1
    assert f"plugin org.web (org-web 1.0), hook pai_prerequisite: {message}" in ended.stderr
