"""What every answer has, whatever made it: headers that browsers obey, a line in the log, limits, metrics."""

import json
import logging
import time
from typing import Final
from uuid import uuid4

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pai_marketplace.metrics import Metrics
from pai_marketplace.rate_limit import RateLimit
from pai_marketplace.settings import Settings

LOG: Final = logging.getLogger("pai_marketplace")

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_TOO_MANY: Final = JSONResponse(
    {"code": "too-many-requests", "message": "too many requests from this address; try again in a minute"},
    429,
    {"Retry-After": "60"},
)


class Outside:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._reads = RateLimit(settings.reads_per_minute)
        self._writes = RateLimit(settings.writes_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, request_id = time.perf_counter(), 500, uuid4().hex

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-ID"] = request_id
                if self._settings.secure_cookies:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        limit = self._reads if scope["method"] in ("GET", "HEAD", "OPTIONS") else self._writes
        client = scope["client"][0] if scope.get("client") else ""
        app: ASGIApp = self._app if limit.admits(client) else _TOO_MANY
        try:
            await app(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - began
            self._metrics.observe(scope["method"], status, seconds)
            log(
                "request",
                id=request_id,
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=round(seconds, 4),
            )


def log(event: str, **fields: object) -> None:
    """Write a line of the log: a JSON object. No header and no query is in it, which may be secret."""
    LOG.info(json.dumps({"event": event, **fields}, default=str))
