"""Backup and restore: all tables in one file of JSON lines, the same for both databases."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import func, insert, select, text

from pai_marketplace.database import Database
from pai_marketplace.errors import Conflict, Invalid
from pai_marketplace.models import Account, Audit, Base

_FORMAT: Final = "pai-marketplace backup 1"
_AT_ONCE: Final = 500


def backup(database: Database, path: Path) -> int:
    """Write one state of the database to a file that only its owner reads; returns the number of rows.

    It holds no token, only their digests.
    """
    aside, rows = path.with_name(f".{path.name}.new"), 0
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as raw, gzip.open(raw, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"format": _FORMAT}) + "\n")
        with database.reading() as session:
            if session.get_bind().dialect.name == "postgresql":
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            for table in Base.metadata.sorted_tables:
                for row in session.execute(select(table)).mappings():
                    file.write(json.dumps({"table": table.name, "row": dict(row)}, ensure_ascii=False) + "\n")
                    rows += 1
        file.write(json.dumps({"rows": rows}) + "\n")
    os.replace(aside, path)  # noqa: PTH105 - as elsewhere
    return rows


def restore(database: Database, path: Path) -> int:
    """Fill an empty database from a backup, all of it or nothing; returns the number of rows.

    Raises `Conflict` if the database is not empty, `Invalid` for a file that is no whole backup.
    """
    with database.writing() as session:
        if session.scalar(select(func.count()).select_from(Account)):
            raise Conflict("the database is not empty; restore into an empty one")
        rows, pending, table_name = 0, list[dict[str, Any]](), ""
        for name, row in _rows(path):
            if name != table_name or len(pending) == _AT_ONCE:
                _insert(session, table_name, pending)
                pending, table_name = [], name
            pending.append(row)
            rows += 1
        _insert(session, table_name, pending)
        if session.get_bind().dialect.name == "postgresql":
            last = session.scalar(select(func.max(Audit.id)))
            if last:
                session.execute(
                    text("SELECT setval(pg_get_serial_sequence('audit', 'id'), :last)"), {"last": last}
                )
    return rows


def _insert(session: Any, name: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        session.execute(insert(Base.metadata.tables[name]), rows)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            if json.loads(file.readline()) != {"format": _FORMAT}:
                raise Invalid(f"{path} is no backup of a marketplace")
            for line in file:
                entry = json.loads(line)
                if "rows" in entry:
                    if entry["rows"] != rows:
                        break
                    return
                if entry["table"] not in Base.metadata.tables:
                    break
                rows += 1
                yield entry["table"], entry["row"]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise Invalid(f"{path} cannot be read as a backup: {error}") from None
    raise Invalid(f"{path} is no whole backup")
