"""The JSON Schema that an engine ships of its own engine profiles, read without importing the engine."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pai_runtime.host.discovery import Plugin, manifest_path, schema_faults


class BadProfileSchema(Exception):
    """The exception for a schema of engine profiles that cannot be used; the message says whose, and why."""


def profile_schema(plugin: Plugin) -> Mapping[str, Any] | None:
    """Return the content of ``profile.schema.json`` beside an engine's manifest; None if there is none.

    Raises `BadProfileSchema`.
    """
    manifest = manifest_path(plugin.location or Path())
    path = manifest.with_name(manifest.name.removesuffix("manifest.json") + "profile.schema.json")
    try:
        schema = json.loads(plugin.code.read(path))
        faults = "; ".join(schema_faults(path.name, schema))
        if not faults and isinstance(schema, dict):
            return schema
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        faults = f"cannot be read: {error}"
    raise BadProfileSchema(f"{plugin.label}: {path}: {faults or 'expected a mapping'}")
