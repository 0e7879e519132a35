"""Contributions as JSON, for the transfer between processes."""

from collections.abc import Iterable
from typing import Any

from pai_runtime.plugin import Contribution, Mount, Service, ShellStep


def contribution_to_json(contribution: Contribution) -> dict[str, Any]:
    """Return a contribution as a JSON object."""
    return {
        **{name: getattr(contribution, name) for name in Contribution.__match_args__},
        "environment": dict(contribution.environment),
        "steps": _rows(contribution.steps, ShellStep),
        "services": _rows(contribution.services, Service),
        "mounts": _rows(contribution.mounts, Mount),
        "exit_rules": [dict(rule) for rule in contribution.exit_rules],
        "permanent_codes": sorted(contribution.permanent_codes),
    }


def contribution_from_json(document: Any) -> Contribution:
    """Parse a contribution from JSON. Raises ValueError if it is invalid.

    Constructing it validates it again: what the code of a plugin has written, or has changed after the first
    check, is not trusted.
    """
    try:
        return Contribution(
            **{
                **document,
                "steps": [ShellStep(*row) for row in document["steps"]],
                "services": [Service(*row) for row in document["services"]],
                "mounts": [Mount(*row) for row in document["mounts"]],
            }
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"returned an invalid contribution: {error}") from error


def _rows(things: Iterable[Any], kind: Any) -> list[list[Any]]:
    return [[getattr(thing, name) for name in kind.__match_args__] for thing in things]
