"""A login leaves an application token in a file for its user alone, and nothing else."""

import argparse
import getpass
import io
import json
import os
import sys
import threading
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pai_openpai.client import login
from pai_openpai.client.loopback import Loopback
from pai_runtime.plugin import UserError
from pai_runtime.runs.errors import ClusterError
from tests.openpai.lab import Lab
from tests.openpai.rest_server import Fault
from tests.small_cluster import write_profiles
from tests.support import job

PASSWORD = "alice-password"


class Said:
    """The output of the command."""

    columns = None

    def __init__(self) -> None:
        self.lines: list[str] = []

    def report(self, *lines: str) -> None:
        self.lines += lines

    def write_lines(self, lines: Iterable[str]) -> None:
        self.lines += lines


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def log_in(
    openpai: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> Callable[..., dict[str, Any]]:
    """Log in, and return what is kept."""
    monkeypatch.delenv("PAI_TOKEN")
    write_profiles(tmp_path / "config", f"  lab: {{engine: openpai, url: '{openpai.server.url}'}}\n")

    def run(*words: str) -> dict[str, Any]:
        parser = argparse.ArgumentParser()
        login.add_arguments(parser)
        assert login.main(parser.parse_args(["--on", "lab", *words]), said) == 0  # type: ignore[arg-type] # all that is used
        path = tmp_path / "config/pai-runtime/openpai/lab.json"
        assert path.stat().st_mode & 0o077 == 0
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    return run


def typed(monkeypatch: pytest.MonkeyPatch, password: str = PASSWORD, user: str = "alice") -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda _prompt: user)
    monkeypatch.setattr(getpass, "getpass", lambda _prompt: password)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.process
