"""The plugin ``preflight_peers``: checks before the command that the tasks of a role fit together.

All tasks of a role form a ring. What is wrong ends the setup, with a line ``preflight: NAME: …`` for each
fault; exit rules give it an exit code that a platform retries, perhaps on another node.
"""

import os
import sys
from typing import Final

from pai_distributed.addresses import address_of
from pai_distributed.ring import Measured, PeerFault, Place, measure
from pai_runtime.plugin import Contribution, Task, Use, hookimpl, task_variables

_PORT: Final = "preflight_peers"
MINUTES: Final = 10.0
"""The default time to wait for the others."""
CLOCK_SECONDS: Final = 5.0
"""How far apart clocks may be by default: so far, what began a failure is still told from what followed."""
_RETRIED: Final = 251
"""The exit code after which OpenPAI waits and tries again; Kubernetes tries again, as after most others."""
_MB: Final = 1e6

_FAULTS: Final = {
    "PreflightPeers": "The tasks of the role do not all reach each other.",
    "PreflightBandwidth": "The network between two tasks is slower than the job asks for.",
    "PreflightClock": "The clocks of two nodes are too far apart.",
}


@hookimpl
def pai_prerequisite(use: Use) -> Contribution:  # noqa: ARG001 - as a hook has it
    """Say what the faults mean."""
    return Contribution(
        exit_rules=[
            {
                "containerExitCode": _RETRIED,
                "phrase": name,
                "behavior": "TRANSIENT",
                "reason": reason,
                "solution": [
                    "Run the job again, on other nodes if possible",
                    "Report the nodes to their operator",
                ],
                "patterns": [{"platformLogRegex": f"preflight: {name}: .*"}],
            }
            for name, reason in _FAULTS.items()
        ]
    )


@hookimpl
def pai_task_starts(use: Use, task: Task) -> None:
    """Check the peers. Exits with 1 if anything is wrong."""
    count = task.instances[task.role]
    if count == 1:
        return
    if not task.gang:  # one that is started again alone would wait for peers that have long passed
        sys.stdout.write("[WARNING] preflight_peers: nothing is checked, as tasks do not start together\n")
        return
    try:
        measured = measure(_place(task, count), 60 * use.parameters.get("timeoutMinutes", MINUTES))
    except PeerFault as fault:
        found = [("PreflightPeers", f"{task.role}, {fault}")]
    else:
        found = _faults(use, f"{task.role}/{(task.index - 1) % count}", measured)
    for name, text in found:
        sys.stdout.write(f"preflight: {name}: {text}\n")
    if found:
        sys.exit(1)


def _place(task: Task, count: int) -> Place:
    told = task_variables(os.environ)
    addresses = tuple(address_of(told, task.role, index, _PORT) for index in range(count))
    return Place(task.index, addresses, f"{task.run} {task.role}")


def _faults(use: Use, peer: str, measured: Measured) -> list[tuple[str, str]]:
    rate, apart = measured.bytes_per_second / _MB, abs(measured.clock_ahead)
    direction = "ahead of" if measured.clock_ahead > 0 else "behind"
    clock = f"its clock is {apart:.3f} s {direction} this one"
    sys.stdout.write(f"[INFO] preflight_peers: {rate:.0f} MB/s from {peer}; {clock}\n")
    least, most = use.parameters.get("mbPerSecond", 0), use.parameters.get("clockSeconds", CLOCK_SECONDS)
    found = []
    if rate < least:
        found.append(("PreflightBandwidth", f"{rate:.3g} MB/s from {peer}, expected {least:g}"))
    if apart > most:
        found.append(("PreflightClock", f"{peer}: {clock}, expected at most {most:g} s"))
    return found
