"""Numbers and sizes formatted for people."""


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun in the right form, such as ``1 retry`` or ``2 retries``."""
    return f"{number} {one if number == 1 else many}"


def size_text(size: float) -> str:
    """Format a number of bytes, such as ``512 B`` or ``12.3 MiB``."""
    if size < 1024:  # noqa: PLR2004 - of bytes
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:  # noqa: PLR2004 - as above
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"
