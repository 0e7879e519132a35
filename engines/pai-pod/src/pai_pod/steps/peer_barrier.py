"""The init step that finds the other tasks of a run whose pods an engine has made."""

from pai_pod.errors import BarrierFailed, InitFailed
from pai_pod.peer_barrier import find_addresses
from pai_pod.placement import UnknownTask, own_task, peer_names
from pai_pod.steps import Addresses, LoadedJob, Pod
from pai_runtime.task.exit_codes import INIT_FAILED


def run(pod: Pod, loaded: LoadedJob) -> Addresses | None:
    """Find the addresses of all tasks, and wait for all of them if they are a gang."""
    if pod.peers is None:
        return None
    try:
        own, names = own_task(loaded.job, pod.environment), peer_names(loaded.job, pod.peers)
        return Addresses(find_addresses(pod.peers, names, own, pod.environment, pod.log.say))
    except UnknownTask as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    except BarrierFailed as error:
        raise InitFailed(error.code, str(error)) from None
