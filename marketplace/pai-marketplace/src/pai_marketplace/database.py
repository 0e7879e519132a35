"""The database: SQLite in a file, or PostgreSQL by URL; its schema is brought up to date by Alembic."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.orm import Session

from pai_marketplace.errors import Invalid

_MIGRATIONS: Final = Path(__file__).with_name("migrations")
_BUSY_SECONDS: Final = 30
_UPGRADING: Final = 0x706169
"""The number of a lock of PostgreSQL that only this program takes."""


class Database:
    """A database at a URL of SQLAlchemy. Raises `Invalid` for a URL that names none of the two kinds."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        self._writing = self.engine.execution_options(pai_writes=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session that sees one state of the database."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open a session that is committed at the end, unless an exception leaves it.

        On SQLite, nobody else writes meanwhile; on PostgreSQL, what is changed has to be locked.
        """
        with Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    def upgrade(self, revision: str = "head") -> None:
        """Bring the schema up to date, or up to a revision."""
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        with self._writing.begin() as connection:
            if connection.dialect.name == "postgresql":  # several servers may start at once
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADING})")
            config.attributes["connection"] = connection
            command.upgrade(config, revision)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _engine(text: str) -> Engine:
    try:
        url = make_url(text)
        if url.get_backend_name() == "sqlite":
            return _sqlite(create_engine(url, connect_args={"timeout": _BUSY_SECONDS}))
        if url.get_backend_name() == "postgresql":
            return create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError):
        pass  # without its text, which may hold a password
    except ModuleNotFoundError as error:
        raise Invalid(f"{error}; to install it: pip install 'pai-marketplace[postgresql]'") from None
    raise Invalid("expected the URL of a database, such as sqlite:///market.db or postgresql://host/market")


def _sqlite(engine: Engine) -> Engine:
    """Make SQLite's transactions real ones, which survive the end of the process and of the machine."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None  # sqlite3 would begin transactions on its own, too late
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        writes = connection.get_execution_options().get("pai_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
