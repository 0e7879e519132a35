"""What an attestation shows: that a workflow of a repository has built this very file, or nothing."""

import copy
import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sigstore.verify import Verifier

from pai_attestations.verification import NotVerified, attestations, verifier, verify
from pai_attestations.workflow import workflow
from tests.sigstore_instance import COMMIT, REF, WORKFLOW, SigstoreInstance

NAME, SHA256 = "pai_tracker-1.0-py3-none-any.whl", "5" * 64
REPOSITORY = "https://github.com/example/pai-tracker"

OURS, OTHERS = SigstoreInstance(), SigstoreInstance()
VALID = OURS.attest(NAME, SHA256)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Verifier:
    return verifier(OURS.write_trusted_root(tmp_path_factory.mktemp("root") / "root.json"))


def shown(by: Verifier, document: Any, url: str = WORKFLOW, name: str = NAME, sha256: str = SHA256) -> str:
    (attestation,) = attestations(json.dumps(document).encode())
    return verify(attestation, by, workflow(url), name, sha256)


def test_an_attestation_shows_from_what_a_workflow_has_built_a_file(ours: Verifier) -> None:
    assert shown(ours, VALID) == f"{WORKFLOW}@{REF} ({COMMIT})"
    bundle = {"publisher": {"kind": "GitHub", "repository": "mallory/any", "workflow": "any.yml"}}
    provenance = {"version": 1, "attestation_bundles": [{**bundle, "attestations": [VALID]}]}
    assert shown(ours, provenance) == f"{WORKFLOW}@{REF} ({COMMIT})"


