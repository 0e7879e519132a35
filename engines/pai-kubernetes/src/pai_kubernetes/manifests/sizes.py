"""What Kubernetes takes of an object, at most."""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pai_runtime.document.amounts import size_text
from pai_runtime.runs.errors import CannotRun

MOST_DATA: Final = 1024 * 1024
"""Bytes of all values of a ConfigMap or Secret."""
MOST_ANNOTATIONS: Final = 256 * 1024
"""Bytes of all keys and values of annotations."""
MOST_OBJECT: Final = 1536 * 1024 - 256 * 1024
"""Bytes that etcd takes of an object, less what controllers write into it."""
LEAST_OF_ROLE: Final = 3 * 1024
"""Bytes that a task role takes of the JobSet, whatever it is."""


def check_sizes(objects: Iterable[Mapping[str, Any]]) -> None:
    """Raise `CannotRun` if an object is too large, for all that are."""
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
