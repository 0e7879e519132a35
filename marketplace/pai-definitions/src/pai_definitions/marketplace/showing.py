"""``pai-runtime marketplace show``: all that is needed to use a definition."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pai_definitions.marketplace.found import found_in
from pai_definitions.marketplace.listing import as_json, reference_table
from pai_definitions.marketplace.required import Required, RequiredTree, tree_json, tree_lines
from pai_definitions.marketplace.sources import given_reference, given_sources
from pai_definitions.marketplace.yaml_line import yaml_line
from pai_definitions.reference import Reference
from pai_document.problems import Problems
from pai_runtime.command.jobs import Host, Unavailable, plugin_id
from pai_runtime.command.output import report_problems, write_json, write_lines
from pai_runtime.definitions import Definition, Variable
from pai_runtime.host.locations import named


def main(args: argparse.Namespace) -> int:
    """Return exit status 0. Raises `NoDefinition` if the definition does not exist."""
    reference, sources, problems = given_reference(args.reference), given_sources(args), Problems()
    definition = sources.find(reference, args.source)
    tree = RequiredTree(sources.library()).of(definition)
    found = found_in(sources, None, problems) if reference.kind == "name" else []
    named = [each for each in found if each.listed.name == definition.name]
    if args.json:
        write_json({**_document(definition, reference, tree), "named": [as_json(each) for each in named]})
    else:
        write_lines(_lines(definition, reference, tree, _plugin(definition, sources.host)))
        if len(named) > 1:
            write_lines(["", f"all of the name {definition.name}:", *reference_table(named)])
    report_problems(problems.in_order)
    return 0


def _lines(
    definition: Definition, reference: Reference, tree: Sequence[Required], plugin: str
) -> Iterator[str]:
    yield " ".join(
        filter(None, (definition.name, definition.kind and f"({definition.kind})", definition.version))
    )
    yield from _indented(definition.title)
    yield f"  reference: {named(reference.text)}"
    yield f"  from: {definition.file.origin}"
    if (location := named(definition.file.location)) != definition.file.origin:
        yield f"  at: {location}"
    yield f"  digest: sha256:{definition.file.digest}"
    if author := _author(definition):
        yield f"  by: {author}"
    if plugin:
        yield f"  plugin: {plugin}"
    for title, lines in _sections(definition, tree):
        shown = list(lines)
        if shown:
            yield f"  {title}:"
            yield from shown


def _sections(definition: Definition, tree: Sequence[Required]) -> Iterator[tuple[str, Iterator[str]]]:
    yield "summary", _indented(definition.summary, "    ")
    yield "description", _indented(_text(definition, "description"), "    ")
    yield "variables", (line for each in definition.variables.values() for line in _variable(each))
    yield "requires", tree_lines(tree, "    ")
    yield "storages", (f"    {_fields(each)}" for each in _storages(definition))
    yield "usage", _indented(definition.usage, "    ")


def _plugin(definition: Definition, host: Host) -> str:
    """Return the name of the definition's plugin, and why it cannot be used here; empty without a plugin."""
    if not (name := _text(definition, "plugin")):
        return ""
    try:
        host.find(plugin_id(name), shared=True)
    except Unavailable as error:
        return f"{name} ({error})"
    return name


def _variable(variable: Variable) -> Iterator[str]:
    has = "required" if variable.default is None else f"default {yaml_line(variable.default.data)}"
    yield f"    {variable.name}: {variable.type or 'any value'}, {has}"
    yield from _indented(variable.description, "      ")


def _indented(text: str, indent: str = "  ") -> Iterator[str]:
    return (f"{indent}{line}".rstrip() for line in text.splitlines())


def _text(definition: Definition, name: str) -> str:
    value = definition.value.get(name)
    return value.text if value and isinstance(value.data, str) else ""


def _fields(storage: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {yaml_line(value)}" for key, value in storage.items())


def _author(definition: Definition) -> str:
    return definition.file.author or _text(definition, "contributor")


def _storages(definition: Definition) -> list[Any]:
    value = definition.value.get("requireStorages")
    return value.data if value and isinstance(value.data, list) else []


def _document(definition: Definition, reference: Reference, tree: Sequence[Required]) -> dict[str, Any]:
    """Return the definition as a JSON object."""
    variables = [
        {
            "name": each.name,
            "type": each.type,
            "required": each.default is None,
            "default": each.default.data if each.default else None,
            "description": each.description,
        }
        for each in definition.variables.values()
    ]
    return {
        "reference": named(reference.text),
        "name": definition.name,
        "type": definition.kind,
        "version": definition.version,
        "origin": definition.file.origin,
        "location": named(definition.file.location),
        "digest": f"sha256:{definition.file.digest}",
        "author": _author(definition),
        "title": definition.title,
        "summary": definition.summary,
        "description": _text(definition, "description"),
        "usage": definition.usage,
        "plugin": _text(definition, "plugin"),
        "variables": variables,
        "requires": tree_json(tree),
        "storages": _storages(definition),
    }