ATTACKS: dict[str, Callable[[], dict[str, Any]]] = {
    "signed by another key": lambda: OURS.attest(
        NAME, SHA256, signed_by=ec.generate_private_key(ec.SECP256R1())
    ),
    "certified by another authority": lambda: OTHERS.attest(NAME, SHA256),
    "certified where no log of certificates has it": lambda: OURS.attest(NAME, SHA256, promised_by=OTHERS),
    "logged by another log": lambda: OURS.attest(NAME, SHA256, logged_by=OTHERS),
    "logged after the certificate had expired": lambda: OURS.attest(
        NAME, SHA256, logged_after=dt.timedelta(minutes=11)
    ),
    "logged before the certificate was valid": lambda: OURS.attest(
        NAME, SHA256, logged_after=dt.timedelta(minutes=-1)
    ),
    "replayed for another file": lambda: OURS.attest(NAME, "6" * 64),
    "replayed for another version": lambda: OURS.attest(NAME.replace("1.0", "0.9"), SHA256),
    "of a renamed distribution": lambda: OURS.attest(NAME.replace("tracker", "other"), SHA256),
    "by another repository": lambda: OURS.attest(NAME, SHA256, WORKFLOW.replace("example", "mallory")),
    "by another workflow": lambda: OURS.attest(NAME, SHA256, WORKFLOW.replace("release", "test")),
    "by a workflow whose name begins like ours": lambda: OURS.attest(NAME, SHA256, f"{WORKFLOW}@{REF}.yml"),
    "by a workflow that another repository calls": lambda: OURS.attest(
        NAME, SHA256, repository="https://github.com/mallory/fork"
    ),
    "by what another forge calls so": lambda: OURS.attest(NAME, SHA256, issuer="https://gitlab.com"),
    "of something else than a build": lambda: OURS.attest(NAME, SHA256, predicate="https://example.org/sbom"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_shown_is_not_believed(ours: Verifier, attack: str) -> None:
    with pytest.raises(NotVerified):
        shown(ours, ATTACKS[attack]())


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from _leaves(child, (*path, key))


PATHS = [path for path in _leaves(VALID) if path]
WRONG: tuple[Any, ...] = (None, -1, 10**400, "", "x", "9" * 5000, [], {}, [[]], {"x": None})


def _changed(path: tuple[Any, ...], change: Callable[[Any], Any]) -> dict[str, Any]:
    document = copy.deepcopy(VALID)
    holder: Any = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = change(holder[path[-1]])
    return document


def _one_letter_changed(text: str) -> str:
    middle = len(text) // 2
    return text[:middle] + ("B" if text[middle] == "A" else "A") + text[middle + 1 :]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_no_part_of_an_attestation_can_be_another(ours: Verifier, path: tuple[Any, ...]) -> None:
    wrong = [_changed(path, lambda _, value=value: value) for value in WRONG]  # type: ignore[misc]
    changed = _changed(path, lambda value: _one_letter_changed(value) if isinstance(value, str) else None)
    for document in (*wrong, changed):
        with pytest.raises(NotVerified):
            shown(ours, document)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"version": 1, "attestation_bundles": {}}',
        b"PK\3\4",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_a_file_without_attestations_is_refused(data: bytes) -> None:
    with pytest.raises(NotVerified):
        attestations(data)


# From the public instance, as published with the tests of pypi-attestations 0.0.30: of that distribution, and
# of a project on GitLab.
PUBLISHED = {
    "github.provenance": (
        "https://github.com/trailofbits/pypi-attestations/.github/workflows/release.yml",
        "pypi_attestations-0.0.19.tar.gz",
        "9bb1add04b1b4e182be6b0b80931593f7a291eb49d69b4fd728a5d4cbcdc4bd3",
        "refs/tags/v0.0.19 (08802efe1f8e5fec4ad842d6b8ce97656092ee72)",
    ),
    "gitlab.publish.attestation": (
        "https://gitlab.com/facutuesca/gitlab-oidc-project//.gitlab-ci.yml",
        "gitlab_oidc_project-0.0.3.tar.gz",
        "c1ca9b0d85df1606451098233018534497bf584362e10e4a8c21dfaea92c02a8",
        "refs/heads/main (72f7c63b75eb55ea80864962f0e645c93414da34)",
    ),
}


@pytest.mark.parametrize("file", PUBLISHED)
def test_what_the_public_instance_attests_is_verified_without_network(file: str, ours: Verifier) -> None:
    url, name, sha256, origin = PUBLISHED[file]
    data = (Path(__file__).parent / "data" / file).read_bytes()
    attestation = attestations(data)[0]
    assert verify(attestation, verifier(None), workflow(url), name, sha256) == f"{url}@{origin}"
    for by, built_by, digest in (
        (ours, url, sha256),
        (verifier(None), WORKFLOW, sha256),
        (verifier(None), url, SHA256),
    ):
        with pytest.raises(NotVerified):
            verify(attestation, by, workflow(built_by), name, digest)


def test_a_trusted_root_that_somebody_left_in_the_home_directory_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library itself, asked to be offline, uses what is there."""
    folder = tmp_path / "sigstore-python/tuf/https%3A%2F%2Ftuf-repo-cdn.sigstore.dev"
    folder.mkdir(parents=True)
    OURS.write_trusted_root(folder / "trusted_root.json")
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    assert shown(Verifier.production(offline=True), VALID)
    with pytest.raises(NotVerified):
        shown(verifier(None), VALID)


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"mediaType": "x"}'])
def test_what_is_no_trusted_root_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "root.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"root\.json"):
        verifier(path)
    with pytest.raises(ValueError, match=r"trusted root"):
        verifier(tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "",
        REPOSITORY,
        f"{REPOSITORY}/.github/workflows/",
        f"{REPOSITORY}/.github/workflows/a/b.yml",
        f"{REPOSITORY}/more/.github/workflows/b.yml",
        f"{WORKFLOW}@{REF}",
        f"{WORKFLOW}\n",
        f" {WORKFLOW}",
        WORKFLOW.replace("https", "http"),
        WORKFLOW.replace("github.com", "github.com.example.org"),
        WORKFLOW.replace("github.com", "mallory@github.com"),
        "https://gitlab.com/group/project/.gitlab-ci.yml",
        "https://gitlab.com//.gitlab-ci.yml",
        "https://gitlab.com/group/project//",
    ],
)
def test_what_names_no_workflow_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected the URL of a workflow"):
        workflow(url)
