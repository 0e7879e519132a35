"""Why a message could not be sent, without what an exception may quote: the URL, a password, an answer."""

from __future__ import annotations

import ssl
from smtplib import SMTPException, SMTPNotSupportedError, SMTPRecipientsRefused, SMTPResponseException
from urllib.error import HTTPError, URLError


def fault(error: BaseException) -> str:
    """Describe an exception by its kind, and by a number or a text that the operating system chose."""
    if isinstance(error, HTTPError):
        return f"the server answered with HTTP status {error.code}"
    if isinstance(error, URLError) and isinstance(error.reason, BaseException):
        return fault(error.reason)
    if isinstance(error, SMTPResponseException):
        return f"the server answered with SMTP status {error.smtp_code}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the server is not valid: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, (SMTPException, ssl.SSLError)):
        return error.strerror
    return next((text for kind, text in _TEXTS.items() if isinstance(error, kind)), type(error).__name__)


_TEXTS = {
    SMTPRecipientsRefused: "the server refused all recipients",
    SMTPNotSupportedError: "the server does not support what is needed (STARTTLS, or a way to log in)",
    TimeoutError: "no answer in time",
}
