"""An engine profile for OpenPAI, typed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pai_runtime.engine import Problems, Profile
from pai_runtime.engine.documents import check_value, package_schema, split_url, text, written_path

ENGINE: Final = "openpai"
"""The name of the engine in profiles."""


@dataclass(frozen=True)
class OpenpaiProfile:
    """The way in which an OpenPAI cluster is used; `url` is its portal's, without a slash at its end.

    `is_first_runtime` says that its pods have OpenPAI's own runtime. `plugins` are those of the runtime
    there; None for the usual ones. `code_storage` is for the code of jobs, and `code_mounted_at` where this
    machine has it; without them, the code is in the job.
    """

    name: str
    url: str
    ca_file: Path | None = None
    virtual_cluster: str = ""
    is_first_runtime: bool = True
    plugins: tuple[str, ...] | None = None
    code_storage: str = ""
    code_mounted_at: str = ""


def read_profile(profile: Profile) -> OpenpaiProfile:
    """Return the content of a profile. Raises `InvalidInput` with all of its problems."""
    root, problems = profile.value, Problems()
    check_value(root, package_schema("pai_openpai", "profile.schema.json"), problems)
    problems.check()
    written = root.get("url") or root
    url = split_url(written.text)
    if url is None or url.username is not None or url.query or url.fragment:
        expected = "the address of a portal, without user, password or query"
        problems.add(written.problem("invalid-url", f"expected {expected}", expected=expected))
    problems.check()
    ca_file, code = root.get("caFile"), root.get("code")
    return OpenpaiProfile(
        profile.name,
        written.text.rstrip("/"),
        written_path(ca_file) if ca_file else None,
        text(root, "virtualCluster"),
        root.data.get("runtime", "openpai") == "openpai",
        tuple(root.data["plugins"]) if "plugins" in root.data else None,
        text(code, "storage"),
        text(code, "mountedAt"),
    )
