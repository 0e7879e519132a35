"""A Kubernetes cluster as an engine profile describes its use."""

import secrets as random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.kubeconfig import read_kubeconfig
from pai_kubernetes.checks import check, check_counts
from pai_kubernetes.cluster_checks import check_cluster
from pai_kubernetes.labels import MOST_PROVENANCE
from pai_kubernetes.manifests.objects import RenderedRun, packed_code, render
from pai_kubernetes.manifests.peers import run_peers, run_roles
from pai_kubernetes.manifests.policies import policies
from pai_kubernetes.manifests.provenance import provenance_text
from pai_kubernetes.manifests.run_objects import CONFIG_MAPS
from pai_kubernetes.manifests.text import manifest_text
from pai_kubernetes.names import code_user, run_name
from pai_kubernetes.profile import KubernetesProfile
from pai_kubernetes.reading import read_profile
from pai_kubernetes.run.reader import Reader
from pai_kubernetes.run.runs import Runs
from pai_kubernetes.run.submission import Manifests, submit
from pai_pod.engine import peers_placement
from pai_runtime.engine import (
    CannotRun,
    Engine,
    Job,
    MayBeLeft,
    NewRun,
    Placement,
    Plan,
    Problem,
    Problems,
    Profile,
    Rendered,
    Run,
    RunRequest,
    Unreadable,
)
from pai_runtime.engine.code import PackedCode
from pai_runtime.engine.keeping import RunFolder
from pai_runtime.engine.messages import size_text
from pai_runtime.engine.records import TaskName

_NO_SUFFIX = "0" * 8
"""The suffix of the name under which a run is checked, and from whose content its name is made."""
_CANNOT: Final = {
    "--share": "what is kept of a run on a cluster is for its user alone",
    "--task": "all tasks of a job run; for fewer of them, use --role-instances",
    "--timeout": "set extras.timeout in the job, such as 2h",
    "--isolation": "each task has a container of its own",
    "--env": "give the value, too, as in --env NAME=VALUE; or use secrets of the job",
    "--storage": "the storages of a cluster are in its engine profile",
    "--storage-config": "the storages of a cluster are in its engine profile",
}
_UNKNOWN: Mapping[str, str] = defaultdict(lambda: "******")
"""Stand-ins for the values of secrets where none is needed."""


class KubernetesCluster(Engine):
    """The cluster of a profile; it is contacted, and a kubeconfig read, only when needed."""

    cannot = _CANNOT
    keeps_provenance = True

    def __init__(self, profile: Profile) -> None:
        self.profile = read_profile(profile)

    @cached_property
    def api(self) -> Api:
        """The client of the cluster's API. Raises `InvalidInput` or `ClusterError`."""
        access = read_kubeconfig(self.profile.kubeconfig, self.profile.context)
        return Api(access, self.profile.namespace, self.profile.name)

    def new_run(self, request: RunRequest) -> "NewKubernetesRun":
        """Return a run that is not submitted yet."""
        return NewKubernetesRun(self, request)

    def open_run(self, name: str, keep: Path | None = None) -> Reader:
        """Return the run of this name; what is read of it while it is followed goes to `keep`, if given."""
        return self._reader(name, keep=keep)

    def runs(self) -> Sequence[tuple[Reader, Run | Unreadable]]:
        """Return all runs in the namespace, newest first. Raises `ClusterError`."""
        found = self._runs.read()
        return [(self._listed(name), run) for name, run in found.items()]

    def _listed(self, name: str) -> Reader:
        return self._reader(name, provenance=self._runs.provenance[name])

    def _reader(
        self, name: str, *, keep: Path | None = None, provenance: Mapping[str, Any] | None = None
    ) -> Reader:
        output, code = self.profile.output, self.profile.code
        return Reader(
            self.api, name, self.profile.name, keep=keep, output=output, code=code, provenance=provenance
        )

    @cached_property
    def _runs(self) -> Runs:
        return Runs(self.api)