def test_a_password_is_not_kept_and_its_login_ends(
    openpai: Lab, log_in: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    typed(monkeypatch)
    before = set(openpai.server.cluster.tokens)
    kept = log_in()
    (token,) = set(openpai.server.cluster.tokens) - before
    assert (kept["token"], kept["user"], kept["url"]) == (token, "alice", openpai.server.url)
    assert openpai.server.cluster.tokens[token].application
    assert not [line for line in said.lines if PASSWORD in line or token in line]
    assert not [each for each in openpai.server.requests if PASSWORD in each.path or token in each.path]
    assert openpai.ended(openpai.submit(job())).outcome == "succeeded"


def test_a_login_ends_though_it_brings_no_application_token_and_is_said_not_to_end(
    openpai: Lab, log_in: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    typed(monkeypatch)
    before = set(openpai.server.cluster.tokens)
    openpai.server.arm(Fault(500, b""), path="/tokens/application")
    with pytest.raises(ClusterError):
        log_in()
    assert set(openpai.server.cluster.tokens) == before
    openpai.server.arm(Fault(500, b""), path="/logout")
    kept = log_in()
    (left,) = set(openpai.server.cluster.tokens) - before - {kept["token"]}
    assert [line for line in said.lines if line.startswith("note: ") and left not in line]


def test_a_new_token_that_the_server_has_not_stored_yet_is_asked_for_again_before_the_login_ends(
    openpai: Lab, log_in: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch)
    monkeypatch.setattr(login, "_PAUSE", 0.01)
    refusal = b'{"code": "UnauthorizedUserError", "message": "Your token is invalid."}'
    openpai.server.arm(Fault(401, refusal), path="/tokens/check", times=2)
    kept = log_in()
    checks = openpai.asked("GET", "/tokens/check")
    assert [each.authorization == f"Bearer {kept['token']}" for each in checks] == [False] * 3 + [True]
    requests = [each.path.rpartition("/")[2] for each in openpai.server.requests[-2:]]
    assert requests == ["check", "logout"]


@pytest.mark.parametrize("password", ["wrong-password", "short"])
def test_a_wrong_password_is_said_to_be(
    log_in: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    typed(monkeypatch, password)
    with pytest.raises(UserError, match="wrong"):
        log_in()


def test_a_token_comes_by_the_standard_input_of_a_script(
    openpai: Lab, log_in: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = openpai.server.cluster.token("bob.x")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{token}\n"))
    assert log_in("--token")["user"] == "bob.x"
    for text, error in (("none of\x1b its\n", UserError), ("unknown", ClusterError)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        with pytest.raises(error):
            log_in("--token")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(UserError, match="--token"):
        log_in()


def test_a_login_in_a_browser_comes_back_to_this_machine(
    openpai: Lab, log_in: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    openpai.server.cluster.oidc = "alice"
    before = set(openpai.server.cluster.tokens)
    pages: list[bytes] = []

    def browse(url: str) -> None:
        with urllib.request.urlopen(url, timeout=30) as page:  # noqa: S310 - the stand-in
            pages.append(page.read())

    def opened(url: str) -> None:
        thread = threading.Thread(target=browse, args=(url,))
        thread.start()
        browsers.append(thread)

    browsers: list[threading.Thread] = []
    monkeypatch.setenv("BROWSER", "some")
    monkeypatch.setattr(webbrowser, "open", opened)
    kept = log_in()
    for each in browsers:
        each.join()
    assert set(openpai.server.cluster.tokens) - before == {kept["token"]}
    assert openpai.server.cluster.tokens[kept["token"]].application
    assert kept["user"] == "alice"
    assert b"closed" in pages[0]
    assert not [line for line in said.lines for token in openpai.server.cluster.tokens if token in line]


def test_only_the_random_path_of_a_login_brings_a_token() -> None:
    with Loopback() as loopback:
        address = loopback.url
        assert address.startswith("http://127.0.0.1:")
        base = address.rpartition("/")[0]
        for wrong in (
            f"{base}/?token=x",
            f"{base}/callback?token=x",
            f"{address}x?token=x",
            f"{address}?token=",
        ):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(wrong, timeout=30)  # noqa: S310 - this machine
        assert loopback.wait(0) == ""
        urllib.request.urlopen(f"{address}?token=one", timeout=30).close()  # noqa: S310 - as above
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{address}?token=two", timeout=30)  # noqa: S310 - as above
        assert loopback.wait(30) == "one"
    with Loopback() as another:
        assert another.url.rpartition("/")[2] != address.rpartition("/")[2]


def test_a_login_may_be_broken_off_and_needs_no_name_here(
    log_in: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_prompt: str) -> str:
        raise EOFError

    def nobody() -> str:
        raise KeyError

    typed(monkeypatch)
    monkeypatch.setattr(getpass, "getuser", nobody)
    assert log_in()["user"] == "alice"
    monkeypatch.setattr(getpass, "getpass", ended)
    for words in ((), ("--token",)):
        with pytest.raises(UserError):
            log_in(*words)


def test_the_variable_is_used_only_where_all_profiles_are_of_one_cluster(
    openpai: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"  lab: {{engine: openpai, url: '{openpai.server.url}'}}\n"
    twin = own.replace("lab", "twin").replace("}", ", virtualCluster: vc2}")
    elsewhere = "  far: {engine: slurm, url: 'https://far.example.com'}\n"
    write_profiles(tmp_path / "config", own + twin + elsewhere)
    assert openpai.opened().runs() == []
    asked = len(openpai.server.requests)
    write_profiles(
        tmp_path / "config", f"{own}  other: {{engine: openpai, url: 'https://pai.example.com'}}\n"
    )
    with pytest.raises(ClusterError, match="PAI_TOKEN"):
        openpai.opened().runs()
    assert len(openpai.server.requests) == asked
    typed(monkeypatch)
    parser = argparse.ArgumentParser()
    login.add_arguments(parser)
    assert login.main(parser.parse_args(["--on", "lab"]), Said()) == 0  # type: ignore[arg-type] # all that is used
    assert openpai.opened().runs() == []


def test_a_kept_token_is_for_one_address_and_one_user(
    openpai: Lab, log_in: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError, match="pai-runtime login --on lab"):
        openpai.opened().runs()
    typed(monkeypatch)
    log_in()
    path = tmp_path / "config/pai-runtime/openpai/lab.json"
    assert openpai.opened().runs() == []
    path.chmod(0o644)
    with pytest.raises(ClusterError, match="chmod 600"):
        openpai.opened().runs()
    path.chmod(0o600)
    with monkeypatch.context() as patch:
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)
        else:  # who cannot give a file away is somebody else for a while
            patch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(ClusterError, match="another user"):
            openpai.opened().runs()
    os.chown(path, os.geteuid(), -1)
    asked = len(openpai.server.requests)
    path.write_text(path.read_text().replace(openpai.server.url, "https://pai.example.com"))
    with pytest.raises(ClusterError, match="another address"):
        openpai.opened().runs()
    for broken in ("", "[]", '{"token": 1}', "{"):
        path.write_text(broken)
        with pytest.raises(ClusterError, match="is not as"):
            openpai.opened().runs()
    assert len(openpai.server.requests) == asked
