"""A stand-in for a Kubernetes API server: its REST and watch protocol, and its faults.

It keeps any object of any kind, and knows no controllers: a test plays them by `put`, `change`, `remove` and
`log`.
"""

import base64
import copy
import datetime as dt
import itertools
import json
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.certificates import Certificate, authority
from tests.kubernetes.api_objects import Object, Objects, Target, Test, merge_patch, selecting, target_of
from tests.kubernetes.pod_streams import forward, run_program
from tests.local_server import LocalServer

INSTALLED = (
    "v1",
    "batch/v1",
    "events.k8s.io/v1",
    "authorization.k8s.io/v1",
    "jobset.x-k8s.io/v1alpha2",
    "kueue.x-k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
)
_KINDS = {
    "configmaps": "ConfigMap",
    "events": "Event",
    "jobs": "Job",
    "jobsets": "JobSet",
    "nodes": "Node",
    "pods": "Pod",
    "secrets": "Secret",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "workloads": "Workload",
}


Program = Callable[[str, str, Sequence[str], bool], Sequence[str]]
"""Makes of the pod, the container, a command line, and whether it has a terminal, another command line."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a request.

    With a `status`, that is the answer; `body`: these bytes in the place of what is right; `headers`: further
    ones. Or the answer begins rightly, and is `cut` after so many bytes of its body, or goes on with what is
    `endless`, or nothing comes of it (`silent`). `hang_up`: no answer at all.
    """

    status: int = 0
    reason: str = ""
    message: str = ""
    causes: Sequence[Mapping[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None
    endless: bytes = b""
    silent: bool = False
    hang_up: bool = False


WEBHOOK_AWAY = Fault(
    500,
    "InternalError",
    'Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook: Post'
    ' "https://jobset-webhook-service.jobset-system.svc:443/mutate?timeout=10s": no endpoints available for'
    ' service "jobset-webhook-service"',
)
"""While the pods of a webhook start anew."""


@dataclass(frozen=True)
class Request:
    """One that came: `verb` as in RBAC, `kind` the path without names."""

    verb: str
    kind: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    document: Any


@dataclass
class _Log:
    """What a container wrote: pieces with the times at which they were written."""

    pieces: list[tuple[str, bytes]] = field(default_factory=list)
    ended: bool = False
    is_removed: bool = False


@dataclass
class _Armed:
    fault: Fault
    verb: str
    resource: str
    times: int


class ApiServer(LocalServer):
    """A context manager.

    `tokens`: those that are accepted; empty: whoever asks. `forbidden`: pairs of verb and full resource
    (``jobsets.jobset.x-k8s.io``). `installed`: the API groups with their versions. `admit`: what is wrong
    with a document that is to be stored, as the causes of a Status; as a JobSet is a custom resource, what is
    wrong with its pods comes with the pods alone. `requests`: all that came; `counts`: how many, by verb and
    path without names. `lost_nodes`: those whose kubelets it does not reach. `program` makes of a command
    line one of this machine, `address` says where a port of a pod is on this machine.
    """

    def __init__(
        self,
        *,
        namespace: str = "team-a",
        tokens: Sequence[str] = (),
        certificate: Path | None = None,
        clients: Path | None = None,
    ) -> None:
        super().__init__(_Handler, certificate=certificate)
        if self.context and clients:
            self.context.verify_mode = 1  # type: ignore[assignment] # CERT_OPTIONAL
            self.context.load_verify_locations(clients)
        self.namespace = namespace
        self.tokens = set(tokens)
        self.forbidden: set[tuple[str, str]] = set()
        self.installed = set(INSTALLED)
        self.lost_nodes: set[str] = set()
        self.program: Program = lambda _pod, _container, argv, _terminal: argv
        self.address: Callable[[str, int], tuple[str, int]] = lambda _pod, port: ("127.0.0.1", port)
        self.admit: Callable[[Target, Object], Sequence[Mapping[str, str]]] = lambda _target, _object: ()
        self.requests: list[Request] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.objects = Objects()
        self.changed = threading.Condition(self.lock)
        self.cuts: list[bytes | None] = []
        self._armed: list[_Armed] = []
        self._logs: dict[tuple[str, str, str, bool], _Log] = {}
        self._nanoseconds = itertools.count(time.time_ns())

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036 - the three, passed on
        self.ended.set()
        with self.changed:
            self.changed.notify_all()
        super().__exit__(*error)

    # What a controller or kubelet does.

    def put(self, collection: str, document: Mapping[str, Any]) -> Object:
        """Create or replace an object of the collection at a path; the object as it is stored."""
        with self.changed:
            stored = self.objects.put(self._target(collection), document)
            self.changed.notify_all()
            return copy.deepcopy(stored)

    def change(self, path: str, patch: Mapping[str, Any]) -> Object:
        """Change the object at a path by a merge patch, such as one of its status."""
        with self.changed:
            target = self._target(path)
            document = self.objects.get(target)
            assert document, f"no object {path}"
            stored = self.objects.put(target, merge_patch(document, patch))
            self.changed.notify_all()
            return copy.deepcopy(stored)

    def remove(self, path: str) -> None:
        """Remove the object at a path, and all that it owns; the logs of a pod end."""
        with self.changed:
            target = self._target(path)
            assert self.objects.remove(target), f"no object {path}"
            for (_, pod, _, _), log in self._logs.items():
                log.ended |= (target.resource, target.name) == ("pods", pod)
            self.changed.notify_all()

    def get(self, path: str) -> Object | None:
        """The object at a path."""
        with self.lock:
            return copy.deepcopy(self.objects.get(self._target(path)))

    def list(self, collection: str) -> Sequence[Object]:
        """The objects of a collection, by name."""
        with self.lock:
            return copy.deepcopy(self.objects.select(self._target(collection), lambda _: True))

    def log(
        self,
        pod: str,
        container: str,
        data: bytes,
        *,
        ended: bool = False,
        previous: bool = False,
        time: str = "",
    ) -> None:
        """A container writes: each line, and what has no end, at a time of its own unless one is given."""
        with self.changed:
            log = self._logs.setdefault((self.namespace, pod, container, previous), _Log())
            log.pieces += [(time or self._time(), line) for line in data.splitlines(keepends=True)]
            log.ended = ended
            self.changed.notify_all()

    def remove_container(self, pod: str, container: str) -> None:
        """The kubelet removes a container that has ended, with its log; the pod stays."""
        with self.changed:
            log = self._logs.setdefault((self.namespace, pod, container, False), _Log())
            log.ended = log.is_removed = True
            self.changed.notify_all()

    def rotate_log(self, pod: str, container: str) -> None:
        """Forget what a container wrote so far, as when its log is rotated."""
        with self.changed:
            self._logs[self.namespace, pod, container, False].pieces.clear()

    def kubeconfig(self, folder: Path, **user: Any) -> Path:
        """A file by which this server is asked; `user`: another way to log in than the first token."""
        cluster: dict[str, Any] = {"server": self.url}
        if self.authority:
            cluster["certificate-authority-data"] = base64.b64encode(self.authority.pem).decode()
        login = user or ({"token": min(self.tokens)} if self.tokens else {})
        context = {"cluster": "stand-in", "user": "jane", "namespace": self.namespace}
        path = folder / "kubeconfig.yaml"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "stand-in",
            "clusters": [{"name": "stand-in", "cluster": cluster}],
            "users": [{"name": "jane", "user": login}],
            "contexts": [{"name": "stand-in", "context": context}],
        }
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def wait_for(self, test: Callable[[], bool]) -> None:
        """Wait until something about the requests that came is true."""
        with self.changed:
            assert self.changed.wait_for(test, 60)

    # What goes wrong.

    def arm(self, fault: Fault, verb: str = "", resource: str = "", times: int = 1) -> None:
        """Let the next requests go wrong: those with this verb, and for this full resource, if given.

        Verbs are those of RBAC: get, list, watch, create, patch, delete, deletecollection. The log of a pod
        is ``pods/log``.
        """
        with self.lock:
            self._armed.append(_Armed(fault, verb, resource, times))

    def disarm(self) -> None:
        """Let all go well again."""
        with self.lock:
            self._armed.clear()

    def break_streams(self, last: bytes | None = b"") -> None:
        """End all watches and logs that are followed: cut off after some `last` bytes; None: by the rules."""
        with self.changed:
            self.cuts.append(last)
            self.changed.notify_all()

    def compact(self) -> None:
        """Forget the past: a watch from before is answered 410 in its stream."""
        with self.changed:
            self.objects.compact()

    authority: Certificate | None = None
    """Who has issued the certificate; for `kubeconfig`."""

    # What the handler asks.

    def take_fault(self, verb: str, resource: str) -> Fault | None:
        with self.lock:
            for armed in self._armed:
                if armed.verb in ("", verb) and armed.resource in ("", resource):
                    armed.times -= 1
                    if not armed.times:
                        self._armed.remove(armed)
                    return armed.fault
        return None

    def find_log(self, key: tuple[str, str, str, bool]) -> _Log | None:
        with self.lock:
            return self._logs.get(key)

    def _target(self, path: str) -> Target:
        target = target_of(path)
        assert target, f"no path of an API: {path}"
        return target

    def _time(self) -> str:
        """Now, as a log has it; later than each time before."""
        seconds, rest = divmod(next(self._nanoseconds), 10**9)
        return f"{dt.datetime.fromtimestamp(seconds, dt.timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def tls_server(folder: Path, **options: Any) -> ApiServer:
    """A server that speaks TLS, by an authority of its own; both issue and accept client certificates."""
    from tests.certificates import server_certificate  # noqa: PLC0415 - slow, and few tests need it

    issuer = authority("cluster")
    certificate = server_certificate(issuer, ["127.0.0.1"]).write(folder / "server.pem")
    clients = folder / "clients.pem"
    clients.write_bytes(issuer.pem)
    server = ApiServer(certificate=certificate, clients=clients, **options)
    server.authority = issuer
    return server


class _Refused(Exception):
    """The answer is a Status."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        causes: Sequence[Mapping[str, str]] = (),
        *,
        name: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": {**({"name": name} if name else {}), **({"causes": list(causes)} if causes else {})},
            "code": status,
        }


class _Cut(Exception):
    """The connection is to end here."""


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    fault: Fault | None = None
    written = 0
    cuts = 0
    """How often streams had been broken when the request came."""

    def do_GET(self) -> None:
        self._answer("get")

    def do_POST(self) -> None:
        self._answer("create")

    def do_PATCH(self) -> None:
        self._answer("patch")

    def do_PUT(self) -> None:
        self._answer("update")

    def do_DELETE(self) -> None:
        self._answer("delete")

    def _answer(self, verb: str) -> None:
        self.written, self.fault = 0, None
        url = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        document = json.loads(body) if body else None
        target = target_of(url.path)
        if target and not target.name:
            is_watch = query.get("watch") in ("true", "1")
            verb = {"get": "watch" if is_watch else "list", "delete": "deletecollection"}.get(verb, verb)
        resource = ""
        if target and target.below in ("exec", "portforward"):
            verb = "create"  # also of a WebSocket, since Kubernetes 1.35
        if target:
            resource = f"{target.full_resource}/{target.below}" if target.below else target.full_resource
        kind = target.kind if target else url.path
        request = Request(verb, kind, url.path, query, dict(self.headers), document)
        with self.server.lock:
            self.server.requests.append(request)
            self.server.counts[verb, kind] += 1
            self.cuts = len(self.server.cuts)
            self.server.changed.notify_all()
        self.fault = self.server.take_fault(verb, resource)
        try:
            self._check(request, target, resource)
            if target is None:
                self._discovery(url.path)
            elif target.below == "log":
                self._log(target, query)
            elif target.below in ("exec", "portforward"):
                self._stream(target, query)
            elif verb == "watch":
                self._watch(target, query)
            else:
                self._send(*self._do(request, target))
        except _Refused as refused:
            self._send(refused.status, refused.document)
        except (_Cut, BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _check(self, request: Request, target: Target | None, resource: str) -> None:
        """Whether somebody may ask this, and whether it goes wrong."""
        server, fault = self.server, self.fault
        if fault and fault.hang_up:
            raise _Cut
        if fault and fault.status and fault.body is None:
            reason, message = fault.reason or "Fault", fault.message or "it was told to fail"
            raise _Refused(fault.status, reason, message, fault.causes)
        is_known = isinstance(self.connection, socket.socket) and bool(_peer(self.connection))
        if server.tokens and not is_known:
            kind, _, token = self.headers.get("Authorization", "").partition(" ")
            if kind != "Bearer" or token not in server.tokens:
                raise _Refused(401, "Unauthorized", "Unauthorized")
        if target and target.api_version not in server.installed:
            raise _Refused(404, "", "")
        if target and (request.verb, resource) in server.forbidden:
            where = f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
            raise _Refused(
                403,
                "Forbidden",
                f'{resource} is forbidden: User "jane" cannot {request.verb} resource'
                f' "{target.resource}" in API group "{target.group}"{where}',
            )

    def _discovery(self, path: str) -> None:
        installed = self.server.installed
        group_version = path.removeprefix("/apis/").removeprefix("/api/")
        if path == "/version":
            self._send(200, {"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        elif group_version in installed:
            self._send(200, {"kind": "APIResourceList", "groupVersion": group_version, "resources": []})
        elif versions := sorted(each for each in installed if each.startswith(f"{group_version}/")):
            listed = [{"groupVersion": each, "version": each.partition("/")[2]} for each in versions]
            self._send(200, {"kind": "APIGroup", "name": group_version, "versions": listed})
        elif path == "/apis":
            names = sorted(each.partition("/")[0] for each in installed if "/" in each)
            self._send(200, {"kind": "APIGroupList", "groups": [{"name": name} for name in names]})
        else:
            raise _Refused(404, "", "")

    def _do(self, request: Request, target: Target) -> tuple[int, Any]:
        """The status and the document that a request is answered with."""
        verb, query, document = request.verb, request.query, request.document
        dry_run = query.get("dryRun") == "All" or (document or {}).get("dryRun") == ["All"]
        server = self.server
        with server.changed:
            if verb == "create":
                return 201, self._create(target, document, dry_run=dry_run)
            if verb == "list":
                return 200, self._list(target, query)
            if verb == "deletecollection":
                test = selecting(query.get("labelSelector", ""), query.get("fieldSelector", ""))
                for each in server.objects.select(target, test):
                    server.objects.remove(_named(target, each))
                server.changed.notify_all()
                return 200, {"kind": "Status", "status": "Success"}
            found = server.objects.get(target)
            if found is None:
                message = f'{target.full_resource} "{target.name}" not found'
                raise _Refused(404, "NotFound", message, name=target.name)
            if verb == "delete":
                policy = (document or {}).get("propagationPolicy") or query.get("propagationPolicy")
                uid = ((document or {}).get("preconditions") or {}).get("uid")
                if uid not in (None, found["metadata"]["uid"]):
                    raise _Refused(409, "Conflict", "the UID in the precondition does not match")
                if not dry_run:
                    server.objects.remove(target, orphans=policy == "Orphan")
                    server.changed.notify_all()
                return 200, {"kind": "Status", "status": "Success"}
            if verb in ("patch", "update"):
                changed = merge_patch(found, document) if verb == "patch" else document
                self._admit(target, changed)
                stored = changed if dry_run else server.objects.put(target, changed)
                server.changed.notify_all()
                return 200, stored
            return 200, found

    def _create(self, target: Target, document: Any, *, dry_run: bool) -> Object:
        if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
            raise _Refused(400, "BadRequest", "Object 'Kind' is missing in the request")
        if document["apiVersion"] != target.api_version:
            raise _Refused(400, "BadRequest", "the API version in the data does not match the expected one")
        created = copy.deepcopy(document)
        metadata = created.setdefault("metadata", {})
        if target.resource == "selfsubjectaccessreviews":
            wanted = created["spec"]["resourceAttributes"]
            resource = ".".join(filter(None, (wanted.get("resource"), wanted.get("group"))))
            full = f"{resource}/{wanted['subresource']}" if wanted.get("subresource") else resource
            allowed = (wanted.get("verb"), full) not in self.server.forbidden
            return {**created, "status": {"allowed": allowed}}
        if "name" not in metadata and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        if metadata.get("namespace", target.namespace) != target.namespace:
            raise _Refused(400, "BadRequest", "the namespace of the object does not match the request")
        named = _named(target, created)
        self._admit(named, created)
        if self.server.objects.get(named):
            raise _Refused(409, "AlreadyExists", f'{target.full_resource} "{named.name}" already exists')
        if dry_run:
            metadata |= {"uid": str(uuid.uuid4()), "namespace": target.namespace}
            return created
        stored = self.server.objects.put(named, created)
        self.server.changed.notify_all()
        return stored

    def _admit(self, target: Target, document: Object) -> None:
        causes = self.server.admit(target, document)
        if causes:
            kind, listed = document.get("kind"), "; ".join(f"{c['field']}: {c['message']}" for c in causes)
            raise _Refused(422, "Invalid", f'{kind} "{target.name}" is invalid: {listed}', causes)

    def _list(self, target: Target, query: Mapping[str, str]) -> Object:
        test = selecting(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        objects = self.server.objects
        found = objects.select(target, test)
        version, start = str(objects.version), 0
        if query.get("continue"):
            version, start = json.loads(base64.urlsafe_b64decode(query["continue"]))
            if int(version) < objects.oldest:
                raise _Refused(410, "Expired", "The provided continue parameter is too old")
        stop = start + int(query.get("limit") or 0) or None
        metadata: dict[str, Any] = {"resourceVersion": version}
        if query.get("limit") and len(found) > (stop or 0):
            metadata["continue"] = base64.urlsafe_b64encode(json.dumps([version, stop]).encode()).decode()
            metadata["remainingItemCount"] = len(found) - (stop or 0)
            found = found[start:stop]
        else:
            found = found[start:]
        if "." not in target.group:  # the server's own types have these in the list only
            found = [{k: v for k, v in each.items() if k not in ("kind", "apiVersion")} for each in found]
        kind = f"{_KINDS.get(target.resource, 'Object')}List"
        return {"kind": kind, "apiVersion": target.api_version, "metadata": metadata, "items": found}

    def _watch(self, target: Target, query: Mapping[str, str]) -> None:
        test = selecting(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        self._begin("application/json")
        if self.fault and (self.fault.silent or self.fault.endless):
            self._write(b"")
        end = time.monotonic() + float(query.get("timeoutSeconds") or 3600)
        for event in self._events(target, query, test, end):
            self._write(json.dumps(event).encode() + b"\n")
        self._end()

    def _events(self, target: Target, query: Mapping[str, str], test: Test, end: float) -> Iterator[Object]:
        server = self.server
        with server.lock:
            first = [] if query.get("resourceVersion") else server.objects.select(target, test)
            since = int(query.get("resourceVersion") or server.objects.version)
        yield from ({"type": "ADDED", "object": each} for each in first)
        while True:
            with server.changed:
                too_old = since < server.objects.oldest
                found = list(server.objects.events(target, since, test))
                before, since = since, max(since, server.objects.version)
                is_over = self._is_cut() or time.monotonic() > end or server.ended.is_set()
                if not (found or too_old or is_over):
                    bookmark = before != since and query.get("allowWatchBookmarks") == "true"
                    if not bookmark:
                        server.changed.wait(max(0.0, end - time.monotonic()))
                        continue
            if too_old:
                message = f"too old resource version: {before} ({server.objects.version})"
                yield {"type": "ERROR", "object": _Refused(410, "Expired", message).document}
                return
            yield from ({"type": kind, "object": document} for _, kind, document in found)
            if not found and not is_over:
                kind = _KINDS.get(target.resource, "Object")
                metadata = {"resourceVersion": str(since)}
                bookmark_of = {"kind": kind, "apiVersion": target.api_version, "metadata": metadata}
                yield {"type": "BOOKMARK", "object": bookmark_of}
            if is_over:
                self._cut_off()
                return

    def _stream(self, target: Target, query: Mapping[str, str]) -> None:
        server = self.server
        with server.lock:
            pod = server.objects.get(Target("", "v1", target.namespace, "pods", target.name, ""))
        if pod is None:
            raise _Refused(404, "NotFound", f'pods "{target.name}" not found', name=target.name)
        if target.below == "exec":
            run_program(
                self, lambda argv, terminal: server.program(target.name, query["container"], argv, terminal)
            )
        else:
            forward(self, lambda port: server.address(target.name, port))

    def _log(self, target: Target, query: Mapping[str, str]) -> None:
        server = self.server
        with server.lock:
            pod = server.objects.get(Target("", "v1", target.namespace, "pods", target.name, ""))
        if pod is None:
            raise _Refused(404, "NotFound", f'pods "{target.name}" not found', name=target.name)
        node = pod.get("spec", {}).get("nodeName", "")
        if node in server.lost_nodes:
            url = f"https://{node}:10250/containerLogs/{target.namespace}/{target.name}/app"
            refused = f'Get "{url}": dial tcp {node}:10250: connect: connection refused'
            raise _Refused(500, "InternalError", refused)
        containers = [each["name"] for each in pod.get("spec", {}).get("containers", ())]
        container = query.get("container") or (containers[0] if containers else "")
        log = server.find_log((target.namespace, target.name, container, query.get("previous") == "true"))
        if log is None:
            message = f'container "{container}" in pod "{target.name}" is waiting to start: PodInitializing'
            raise _Refused(400, "BadRequest", message)
        self._begin("text/plain")
        if log.is_removed:  # a kubelet says so with 200, without a time and the end of a line
            self._write(b"unable to retrieve container logs for containerd://0123456789abcdef")
            self._end()
            return
        follow, most = query.get("follow") == "true", int(query.get("limitBytes") or 1 << 62)
        for piece in itertools.chain.from_iterable(self._pieces(log, query, follow=follow)):
            self._write(piece[:most])
            most -= len(piece)
            if most <= 0:
                break
        self._end()

    def _pieces(self, log: _Log, query: Mapping[str, str], *, follow: bool) -> Iterator[Iterator[bytes]]:
        server = self.server
        # A kubelet is told whole seconds only.
        since, stamped = query.get("sinceTime", "")[:19], query.get("timestamps") == "true"
        with server.lock:
            start = _tail(log.pieces, int(query["tailLines"])) if "tailLines" in query else 0
        new_line = True
        while True:
            with server.changed:
                pieces, ended = log.pieces[start:], log.ended
                start += len(pieces)
                is_over = self._is_cut() or server.ended.is_set()
                if not pieces and not ended and not is_over and follow:
                    server.changed.wait()
                    continue
            written = []
            for moment, data in pieces:
                if moment[:19] >= since:
                    written.append(f"{moment} ".encode() + data if stamped and new_line else data)
                    new_line = data.endswith(b"\n")
            yield iter(written)
            if is_over:
                self._cut_off()
            if is_over or ended or not follow:
                return

    def _is_cut(self) -> bool:
        return len(self.server.cuts) > self.cuts

    def _cut_off(self) -> None:
        """End the stream as it was told: by the rules, or in the middle."""
        last = self.server.cuts[self.cuts] if self._is_cut() else None
        if last is not None:
            self._write(last)
            raise _Cut

    def _send(self, status: int, document: Any) -> None:
        fault = self.fault
        body = json.dumps(document).encode()
        plain = status == 404 and not document.get("reason", "x")
        if fault and fault.body is not None:
            status, body = fault.status or status, fault.body
        elif plain:
            body = b"404 page not found\n"
        self.send_response(status)
        is_text = plain or (fault and fault.body is not None)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        for name, value in (fault.headers if fault else {}).items():
            self.send_header(name, value)
        if fault and (fault.endless or fault.silent):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._write(body)
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault and fault.cut is not None:
            self.wfile.write(body[: fault.cut])
            raise _Cut
        self.wfile.write(body)

    def _begin(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _write(self, data: bytes) -> None:
        """A piece of a body in chunks, or what a fault makes of it."""
        fault, ended = self.fault, self.server.ended
        if fault and fault.silent:
            with self.server.changed:
                self.server.changed.wait_for(lambda: ended.is_set() or self._is_cut())
            raise _Cut
        while fault and fault.endless and not ended.is_set():
            self._chunk(fault.endless)
        if fault and fault.cut is not None and self.written + len(data) > fault.cut:
            self._chunk(data[: fault.cut - self.written])
            raise _Cut
        self._chunk(data)

    def _chunk(self, data: bytes) -> None:
        self.written += len(data)
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are kept in `ApiServer.requests`."""


def _named(target: Target, document: Mapping[str, Any]) -> Target:
    metadata = document.get("metadata", {})
    name = metadata.get("name", "")
    if not name:
        raise _Refused(422, "Invalid", "name or generateName is required")
    namespace = metadata.get("namespace", target.namespace)
    return Target(target.group, target.version, namespace, target.resource, name, "")


def _tail(pieces: Sequence[tuple[str, bytes]], lines: int) -> int:
    """The index of the first piece of so many last lines."""
    starts = [0, *(index for index, (_, data) in enumerate(pieces, 1) if data.endswith(b"\n"))]
    if pieces and pieces[-1][1].endswith(b"\n"):
        starts.pop()
    return starts[-lines] if 0 < lines <= len(starts) else 0 if lines else len(pieces)


def _peer(connection: Any) -> Any:
    """The certificate of a client, if it has shown one."""
    return connection.getpeercert(binary_form=True) if hasattr(connection, "getpeercert") else None