class NewKubernetesRun(NewRun):
    """A run of a job that is not submitted yet."""

    def __init__(self, cluster: KubernetesCluster, request: RunRequest) -> None:
        self._cluster = cluster
        self._request = request

    @property
    def _profile(self) -> KubernetesProfile:
        return self._cluster.profile

    def place(self, job: Job) -> Placement:
        """Return a placement by the names of pods, with the same ports in each.

        Raises `InvalidInput` for too many.
        """
        check_counts(job)
        self._job = job
        name = run_name(job.name, _NO_SUFFIX)
        peers = run_peers(job, name, run_roles(job, name), self._request.user)
        return peers_placement(job, peers)

    def check(self, plans: Mapping[TaskName, Plan], problems: Problems, *, ask: bool = True) -> None:
        """Report what this cluster, or Kubernetes in general, cannot give to the job."""
        check(self._job, plans, self._profile, problems)
        with problems.caught():
            try:
                rendered = self._render(plans, _UNKNOWN, run_name(self._job.name, _NO_SUFFIX), problems)
            except CannotRun as error:
                if not problems.has_errors:  # else it is of those, which say where
                    problems.add(Problem("cannot-render", str(error)))
                return
            if ask:
                check_cluster(self._cluster.api, rendered, self._job, self._profile, problems)

    def render(
        self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str], *, name: str | None = None
    ) -> Rendered:
        """Return the objects as YAML, the JobSet first. Raises `CannotRun` or `InvalidInput`."""
        if name is None:
            unnamed = self._render(plans, secrets, run_name(self._job.name, _NO_SUFFIX))
            name = run_name(self._job.name, unnamed.digest)
        rendered = self._render(plans, secrets, name)
        names = [f"{each['kind']} {each['metadata']['name']}" for each in rendered.secrets]
        return Rendered(manifest_text(rendered.objects), manifest_text(rendered.secrets), names)

    def submit(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> Reader:
        """Create the objects, and return the run. Raises `CannotRun` or `InvalidInput`."""
        stored: list[str] = []

        def rendered(suffix: str) -> Manifests:
            name = run_name(self._job.name, suffix)
            found = self._render(plans, secrets, name)
            if self._code and self._profile.code and not CONFIG_MAPS.can_carry(self._code):
                self._code.store(self._profile.code.mounted_at, code_user(self._cluster.api.namespace, name))
                stored.append(name)
            return Manifests(found.objects, found.secrets)

        if self._request.provenance and not provenance_text(self._request, plans.values()):
            most = size_text(MOST_PROVENANCE)
            self._request.say(f"note: what produces the run takes more than {most}, and is not kept with it")
        out = self._request.out
        folder = RunFolder(self._job.name, out) if out is not None else None
        try:
            return self._cluster.open_run(submit(self._cluster.api, rendered), out)
        except BaseException as error:
            if folder is not None:
                folder.discard()
            if not isinstance(error, MayBeLeft):
                for name in stored:
                    self._cluster.open_run(name).release_code()
            raise

    def _render(
        self,
        plans: Mapping[TaskName, Plan],
        secrets: Mapping[str, str],
        name: str,
        problems: Problems | None = None,
    ) -> RenderedRun:
        found = Problems() if problems is None else problems
        decided = policies(self._job, run_roles(self._job, name), _permanent_codes(plans), found)
        if problems is None:
            found.check()
        return render(
            self._job,
            plans,
            self._request,
            self._profile,
            name=name,
            policies=decided,
            run_secret=random.token_hex(32),
            secrets=secrets,
            code=self._code,
        )

    @cached_property
    def _code(self) -> PackedCode | None:
        """The code as it was when it was first packed. Raises `CannotRun` or `InvalidInput`."""
        return packed_code(self._request, self._profile)


def _permanent_codes(plans: Mapping[TaskName, Plan]) -> dict[str, Collection[int]]:
    """Return by role the exit codes after which a retry of any of its tasks is useless."""
    codes: dict[str, Collection[int]] = {}
    for (role, _), plan in plans.items():
        codes[role] = {*codes.get(role, ()), *plan.permanent_codes}
    return codes
