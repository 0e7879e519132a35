"""Kubeconfigs, which say which cluster to use and as whom; without one, a pod's service account."""

import base64
import binascii
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pai_kubernetes.api.access import Access, Credentials, Fixed, Login
from pai_kubernetes.api.credentials import MOST_OF_FILE, TokenFile
from pai_kubernetes.api.exec_plugin import ExecConfig, ExecPlugin
from pai_network.authorization import basic, bearer
from pai_pod.engine import paths
from pai_runtime.engine import ClusterError, InvalidInput, Problem, Problems, Value
from pai_runtime.engine.documents import (
    check_value,
    package_schema,
    read_document,
    read_file,
    split_url,
    text,
)
from pai_runtime.engine.messages import listed, near_miss

SERVICE_ACCOUNT: Final = Path(paths.SERVICE_ACCOUNT)

_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXTENSION: Final = "client.authentication.k8s.io/exec"
_UNSUPPORTED: Final = ("auth-provider", "as", "as-uid", "as-groups", "as-user-extra")
_MOST_OF_NAMESPACE: Final = 253


def read_kubeconfig(path: str, context: str) -> Access:
    """Return the access to a cluster by a context; an empty name is the current one.

    An empty `path` means the files in ``$KUBECONFIG``, merged as kubectl does, or ``~/.kube/config``; without
    any, the service account of the pod that this runs in. Raises `InvalidInput`, each problem with its file
    and line, and `ClusterError` if there is nothing of it.
    """
    files = _files(path)
    if not files:
        return _in_cluster()
    problems = Problems(lambda _: "a hidden value")
    config = _Config([_read(file, problems) for file in files], problems)
    problems.check()
    access = config.access(context)
    problems.check()
    return access


def _files(path: str) -> Sequence[Path]:
    """Return the kubeconfigs that exist; one that was named explicitly has to."""
    if path:
        return [Path(path).expanduser()]
    named = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = [Path(each) for each in named] if named else [Path.home() / ".kube" / "config"]
    return [file for file in files if file.exists()]


def _read(file: Path, problems: Problems) -> Value:
    root = read_document(file)
    check_value(root, package_schema("pai_kubernetes.api", "kubeconfig.schema.json"), problems)
    return root


