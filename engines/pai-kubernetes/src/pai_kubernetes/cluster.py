"""A Kubernetes cluster as an engine profile describes its use."""

import secrets as random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.hidden import hide
from pai_kubernetes.api.kubeconfig import read_kubeconfig
from pai_kubernetes.checks import check, check_counts
from pai_kubernetes.cluster_checks import check_cluster
from pai_kubernetes.manifests.objects import Rendered, render
from pai_kubernetes.manifests.peers import run_peers, run_roles
from pai_kubernetes.manifests.policies import policies
from pai_kubernetes.names import run_name
from pai_kubernetes.profile import KubernetesProfile
from pai_kubernetes.reading import read_profile
from pai_kubernetes.run.reader import Reader
from pai_kubernetes.run.runs import Runs
from pai_kubernetes.run.submission import submit
from pai_pod.placement import peers_placement
from pai_runtime.document.problems import Problem, Problems
from pai_runtime.engines.cluster import ClusterRequest, Manifests
from pai_runtime.engines.profiles import Profile
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.runs.errors import CannotRun
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.task.paths import VOLUME
from pai_runtime.task.plan import Plan

_NO_SUFFIX = "0" * 8
"""The suffix of the name under which a run is checked, and from whose content its name is made."""
_UNKNOWN: Mapping[str, str] = defaultdict(lambda: "******")
"""Stand-ins for the values of secrets where none is needed."""


class KubernetesCluster:
    """The cluster of a profile; it is contacted, and a kubeconfig read, only when needed."""

    def __init__(self, profile: Profile) -> None:
        self.profile = read_profile(profile)

    @cached_property
    def api(self) -> Api:
        """The client of the cluster's API. Raises `InvalidInput` or `ClusterError`."""
        access = read_kubeconfig(self.profile.kubeconfig, self.profile.context)
        return Api(access, self.profile.namespace, self.profile.name)

    def new_run(self, request: ClusterRequest) -> "NewKubernetesRun":
        """Return a run that is not submitted yet."""
        return NewKubernetesRun(self, request)

    def open_run(self, name: str) -> Reader:
        """Return a reader of the run of this name."""
        context = ["--context", self.profile.context] if self.profile.context else []
        file = ["--kubeconfig", self.profile.kubeconfig] if self.profile.kubeconfig else []
        return Reader(self.api, name, self.profile.name, kubectl=["kubectl", *file, *context])

    def runs(self) -> Sequence[tuple[Reader, Run | Unreadable]]:
        """Return all runs in the namespace, newest first. Raises `ClusterError`."""
        return [(self.open_run(name), run) for name, run in self._runs.read().items()]

    @cached_property
    def _runs(self) -> Runs:
        return Runs(self.api)


class NewKubernetesRun:
    """A run of a job that is not submitted yet."""

    def __init__(self, cluster: KubernetesCluster, request: ClusterRequest) -> None:
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
        hide(secret_values(job.secrets).values())
        name = run_name(job.name, _NO_SUFFIX)
        peers = run_peers(job, name, run_roles(job, name), self._request.user)
        return peers_placement(job, peers, {}, VOLUME)

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

    def manifests(
        self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str], *, name: str | None = None
    ) -> Manifests:
        """Return the objects, the JobSet first. Raises `CannotRun` or `InvalidInput`."""
        if name is None:
            unnamed = self._render(plans, secrets, run_name(self._job.name, _NO_SUFFIX))
            name = run_name(self._job.name, unnamed.digest)
        rendered = self._render(plans, secrets, name)
        return Manifests(rendered.objects, rendered.secrets)

    def submit(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> str:
        """Create the objects, and return the name of the run. Raises `CannotRun` or `InvalidInput`."""

        def rendered(suffix: str) -> Manifests:
            found = self._render(plans, secrets, run_name(self._job.name, suffix))
            return Manifests(found.objects, found.secrets)

        return submit(self._cluster.api, rendered)

    def _render(
        self,
        plans: Mapping[TaskName, Plan],
        secrets: Mapping[str, str],
        name: str,
        problems: Problems | None = None,
    ) -> Rendered:
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
        )


def _permanent_codes(plans: Mapping[TaskName, Plan]) -> dict[str, Collection[int]]:
    """Return by role the exit codes after which a retry of any of its tasks is useless."""
    codes: dict[str, Collection[int]] = {}
    for (role, _), plan in plans.items():
        codes[role] = {*codes.get(role, ()), *plan.permanent_codes}
    return codes
