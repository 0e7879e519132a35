"""Jobs with something wrong in them: all commands alike refuse or accept each, and none crashes."""

import contextlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pai_runtime.cli import engine_job, make_parser
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from tests.job_harness import yaml_text
from tests.support import JOBS

pytestmark = pytest.mark.process

EXAMPLES = JOBS.parents[1] / "examples"
SOURCES = {
    path.read_text(): (json.loads if path.suffix == ".json" else yaml.safe_load)(path.read_text())
    for path in sorted([*EXAMPLES.glob("*.yaml"), *JOBS.rglob("*.yaml"), *JOBS.rglob("*.json")])
    if not path.name.endswith(".expected.yaml")
}
_HOST = Host(NO_POLICY)
_parser = cache(make_parser)

_REFERENCES = (
    "<% $secrets.token %>",
    "<% $parameters.x %>",
    "<% $parameters %>",
    "<% $data.uri[0] %>",
    "<% this.name %>",
    "<% $secrets %>",
    "<% $x %>",
)
_SECRETS = {"token": "hunter22", "map": {"a": "hunter22"}, "list": ["hunter22"], "number": 12}
_TO_SECRETS = (
    "<% $secrets.token %>",
    "a<% $secrets.map.a %>b",
    "<% $secrets.list[0] %>",
    "<% $secrets.number %>",
    "<% $parameters.of_secret %>",
    "<% $secrets.map %>",
    ["<% $secrets.token %>"],
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, 1.5, 10**20, "", "x", "2", "a: b", "\u202e", "\0", "x" * 300),
    *([], {}, [None], [[]], {"": ""}, {"name": None}, {"x": {"y": []}}, ["x", "x"]),
    *_REFERENCES,
)
_PIECES = (
    *"{}[]:,-?&*!|>'\"%@`#\n\t ~=<\\",
    "- ",
    ": ",
    "<<: ",
    "*a ",
    "&a ",
    "!!int ",
    "  ",
    "---\n",
    "null",
)

Place = tuple[Any, Any]
"""A list or mapping, and the index or key in it."""


def places(data: Any) -> Iterator[Place]:
    """Everywhere in plain data where something can be replaced."""
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], (dict, list)):
            yield from places(data[key])


def misspelt(key: str, random: Random) -> str:
    at = random.randrange(len(key) + 1)
    return random.choice(
        [key.lower(), key.upper(), f"{key}s", key[:at] + key[at + 1 :], f"{key[:at]}x{key[at:]}"]
    )


def mutate_structure(source: str, random: Random) -> str:
    """The job with a few values replaced, moved, removed or misspelt."""
    data = deepcopy(SOURCES[source])
    for _ in range(random.choice([1, 1, 2, 3])):
        where, key = random.choice(list(places(data)) or [(data, "x")])
        match random.randrange(5):
            case 0:
                del where[key]
            case 1 if isinstance(where, dict):
                where[misspelt(str(key), random)] = where.pop(key)
            case 2:
                other, its_key = random.choice(list(places(random.choice(list(SOURCES.values())))))
                where[key] = deepcopy(other[its_key])
            case 3 if isinstance(where, list):
                where.insert(key, deepcopy(where[key]))
            case _:
                where[key] = deepcopy(random.choice(_VALUES))
    return yaml_text(data)


def insert_secrets(source: str, random: Random) -> str:
    """The job with references to secrets, some of them by way of a parameter, in the place of values."""
    data = deepcopy(SOURCES[source])
    below = list(places(data))
    for name, more in (
        ("secrets", deepcopy(_SECRETS)),
        ("parameters", {"of_secret": "<% $secrets.token %>"}),
    ):
        own = data.get(name)
        data[name] = {**own, **more} if isinstance(own, dict) else more
    for _ in range(random.randint(1, 2)):
        where, key = random.choice(below)
        where[key] = deepcopy(random.choice(_TO_SECRETS))
    return yaml_text(data)


def mutate_text(source: str, random: Random) -> str:
    """The job's text with a few characters and lines removed, inserted or repeated."""
    for _ in range(random.choice([1, 1, 2, 3])):
        start = random.randrange(len(source) + 1)
        stop = min(len(source), start + random.choice([0, 0, 1, 3, 40]))
        middle = random.choice([*_PIECES, *_REFERENCES, "", source[start:stop] * 2])
        source = source[:start] + middle + source[stop:]
    return source


def command(name: str, *args: str | Path) -> tuple[int, str, list[str]]:
    """A command in this process: its status, output and errors. What it raises is raised."""
    parser, _ = _parser((name,))
    parsed = parser.parse_args([name, *map(str, args)])
    module, out, err = import_module(parsed.module), io.StringIO(), io.StringIO()
    with (
        patch.object(engine_job if name == "run" else module, "given_host", return_value=_HOST),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status: int = module.main(parsed)
    return status, out.getvalue(), [line for line in err.getvalue().splitlines() if ": error: " in line]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Our own plugins, so that not each process that plans has to import them."""
    for id_ in _HOST.installed:
        _HOST.load(_HOST.find(id_))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutate", [mutate_structure, mutate_text, insert_secrets])
@settings(
    max_examples=100 if os.environ.get("CI") else 50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from(list(SOURCES)),
    st.randoms(use_true_random=False),
)
def test_what_is_valid_can_be_planned_and_run_and_nothing_crashes(
    tmp_path: Path, mutate: Callable[[str, Random], str], source: str, random: Random
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(mutate(source, random), "utf-8", "surrogatepass")
    status, printed, _ = command("validate", path, "--json")
    document = json.loads(printed)
    codes = {problem["code"] for problem in document["problems"]}
    assert "hunter22" not in printed
    # What a plugin refuses it says in its own words; this is an exception that it did not expect.
    assert not re.search(r"hook \w+: \w+(Error|Exception):", printed)
    assert (status, document["valid"]) in ((0, True), (1, False))
    if status:
        return
    planned, _, faults = command("plan", path, "--json")
    run, _, run_faults = command("run", path, "--dry-run", "--isolation", "none", "--out", tmp_path / "run")
    if "no-such-plugin" in codes:  # a warning of `validate`; of the others too, if its failures are ignored
        assert (planned, run) in ((0, 0), (1, 2))
    else:
        assert (planned, faults, run_faults) == (0, [], [])
    assert not (tmp_path / "run").exists()
