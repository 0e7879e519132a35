"""The part of a policy about shared definitions: allowed sources, and plugins that they may use."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pai_document.problems import Location, Problem, Problems, listed, near_miss
from pai_document.url import shown_text
from pai_document.value import Value
from pai_runtime.host.locations import EMBEDDED, NoUrl, canonical, checked_url, is_below, is_url, named
from pai_task.record import record


@record(frozen=True)
class DefinitionPolicy:
    """The section of a policy about definitions; `plugins` None allows each plugin that the policy allows.

    `sources` are locations in the form that `pai_runtime.host.locations` compares; `plugins` maps ids
    to their locations in the policy.
    """

    file: str
    sources: Sequence[str]
    plugins: Mapping[str, Location] | None


def read_definition_policy(root: Value, problems: Problems) -> DefinitionPolicy:
    """Read the section about definitions of a policy file; without one, no definition is allowed."""
    section = root.get("definitions")
    sources = section.get("sources") if section else None
    locations = [_location(each, problems) for each in sources.values()] if sources else []
    ids = section.get("plugins") if section else None
    plugins = {each.text: each.at(()) for each in ids.values()} if ids else None
    return DefinitionPolicy(root.position.file, locations, plugins)


def _location(value: Value, problems: Problems) -> str:
    if not is_url(value.text):
        return value.text if value.text == EMBEDDED else os.path.realpath(value.text)
    try:
        return canonical(checked_url(value.text))
    except NoUrl as error:
        problems.add(value.problem("wrong-url", str(error), found=f"'{shown_text(value.text)}'"))
        return value.text


def location_refusal(policies: Iterable[DefinitionPolicy], location: str) -> str | None:
    """Return why definitions may not come from a location; None if every policy allows it."""
    for policy in policies:
        if not any(is_below(location, source) for source in policy.sources):
            allowed = listed([named(source) for source in policy.sources]) or "none"
            return (
                f"policy {policy.file} allows no shared prerequisites from {named(location)}; "
                f"it allows {allowed}"
            )
    return None


def plugin_refusal(policies: Iterable[DefinitionPolicy], id_: str) -> str | None:
    """Return why a definition may not use a plugin; None if every policy allows it."""
    for policy in policies:
        if policy.plugins is not None and id_ not in policy.plugins:
            allowed = listed(list(policy.plugins)) or "no plugin"
            return (
                f"policy {policy.file} does not let shared prerequisites use it; it lets them use {allowed}"
            )
    return None


def unmatched_plugins(policy: DefinitionPolicy, allowed: Sequence[str]) -> Iterator[Problem]:
    """Yield a warning for each plugin that definitions may use, but that is not among the `allowed` ones."""
    for id_, where in (policy.plugins or {}).items():
        if id_ not in allowed:
            message, meant = "the policy does not list this plugin under 'plugins'", near_miss(id_, allowed)
            yield where.problem(
                "unmatched-entry", message, found=f"'{id_}'", suggestion=meant, severity="warning"
            )
