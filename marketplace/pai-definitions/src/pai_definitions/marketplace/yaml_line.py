"""Data as YAML on one line."""

import json
import re
from typing import Any

from pai_document.document import plain_scalar
from pai_document.printable import printable

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:@+-]*(?<!:)")


def yaml_line(data: Any) -> str:
    """Format data as YAML on one line: as JSON, or as an unquoted string where that is safe."""
    if isinstance(data, str) and _PLAIN.fullmatch(data) and plain_scalar(data) == data:
        return data
    return printable(json.dumps(data, ensure_ascii=False))
