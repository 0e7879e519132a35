"""The page about the first plugin, done from its first line to its last, in an environment of its own.

Packages come from an index on this machine, which makes wheels of what the tests have installed: no network.
"""

import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.local_server import LocalServer
from tests.support import ROOT
from tests.test_documentation import COMMAND, blocks, shown_pattern

pytestmark = pytest.mark.process

PAGE = ROOT / "docs/first-plugin.md"
MARK = "-- end of command"


class Index(BaseHTTPRequestHandler):
    """`/NAME/` lists one wheel of the installed distribution, and `/NAME/FILE` is it."""

    def do_GET(self) -> None:
        _, project, file = self.path.split("/")
        try:
            installed = distribution(project)
        except PackageNotFoundError:
            return self.send_error(404)
        wheel = f"{project.replace('-', '_')}-{installed.version}-py3-none-any.whl"
        content = _wheel(project) if file else f'<!DOCTYPE html><a href="{wheel}">{wheel}</a>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/zip" if file else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        return None

    def log_message(self, *_: object) -> None:
        pass


def _wheel(project: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in distribution(project).files or ():
            if path.parts[0] != ".." and path.suffix != ".pyc":  # pip makes programs and byte code itself
                archive.write(path.locate(), path)
    return content.getvalue()


def _script(port: int) -> Iterator[tuple[str, str]]:
    """What one types, and the pattern of what it prints: any, where the page shows nothing."""
    for block in blocks(PAGE):
        if block.file:
            yield f"cat > {block.file} <<'END'\n{block.text}END", ""
        elif block.language == "console":
            for match in COMMAND.finditer(block.text):
                yield match["command"], shown_pattern(match["output"])
        elif block.language == "sh":
            for command in block.text.replace("\\\n", "").splitlines():
                yield command.replace("8000", str(port)), "(?:.*\n)*"


def _environment(folder: Path, index: str) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_INDEX_URL": index,
        "PIP_NO_COMPILE": "1",
    }


def _typed(commands: list[str], folder: Path, environment: dict[str, str]) -> list[str]:
    """What each command prints, up to the first one that fails."""
    ended = f'\ncode=$?; echo "{MARK} $code"; [ $code = 0 ] || exit\n'
    (folder / "typed.sh").write_text(ended.join([*commands, ""]), "utf-8")
    with (folder / "printed").open("w+", encoding="utf-8") as printed:
        shell = subprocess.Popen(
            ["bash", "../typed.sh"],
            cwd=folder / "checkout",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait(timeout=500)
        finally:
            with suppress(ProcessLookupError):  # its web server is still there, if it has started one
                os.killpg(shell.pid, signal.SIGKILL)
        printed.seek(0)
        return re.split(rf"^{MARK} 0\n", printed.read(), flags=re.MULTILINE)


@pytest.mark.timeout(600)
def test_the_page_leads_from_a_checkout_to_a_wheel_in_an_index_and_a_policy(tmp_path: Path) -> None:
    for project in ("core", "libraries/pai-document", "libraries/pai-plugin-kit", "libraries/pai-task"):
        source = ROOT / project
        ignored = shutil.ignore_patterns("tests", "__pycache__")
        shutil.copytree(source, tmp_path / "checkout" / project, ignore=ignored)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    steps = list(_script(port))
    with LocalServer(Index) as index:
        commands = [command for command, _ in steps]
        printed = _typed(commands, tmp_path, _environment(tmp_path, index.url))
    for (command, pattern), output in zip(steps, printed, strict=False):
        assert re.fullmatch(pattern, output), f"$ {command}\n{output}"
    assert len(printed) == len(steps) + 1
    assert any("http.server" in command for command in commands)
