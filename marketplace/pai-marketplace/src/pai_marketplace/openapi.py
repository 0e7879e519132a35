"""The OpenAPI document of the APIs, made from their routes: the same that the server answers by."""

from collections.abc import Iterable
from importlib.metadata import version
from inspect import getdoc
from typing import Any, TypedDict, get_args, get_origin, get_type_hints

from starlette.convertors import IntegerConvertor
from starlette.responses import Response
from starlette.routing import BaseRoute

from pai_marketplace.api_types import json_schema
from pai_marketplace.exchange import ApiRoute


class _Refusal(TypedDict):
    code: str
    message: str


class Refusal(_Refusal, total=False):
    """Why something is refused; `problems` are those of a definition or job, at its lines."""

    problems: list[Any]


def openapi_document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the document of those of the routes that are of an API."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, ApiRoute):
            paths.setdefault(route.path_format, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pai-marketplace", "version": version("pai-marketplace")},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: ApiRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        *(
            _parameter(name, "path", int if isinstance(kind, IntegerConvertor) else str)
            for name, kind in route.param_convertors.items()
        ),
        *(_parameter(name, "query", kind) for name, kind in route.query.items()),
    ]
    answer = _content(get_type_hints(route.handler)["return"], route.media, schemas)
    operation: dict[str, Any] = {
        "summary": getdoc(route.handler),
        "parameters": parameters,
        "responses": {
            **{f"{status}": {"description": "It is done.", **answer} for status in route.statuses},
            "default": {"description": "It is refused.", **_content(Refusal, "application/json", schemas)},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, **_content(route.body, "application/json", schemas)}
    return operation


def _content(kind: Any, media: str, schemas: dict[str, Any]) -> dict[str, Any]:
    if kind is type(None):
        return {}
    if get_origin(kind) is tuple:  # with its status
        kind = get_args(kind)[0]
    schema = {"type": "string"} if kind is Response else json_schema(kind, schemas)
    return {"content": {media: {"schema": schema}}}


def _parameter(name: str, place: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": json_schema(kind, {})}
