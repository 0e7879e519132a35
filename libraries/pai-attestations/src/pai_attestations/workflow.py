"""Workflows by which repositories build and publish, as certificates of Sigstore name them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sigstore.verify import policy

_NAME: Final = r"[A-Za-z0-9_.+~-]+"

_HOSTS: Final = {
    re.compile(rf"(https://github\.com/{_NAME}/{_NAME})/\.github/workflows/{_NAME}"): (
        "https://token.actions.githubusercontent.com"
    ),
    re.compile(rf"(https://gitlab\.com(?:/{_NAME})+)/(?:/{_NAME})+"): "https://gitlab.com",
}
"""The URLs of workflows, each with that of its repository, and who vouches for it."""

_COMMIT: Final = "1.3.6.1.4.1.57264.1.13"
_REF: Final = "1.3.6.1.4.1.57264.1.14"
"""The extensions of a certificate with the commit, and the branch or tag, from which a workflow ran."""


@dataclass(frozen=True)
class Workflow:
    """A workflow: the URL of its file, that of its repository, and the issuer of its identity."""

    url: str
    repository: str
    issuer: str

    def policy(self, claims: Mapping[str, str]) -> policy.VerificationPolicy:
        """Return what its certificates match; `claims` are a certificate's, by the numbers of Fulcio.

        The branch, tag or commit is any: who may run the workflow is for the repository to say.
        """
        # The whole URL, since a file's name may contain what follows it in a certificate.
        urls = [f"{self.url}@{claims[oid]}" for oid in (_COMMIT, _REF) if oid in claims]
        return policy.AllOf(
            [
                policy.OIDCIssuerV2(self.issuer),
                policy.OIDCSourceRepositoryURI(self.repository),
                policy.AnyOf([policy.OIDCBuildConfigURI(url) for url in urls]),
            ]
        )

    def origin(self, claims: Mapping[str, str]) -> str:
        """Return the branch or tag, and the commit, that a verified certificate names, for people."""
        return ", ".join(claims[oid] for oid in (_REF, _COMMIT) if oid in claims)


def workflow(url: str) -> Workflow:
    """Return the workflow with a URL such as a policy has. Raises ValueError."""
    for pattern, issuer in _HOSTS.items():
        if match := pattern.fullmatch(url):
            return Workflow(url, match[1], issuer)
    raise ValueError(
        f"expected the URL of a workflow's file, such as https://github.com/OWNER/REPOSITORY/.github/workflows/"
        f"FILE.yml or https://gitlab.com/GROUP/PROJECT//.gitlab-ci.yml, found {url!r}"
    )
