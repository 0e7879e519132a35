"""The plugin ``notify``, as jobs use it: real runs, and a real HTTP and a real SMTP server."""

import email
import email.policy
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pai_notify.faults import fault
from pai_notify.mail import mail
from pai_notify.message import Message
from pai_notify.webhook import slack, teams
from pai_plugin_kit import conformance
from pai_runtime.plugin import Task
from tests.certificates import authority, server_certificate
from tests.local_server import LocalServer
from tests.smtp_server import SmtpServer
from tests.support import cli, exit_record, job, write_job

pytestmark = pytest.mark.process

test_it_keeps_the_rules_for_plugins = conformance("notify")

FAILS = ["echo <% $secrets.key %>", "echo '<!channel> [here](x)'", "exit 3"]
SECRETS = {"key": "an-open-secret", "password": "pass-word-71"}


class Hook(BaseHTTPRequestHandler):
    """Keeps what is posted; at ``/hangs`` it answers nothing, at ``/elsewhere`` it redirects."""

    server: "Webhook"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, json.loads(body)))
        if self.path == "/hangs":
            self.server.ended.wait()
        self.send_response({"/elsewhere": 302, "/broken": 500}.get(self.path, 202))
        self.send_header("Location", "/other")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Webhook(LocalServer):
    """A real HTTP server."""

    def __init__(self) -> None:
        super().__init__(Hook)
        self.received: list[tuple[str, Any]] = []


def notify(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"com.microsoft.pai.runtimeplugin": [{"plugin": "notify", "parameters": parameters}]}


def run(folder: Path, parameters: Mapping[str, Any], **fields: Any) -> Path:
    """Run a job with the plugin to its end; the folder of its first task. What is said is in ``said``."""
    secrets = {**SECRETS, **fields.pop("secrets", {})}
    extras = {**notify(parameters), **fields.pop("extras", {})}
    path = write_job(folder, job(extras=extras, secrets=secrets, **fields))
    (folder / "said").write_text(cli("run", path, "--plain", "--out", folder / "run").stderr)
    return folder / "run/worker/0"


def said(output: str, channel: str) -> list[str]:
    """What the run supervisor says of a message."""
    return [line for line in output.splitlines() if f"notify: {channel}: " in line]


@pytest.mark.parametrize("layout", ["json", "slack", "teams"])
def test_a_failure_is_told_once_with_its_diagnosis_and_without_secrets(tmp_path: Path, layout: str) -> None:
    with Webhook() as server:
        webhook = {"url": "<% $secrets.hook %>", "format": layout}
        secrets = {"hook": f"{server.url}/private-place"}
        worker = {"commands": ["echo <% $secrets.key %>", "python3 -c 'import there_is_none'"]}
        task = run(tmp_path, {"webhook": webhook}, worker=worker, secrets=secrets)
    ((path, body),) = server.received
    assert path == "/private-place"
    text = json.dumps(body)
    assert exit_record(task)["phrase"] in text
    assert "there_is_none" in text
    assert "an-open-secret" not in text
    everything = b"".join(each.read_bytes() for each in task.rglob("*") if each.is_file())
    assert b"private-place" not in everything
    if layout == "json":
        assert (body["event"], body["role"], body["index"]) == ("failure", "worker", 0)
        assert body["exitCode"] == exit_record(task)["exitCode"]


EACH_FAILS = {"instances": 4, "commands": ["exit 7"]}


@pytest.mark.parametrize(
    ("worker", "more", "ends"),
    [
        (EACH_FAILS, {}, [7]),
        ({"instances": 4, "commands": ["test $PAI_TASK_INDEX != 3 || exit 7", "sleep 100"]}, {}, [7]),
        (EACH_FAILS, {"jobRetryCount": 1}, [7]),
        ({**EACH_FAILS, "taskRetryCount": 1}, {"extras": {"gangAllocation": False}}, [7]),
        ({**EACH_FAILS, "completion": {"minFailedInstances": -1}}, {}, []),
    ],
    ids=["all at once", "one of them", "a job that is retried", "tasks that are retried", "no failure"],
)
def test_a_run_that_fails_is_told_once_after_its_last_attempt(
    tmp_path: Path, worker: dict[str, Any], more: dict[str, Any], ends: list[int]
) -> None:
    with Webhook() as server:
        run(
            tmp_path,
            {"webhook": {"url": "<% $secrets.hook %>"}},
            worker=worker,
            secrets={"hook": server.url},
            **more,
        )
    assert [body["exitCode"] for _, body in server.received] == ends


def test_success_and_start_are_told_by_the_first_task_if_the_job_says_so(tmp_path: Path) -> None:
    with Webhook() as server:
        webhook = {"url": "<% $secrets.hook %>"}
        parameters = {"webhook": webhook, "events": ["success", "start"]}
        worker = {"instances": 2, "commands": ["true"]}
        run(tmp_path, parameters, worker=worker, secrets={"hook": server.url})
    assert [(body["event"], body["index"]) for _, body in server.received] == [("start", 0), ("success", 0)]


