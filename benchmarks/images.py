"""images: the check of one image, the whole process, at a server on this machine that answers at once.

The target is a multiple of `python -I -c pass`, which is measured beside it. The import of urllib3 is a
third of it. HTTPS adds the reading of the certificates that the system trusts.
"""

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from benchmarks.measure import BARE, BARE_PYTHON, beside_bare_python, in_turn, process
from pai_pod.registry import MANIFEST_TYPES

RUNS = 15
CHECK, IMPORT, TRUST = "the check", "its imports", "the system's certificates"
MOST_TIMES = 12

_IMPORT = "from pai_network import deadline; from pai_pod import image_check"
_CHECK = """
verdict = image_check.check_image("127.0.0.1:{}/image", None, deadline.Deadline(60), print)
assert verdict.outcome == "exists", verdict
"""
_TRUST = "import ssl; ssl.create_default_context()"


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", MANIFEST_TYPES[0])
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing is to be said of requests."""


def main() -> list[str]:
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        measured = in_turn(
            RUNS,
            {
                CHECK: process([sys.executable, "-I", "-c", _IMPORT + _CHECK.format(server.server_port)]),
                IMPORT: process([sys.executable, "-I", "-c", _IMPORT]),
                TRUST: process([sys.executable, "-I", "-c", _TRUST]),
                BARE: process(BARE_PYTHON),
            },
        )
        server.shutdown()
    return beside_bare_python("", measured, CHECK, MOST_TIMES)
