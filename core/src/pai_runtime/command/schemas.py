"""JSON Schemas of the files that people write."""

from typing import Any, Final

from pai_document.schemas import package_schema
from pai_runtime.host.profile_schema import BadProfileSchema, profile_schema

__all__ = ["FILES", "BadProfileSchema", "file_schema", "profile_schema"]

_PLACES: Final = {
    "job": ("pai_runtime.job", "job.schema.json"),
    "policy": ("pai_runtime.host", "policy.schema.json"),
    "engines": ("pai_runtime.engines", "engines.schema.json"),
    "manifest": ("pai_runtime.host", "manifest.schema.json"),
}

FILES: Final = tuple(_PLACES)
"""The kinds of files: jobs, plugin policies, engine profiles, and manifests of plugins."""


def file_schema(kind: str) -> dict[str, Any]:
    """Return the schema of a kind of file, which is one of `FILES`."""
    return dict(package_schema(*_PLACES[kind]))