@pytest.mark.parametrize("place", ["/broken", "/elsewhere", "/hangs", None])
def test_what_cannot_be_told_is_a_line_in_the_log_and_no_failure(tmp_path: Path, place: str | None) -> None:
    with Webhook() as server:
        hook = f"{server.url}{place}" if place else "http://127.0.0.1:1/gone"
        task = run(
            tmp_path,
            {"webhook": {"url": "<% $secrets.hook %>"}},
            worker={"commands": ["exit 3"]},
            secrets={"hook": hook},
        )
        assert [path for path, _ in server.received] == ([place] if place else [])
    assert "callbackFailureCount" not in exit_record(task)
    (line,) = said((tmp_path / "said").read_text(), "webhook")
    assert "not told" in line
    assert hook not in line


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_failure_is_mailed_over_an_encrypted_connection(tmp_path: Path, security: str) -> None:
    own = authority("test")
    (tmp_path / "ca.pem").write_bytes(own.pem)
    certificate = server_certificate(own, ["127.0.0.1"]).write(tmp_path / "server.pem")
    server = SmtpServer(certificate, "me", SECRETS["password"], tls=security == "tls")
    with server:
        to = {"server": "127.0.0.1", "port": server.port, "security": security}
        who = {
            "user": "me",
            "password": "<% $secrets.password %>",
            "from": "a@x.org",
            "to": ["b@x.org", "c@x.org"],
        }
        document = job(
            worker={"commands": FAILS},
            secrets=SECRETS,
            extras={**notify({"email": {**to, **who}}), "environment": ["SSL_CERT_FILE"]},
        )
        path = write_job(tmp_path, document)
        env = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        ended = cli("run", path, "--plain", "--out", tmp_path / "run", env=env)
    assert said(ended.stderr, "email")[0].endswith("email: told the failure")
    (received,) = server.messages
    message = email.message_from_bytes(received, policy=email.policy.default)
    assert message["To"] == "b@x.org, c@x.org"
    assert "worker/0 failed" in message["Subject"]
    body = message.get_content()
    assert "<!channel> [here](x)" in body
    assert "an-open-secret" not in body
    assert SECRETS["password"] not in body


@pytest.mark.parametrize("wrong", ["certificate", "password"])
def test_a_mail_server_that_cannot_be_trusted_or_refuses_us_is_told_nothing(
    tmp_path: Path, wrong: str
) -> None:
    own = authority("test")
    (tmp_path / "ca.pem").write_bytes((own if wrong != "certificate" else authority("other")).pem)
    certificate = server_certificate(own, ["127.0.0.1"]).write(tmp_path / "server.pem")
    with SmtpServer(certificate, "me", "another") as server:
        to = {"server": "127.0.0.1", "port": server.port, "from": "a@x.org", "to": ["b@x.org"]}
        who = {"user": "me", "password": "<% $secrets.password %>"}
        extras = {**notify({"email": {**to, **who}}), "environment": ["SSL_CERT_FILE"]}
        path = write_job(tmp_path, job(worker={"commands": ["exit 3"]}, secrets=SECRETS, extras=extras))
        env = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        ended = cli("run", path, "--plain", "--out", tmp_path / "run", env=env)
    assert not server.messages
    (line,) = said(ended.stderr, "email")
    assert ("certificate" if wrong == "certificate" else "535") in line
    assert SECRETS["password"] not in line


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"webhook": {"url": "https://example.org/x"}}, 0),
        ({"webhook": {"url": "ftp://example.org/x"}}, 1),
        (
            {
                "email": {
                    "server": "s",
                    "from": "a",
                    "to": ["b"],
                    "user": "u",
                    "password": "p",
                    "security": "none",
                }
            },
            1,
        ),
        ({"email": {"server": "s", "from": "a", "to": ["b"], "user": "u"}}, 1),
        ({"events": ["failure"]}, 1),
    ],
)
def test_parameters_that_would_tell_a_secret_or_nothing_are_refused(
    tmp_path: Path, parameters: dict[str, Any], code: int
) -> None:
    path = write_job(tmp_path, job(extras=notify(parameters)))
    assert cli("validate", path).returncode == code


def test_a_secret_that_is_written_into_the_job_is_warned_of(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(extras=notify({"webhook": {"url": "https://example.org/x"}})))
    assert "is not a secret of the job" in cli("validate", path).stderr


_TASK = Task("job", "worker", 0, {"worker": 1}, {}, Path("/nowhere"), run="a\nrun")


@given(text=st.text(), lines=st.text(max_size=9000))
@example(text="\u20280", lines="")
def test_any_text_of_a_task_fits_into_every_format_and_into_no_header(text: str, lines: str) -> None:
    record = {"exitCode": 3, "phrase": text, "reason": text, "solution": [text], "errorLogs": {"user": lines}}
    message = Message("failure", _TASK, record)
    assert len(message.title) <= 150
    assert len(message.lines) <= 3000
    for block in slack(message)["blocks"]:
        assert len(block.get("text", {}).get("text", "")) <= 3000
    assert len(json.dumps(teams(message))) < 28 * 1024 * 6  # escaped, a character takes up to 6 bytes, or 12
    parsed = email.message_from_bytes(bytes(mail({"from": "a@x.org", "to": ["b@x.org"]}, message)))
    assert sorted(parsed.keys()) == sorted(
        ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type",
         "Content-Transfer-Encoding", "MIME-Version"]
    )  # fmt: skip


def test_an_exception_is_described_without_its_text() -> None:
    for error in (
        ValueError("https://secret"),
        OSError("https://secret"),
        threading.BrokenBarrierError("secret"),
    ):
        assert "secret" not in fault(error)
