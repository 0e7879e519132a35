"""Kubernetes' limits on the size of objects."""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pai_runtime.engine import CannotRun
from pai_runtime.engine.messages import size_text

MOST_DATA: Final = 1024 * 1024
"""Maximum bytes of all values of a ConfigMap or Secret."""
MOST_ANNOTATIONS: Final = 256 * 1024
"""Maximum bytes of all keys and values of annotations."""
MOST_OBJECT: Final = 1536 * 1024 - 256 * 1024
"""Maximum bytes of an object in etcd, less a reserve for what controllers add."""
LEAST_OF_ROLE: Final = 3 * 1024
"""Minimum bytes that any task role takes in the JobSet."""


def check_sizes(objects: Iterable[Mapping[str, Any]]) -> None:
    """Raise `CannotRun` that names all objects which are too large."""
    if faults := [fault for each in objects for fault in _faults(each)]:
        raise CannotRun(f"too large for Kubernetes: {'; '.join(faults)}")


def _faults(document: Mapping[str, Any]) -> Iterator[str]:
    name = f"{document['kind']} {document['metadata']['name']}"
    sizes = _data_sizes(document)
    if (size := sum(sizes.values())) > MOST_DATA:
        largest = ", ".join(
            f"{key} ({size_text(sizes[key])})" for key in sorted(sizes, key=sizes.__getitem__)[::-1]
        )
        yield f"{name}, {size_text(size)} of {size_text(MOST_DATA)}: {largest}"
    annotations = document["metadata"].get("annotations", {})
    size = sum(len(text.encode()) for item in annotations.items() for text in item)
    if size > MOST_ANNOTATIONS:
        yield f"the annotations of {name}, {size_text(size)} of {size_text(MOST_ANNOTATIONS)}"
    if not sizes and (size := len(json.dumps(document, ensure_ascii=False).encode())) > MOST_OBJECT:
        yield f"{name}, {size_text(size)} of {size_text(MOST_OBJECT)}: use fewer task roles"


def _data_sizes(document: Mapping[str, Any]) -> dict[str, int]:
    encoded = {**document.get("binaryData", {})}
    plain = document.get("data", {})
    if document["kind"] == "Secret":
        encoded, plain = plain, {}
    return {
        **{key: len(text.encode()) for key, text in plain.items()},
        **{key: len(b64decode(text)) for key, text in encoded.items()},
    }
