"""Kubeconfigs: what of them counts, and what is wrong with them, by line."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.problems import InvalidInput, Problem
from pai_kubernetes.api import kubeconfig
from pai_kubernetes.api.access import Access, Login
from pai_kubernetes.api.kubeconfig import read_kubeconfig
from pai_runtime.runs.errors import ClusterError

SERVER = "https://10.0.0.1:6443"


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def _document(
    cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None, name: str = "lab"
) -> dict[str, Any]:
    return {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": name, "user": dict(user or {})}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": name}}],
    }


def _write(path: Path, document: Any) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False))
    return path


def _read(
    tmp_path: Path, cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None
) -> Access:
    return read_kubeconfig(str(_write(tmp_path / "config.yaml", _document(cluster, user))), "")


def _problems(path: Path, context: str = "") -> tuple[Problem, ...]:
    with pytest.raises(InvalidInput) as caught:
        read_kubeconfig(str(path), context)
    return caught.value.problems


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_context_says_which_cluster_is_asked_and_as_whom(tmp_path: Path) -> None:
    cluster = {
        "server": f"{SERVER}/",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": True,
    }
    access = _read(tmp_path, cluster, {"token": "secret"})
    assert (access.server, access.user, access.namespace) == (SERVER, "lab", "lab")
    assert (access.server_name, access.proxy, access.insecure) == ("kubernetes", "http://proxy:3128", True)
    assert access.credentials.login() == Login("Bearer secret")
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    ("user", "login"),
    [
        ({}, Login()),
        ({"username": "jane", "password": "word"}, Login("Basic amFuZTp3b3Jk")),
        ({"token": "secret", "username": "jane"}, Login("Bearer secret")),
        (
            {"client-certificate-data": _base64(b"cert"), "client-key-data": _base64(b"key")},
            Login("", b"cert", b"key"),
        ),
        ({"client-certificate": "files/cert", "client-key": "files/key"}, Login("", b"cert", b"key")),
        (
            {
                "client-certificate-data": _base64(b"data"),
                "client-certificate": "no",
                "client-key": "files/key",
            },
            Login("", b"data", b"key"),
        ),
        ({"tokenFile": "files/token", "token": "other"}, Login("Bearer filed")),
    ],
)
def test_a_login_is_in_the_kubeconfig_or_in_files_beside_it(
    tmp_path: Path, user: Mapping[str, Any], login: Login
) -> None:
    for name, data in (("cert", "cert"), ("key", "key"), ("token", "filed\n")):
        _write(tmp_path / "files" / name, data)
    assert _read(tmp_path, user=user).credentials.login() == login


def test_an_authority_is_in_the_kubeconfig_or_in_a_file_beside_it(tmp_path: Path) -> None:
    _write(tmp_path / "ca.pem", "filed")
    assert _read(tmp_path, {"certificate-authority": "ca.pem"}).authority == b"filed"
    data = {"certificate-authority-data": _base64(b"data"), "certificate-authority": "ca.pem"}
    assert _read(tmp_path, data).authority == b"data"


def test_several_files_are_merged_and_the_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _write(tmp_path / "first", {"current-context": "other"})
    second = _write(tmp_path / "a" / "second", _document({"certificate-authority": "ca"}, name="other"))
    third = _document({"server": "https://third.example"}, name="other")
    _write(tmp_path / "a" / "ca", "authority")
    names = [str(first), str(tmp_path / "missing"), "", str(second), str(_write(tmp_path / "third", third))]
    monkeypatch.setenv("KUBECONFIG", ":".join(names))
    access = read_kubeconfig("", "")
    assert (access.server, access.user, access.authority) == (SERVER, "other", b"authority")


def test_without_a_variable_it_is_the_one_of_the_home_directory(tmp_path: Path) -> None:
    _write(tmp_path / "home" / ".kube" / "config", _document())
    assert read_kubeconfig("", "lab").server == SERVER


def test_one_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    assert [each.code for each in _problems(tmp_path / "missing")] == ["unreadable"]


def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    document = _document()
    other = {"name": "other", "context": {"cluster": "lab", "user": "lab"}}
    document["contexts"].append(other)
    path = str(_write(tmp_path / "config", document))
    assert read_kubeconfig(path, "other").namespace == "default"


@pytest.mark.parametrize(
    ("cluster", "user", "line", "field", "code"),
    [
        ({"server": "10.0.0.1"}, {}, 5, "clusters[0].cluster.server", "wrong-value"),
        ({"server": "https://a:b@c"}, {}, 5, "clusters[0].cluster.server", "wrong-value"),
        ({"server": 7}, {}, 5, "clusters[0].cluster.server", "wrong-type"),
        ({"proxy-url": "socks5://a"}, {}, 6, "clusters[0].cluster.proxy-url", "wrong-value"),
        (
            {"certificate-authority": "none"},
            {},
            6,
            "clusters[0].cluster.certificate-authority",
            "unreadable",
        ),
        (
            {"certificate-authority-data": "=no="},
            {},
            6,
            "clusters[0].cluster.certificate-authority-data",
            "wrong-value",
        ),
        ({}, {"token": "a b"}, 9, "users[0].user.token", "wrong-value"),
        ({}, {"token": 1234567}, 9, "users[0].user.token", "wrong-type"),
        ({}, {"client-key-data": _base64(b"key")}, 9, "users[0].user", "missing-field"),
        ({}, {"auth-provider": {"name": "gcp"}}, 10, "users[0].user.auth-provider", "unsupported"),
        ({}, {"as": "root"}, 9, "users[0].user.as", "unsupported"),
        (
            {},
            {"exec": {"apiVersion": "a", "command": "b"}},
            10,
            "users[0].user.exec.apiVersion",
            "wrong-value",
        ),
        (
            {},
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "args": [7], "command": "b"}},
            12,
            "users[0].user.exec.args[0]",
            "wrong-type",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_without_secrets(
    tmp_path: Path,
    cluster: Mapping[str, Any],
    user: Mapping[str, Any],
    line: int,
    field: str,
    code: str,
) -> None:
    path = _write(tmp_path / "config.yaml", _document(cluster, user))
    (problem,) = _problems(path)
    assert problem.position
    assert (problem.position.file, problem.position.line) == (str(path), line)
    assert (problem.field, problem.code) == (field, code)
    assert "1234567" not in str(problem)


@pytest.mark.parametrize(
    ("change", "context", "code"),
    [
        ({}, "laboratory", "unknown-context"),
        ({"current-context": ""}, "", "missing-field"),
        ({"current-context": "gone"}, "", "unknown-context"),
        ({"clusters": None}, "", "unknown-cluster"),
        ({"users": []}, "", "unknown-user"),
        ({"contexts": 7}, "", "wrong-type"),
    ],
)
def test_what_is_not_there_is_told(
    tmp_path: Path, change: Mapping[str, Any], context: str, code: str
) -> None:
    path = _write(tmp_path / "config", {**_document(), **change})
    assert [each.code for each in _problems(path, context)] == [code]


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "\0", "a: &a [*a]"])
def test_what_is_no_kubeconfig_is_told(tmp_path: Path, text: str) -> None:
    assert _problems(_write(tmp_path / "config", text))


def test_in_a_pod_its_service_account_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("token", "ca.crt", "namespace"):
        _write(tmp_path / "account" / name, name)
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path / "account")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = read_kubeconfig("", "")
    assert (access.server, access.namespace, access.authority) == (
        "https://[fd00::1]:443",
        "namespace",
        b"ca.crt",
    )
    assert access.credentials.login() == Login("Bearer token")


def test_without_any_of_it_people_are_told() -> None:
    with pytest.raises(ClusterError, match="KUBECONFIG"):
        read_kubeconfig("", "")
