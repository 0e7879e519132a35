"""What the stand-in for an OpenPAI cluster has: users, tokens, storages, virtual clusters, jobs."""

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.openpai.hived import Quota
from tests.openpai.jobs import Job
from tests.openpai.log_manager import LogManager
from tests.openpai.submission import Refused, Submission


@dataclass(frozen=True)
class User:
    password: str
    virtual_clusters: tuple[str, ...] = ("default",)
    storages: tuple[str, ...] = ("datasets",)
    admin: bool = False


@dataclass(frozen=True)
class Token:
    user: str
    application: bool
    issued: int
    expires: float | None


class Cluster:
    """Change what a test needs to be otherwise. Where `sku_types` is not empty, HiveDScheduler is on.

    While `begin` is cleared, jobs that are submitted wait. With `meeting`, submissions wait for each other
    between the look whether their name is free and its use.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = LogManager(folder / "logs")
        self.users = {
            "admin": User("admin-password", admin=True),
            "alice": User("alice-password"),
            "bob.x": User("bob-password", storages=()),
        }
        self.storages: dict[str, Mapping[str, Any]] = {"datasets": _DATASETS, "private": _PRIVATE}
        self.oidc = ""
        """Where it is not empty, logins are in a browser; there, all are this user."""
        self.sku_types: Mapping[str, Any] = {}
        self.quotas = {"default": Quota(("K80", "K80"))}
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.tokens: dict[str, Token] = {}
        self.jobs: dict[str, Job] = {}
        self.begin = threading.Event()
        self.begin.set()
        self.meeting: threading.Barrier | None = None
        self._lock = threading.Lock()

    def end(self) -> None:
        for job in self.jobs.values():
            job.end()

    def token(self, user: str, *, application: bool = True, seconds: float | None = None) -> str:
        """Issue a token, as the server does at a login."""
        token = secrets.token_urlsafe(24)
        ends = None if seconds is None else time.time() + seconds
        self.tokens[token] = Token(user, application, int(time.time()), ends)
        return token

    def add(self, user: str, submission: Submission) -> None:
        """Use up the name. Of two that come at once, the second is lost, and nobody is told."""
        name = f"{user}~{submission.name}"
        if name in self.jobs:
            raise Refused(409, "ConflictJobError", f"Job {name} already exists.")
        if self.meeting is not None:
            self.meeting.wait(30)
        if any("instances" not in role for role in submission.public["taskRoles"].values()):
            raise Refused(500, "UnknownError", 'invalid input syntax for type integer: "NaN"')
        with self._lock:
            if name not in self.jobs:
                self.jobs[name] = Job(user, submission, self.folder, self.begin)


_DATASETS = {
    "name": "datasets",
    "share": True,
    "volumeName": "pv-datasets",
    "type": "nfs",
    "data": {"server": "10.0.0.9", "path": "/export/datasets"},
    "readOnly": True,
    "mountOptions": ["nfsvers=4.1"],
}
_PRIVATE = {**_DATASETS, "name": "private", "share": False, "volumeName": "pv-private", "readOnly": False}
