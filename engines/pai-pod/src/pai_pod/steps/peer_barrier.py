"""The init step that finds the other tasks of a run whose pods an engine has made."""

from pai_pod.errors import BarrierFailed, InitFailed
from pai_pod.peer_barrier import find_addresses
from pai_pod.peers import FILE
from pai_pod.placement import UnknownTask, own_task, peer_names
from pai_pod.steps import Addresses, LoadedJob, Pod
from pai_task.exit_codes import INIT_FAILED


def skipped(pod: Pod) -> str:
    """Return why the step is skipped: no engine has made the pod."""
    return "" if pod.peers else f"there is no {FILE} in the configuration of this pod"


def run(pod: Pod, loaded: LoadedJob) -> Addresses | None:
    """Find the addresses of all tasks, and wait for all of them if they are a gang."""
    if pod.peers is None:
        return None  # see `skipped`
    try:
        own, names = own_task(loaded.job, pod.environment), peer_names(loaded.job, pod.peers)
        return Addresses(find_addresses(pod.peers, names, own, pod.environment, pod.log.say))
    except UnknownTask as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    except BarrierFailed as error:
        raise InitFailed(error.code, str(error)) from None
