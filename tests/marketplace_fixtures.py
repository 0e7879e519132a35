"""Marketplaces, and both databases: a test with one of these runs on SQLite and on PostgreSQL.

They are known to all tests, so what they are made of is imported only where they are used.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pai_marketplace.database import Database
    from tests.postgresql import PostgreSql
    from tests.running_marketplace import RunningMarketplace


@pytest.fixture(scope="session")
def postgresql() -> "Iterator[PostgreSql]":
    from tests.postgresql import PostgreSql  # noqa: PLC0415 - as above

    with PostgreSql() as running:
        yield running


_MARKS = [pytest.mark.needs("postgresql"), pytest.mark.process]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=_MARKS)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/market.db"
    server: PostgreSql = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def database(database_url: str, tmp_path: Path) -> "Iterator[Database]":
    from pai_marketplace.database import Database  # noqa: PLC0415 - as above
    from tests.running_marketplace import sqlite_file  # noqa: PLC0415 - as above

    database = Database(database_url)
    if database_url.startswith("sqlite:"):
        (tmp_path / "market.db").write_bytes(sqlite_file()[0])
    else:
        database.upgrade()
    yield database
    database.close()


@pytest.fixture
def market(tmp_path: Path) -> "Iterator[RunningMarketplace]":
    """A marketplace on SQLite."""
    from tests.running_marketplace import RunningMarketplace  # noqa: PLC0415 - as above

    with RunningMarketplace(tmp_path) as running:
        yield running
