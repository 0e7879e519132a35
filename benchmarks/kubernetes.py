"""kubernetes: a process that reads a Framework of 10,000 tasks from the Kubernetes API, over TLS.

Beside it the import alone of the official client, which is installed for this and left out where that fails.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import BARE, BARE_PYTHON, Thing, beside_bare_python, in_turn, process
from tests.certificates import authority, server_certificate
from tests.fault_server import FaultServer, Reply

RUNS = 5
TASKS = 10_000
OURS, OFFICIAL = f"import and GET, {TASKS} tasks", "import of the official client"
MOST_TIMES = 12
READ = """
import sys, time
from pathlib import Path
from pai_openpai.api_server import get_object
until = time.monotonic() + 60
environment = {"KUBERNETES_SERVICE_HOST": sys.argv[1], "KUBERNETES_SERVICE_PORT": sys.argv[2]}
get_object(environment, "/apis", lambda: until - time.monotonic(), Path(sys.argv[3]))
"""


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cluster = authority("cluster")
        certificate = server_certificate(cluster, ["127.0.0.1"]).write(folder / "server.pem")
        (folder / "ca.crt").write_bytes(cluster.pem)
        (folder / "token").write_text("token")
        things: dict[str, Thing] = {BARE: process(BARE_PYTHON)}
        with FaultServer(Reply(body=_framework()), certificate=certificate) as server:
            argv = [sys.executable, "-I", "-c", READ, server.host, str(server.port), name]
            things[OURS] = process(argv)
            if official := _official_client(folder / "venv"):
                things[OFFICIAL] = process([official, "-I", "-c", "from kubernetes import client, config"])
            measured = in_turn(RUNS, things)
    return beside_bare_python("", measured, OURS, MOST_TIMES)


def _framework() -> bytes:
    """Not what a Framework says, but as large as one: it is not looked into."""
    address = {"podHostIP": "10.0.0.1", "podUID": "0" * 36, "podName": "x" * 50}
    tasks = [{"index": index, "attemptStatus": address} for index in range(TASKS)]
    return json.dumps({"status": {"attemptStatus": {"taskRoleStatuses": [{"taskStatuses": tasks}]}}}).encode()


def _official_client(folder: Path) -> str:
    """An interpreter that has the official client, which nothing else here needs; empty if there is none."""
    python = str(folder / "bin" / "python")
    for argv in (
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "-qq", "--disable-pip-version-check", "--no-input", "install", "kubernetes"],
    ):
        if subprocess.run(argv, capture_output=True, check=False).returncode:
            print("  (the official client could not be installed)\n")
            return ""
    return python
