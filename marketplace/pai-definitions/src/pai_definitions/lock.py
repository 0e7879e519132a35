"""The lock file of a job, which pins the bytes that its references to definitions mean.

It stands beside the job file, to be committed with it, and carries the bytes that others could not fetch.
One that carries all bytes is in the directory of a run, and may be handed to a pod, so that nothing is
fetched there.
"""

import os
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pai_definitions.lock_yaml import mapping_lines
from pai_definitions.origins import shared_origin
from pai_definitions.reference import Reference
from pai_document.document import parse_document, read_text
from pai_document.problems import InvalidInput, Problems
from pai_document.schemas import check_value, package_schema
from pai_document.value import Value
from pai_runtime.definitions import DefinitionFile
from pai_runtime.host.locations import named
from pai_task.record import record

VERSION: Final = 1
_PREFIX: Final = "sha256:"
_HEADER: Final = "# Which bytes the references of the job mean. Written by pai-runtime lock."

Key = tuple[str, str]
"""A reference as written, and the origin of the definition file that it is relative to, or empty."""


@record(frozen=True)
class Pin:
    """The meaning of one reference; `digest` has 64 hexadecimal digits.

    Other fields: see `DefinitionFile`.
    """

    reference: str
    within: str
    origin: str
    name: str
    version: str
    digest: str
    location: str = ""
    own: bool = False

    @property
    def key(self) -> Key:
        """The key of the pin in a lock file."""
        return self.reference, self.within


@record(frozen=True)
class Lock:
    """The content of a lock file; `contents` are definition files that it contains, by digest.

    Where its contents came from is not known, unless whoever wrote it `is_trusted`.
    """

    file: str
    pins: Mapping[Key, Pin]
    contents: Mapping[str, bytes]
    is_trusted: bool = False


def lock_path(job: Path) -> Path:
    """Return the path of the lock file of a job."""
    return Path(f"{job}.lock")


def key_of(reference: Reference, above: DefinitionFile | None) -> Key:
    """Return the key of a reference in the file `above`; None means the job file."""
    is_relative = above is not None and reference.kind == "path"
    return named(reference.text), shared_origin(above.origin) if above and is_relative else ""


def existing_lock(path: Path) -> Lock | None:
    """Read a lock file as `read_lock` does; None if it does not exist."""
    return read_lock(path) if os.path.lexists(path) else None


def read_lock(path: Path) -> Lock:
    """Read a lock file. Raises `InvalidInput` if it cannot be read or has any fault."""
    # Not as a job file, which may be a pipe: this one decides which code runs.
    root, problems = parse_document(read_text(path), str(path)), Problems()
    _check_version(root)
    check_value(root, package_schema("pai_definitions", "lock.schema.json"), problems)
    problems.check()
    pins: dict[Key, Pin] = {}
    for entry in _entries(root, "definitions"):
        pin = _pin(entry.data)
        if pin.key in pins:
            problems.add(entry.problem("duplicate-reference", f"'{pin.reference}' is locked twice"))
        pins[pin.key] = pin
    contents = {}
    for entry in _entries(root, "files"):
        digest, content = _digest(entry.data), _content(entry.data)
        if content is None or sha256(content).hexdigest() != digest:
            problems.add(entry.problem("wrong-digest", "the content does not have this digest"))
        else:
            contents[digest] = content
    problems.check()
    return Lock(str(path), pins, contents)


def lock_text(pins: Iterable[Pin], contents: Iterable[bytes] = ()) -> str:
    """Return the text of a lock file, the same for the same pins in any order."""
    # Not by the writer of what people edit, which takes a second for a job of some hundred definitions.
    lines = [_HEADER, f"lockVersion: {VERSION}"]
    entries = [_written(pin) for pin in sorted(pins, key=lambda pin: pin.key)]
    lines += ["definitions:"] if entries else ["definitions: []"]
    for entry in entries:
        lines += mapping_lines(entry)
    files = {sha256(content).hexdigest(): content for content in contents}
    lines += ["files:"] if files else []
    for digest in sorted(files):
        lines += mapping_lines({"digest": _PREFIX + digest, "content": files[digest]})
    return "".join(f"{line}\n" for line in lines)


def _check_version(root: Value) -> None:
    version = root.get("lockVersion")
    if version and type(version.data) is int and version.data > VERSION:
        message = f"this lock file has version {version.data}, of a newer pai-runtime; update pai-runtime"
        raise InvalidInput([version.problem("newer-version", message, str(version.data), str(VERSION))])


def _entries(root: Value, field: str) -> Iterator[Value]:
    found = root.get(field)
    return found.values() if found else iter(())


def _pin(entry: Mapping[str, Any]) -> Pin:
    return Pin(
        reference=named(entry["reference"]),
        within=shared_origin(named(entry.get("in", ""))),
        origin=shared_origin(named(entry["origin"])),
        name=entry.get("name", ""),
        version=entry.get("version", ""),
        digest=_digest(entry),
        location=named(entry.get("location", "")),
        own=entry.get("own", False),
    )


def _digest(entry: Mapping[str, Any]) -> str:
    digest: str = entry["digest"]
    return digest.removeprefix(_PREFIX)


def _content(entry: Mapping[str, Any]) -> bytes | None:
    if "content" in entry:
        text: str = entry["content"]
        return text.encode()
    try:
        return b64decode(entry["base64"], validate=True)
    except BadBase64:
        return None


def _written(pin: Pin) -> dict[str, Any]:
    fields = {
        "reference": pin.reference,
        "in": pin.within,
        "origin": pin.origin,
        "name": pin.name,
        "version": pin.version,
        "digest": _PREFIX + pin.digest,
        "location": pin.location,
        "own": pin.own,
    }
    return {name: value for name, value in fields.items() if value}
