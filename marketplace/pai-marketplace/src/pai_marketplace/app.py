"""The ASGI application: its routes, and what every answer has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from pai_marketplace import openpai_api, own_api, pages
from pai_marketplace.database import Database
from pai_marketplace.errors import NotFound
from pai_marketplace.exchange import Exchange, endpoint
from pai_marketplace.metrics import Metrics
from pai_marketplace.middleware import Outside
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
    return [
        Route("/health", endpoint(_health)),
        Route("/metrics", endpoint(lambda _: Response(metrics.text(), media_type=_PROMETHEUS))),
        *openpai_api.routes(),
        *own_api.routes(),
        *(Route(f"/{api}/{{rest:path}}", endpoint(_no_address)) for api in ("api", "v1")),
        *pages.routes(),
    ]


def _health(given: Exchange) -> Response:
    """Answer if the database does."""
    with given.database.reading() as session:
        session.connection().exec_driver_sql("SELECT 1")
    return PlainTextResponse("ok\n")


def _no_address(_: Exchange) -> Response:
    raise NotFound("there is no such address")
