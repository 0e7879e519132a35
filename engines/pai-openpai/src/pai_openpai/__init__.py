"""OpenPAI's own part of a pod: what FrameworkController knows of its job, as init steps.

The Framework, its object for a job, is read from the Kubernetes API once all tasks have an address. From it
follow the job file, and the addresses and ports of all tasks.

And what its REST server refuses or changes of a job, for ``pai-runtime validate --for openpai``.
"""

from __future__ import annotations

from pai_runtime.plugin import hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_runtime.engine import Engine, Profile
    from pai_runtime.plugin.job_format import Problems, Value


@hookimpl
def pai_check_job(document: Value, problems: Problems) -> None:
    """Report all that OpenPAI would refuse or change in the document of a job."""
    from pai_openpai.job_check import check_for_openpai  # noqa: PLC0415 - slow, and not for the pods

    check_for_openpai(document, problems)


@hookimpl
def pai_engine(profile: Profile) -> Engine:
    """Open the cluster that a profile describes. Raises `InvalidInput`."""
    from pai_openpai.client.engine import OpenpaiCluster  # noqa: PLC0415 - as above

    return OpenpaiCluster(profile)
