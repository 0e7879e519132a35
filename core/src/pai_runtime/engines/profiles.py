"""Engine profiles, which ``--on`` names, from ``engines.yaml`` of the user and of the machine."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pai_document.configuration_files import configuration_files, read_named
from pai_document.problems import InvalidInput, Problem, Problems, listed, near_miss
from pai_document.schemas import check_value, package_schema
from pai_document.value import Value
from pai_task.paths import MACHINE
from pai_task.record import record

MACHINE_PROFILES: Final = Path(MACHINE, "engines.yaml")
"""The operator's profiles; the user's own take precedence."""


@record(frozen=True)
class Profile:
    """One engine profile: its name, its engine, and its content.

    `value` is a mapping; all of it but ``engine`` is checked by the engine.
    """

    name: str
    engine: str
    value: Value


def find_profile(name: str) -> Profile:
    """Return the profile of this name. Raises `InvalidInput` if there is none, or a file is invalid."""
    paths = configuration_files(MACHINE_PROFILES)
    profiles = read_named(paths, _profiles_in)
    if name in profiles:
        return profiles[name]
    near = near_miss(name, profiles)
    known = f"; known: {listed(sorted(profiles))}" if profiles else ""
    message = f"no engine profile is named '{name}' in {' or '.join(map(str, paths))}{known}"
    raise InvalidInput([Problem("no-such-profile", message, found=name, suggestion=near)])


def profile_names() -> Iterable[str]:
    """Return the names of all profiles. Raises `InvalidInput` if a file is invalid."""
    return sorted(read_named(configuration_files(MACHINE_PROFILES), _profiles_in))


def _profiles_in(root: Value) -> Iterable[Profile]:
    problems = Problems()
    check_value(root, package_schema("pai_runtime.engines", "engines.schema.json"), problems)
    problems.check()
    engines = root.get("engines")
    return [
        Profile(str(each.key), each.data["engine"], each) for each in (engines.values() if engines else ())
    ]
