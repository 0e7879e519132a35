"""A message by e-mail, over SMTP."""

from __future__ import annotations

import socket
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from smtplib import SMTP, SMTP_SSL
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pai_notify.message import Message

_PORTS = {"starttls": 587, "tls": 465, "none": 25}


def send(given: Mapping[str, Any], message: Message, seconds: float) -> None:
    """Send a message by the server of the parameters. Raises OSError, SMTPException or ValueError."""
    security = given.get("security", "starttls")
    where = given["server"], given.get("port", _PORTS[security])
    own, context = socket.gethostname(), ssl.create_default_context()
    # Authorities of clusters often have no key identifier, which Python refuses from 3.13 on.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if security == "tls":
        connection: SMTP = SMTP_SSL(*where, local_hostname=own, timeout=seconds, context=context)
    else:
        connection = SMTP(*where, local_hostname=own, timeout=seconds)
    with connection:
        if security == "starttls":
            connection.starttls(context=context)
        if "user" in given:
            connection.login(given["user"], given["password"])
        connection.send_message(mail(given, message))


def mail(given: Mapping[str, Any], message: Message) -> EmailMessage:
    """Return a message as an e-mail in plain text. Raises ValueError for an address with a line end."""
    email = EmailMessage()
    email["From"] = given["from"]
    email["To"] = ", ".join(given["to"])
    email["Subject"] = " ".join(message.title.split())  # without what ends lines, such as U+2028
    email["Date"] = formatdate()
    email["Message-ID"] = make_msgid(domain="pai-runtime.invalid")
    email["Auto-Submitted"] = "auto-generated"
    email.set_content(message.text)
    return email
