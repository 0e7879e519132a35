"""The barrier, at which the tasks of a job wait until every one of them can be reached by ssh.

1. The first task that waits, the leader, asks every one: it logs in with the job's key, again and again until
   it can.
2. When all have answered, or the time is over, it tells each that waits and answered how it went, over the
   connection that it has kept. Nobody goes on, and perhaps ends, before the leader has reached all.
3. The others only wait for a file in which they are told so. They ask nobody.

So a job of n tasks has n logins and not n², and a task that is already done when a late one comes cannot
be taken for a missing one.
"""

import json
import logging
import os
import pwd
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from pai_runtime.plugin import UserError, backoff
from pai_ssh.files import HOST
from pai_ssh.peers import Peer
from pai_ssh.scripts import ACCOUNTS, FOLDER

AT_ONCE = 32
"""Maximum number of tasks that the leader contacts concurrently."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
"""Maximum seconds between two rounds."""
LOGIN = 15.0
"""Timeout in seconds of a login, which is tried again in the next round."""
LATE = 30.0
"""Seconds that the others wait longer than the leader, to learn from it who was missing."""

VERDICT = "verdict"
"""The file that tells a task the result: the names of missing tasks, as JSON."""
_TELL = f'cat >"${FOLDER}/{VERDICT}.part" && mv "${FOLDER}/{VERDICT}.part" "${FOLDER}/{VERDICT}"'

Say = Callable[[str], None]


@dataclass(frozen=True)
class Barrier:
    """A barrier: all `peers` have to answer within `seconds`; tasks of the roles in `waiting` wait for it."""

    peers: list[Peer]
    waiting: Collection[str]
    seconds: float

    def wait(self, own: str, folder: Path, say: Say) -> None:
        """Wait in the task `own`; `folder` has the keys. Raises `UserError` at the timeout."""
        # A login that does not succeed yet is no error, and needs no traceback in the log.
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        leader = next(peer.name for peer in self.peers if peer.role in self.waiting)
        say(f"[INFO] ssh barrier: waiting up to {self.seconds:g} seconds for {len(self.peers)} tasks")
        missing = _lead(self, folder) if own == leader else _follow(leader, folder, self.seconds + LATE)
        if missing:
            raise UserError(f"no answer by ssh within {self.seconds:g} seconds from {', '.join(missing)}")
        say(f"[INFO] ssh barrier: all {len(self.peers)} tasks answer")


def _lead(barrier: Barrier, folder: Path) -> list[str]:
    """Contact all peers, then tell those that wait; return the names of those that did not answer."""
    peers, until = barrier.peers, time.monotonic() + barrier.seconds
    login = _Login(folder)
    rounds = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while True:
            left = [peer for peer in peers if peer.name not in login.clients]
            list(pool.map(login.attempt, left))
            missing = [peer.name for peer in left if peer.name not in login.clients]
            if not missing or time.monotonic() >= until:
                break
            rounds += 1
            time.sleep(min(backoff(rounds, FIRST_PAUSE, LONGEST_PAUSE), max(until - time.monotonic(), 0)))
        waiting = [peer.name for peer in peers if peer.role in barrier.waiting]
        told = [client for name, client in login.clients.items() if name in waiting]
        list(pool.map(lambda client: _tell(client, missing), told))
    for client in login.clients.values():
        client.close()
    return missing


def _follow(leader: str, folder: Path, seconds: float) -> list[str]:
    """Return the missing peers that the leader reports; the leader itself if it reports nothing."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            missing: list[str] = json.loads((folder / VERDICT).read_bytes())
        except FileNotFoundError:
            time.sleep(0.1)
        else:
            return missing
    return [leader]


@dataclass(frozen=True)
class _Login:
    """Logins into tasks with the job's key; `clients` are the connections by name."""

    folder: Path
    clients: dict[str, paramiko.SSHClient] = field(default_factory=dict)

    def attempt(self, peer: Peer) -> None:
        """Try to log in once."""
        client = paramiko.SSHClient()
        kind, encoded = (self.folder / "known_hosts").read_text().removeprefix(HOST).split()
        line = paramiko.hostkeys.HostKeyEntry.from_line(f"[{peer.host}]:{peer.port} {kind} {encoded}")
        if line is None or line.key is None:
            raise UserError(f"{self.folder / 'known_hosts'} is damaged")
        client.get_host_keys().add(line.hostnames[0], kind, line.key)
        try:
            client.connect(
                peer.host,
                peer.port,
                self._user,
                pkey=paramiko.PKey.from_path(self.folder / "key"),
                allow_agent=False,
                look_for_keys=False,
                timeout=LOGIN,
                banner_timeout=LOGIN,
                auth_timeout=LOGIN,
            )
        except (OSError, EOFError, paramiko.SSHException):
            client.close()  # not there yet, or not ready: the next round asks again
        else:
            self.clients[peer.name] = client

    @property
    def _user(self) -> str:
        """The user of the other tasks; ``root`` with the bundle's sshd, since images may differ in names."""
        return "root" if (self.folder / ACCOUNTS).exists() else pwd.getpwuid(os.geteuid()).pw_name


def _tell(client: paramiko.SSHClient, missing: Iterable[str]) -> None:
    try:
        stdin, stdout, _ = client.exec_command(_TELL, timeout=LOGIN)
        stdin.write(json.dumps(list(missing)))
        stdin.channel.shutdown_write()
        stdout.channel.recv_exit_status()
    except (OSError, EOFError, paramiko.SSHException):
        pass  # it has ended in the meantime, and its own record says why
