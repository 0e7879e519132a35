"""Tables with aligned columns, whatever the cells contain."""

from collections.abc import Iterable, Sequence

from pai_document.printable import printable
from pai_runtime.terminal.text import columns_of, shortened


def table(rows: Iterable[Sequence[str]], width: int | None = None) -> list[str]:
    """Format rows, at least one, as lines with aligned columns, cut to `width` columns if given."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    widths[-1:] = [0]
    lines = ["  ".join(map(_padded, row, widths)).rstrip() for row in cells]
    return lines if width is None else [shortened(line, width) for line in lines]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - columns_of(cell))
