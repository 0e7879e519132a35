"""Logins that change: tokens in files, and the commands of exec plugins."""

import base64
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pai_kubernetes.api import exec_plugin, paths
from pai_kubernetes.api.access import Access, Fixed, Login
from pai_kubernetes.api.client import Api
from pai_kubernetes.api.credentials import TokenFile
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.kubeconfig import read_kubeconfig
from pai_kubernetes.api.times import nanoseconds
from pai_runtime.runs.errors import ClusterError
from tests.certificates import authority, client_certificate
from tests.kubernetes.api_server import ApiServer, tls_server

VERSION = "client.authentication.k8s.io/v1"
MAPS = paths.config_maps("team-a")

COUNTING = """
import json, os, pathlib, sys
folder = pathlib.Path(__file__).parent
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
calls = folder / "calls"
count = len(calls.read_text()) if calls.exists() else 0
calls.write_text("x" * (count + 1))
(folder / "info").write_text(json.dumps([info, sys.argv[1:], os.environ.get("PLACE")]))
status = json.loads((folder / "status").read_text())
status = {key: value.replace("COUNT", str(count)) for key, value in status.items()}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


class Plugin:
    """An exec plugin that gives what it is told, and keeps what it was told itself."""

    def __init__(self, folder: Path, program: str = COUNTING) -> None:
        self.folder = folder
        (folder / "plugin.py").write_text(program)
        self.gives({"token": "token-COUNT"})

    def gives(self, status: Mapping[str, Any]) -> None:
        (self.folder / "status").write_text(json.dumps(status))

    @property
    def calls(self) -> int:
        calls = self.folder / "calls"
        return len(calls.read_text()) if calls.exists() else 0

    @property
    def told(self) -> Any:
        return json.loads((self.folder / "info").read_text())

    def user(self, **more: Any) -> dict[str, Any]:
        args = [str(self.folder / "plugin.py"), *more.pop("args", ())]
        return {"exec": {"apiVersion": VERSION, "command": sys.executable, "args": args, **more}}

    def access(self, server: ApiServer, **more: Any) -> Access:
        return read_kubeconfig(str(server.kubeconfig(self.folder, **self.user(**more))), "")


def _open_files() -> Iterator[str]:
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            yield str(each.readlink())


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


@pytest.mark.process
def test_a_token_that_expired_is_asked_for_again(plugin: Plugin) -> None:
    with ApiServer(tokens=["token-0"]) as server:
        api = Api(plugin.access(server), "", "lab")
        api.list(MAPS)
        api.list(MAPS)
        assert plugin.calls == 1
        server.tokens = {"token-1"}
        api.list(MAPS)
        assert plugin.calls == 2
        server.tokens = {"another"}
        with pytest.raises(ApiError) as caught:
            api.list(MAPS)
    assert (caught.value.status, plugin.calls) == (401, 3)


@pytest.mark.process
@pytest.mark.parametrize(("expires", "calls"), [("2001-01-01T00:00:00Z", 2), ("2101-01-01T00:00:00Z", 1)])
def test_what_expires_is_asked_for_before_it_is_refused(plugin: Plugin, expires: str, calls: int) -> None:
    plugin.gives({"token": "token", "expirationTimestamp": expires})
    with ApiServer() as server:
        api = Api(plugin.access(server), "", "lab")
        api.list(MAPS)
        api.list(MAPS)
    assert plugin.calls == calls


@pytest.mark.process
def test_the_command_is_told_what_it_wants_to_know(plugin: Plugin) -> None:
    environment = [{"name": "PLACE", "value": "lab"}]
    with ApiServer() as server:
        access = plugin.access(server, args=["one"], env=environment, provideClusterInfo=True)
        access.credentials.login()
        spec = {"interactive": False, "cluster": {"server": server.url}}
    info = {"apiVersion": VERSION, "kind": "ExecCredential", "spec": spec}
    assert plugin.told == [info, ["one"], "lab"]


@pytest.mark.process
def test_one_refused_login_is_asked_for_once(plugin: Plugin) -> None:
    with ApiServer() as server:
        credentials = plugin.access(server).credentials
    first = credentials.login()
    second = credentials.renewed(first)
    assert (credentials.renewed(first), plugin.calls) == (second, 2)


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit('log in\\x1b[31m first')", ["exit code 1", "log in\\x1b[31m first"]),
        ("import sys; print('x' * 10, file=sys.stderr); print('{')", ["JSON", "xxxxxxxxxx"]),
        ("print('[]')", ["ExecCredential"]),
        ("print('[' * 100000)", ["JSON"]),
        ("while True: print('x' * 65536)", ["bytes"]),
        ("import time; time.sleep(1000)", ["seconds"]),
        ("import os, time\nif os.fork(): os._exit(0)\ntime.sleep(1000)", ["seconds"]),
    ],
)
def test_a_command_that_fails_is_shown_with_what_it_said(
    tmp_path: Path, program: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "SECONDS", 2)
    plugin = Plugin(tmp_path, program)
    with ApiServer() as server:
        access = plugin.access(server)
        with pytest.raises(ClusterError) as caught:
            access.credentials.login()
    shown = str(caught.value)
    assert all(word in shown for word in words), shown
    assert "\x1b" not in shown
    assert f"{tmp_path / 'kubeconfig.yaml'}:" in shown


@pytest.mark.process
@pytest.mark.parametrize(
    "status",
    [
        {},
        {"token": ""},
        {"token": "s3cret with blanks"},
        {"clientCertificateData": "s3cret"},
        {"token": "s3cret", "expirationTimestamp": "soon"},
    ],
)
def test_a_login_of_no_use_is_refused_without_showing_it(plugin: Plugin, status: dict[str, str]) -> None:
    plugin.gives(status)
    with ApiServer() as server:
        access = plugin.access(server)
        with pytest.raises(ClusterError) as caught:
            access.credentials.login()
    assert "s3cret" not in str(caught.value)


@pytest.mark.process
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"command": "no-such-program", "installHint": "install \x1b it"}, "install \\x1b it"),
        ({"interactiveMode": "Always"}, "terminal"),
    ],
)
def test_a_command_that_cannot_be_asked_is_told(plugin: Plugin, change: dict[str, str], word: str) -> None:
    with ApiServer() as server:
        access = plugin.access(server, **change)
        with pytest.raises(ClusterError) as caught:
            access.credentials.login()
    assert word in str(caught.value)


@pytest.mark.process
def test_a_command_with_a_relative_path_is_beside_the_kubeconfig(plugin: Plugin) -> None:
    script = plugin.folder / "login"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "${{0%/*}}/plugin.py"\n')
    script.chmod(0o755)
    with ApiServer() as server:
        access = plugin.access(server, command="./login")
        assert access.credentials.login() == Login("Bearer token-0")


def test_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    with ApiServer(tokens=["first"]) as server:
        access = read_kubeconfig(str(server.kubeconfig(tmp_path, tokenFile="token")), "")
        api = Api(access, "", "lab")
        api.list(MAPS)
        file.write_text("second\n")
        server.tokens = {"second"}
        api.list(MAPS)
        assert api.requests == 3


@pytest.mark.parametrize("content", [b"", b"a b", b"\xff", b"x" * (1 << 21)])
def test_a_file_that_has_no_token_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ClusterError, match="a kubeconfig"):
        TokenFile(tmp_path / "token", "a kubeconfig").login()


def test_tls_is_checked_and_a_client_certificate_logs_in(tmp_path: Path) -> None:
    with tls_server(tmp_path, tokens=["needed"]) as server:
        assert server.authority
        pair = client_certificate(server.authority, "jane").write(tmp_path / "client.pem").read_bytes()
        data = base64.b64encode(pair).decode()
        user = {"client-certificate-data": data, "client-key-data": data}
        access = read_kubeconfig(str(server.kubeconfig(tmp_path, **user)), "")
        assert Api(access, "", "lab").list(MAPS).items == []
        assert not [name for name in _open_files() if "memfd" in name]

        stranger = Access(server.url, "jane", "a kubeconfig", authority=authority("other").pem)
        with pytest.raises(ApiError) as caught:
            Api(stranger, "", "lab").list(MAPS)
        assert not caught.value.may_pass

        careless = Access(
            server.url, "jane", "a kubeconfig", insecure=True, credentials=Fixed(Login("Bearer needed"))
        )
        assert Api(careless, "", "lab").list(MAPS).items == []

        named = Access(
            server.url,
            "jane",
            "a kubeconfig",
            authority=server.authority.pem,
            server_name="other.example",
        )
        with pytest.raises(ApiError):
            Api(named, "", "lab").list(MAPS)


def test_certificates_of_no_use_are_told(tmp_path: Path) -> None:
    with tls_server(tmp_path) as server:
        assert server.authority
        for access in (
            Access(server.url, "jane", "a kubeconfig", authority=b"none"),
            Access(
                server.url,
                "jane",
                "a kubeconfig",
                authority=server.authority.pem,
                credentials=Fixed(Login("", b"none", b"none")),
            ),
        ):
            with pytest.raises(ApiError) as caught:
                Api(access, "", "lab").list(MAPS)
            assert (caught.value.may_pass, "a kubeconfig" in str(caught.value)) == (False, True)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:01.000000001Z", 10**9 + 1),
        ("1970-01-01T02:00:01.5+02:00", 1_500_000_000),
        ("1970-01-01", None),
        ("1970-13-01T00:00:01Z", None),
        ("", None),
    ],
)
def test_times_are_read(text: str, moment: int | None) -> None:
    assert nanoseconds(text) == moment
