"""Parsing of image references as Docker does: registry, repository and manifest.

The grammar is that of github.com/distribution/reference, with Docker's defaults for what is left out.
"""

import re
from typing import Final

from pai_document.printable import printable
from pai_task.record import record

DOCKER_HUB: Final = "docker.io"
"""The registry of a reference that names none."""

_OFFICIAL: Final = "library/"
"""The prefix of Docker Hub's images whose names are a single word."""
_LONGEST_REPOSITORY: Final = 255
_LONGEST_SHOWN: Final = 300

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[A-Fa-f0-9:]+\])(?::[0-9]+)?")
_COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGESTS = {
    "sha256": re.compile("[a-f0-9]{64}"),
    "sha384": re.compile("[a-f0-9]{96}"),
    "sha512": re.compile("[a-f0-9]{128}"),
}
_IMAGE_ID = re.compile("[a-f0-9]{64}")
_SCHEME = re.compile("[A-Za-z]+://")


class BadReference(ValueError):
    """The exception for a text that is not an image reference; the message says why."""


@record(frozen=True)
class ImageReference:
    """An image in a registry, which is a host with an optional port.

    `manifest` is what a registry is asked for: the digest, if there is one, else the tag.
    """

    registry: str
    repository: str
    manifest: str

    def __str__(self) -> str:
        separator = "@" if ":" in self.manifest else ":"
        return f"{self.registry}/{self.repository}{separator}{self.manifest}"


def parse_reference(text: str) -> ImageReference:
    """Parse an image reference as Docker does. Raises `BadReference`."""
    if match := _SCHEME.match(text):
        raise _bad(text, f"expected no scheme: leave out '{match[0]}'")
    if _IMAGE_ID.fullmatch(text):
        raise _bad(
            text, "expected a name in a registry, found the id of a local image (64 hexadecimal digits)"
        )
    registry, rest = _split(text)
    named, at, digest = rest.partition("@")
    repository, colon, tag = named.partition(":")
    if at:
        _check_digest(text, digest)
    if colon and not _TAG.fullmatch(tag):
        raise _bad(text, "expected a tag of 1 to 128 letters, digits, '_', '.' and '-' after ':'")
    if registry == DOCKER_HUB and "/" not in repository:
        repository = _OFFICIAL + repository
    _check_repository(text, repository)
    return ImageReference(registry, repository, digest or tag or "latest")


def _split(text: str) -> tuple[str, str]:
    """Split a reference into registry and rest."""
    first, slash, rest = text.partition("/")
    is_registry = slash and (first == "localhost" or "." in first or ":" in first or first != first.lower())
    if not is_registry:
        return DOCKER_HUB, text
    if not _REGISTRY.fullmatch(first):
        raise _bad(text, "expected the name or address of a registry before the first '/'")
    return (DOCKER_HUB if first == "index.docker.io" else first), rest


def _check_repository(text: str, repository: str) -> None:
    if repository != repository.lower():
        raise _bad(text, "the name of a repository must be in lower case")
    if not _REPOSITORY.fullmatch(repository):
        raise _bad(
            text,
            "expected a name of lower-case letters and digits, with '.', '_' and '-' between them"
            " and '/' between its parts",
        )
    if len(repository) > _LONGEST_REPOSITORY:
        raise _bad(text, f"the name of a repository has at most {_LONGEST_REPOSITORY} characters")


def _check_digest(text: str, digest: str) -> None:
    algorithm, _, encoded = digest.partition(":")
    pattern = _DIGESTS.get(algorithm)
    if pattern is None or not pattern.fullmatch(encoded):
        raise _bad(text, "expected a digest after '@', such as sha256: and 64 lower-case hexadecimal digits")


def _bad(text: str, why: str) -> BadReference:
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    return BadReference(f"'{printable(shown)}' is not the name of an image: {why}")
