"""Language servers, driven over their standard streams as an editor drives them; among them that for YAML."""

import fcntl
import json
import os
import selectors
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support import ROOT

_VERSION: Final = "1.19.2"
_LATEST: Final = 120.0


def language_server() -> Path:
    """Its program, which npm installs once. Raises CalledProcessError if npm does not reach a registry."""
    folder = ROOT / f".venv/yaml-language-server-{_VERSION}"
    folder.parent.mkdir(exist_ok=True)
    stamp = folder / "stamp"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes that run tests may want it at the same time
        if not stamp.exists():
            options = [
                "--silent",
                "--no-save",
                "--no-package-lock",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
            ]
            install: list[str | Path] = [
                "npm",
                "install",
                *options,
                "--prefix",
                folder,
                f"yaml-language-server@{_VERSION}",
            ]
            subprocess.run(install, check=True)
            stamp.touch()
    return folder / "node_modules/.bin/yaml-language-server"


class Editor:
    """An editor that has opened files."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._data = b""
        self._last = 0
        self._notified: list[dict[str, Any]] = []

    def open(self, path: Path) -> list[dict[str, Any]]:
        """What the server says is wrong in a file, once it has looked."""
        document = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": path.read_text()}
        self.notify("textDocument/didOpen", textDocument=document)
        return self._told(path)

    def save(self, path: Path) -> list[dict[str, Any]]:
        """What the server says is wrong in a file that is open and has been written."""
        changed = {"uri": path.as_uri(), "version": 2}
        everything = [{"text": path.read_text()}]
        self.notify("textDocument/didChange", textDocument=changed, contentChanges=everything)
        self.notify("textDocument/didSave", textDocument={"uri": path.as_uri()})
        return self._told(path)

    def _told(self, path: Path) -> list[dict[str, Any]]:
        while True:
            for each in self._notified:
                if (
                    each["method"] == "textDocument/publishDiagnostics"
                    and each["params"]["uri"] == path.as_uri()
                ):
                    self._notified.remove(each)
                    found: list[dict[str, Any]] = each["params"]["diagnostics"]
                    return found
            self._take(self._receive())

    def completions(self, path: Path, line: int, character: int) -> Mapping[str, dict[str, Any]]:
        """What the server offers at a place in an open file, by its label; line and character from 0."""
        found = self._at("completion", path, line, character)
        return {
            item["label"]: item for item in (found.get("items", ()) if isinstance(found, dict) else found)
        }

    def hover(self, path: Path, line: int, character: int) -> str:
        """What the server says of a place in a file that is open."""
        found = self._at("hover", path, line, character)
        return json.dumps(found["contents"]) if found else ""

    def request(self, method: str, **params: Any) -> Any:
        self._last += 1
        number = self._last
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self._take(message)

    def notify(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def _at(self, what: str, path: Path, line: int, character: int) -> Any:
        place = {"line": line, "character": character}
        return self.request(f"textDocument/{what}", textDocument={"uri": path.as_uri()}, position=place)

    def _take(self, message: dict[str, Any]) -> None:
        """A notification, or a question of the server."""
        if "id" not in message:
            self._notified.append(message)
        elif message["method"] == "workspace/configuration":
            settings = {
                "yaml": {
                    "schemaStore": {"enable": False},
                    "completion": True,
                    "validate": True,
                    "hover": True,
                }
            }
            asked = message["params"]["items"]
            self._send({"id": message["id"], "result": [settings.get(each.get("section")) for each in asked]})
        else:
            self._send({"id": message["id"], "result": None})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        while b"\r\n\r\n" not in self._data:
            self._more()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        size = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")
        )
        while len(self._data) < size:
            self._more()
        message: dict[str, Any] = json.loads(self._data[:size])
        self._data = self._data[size:]
        return message

    def _more(self) -> None:
        assert self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(_LATEST), f"the language server has said nothing within {_LATEST} s"
        data = os.read(self._process.stdout.fileno(), 1 << 16)
        assert data, "the language server has ended"
        self._data += data


@contextmanager
def editor(folder: Path, *server: str | Path) -> Iterator[Editor]:
    """An editor with a language server, that for YAML if none is named, whose workspace is a folder."""
    argv = server or (language_server(), "--stdio")
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            started = Editor(process)
            capabilities = {
                "workspace": {"configuration": True},
                "textDocument": {"completion": {"completionItem": {"documentationFormat": ["markdown"]}}},
            }
            started.request(
                "initialize", processId=os.getpid(), rootUri=folder.as_uri(), capabilities=capabilities
            )
            started.notify("initialized")
            yield started
        finally:
            process.kill()
