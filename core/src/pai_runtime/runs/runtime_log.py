"""The lines of ``runtime.log``, as the supervisor writes them."""

import re

_MARK = re.compile(r"\[[^]]*\] \[openpai-runtime\] ")


def without_mark(line: str) -> str:
    """A line of the log without the date and the mark that all of them have."""
    return _MARK.sub("", line, count=1)
