"""A real registry, Debian's docker-registry, with its ways to let users in; and a server before it."""

import base64
import hashlib
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request as Upload
from urllib.request import urlopen

import bcrypt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from pai_runtime.engines.local.ports import free_ports
from tests.certificates import authority
from tests.fault_server import FaultServer, Reply, Request
from tests.git_server import serving

USER, PASSWORD = "someone", "correct horse"

OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker.distribution.manifest"
INDEX, MANIFEST = f"{OCI}.index.v1+json", f"{OCI}.manifest.v1+json"
DOCKER_LIST, DOCKER_MANIFEST = f"{DOCKER}.list.v2+json", f"{DOCKER}.v2+json"


@contextmanager
def docker_registry(folder: Path, data: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """A registry of the images in `data`; its host and port. `settings` are variables of its environment."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    config = folder / "config.yml"
    config.write_text(
        "version: 0.1\nlog: {level: info, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {data}}}}}\nhttp: {{addr: '{address}'}}\n"
    )
    variables = [f"{name}={value}" for name, value in (settings or {}).items()]
    with serving(["env", *variables, "docker-registry", "serve", str(config)], "listening on"):
        yield address


def htpasswd(folder: Path) -> dict[str, str]:
    """The settings of a registry that lets in one user, by basic authentication."""
    path = folder / "htpasswd"
    path.write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
    return {
        "REGISTRY_AUTH": "htpasswd",
        "REGISTRY_AUTH_HTPASSWD_REALM": "test",
        "REGISTRY_AUTH_HTPASSWD_PATH": str(path),
    }


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def push(registry: str, image: str, kind: str) -> str:
    """Push an image, ``repository:tag``, whose manifest is of a kind; the digest of that."""
    repository, _, tag = image.partition(":")
    base = f"http://{registry}/v2/{repository}"

    def blob(content: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        started = urlopen(Upload(f"{base}/blobs/uploads/", b"", method="POST"))  # noqa: S310
        url = f"{started.headers['Location']}&digest={digest}"
        kind = {"Content-Type": "application/octet-stream"}  # else it is read as a form
        urlopen(Upload(url, content, kind, method="PUT")).close()  # noqa: S310
        started.close()
        return {"digest": digest, "size": len(content)}

    def put(name: str, kind: str, document: dict[str, object]) -> dict[str, object]:
        content = json.dumps({"schemaVersion": 2, "mediaType": kind, **document}).encode()
        upload = Upload(f"{base}/manifests/{name}", content, {"Content-Type": kind}, method="PUT")  # noqa: S310
        with urlopen(upload) as answer:  # noqa: S310
            return {
                "mediaType": kind,
                "digest": answer.headers["Docker-Content-Digest"],
                "size": len(content),
            }

    of_oci = kind.startswith(OCI)
    config_kind = f"{OCI}.config.v1+json" if of_oci else "application/vnd.docker.container.image.v1+json"
    manifest: dict[str, object] = {"config": {"mediaType": config_kind, **blob(b"{}")}, "layers": []}
    if kind in (MANIFEST, DOCKER_MANIFEST):
        return str(put(tag, kind, manifest)["digest"])
    part = put("part", MANIFEST if of_oci else DOCKER_MANIFEST, manifest)
    platform = {"architecture": "amd64", "os": "linux"}
    return str(put(tag, kind, {"manifests": [{**part, "platform": platform}]})["digest"])


def errors(*codes: str) -> bytes:
    """A body in which a registry lists errors."""
    return json.dumps({"errors": [{"code": code, "message": PASSWORD} for code in codes]}).encode()


class Front(FaultServer):
    """Stands before a registry: gives its `replies` first, and then what the registry answers."""

    def __init__(self, behind: str = "") -> None:
        super().__init__()
        self.address = f"{self.host}:{self.port}"
        self._behind = behind

    @property
    def authorizations(self) -> list[str | None]:
        """What each request had in that header."""
        return [request.headers.get("Authorization") for request in self.requests]

    def next_reply(self, request: Request) -> Reply:
        with self.lock:
            self.requests.append(request)
            if self.replies:
                return self.replies.pop(0)
        return self.own_reply(request)

    def own_reply(self, request: Request) -> Reply:
        connection = http.client.HTTPConnection(self._behind)
        connection.request(request.method, request.path, headers=dict(request.headers))
        with connection.getresponse() as response:
            reply = Reply(response.status, response.read(), dict(response.getheaders()))
        connection.close()
        return reply


class TokenServer(Front):
    """Issues tokens that a registry of these `settings` takes: to its user, and for ``public`` to anybody."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._authority = authority("issuer")
        bundle = folder / "authority.pem"
        bundle.write_bytes(self._authority.pem)
        self.settings = {
            "REGISTRY_AUTH": "token",
            "REGISTRY_AUTH_TOKEN_REALM": f"http://{self.address}/token?more=1",
            "REGISTRY_AUTH_TOKEN_SERVICE": "the registry",
            "REGISTRY_AUTH_TOKEN_ISSUER": "the issuer",
            "REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE": str(bundle),
        }

    def own_reply(self, request: Request) -> Reply:
        authorization = request.headers.get("Authorization")
        if authorization not in (None, basic(USER, PASSWORD)):
            return Reply(401, errors("UNAUTHORIZED"))
        query = parse_qs(urlsplit(request.path).query)
        assert query["service"] == ["the registry"]
        assert query["more"] == ["1"]
        kind, repository, actions = query["scope"][0].split(":")
        granted = actions.split(",") if authorization or repository == "public" else []
        access = {"type": kind, "name": repository, "actions": granted}
        return Reply(body=json.dumps({"token": self._token(access)}).encode())

    def _token(self, access: Mapping[str, object]) -> str:
        certificate = self._authority.certificate.public_bytes(serialization.Encoding.DER)
        now = int(time.time())
        claims = {
            "iss": "the issuer",
            "sub": "",
            "aud": "the registry",
            "nbf": now - 60,
            "iat": now,
            "exp": now + 600,
            "jti": "1",
            "access": [access],
        }
        header = {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(certificate).decode()]}
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in (header, claims))
        signature = self._authority.key.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        numbers = b"".join(number.to_bytes(32, "big") for number in utils.decode_dss_signature(signature))
        return f"{signed}.{_base64url(numbers)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
