"""Data written as YAML on one line, which is read as the same data."""

import json
import re
from typing import Any

from pai_runtime.document.document import plain_scalar
from pai_runtime.document.printable import printable

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:@+-]*(?<!:)")


def yaml_line(data: Any) -> str:
    """JSON, which is YAML; but a text without quotes that needs none. What is not seen is escaped."""
    if isinstance(data, str) and _PLAIN.fullmatch(data) and plain_scalar(data) == data:
        return data
    return printable(json.dumps(data, ensure_ascii=False))
