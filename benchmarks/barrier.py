"""barrier: 50 tasks of the ssh plugin wait for each other, each with an sshd of its own on this machine.

Targets: all are told that all answer, after one login to each.
"""

import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from pai_runtime.engines.local.ports import free_ports
from pai_runtime.plugin import UserError
from pai_ssh.barrier import Barrier
from pai_ssh.files import write_files
from pai_ssh.keys import keys_of_run
from pai_ssh.peers import Peer
from pai_ssh.scripts import FOLDER, PREPARE, SERVE

TASKS = 50
SECONDS = 120.0


def _serve(folder: Path, running: ExitStack) -> None:
    """An sshd as the plugin starts it, with its log in the folder."""
    environment = {**os.environ, FOLDER: str(folder), "PAI_WORK_DIR": str(folder)}
    with (folder / "log").open("wb") as log:
        sshd = running.enter_context(
            subprocess.Popen(["sh", "-c", PREPARE + SERVE], env=environment, stdout=log, stderr=log)
        )
    running.callback(sshd.terminate)


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        ports = free_ports(TASKS)
        peers = [Peer("task", index, "127.0.0.1", port) for index, port in enumerate(ports)]
        keys = keys_of_run({"run": "a text that nobody knows"})
        for peer in peers:
            write_files(Path(name, peer.name), keys, [], peer.port, peers)
            _serve(Path(name, peer.name), running)
        barrier = Barrier(peers, ["task"], SECONDS)
        began, cpu = time.monotonic(), time.process_time()

        def wait(peer: Peer) -> bool:
            try:
                barrier.wait(peer.name, Path(name, peer.name), lambda _: None)
            except UserError:
                return False
            return True

        with ThreadPoolExecutor(TASKS) as pool:
            passed = sum(pool.map(wait, peers))
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
        logins = sum(log.read_text().count("Accepted publickey") for log in Path(name).glob("*/log"))
    print(f"{passed} of {TASKS} tasks passed after {seconds:.1f} s, with {logins} logins")
    print(f"the leader, and those who wait for it, took {cpu:.1f} s of CPU together")
    missed = [] if passed == TASKS else [f"barrier: {TASKS - passed} tasks were not told"]
    return missed if logins == TASKS else [*missed, f"barrier: {logins} logins"]
