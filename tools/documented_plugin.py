"""Writes the plugin that docs/writing-plugins.md begins with into a directory: what a reader has then."""

import re
import sys
from pathlib import Path

_FILE = re.compile(r"^`(pai-greet/\S+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "writing-plugins.md"


def main(folder: Path) -> None:
    text = DOCUMENT.read_text("utf-8")
    for name, content in _FILE.findall(text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
