"""An SMTP server with STARTTLS and a login, as RFC 5321, 3207 and 4954 ask of one that relays nothing."""

import base64
import socketserver
import ssl
import threading
from pathlib import Path
from typing import Any


class SmtpServer(socketserver.ThreadingTCPServer):
    """A context manager; `messages` are those that were received, each after a login over TLS."""

    allow_reuse_address = True

    def __init__(self, certificate: Path, user: str, password: str, *, tls: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.port: int = self.server_address[1]
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.tls = tls
        self.login = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
        self.messages: list[bytes] = []

    def __enter__(self: "SmtpServer") -> "SmtpServer":  # noqa: PYI034 - Python 3.10 has no Self
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Session(socketserver.BaseRequestHandler):
    server: SmtpServer

    def handle(self) -> None:
        self.is_encrypted, self.is_in = False, False
        self.file: Any = self.request.makefile("rb")
        try:
            self._open(encrypt=self.server.tls)
            self._say("220 ready")
            while line := self.file.readline().decode().rstrip("\r\n"):
                if not self._answer(line):
                    return
        except OSError:
            pass  # a client that does not trust us has left
        finally:
            self.file.close()
            self.request.close()

    def _open(self, *, encrypt: bool) -> None:
        if encrypt:
            self.file.close()
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
            self.is_encrypted = True
        self.file = self.request.makefile("rb")

    def _say(self, text: str) -> None:
        self.request.sendall(f"{text}\r\n".encode())

    def _answer(self, line: str) -> bool:
        verb = line.partition(" ")[0].upper()
        if verb == "EHLO":
            more = ["AUTH PLAIN"] if self.is_encrypted else ["STARTTLS"]
            lines = ["hello", *more]
            for number, each in enumerate(lines):
                self._say(f"250{' ' if number == len(lines) - 1 else '-'}{each}")
        elif verb == "STARTTLS":
            self._say("220 go ahead")
            self._open(encrypt=True)
        elif verb == "AUTH":
            self.is_in = self.is_encrypted and line.rpartition(" ")[2] == self.server.login
            self._say("235 welcome" if self.is_in else "535 no")
        elif verb in ("MAIL", "RCPT"):
            self._say("250 ok" if self.is_in else "530 log in first")
        elif verb == "DATA":
            self._say("354 go on")
            received = []
            while (data := self.file.readline()) != b".\r\n":
                received.append(data)
            self.server.messages.append(b"".join(received))
            self._say("250 received")
        elif verb == "QUIT":
            self._say("221 bye")
            return False
        else:
            self._say("250 ok")
        return True
