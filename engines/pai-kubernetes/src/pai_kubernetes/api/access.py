"""How a cluster is reached: its server, whom it trusts, and who asks."""

import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from pai_runtime.engines.cluster import ClusterError
from pai_runtime.network.tls import client_context, system_trust
from pai_runtime.task.memfd import ScratchFile
from pai_runtime.task.record import field, record


@record(frozen=True)
class Login:
    """What a request shows of who asks: a header, a client certificate (with its key, both PEM), or both.

    None of it is shown by ``repr``. `expires`: seconds since 1970, if that is known.
    """

    authorization: str = field(default_factory=str, repr=False)
    certificate: bytes = field(default_factory=bytes, repr=False)
    key: bytes = field(default_factory=bytes, repr=False)
    expires: float | None = None


class Credentials(Protocol):
    """Where a login comes from. Many threads may ask at once."""

    def login(self) -> Login:
        """One that is valid by now, as far as that is known; raises `ClusterError`."""

    def renewed(self, refused: Login) -> Login:
        """Another one, after the server has refused this; the same if there is no other."""


@record(frozen=True)
class Fixed:
    """A login that stays."""

    fixed: Login = field(default_factory=Login)

    def login(self) -> Login:
        """As `Credentials.login`."""
        return self.fixed

    def renewed(self, refused: Login) -> Login:  # noqa: ARG002 - there is no other
        """As `Credentials.renewed`."""
        return self.fixed


@record(frozen=True)
class Access:
    """A cluster's server, by its URL, and how it is asked.

    `origin` says where all this is written, for messages. `authority`: the certificates (PEM) that are
    trusted, those of the system if there are none; with `insecure`, any is. `server_name`: the name in the
    server's certificate, if that is not the host of the URL. `proxy`: the URL of an HTTP proxy; empty: as
    the environment says.
    """

    server: str
    user: str
    origin: str
    namespace: str = "default"
    authority: bytes = b""
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""
    credentials: Credentials = field(default_factory=Fixed)


def tls_context(access: Access, login: Login) -> ssl.SSLContext:
    """What connections to the server are made with; raises `ClusterError` for certificates of no use."""
    if not (access.authority or access.insecure or login.certificate):
        return system_trust()
    try:
        if access.authority:
            with _in_memory(access.authority) as path:
                context = client_context(path)
        else:
            context = client_context()
    except OSError:
        raise ClusterError(
            f"{access.origin}: the cluster's certificate authority is no certificate"
        ) from None
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if login.certificate:
        try:
            with _in_memory(login.certificate) as certificate, _in_memory(login.key) as key:
                context.load_cert_chain(certificate, key, password=_no_password)
        except _Encrypted:
            message = f"the key of user '{access.user}' is encrypted, which is not supported"
            raise ClusterError(f"{access.origin}: {message}") from None
        except OSError:
            message = f"the client certificate of user '{access.user}', or its key, is of no use"
            raise ClusterError(f"{access.origin}: {message}") from None
    return context


@contextmanager
def _in_memory(data: bytes) -> Iterator[Path]:
    """A path for what takes paths only; the data is on no disk, and gone afterwards."""
    with closing(ScratchFile()) as file:
        file.write(data)
        yield Path(f"/proc/self/fd/{file.fd}")


class _Encrypted(Exception):
    """A key needs a password, which nobody is to be asked for."""


def _no_password() -> str:
    raise _Encrypted
