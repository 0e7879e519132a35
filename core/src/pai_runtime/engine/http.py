"""The HTTP client for engines that ask a server: bounded, with a deadline, and with secrets kept apart."""

from pai_runtime.network.answer import Answer, NoAnswer
from pai_runtime.network.authorization import basic, bearer
from pai_runtime.network.client import Bounds, Client, HttpRequest, NotConnected, OpenAnswer
from pai_runtime.network.deadline import Deadline
from pai_runtime.network.proxies import proxy_for
from pai_runtime.network.tls import client_context, system_trust
from pai_runtime.network.url import split_url

__all__ = [
    "Answer",
    "Bounds",
    "Client",
    "Deadline",
    "HttpRequest",
    "NoAnswer",
    "NotConnected",
    "OpenAnswer",
    "basic",
    "bearer",
    "client_context",
    "proxy_for",
    "split_url",
    "system_trust",
]
