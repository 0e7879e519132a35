"""The plugin ``com.microsoft.pai.runtimeplugin.ssh``, for ssh into tasks and between them."""

import os
import sys
from pathlib import Path

from pai_runtime.plugin import Contribution, Service, ShellStep, Task, Use, UserError, hookimpl
from pai_ssh.files import can_have_terminals, write_files
from pai_ssh.peers import find_peers
from pai_ssh.request import read_request
from pai_ssh.scripts import CHECKED, FOLDER, PREPARE, PROBE, SERVE

SECRETS = ("run", "jobSSH", "sshKeys")
"""The platform's secrets that are keys, or from which keys are derived."""


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """Contribute a service with sshd beside the command. Raises `UserError` for invalid parameters."""
    warnings = read_request(use, task).warnings
    service = Service("ssh", SERVE, probe=PROBE, required=use.failure_policy == "fail")
    return Contribution(
        {FOLDER: str(_folder(task))},
        [ShellStep("taskStarts", PREPARE)],
        [service],
        secrets=SECRETS,
        warnings=warnings,
    )


@hookimpl
def pai_init(use: Use, task: Task) -> None:
    """Create the keys, and the files around them."""
    from pai_ssh.keys import keys_of_run  # noqa: PLC0415 - cryptography is slow to import

    first = _folder(task) / "use"
    if first.exists() and first.read_text("utf-8") != use.source:
        raise UserError(
            f"ssh is set up in this task by the use at {first.read_text('utf-8')} too; remove one of the two"
        )
    request = read_request(use, task)
    keys = keys_of_run(use.secrets)
    for pair in (keys.host, keys.job):
        _hide(pair.private)
    if not (request.job or keys.users or request.keys):
        _say("[WARNING] ssh: nobody can log in: jobssh is off, and there is no public key of a user")
    if not can_have_terminals():
        _say(
            "[WARNING] ssh: sessions have no terminal in an isolated task of an ordinary user; commands work"
        )
    peers = find_peers(task, os.environ) if request.job else None
    write_files(_folder(task), keys, request.keys, task.ports["ssh"][0], peers)
    first.write_text(use.source, "utf-8")


@hookimpl
def pai_task_starts(use: Use, task: Task) -> None:
    """Wait at the barrier; the services of the use are running already."""
    request = read_request(use, task)
    if not request.barrier:
        return
    if not (_folder(task) / CHECKED).exists():
        raise UserError("sshd was not started, so no task can reach this one")
    from pai_ssh.barrier import Barrier  # noqa: PLC0415 - paramiko is slow to import

    peers = [peer for peer in find_peers(task, os.environ) if peer.role in request.barrier]
    barrier = Barrier(peers, request.waiting, request.seconds)
    barrier.wait(f"{task.role}-{task.index}", _folder(task), _say)


def _folder(task: Task) -> Path:
    return task.private / "ssh"


def _hide(private_key: str) -> None:
    """Mask every line of a private key in the logs, in case the task prints it."""
    lines = [line for line in private_key.splitlines() if "PRIVATE KEY" not in line]
    with Path(os.environ["PAI_MASK"]).open("a") as masks:
        masks.writelines(f"{line}\n" for line in lines)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
