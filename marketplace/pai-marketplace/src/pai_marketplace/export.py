"""The static export: the files that readers get below ``/v1``, for any web server."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy.orm import Session

from pai_marketplace import items
from pai_marketplace.database import Database
from pai_marketplace.errors import Conflict
from pai_marketplace.exchange import json_bytes
from pai_marketplace.own_api import PER_INDEX, index_document, item_document
from pai_marketplace.viewer import ANYBODY

_INDEX: Final = "index.json"


def export(database: Database, folder: Path) -> int:
    """Write what everybody may read to a folder; returns the number of items.

    Each file is complete whenever it is read, and the index is written last. What is withdrawn is removed.
    Raises `Conflict` for a folder that holds something else than an earlier export.
    """
    if folder.exists() and any(folder.iterdir()) and not _is_export(folder):
        raise Conflict(f"{folder} is neither empty nor an export of a marketplace")
    written = set()
    with database.reading() as session:
        total = items.search(session, ANYBODY, items.Search(limit=1)).total
        for path, content in _files(session, total):
            _write(folder / path, content)
            written.add(folder / path)
    for pattern in ("items/**/*", "sha256/*", "index-*.json"):
        for old in sorted(folder.glob(pattern), reverse=True):
            if old.is_dir() and not old.is_symlink():
                if not any(old.iterdir()):
                    old.rmdir()
            elif old not in written:
                old.unlink()
    return total


def export_newest(database: Database, folder: Path) -> int:
    """Write the newest version of each item that everybody may read as OWNER/NAME.yaml, for git."""
    with database.reading() as session:
        found = items.search(session, ANYBODY, items.Search(order="name", limit=_all(session))).items
        newest = items.newest(session, ANYBODY, found)
        for item in found:
            _write(folder / item.owner / f"{item.name}.yaml", newest[item.id][1].encode())
    return len(found)


def _all(session: Session) -> int:
    return max(1, items.search(session, ANYBODY, items.Search(limit=1)).total)


def _files(session: Session, total: int) -> Iterator[tuple[str, bytes]]:
    for page in range(1, max(1, -(-total // PER_INDEX)) + 1):
        wanted = items.Search(order="name", offset=(page - 1) * PER_INDEX, limit=PER_INDEX)
        for item in items.search(session, ANYBODY, wanted).items:
            for version in items.versions(session, ANYBODY, item):
                content = items.content(session, version).encode()
                yield f"items/{item.owner}/{item.name}/{version.version}.yaml", content
                yield f"sha256/{version.digest}.yaml", content
            yield f"items/{item.owner}/{item.name}.json", json_bytes(item_document(session, ANYBODY, item))
    for page in range(max(1, -(-total // PER_INDEX)), 0, -1):
        name = _INDEX if page == 1 else f"index-{page}.json"
        yield name, json_bytes(index_document(session, ANYBODY, page))


def _is_export(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / _INDEX).read_bytes()).get("apiVersion") == 1)
    except (OSError, ValueError, AttributeError):
        return False


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    aside.write_bytes(content)
    os.replace(aside, path)  # noqa: PTH105 - as elsewhere
