"""crowd: 200 clients of the git plugin at once, at a server that allows 10 requests a second.

Each clone needs 3 requests, so a minute is the least that it can take.

Target: all get through in the time that the plugin gives itself.
"""

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from pathlib import Path

from pai_git.cloning import CloneFailed, clone
from pai_git.request import read_request
from pai_git.retries import Retries
from tests.git_server import GitServer, admits, make_repository

CLIENTS = 200
RATE = 10


def main() -> list[str]:
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "NO_PROXY": "*"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_repository(folder / "repositories" / "code")
        with GitServer(folder / "repositories") as server:
            server.admit = admits(RATE, time.monotonic)
            began = time.monotonic()

            def client(number: int) -> float | None:
                request = read_request({"repo_uri": f"{server.url}/code"})
                own = folder / str(number)
                own.mkdir()
                try:
                    clone(request, None, own, Retries(request.retry_seconds))
                except CloneFailed:
                    return None
                return time.monotonic() - began

            with (
                Path(os.devnull).open("w", encoding="utf-8") as nowhere,
                redirect_stderr(nowhere),
                ThreadPoolExecutor(CLIENTS) as pool,
            ):
                ended = list(pool.map(client, range(CLIENTS)))
            seconds = sorted(each for each in ended if each is not None)
            print(f"{len(seconds)} of {CLIENTS} clients got through, with {len(server.requests)} requests")
            print(
                f"half of them after {seconds[len(seconds) // 2]:.0f} s, the last after {seconds[-1]:.0f} s"
            )
    return [] if len(seconds) == CLIENTS else [f"crowd: {CLIENTS - len(seconds)} clients gave up"]