class _Config:
    """Several kubeconfigs merged; the first one takes precedence."""

    def __init__(self, roots: Sequence[Value], problems: Problems) -> None:
        self._roots = roots
        self._problems = problems
        self._position = roots[0].node.source.whole

    def access(self, name: str) -> Access:
        """Return the access that a context describes; its faults are reported. Raises `InvalidInput`."""
        context = self._context(name)
        cluster = self._named_in(context, "cluster")
        user = self._named_in(context, "user") if text(context, "user") else None
        origin = f"context '{_context_name(context)}' in {context.position.file}"
        return Access(
            server=self._server(cluster),
            user=text(context, "user") or "nobody",
            origin=origin,
            namespace=text(context, "namespace") or "default",
            authority=self._data(cluster, "certificate-authority"),
            insecure=cluster.data.get("insecure-skip-tls-verify", False),
            server_name=text(cluster, "tls-server-name"),
            proxy=self._proxy(cluster),
            credentials=self._credentials(user, cluster, origin) if user else Fixed(),
        )

    def _context(self, name: str) -> Value:
        current = next(filter(None, (text(root, "current-context") for root in self._roots)), "")
        if not (name or current):
            message = "no current-context; set one, or name a context in the profile"
            raise InvalidInput([Problem("missing-field", message, self._position, "current-context")])
        context = self._find("contexts", "context", name or current)
        if context is None:
            names = [str(each.data.get("name")) for each in self._entries("contexts")]
            message = f"no context '{name or current}'; known: {listed(names)}"
            suggestion = near_miss(name or current, names)
            problem = Problem("unknown-context", message, self._position, "contexts", suggestion=suggestion)
            raise InvalidInput([problem])
        return context

    def _named_in(self, context: Value, kind: str) -> Value:
        """Return the cluster or the user that a context names. Raises `InvalidInput`."""
        name = text(context, kind)
        found = self._find(f"{kind}s", kind, name)
        if found is None:
            where = context.get(kind) or context
            raise InvalidInput(
                [where.problem(f"unknown-{kind}", f"there is no {kind} '{name}'", f"'{name}'")]
            )
        return found

    def _find(self, kind: str, key: str, name: str) -> Value | None:
        for entry in self._entries(kind):
            found = entry.get(key)
            if entry.data.get("name") == name and found is not None and isinstance(found.data, dict):
                return found
        return None

    def _entries(self, kind: str) -> Iterator[Value]:
        for root in self._roots:
            entries = root.get(kind)
            if entries is not None:
                yield from entries.values()

    def _server(self, cluster: Value) -> str:
        server = text(cluster, "server").rstrip("/")
        url = split_url(server)
        if url is None or url.username is not None or url.query or url.fragment:
            value = cluster.get("server") or cluster
            expected = "the URL of the API server, such as https://10.0.0.1:6443"
            self._problems.add(value.problem("wrong-value", f"expected {expected}", expected=expected))
        return server

    def _proxy(self, cluster: Value) -> str:
        proxy = text(cluster, "proxy-url")
        if proxy and split_url(proxy) is None:
            value, expected = cluster.get("proxy-url") or cluster, "the URL of an HTTP proxy"
            self._problems.add(value.problem("wrong-value", f"expected {expected}", expected=expected))
            return ""
        return proxy

    def _credentials(self, user: Value, cluster: Value, origin: str) -> Credentials:
        for key in _UNSUPPORTED:
            unsupported = user.get(key)
            if unsupported is not None and unsupported.data:
                message = "not supported; use an exec plugin, a token or a client certificate"
                self._problems.add(unsupported.problem("unsupported", message))
        plugin = user.get("exec")
        if plugin is not None and plugin.data:
            return ExecPlugin(self._exec(plugin, cluster))
        certificate, key_data = self._data(user, "client-certificate"), self._data(user, "client-key")
        if bool(certificate) != bool(key_data):
            message = "expected a client certificate and its key, found only one of them"
            self._problems.add(user.problem("missing-field", message))
        file = text(user, "tokenFile")
        if file:
            return TokenFile(_beside(user, file), origin, Login("", certificate, key_data))
        return Fixed(Login(self._authorization(user), certificate, key_data))

    def _authorization(self, user: Value) -> str:
        token, name = user.get("token"), text(user, "username")
        if token is not None and token.data:
            try:
                return bearer(token.data)
            except ValueError as error:
                self._problems.add(token.problem("wrong-value", str(error)))
        return basic(name, text(user, "password")) if name else ""

    def _exec(self, plugin: Value, cluster: Value) -> ExecConfig:
        version = plugin.get("apiVersion")
        if version is not None and version.data not in _VERSIONS:
            expected = f"{' or '.join(_VERSIONS)}"
            self._problems.add(
                version.problem("wrong-value", f"expected {expected}", f"'{version.text}'", expected)
            )
        command = text(plugin, "command")
        env = {each["name"]: each["value"] for each in plugin.data.get("env") or ()}
        return ExecConfig(
            origin=str(plugin.position),
            api_version=text(plugin, "apiVersion"),
            command=str(_beside(plugin, command)) if os.sep in command else command,
            args=tuple(plugin.data.get("args") or ()),
            env=env,
            hint=text(plugin, "installHint"),
            mode=text(plugin, "interactiveMode") or "IfAvailable",
            cluster=self._cluster_info(cluster) if plugin.data.get("provideClusterInfo") else None,
        )

    def _cluster_info(self, cluster: Value) -> Mapping[str, Any]:
        """Return what an exec plugin may be told of the cluster."""
        authority = base64.b64encode(self._data(cluster, "certificate-authority")).decode()
        extensions = cluster.data.get("extensions") or ()
        own = [each.get("extension") for each in extensions if each.get("name") == _EXTENSION]
        fields = ("server", "tls-server-name", "proxy-url", "insecure-skip-tls-verify")
        told = {
            **{key: cluster.data.get(key) for key in fields},
            "certificate-authority-data": authority,
            "config": own[0] if own else None,
        }
        return {key: value for key, value in told.items() if value}

    def _data(self, entry: Value, key: str) -> bytes:
        """Return the content of a ``-data`` field, or of the file that another field names, or nothing."""
        data, file = entry.get(f"{key}-data"), entry.get(key)
        if data is not None and data.data:
            try:
                return base64.b64decode("".join(data.data.split()), validate=True)
            except (binascii.Error, ValueError):
                self._problems.add(data.problem("wrong-value", "expected base64", expected="base64"))
        elif file is not None and file.data:
            path = _beside(entry, file.data)
            try:
                return read_file(path, MOST_OF_FILE)
            except OSError as error:
                message = f"{path} cannot be read: {error.strerror}"
                self._problems.add(file.problem("unreadable", message))
        return b""


def _context_name(context: Value) -> str:
    """Return the name of a context."""
    return str(context.above.data.get("name")) if context.above else ""


def _beside(value: Value, path: str) -> Path:
    """Return a path in a kubeconfig, resolved against its directory."""
    return Path(value.position.file).absolute().parent / path


def _in_cluster() -> Access:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not (host and port and SERVICE_ACCOUNT.is_dir()):
        raise ClusterError(
            "no kubeconfig: neither $KUBECONFIG nor ~/.kube/config is there; "
            "ask the operator of the cluster for one"
        )
    origin = f"the service account in {SERVICE_ACCOUNT}"
    try:
        authority = read_file(SERVICE_ACCOUNT / "ca.crt", MOST_OF_FILE)
        namespace = read_file(SERVICE_ACCOUNT / "namespace", MOST_OF_FILE).decode().strip()
    except (OSError, ValueError) as error:
        raise ClusterError(f"{origin} cannot be read: {getattr(error, 'strerror', error)}") from None
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        user="the pod's service account",
        origin=origin,
        namespace=namespace[:_MOST_OF_NAMESPACE] or "default",
        authority=authority,
        credentials=TokenFile(SERVICE_ACCOUNT / "token", origin),
    )
