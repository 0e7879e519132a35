"""The pages for people, over the same functions as the APIs."""

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """Return the routes of the pages; the last ones of the application."""
    return []
