"""The ASGI application: its routes, and what every answer has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from pai_marketplace import openpai_api, own_api, pages
from pai_marketplace.database import Database
from pai_marketplace.errors import NotFound
from pai_marketplace.exchange import ApiRoute, Exchange, refusal
from pai_marketplace.metrics import Metrics
from pai_marketplace.middleware import Outside
from pai_marketplace.openapi import openapi_document
from pai_marketplace.openid import Provider
from pai_marketplace.settings import Settings

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def make_app(settings: Settings) -> Starlette:
    """Return the application on a database, whose schema is brought up to date as it starts."""
    database, metrics = Database(settings.database), Metrics()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        database.upgrade()
        yield
        database.close()

    app = Starlette(
        routes=_routes(metrics),
        middleware=[Middleware(Outside, settings=settings, metrics=metrics)],
        lifespan=lifespan,
    )
    app.state.database, app.state.settings = database, settings
    app.state.provider = Provider(settings.openid) if settings.openid else None
    return app


def _routes(metrics: Metrics) -> list[BaseRoute]:
    def answer_metrics(_: Exchange) -> Response:
        """Count requests, how they ended and how long they took, for Prometheus."""
        return Response(metrics.text(), media_type=_PROMETHEUS)

    return [
        ApiRoute("/health", _health, media="text/plain"),
        ApiRoute("/metrics", answer_metrics, media="text/plain"),
        ApiRoute("/v1/openapi.json", _openapi),
        *openpai_api.routes(),
        *own_api.routes(),
        *(Route(f"/{api}/{{rest:path}}", _no_address) for api in ("api", "v1")),
        *pages.routes(),
    ]


def _health(given: Exchange) -> Response:
    """Answer if the database does."""
    with given.database.reading() as session:
        session.connection().exec_driver_sql("SELECT 1")
    return PlainTextResponse("ok\n")


def _openapi(given: Exchange) -> dict[str, Any]:
    """Describe these APIs, in the format of OpenAPI."""
    return openapi_document(given.request.app.routes)


def _no_address(_: Request) -> Response:
    return refusal(NotFound("there is no such address"))
