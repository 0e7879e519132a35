"""Workflows by which repositories build and publish, as certificates of Sigstore name them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sigstore.verify import policy

_NAME: Final = r"[A-Za-z0-9_.+~-]+"

_FORGES: Final = {
    re.compile(rf"(https://github\.com/{_NAME}/{_NAME})/\.github/workflows/{_NAME}"): (
        "https://token.actions.githubusercontent.com"
    ),
    re.compile(rf"(https://gitlab\.com(?:/{_NAME})+)/(?:/{_NAME})+"): "https://gitlab.com",
}
"""The URLs of workflows, each with that of its repository, and who vouches for it."""

_COMMIT: Final = "1.3.6.1.4.1.57264.1.13"
_REF: Final = "1.3.6.1.4.1.57264.1.14"
_FILE: Final = "1.3.6.1.4.1.57264.1.18"
"""The extensions of a certificate: the commit, the branch or tag, and the workflow's file in one of them."""


@dataclass(frozen=True)
class Workflow:
    """A workflow: the URL of its file, that of its repository, and the issuer of its identity."""

    url: str
    repository: str
    issuer: str

    @property
    def policy(self) -> policy.VerificationPolicy:
        """What the certificates of all workflows of its repository match."""
        issuer, repository = policy.OIDCIssuerV2(self.issuer), policy.OIDCSourceRepositoryURI(self.repository)
        return policy.AllOf([issuer, repository])

    def is_in(self, claims: Mapping[str, str]) -> bool:
        """Return whether a certificate with these claims, which matches `policy`, is of this workflow.

        The branch, tag or commit is any: who may run the workflow is for the repository to say. All of it is
        compared, since the name of a file may contain what follows it here.
        """
        return claims.get(_FILE) in [f"{self.url}@{claims[oid]}" for oid in (_COMMIT, _REF) if oid in claims]


def workflow(url: str) -> Workflow:
    """Return the workflow with a URL such as a policy has. Raises ValueError."""
    for pattern, issuer in _FORGES.items():
        if match := pattern.fullmatch(url):
            return Workflow(url, match[1], issuer)
    raise ValueError(
        f"expected the URL of a workflow's file, such as https://github.com/OWNER/REPOSITORY/.github/workflows/"
        f"FILE.yml or https://gitlab.com/GROUP/PROJECT//.gitlab-ci.yml, found {url!r}"
    )


def built_by(claims: Mapping[str, str]) -> str:
    """Return the workflow of a certificate with these claims, with branch or tag and commit, for people."""
    return f"{claims.get(_FILE)} ({claims.get(_COMMIT)})"
