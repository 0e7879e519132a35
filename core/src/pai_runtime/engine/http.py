"""The HTTP client for engines that ask a server: bounded, with a deadline, and with secrets kept apart."""

from pai_runtime.network.answer import Answer, NoAnswer
from pai_runtime.network.authorization import basic, bearer
from pai_runtime.network.client import Bounds, Client, HttpRequest, NotConnected, OpenAnswer, Upgraded
from pai_runtime.network.deadline import Deadline
from pai_runtime.network.proxies import proxy_for
from pai_runtime.network.tls import EncryptedKey, client_context, show_certificate, system_trust
from pai_runtime.network.url import split_url

__all__ = [
    "Answer",
    "Bounds",
    "Client",
    "Deadline",
    "EncryptedKey",
    "HttpRequest",
    "NoAnswer",
    "NotConnected",
    "OpenAnswer",
    "Upgraded",
    "basic",
    "bearer",
    "client_context",
    "proxy_for",
    "show_certificate",
    "split_url",
    "system_trust",
]
