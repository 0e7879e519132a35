"""Both databases: each test that has one of these fixtures runs on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_marketplace.database import Database
from tests.postgresql import PostgreSql
from tests.running_marketplace import RunningMarketplace


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSql]:
    with PostgreSql() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/market.db"
    server: PostgreSql = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    database.upgrade()
    yield database
    database.close()


@pytest.fixture
def market(tmp_path: Path) -> Iterator[RunningMarketplace]:
    """A marketplace on SQLite."""
    with RunningMarketplace(f"sqlite:///{tmp_path}/market.db") as running:
        yield running
