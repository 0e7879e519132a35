"""The header Retry-After (RFC 9110, 10.2.3): when a server wants to be asked again."""

from email.utils import parsedate_to_datetime


def retry_after(value: str | None, now: float) -> float:
    """The seconds that a server asks to wait, at `now` (since the epoch); 0 if it says nothing of use."""
    value = (value or "").strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - now, 0)
    except (ValueError, OverflowError):
        return 0
