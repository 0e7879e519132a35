"""The server process: uvicorn with the application, one process, until a signal ends it."""

import asyncio
import signal
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pai_marketplace.app import make_app
from pai_marketplace.middleware import log
from pai_marketplace.settings import Settings

_HEADER_SECONDS = 15
"""Seconds that a connection has for the first headers; uvicorn itself would wait for ever."""
_GRACE = 20
"""Seconds that requests have to end after a signal."""


class _Protocol(H11Protocol):
    """A connection that is closed if its first request does not arrive soon."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_HEADER_SECONDS, self._close_if_slow)

    def _close_if_slow(self) -> None:
        if getattr(self, "cycle", None) is None and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """A server that says where it listens, once it does."""

    async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
        await super().startup(sockets)
        for each in self.servers:
            for listening in each.sockets:
                host, port = listening.getsockname()[:2]
                log("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")


def serve(settings: Settings, host: str, port: int) -> int:
    """Serve until SIGTERM or SIGINT; requests that have begun are answered. Returns the exit status."""
    config = uvicorn.Config(
        make_app(settings),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        limit_concurrency=500,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        http=_Protocol,
        ws="none",
    )
    # uvicorn raises a signal again once it has served.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    server = _Server(config)
    asyncio.run(server.serve())
    return 0 if server.started else 1


def _end(*_: object) -> None:
    raise SystemExit(0)
