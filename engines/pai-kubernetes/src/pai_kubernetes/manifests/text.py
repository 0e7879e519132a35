"""Manifests as YAML for ``kubectl`` and for review: the same text for the same objects."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def manifest_text(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return documents as YAML, in ASCII."""
    return yaml.dump_all(map(_plain, documents), Dumper=_Dumper, sort_keys=False, explicit_start=True)


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes multi-line strings as blocks, and never writes aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def text(self, data: str) -> yaml.Node:
        return self.represent_scalar("tag:yaml.org,2002:str", data, "|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.text)


def _plain(value: Any) -> Any:
    """Return a value with plain dicts and lists for all kinds of mappings and sequences."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
