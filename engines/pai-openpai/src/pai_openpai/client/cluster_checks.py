"""What a cluster would refuse of a job, as far as it tells when it is asked."""

from pai_openpai.client.api import Api
from pai_runtime.engine import Job, Problems


def check_cluster(api: Api, job: Job, problems: Problems) -> None:
    """Report what the cluster would refuse. Raises `ClusterError`."""
    del api, job, problems
