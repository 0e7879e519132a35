"""Secrets in the parameters of plugins: they may stand wherever a text may, or the user is told why not."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import Problems
from pai_document.schemas import check, located_in
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.model import PLUGIN_PREFIX
from pai_task.placeholders import placeholder
from tests.job_harness import validated, yaml_text
from tests.support import callback, job

SECRET = "<% $secrets.s %>"
HOST = Host(NO_POLICY)
Schema = Mapping[str, Any]


def types(schema: Schema) -> list[str]:
    found = schema.get("type", "string" if "enum" in schema else [])
    return [found] if isinstance(found, str) else found


def resolved(schema: Schema, root: Schema) -> Schema:
    return root["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def with_a_secret(schema: Schema, root: Schema) -> Iterator[Any]:
    """Values that fit but for one text each, which is a secret."""
    schema = resolved(schema, root)
    if "string" in types(schema):
        yield SECRET
    if "array" in types(schema):
        yield from ([each] for each in with_a_secret(schema["items"], root))
    if "object" in types(schema):
        for name, below in schema.get("properties", {}).items():
            others = {each: fitting(schema["properties"][each], root) for each in schema.get("required", ())}
            yield from ({**others, name: each} for each in with_a_secret(below, root))


def fitting(schema: Schema, root: Schema) -> Any:
    """A value that fits the simple schemas of what is required."""
    schema = resolved(schema, root)
    values = {"string": "abc", "integer": 1, "array": []}
    if "array" in types(schema):
        return [fitting(schema["items"], root)]
    return schema["enum"][0] if "enum" in schema else values.get(types(schema)[0], {})


CASES = [
    *(
        (plugin, parameters)
        for plugin in HOST.installed
        if (schema := HOST.find(plugin).manifest.parameters)
        for parameters in with_a_secret(schema, schema)
    ),
    *(
        (
            f"{PLUGIN_PREFIX}storage",
            {"server": "nfs.example", "path": "/export", "mountPath": "/data", name: SECRET},
        )
        for name in ("server", "path", "mountPath", "options")
    ),
    *(
        (plugin, {"name": "a", "mountPath": SECRET})
        for plugin in (f"{PLUGIN_PREFIX}storage", f"{PLUGIN_PREFIX}pvc_storage")
    ),
]


@pytest.mark.process
def test_a_secret_anywhere_is_accepted_or_refused_with_a_reason(tmp_path: Path) -> None:
    """Whatever the plugin makes of it, it is no bug of the plugin that the user is shown."""
    assert len(CASES) > 50
    path = tmp_path / "job.yaml"
    for plugin, parameters in CASES:
        use = {"plugin": plugin, "parameters": parameters}
        document = job(extras={"com.microsoft.pai.runtimeplugin": [use]}, secrets={"s": "hunter2"})
        path.write_text(yaml_text(document))
        for problem in validated(path):
            assert problem.code in ("plugin-error", "wrong-value", "missing-field"), (plugin, parameters)
            assert not re.search(r"\b[A-Z]\w*Error: ", problem.message), (plugin, parameters, problem.message)
            assert "hunter2" not in str(problem)


@pytest.mark.process
def test_a_secret_may_be_any_text_of_a_prerequisite(tmp_path: Path) -> None:
    image = {
        "uri": SECRET,
        "auth": {"username": SECRET, "password": SECRET, "registryuri": SECRET},
        "description": SECRET,
        "contributor": SECRET,
        "version": SECRET,
    }
    data = {
        "uri": [SECRET, f"https://{SECRET}@host/"],
        "folder": SECRET,
        "parameters": {"a": {"b": [SECRET]}},
    }
    document = job(
        prerequisites=[
            {"name": "i", "type": "dockerimage", **image},
            {"name": "d", "type": "data", **data},
            {"name": "c", "type": "script", "callbacks": [callback("taskStarts", f"echo {SECRET}")]},
        ],
        worker={"dockerImage": "i", "data": "d", "prerequisites": ["c"], "commands": [SECRET]},
        secrets={"s": "hunter2"},
    )
    del document["prerequisites"][0]
    path = tmp_path / "job.yaml"
    path.write_text(yaml_text(document))
    assert validated(path) == ()


@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        ({"type": "string", "pattern": "^a$"}, 0),
        ({"type": "string", "minLength": 100}, 0),
        ({"type": "string", "maxLength": 1}, 0),
        ({"type": "string", "format": "uri"}, 0),
        ({"type": "string", "not": {"pattern": "s"}}, 0),
        ({"anyOf": [{"pattern": "^a$"}, {"type": "integer"}]}, 0),
        ({"oneOf": [{"type": "string", "pattern": "^a$"}, {"type": "integer"}]}, 0),
        ({"type": "integer"}, 1),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, 1),
        ({"enum": ["a", "b"]}, 1),
        ({"const": "a"}, 1),
    ],
)
def test_a_schema_accepts_a_secret_where_it_accepts_some_text(schema: Schema, errors: int) -> None:
    for data, of in (
        (placeholder("s"), schema),
        ({"a": [f"{placeholder('s')}"]}, {"properties": {"a": {"items": schema}}}),
        (
            {"a": placeholder("s")},
            {"anyOf": [{"properties": {"a": schema}}, {"properties": {"a": {"type": "null"}}}]},
        ),
    ):
        problems = Problems()
        check(data, of, problems, located_in("job.yaml"))
        assert len(problems.in_order) == errors
