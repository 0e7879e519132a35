"""A real NFS server, Debian's nfs-ganesha: version 4 on the loopback address, for one folder."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_CONFIGURATION = """\
NFS_CORE_PARAM {{
    Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false;
}}
NFSV4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{folder}/recovery"; }}
EXPORT {{
    Export_Id = 1; Path = "{export}"; Pseudo = /export; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }}
}}
"""


@contextlib.contextmanager
def nfs_server(folder: Path) -> Iterator[int]:
    """Serve ``folder/export`` as ``/export``; the port."""
    export = folder / "export"
    export.mkdir()
    (folder / "recovery").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    configuration = folder / "ganesha.conf"
    configuration.write_text(_CONFIGURATION.format(port=port, folder=folder, export=export))
    log = folder / "ganesha.log"
    files = ["-f", str(configuration), "-L", str(log), "-p", str(folder / "pid")]
    with subprocess.Popen(["ganesha.nfsd", "-F", *files], stdin=subprocess.DEVNULL) as server:
        try:
            _wait(port, server, log)
            yield port
        finally:
            server.kill()


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        if server.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(log.read_text(errors="replace"))
        time.sleep(0.05)
