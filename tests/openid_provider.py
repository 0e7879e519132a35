"""Canaille, a real OpenID provider, as a process: dora is in the groups team, admins and elsewhere there."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.job_environment import job_environment
from tests.support import ROOT

PASSWORD: Final = "a long password"
"""Hers."""
SECRET: Final = "of the market"
"""That of the client ``market``."""


@contextmanager
def canaille(port: int, back: str) -> Iterator[str]:
    """The URL of the provider."""
    program, script = job_environment("canaille") / "python", ROOT / "tests/canaille_server.py"
    argv = [str(program), str(script), str(port), back]
    environment = {"AUTHLIB_INSECURE_TRANSPORT": "1"}
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield f"http://localhost:{port}"
        finally:
            process.kill()
