"""Addresses of services of this machine."""

from socket import gethostname

from pai_document.printable import printable
from pai_document.url import is_this_machine, split_url
from pai_runtime.runs.errors import CannotEnter


def check_address(address: str) -> None:
    """Raise `CannotEnter` for what is no http or https URL of this machine: a task can write any."""
    url = split_url(address)
    host = url.hostname or "" if url is not None and url.username is None else ""
    if not (is_this_machine(host) or (host and host == gethostname().lower())):
        raise CannotEnter(f"expected an http or https URL of this machine, found {printable(address)}")
