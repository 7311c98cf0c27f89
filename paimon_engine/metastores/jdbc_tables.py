"""The tables of a JDBC catalog, with the names and columns that Java gives them.

`paimon_tables` and `paimon_database_properties` are as in 0.9; `paimon_table_properties` came with 1.x. The engine has
no views and never creates their table (`paimon_views`, 2.x). Where it exists, its names count as taken.

Source: `JdbcUtils`, `AbstractDistributedLockDialect` of the Java library.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    String,
    Table,
    create_engine,
    inspect,
    text,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import NullPool
from sqlalchemy.types import TIMESTAMP

from paimon_engine.errors import (
    InvalidArgumentError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedError,
    shown,
    shown_cause,
)

LOCK_KEY_LENGTH = 255
_KEY_LENGTH = 255
_VALUE_LENGTH = 1000
_SQLITE_WAIT_S = 30

_METADATA = MetaData()


def _key(name: str) -> Column[str]:
    return Column(name, String(_KEY_LENGTH), primary_key=True, nullable=False)


TABLES = Table("paimon_tables", _METADATA, _key("catalog_key"), _key("database_name"), _key("table_name"))
DATABASE_PROPERTIES = Table(
    "paimon_database_properties",
    _METADATA,
    _key("catalog_key"),
    _key("database_name"),
    Column("property_key", String(_KEY_LENGTH), primary_key=True, nullable=True),
    Column("property_value", String(_VALUE_LENGTH)),
)
TABLE_PROPERTIES = Table(
    "paimon_table_properties",
    _METADATA,
    _key("catalog_key"),
    _key("database_name"),
    _key("table_name"),
    _key("property_key"),
    Column("property_value", String(_VALUE_LENGTH)),
)
VIEWS = Table("paimon_views", MetaData(), _key("catalog_key"), _key("database_name"), _key("view_name"))


def lock_table(key_length: int) -> Table:
    """The table of commit locks; its key's length is an option of the catalog."""
    return Table(
        "paimon_distributed_locks",
        MetaData(),
        Column("lock_id", String(key_length), primary_key=True, nullable=False),
        Column("acquired_at", TIMESTAMP, server_default=text("CURRENT_TIMESTAMP"), nullable=False),
        Column("expire_time_seconds", BigInteger, server_default=text("0"), nullable=False),
    )


@lru_cache(maxsize=16)
def _engine(_process: int, url: URL) -> Engine:
    # The process id is part of the cache's key, and there is no pool, since a forked process must not use
    # connections of its parent.
    arguments = {"timeout": _SQLITE_WAIT_S} if url.get_backend_name() == "sqlite" else {}
    try:
        return create_engine(url, poolclass=NullPool, connect_args=arguments, hide_parameters=True)
    except (ImportError, NoSuchModuleError) as error:
        raise UnsupportedError(
            f"the driver for {url.get_backend_name()} is not installed ({error}); "
            "for PostgreSQL: pip install 'airflow-provider-paimon[postgres]'"
        ) from None


def engine_for(url: URL) -> Engine:
    """The engine of this process for a database. Raises: UnsupportedError without a driver for it."""
    return _engine(os.getpid(), url)


@contextlib.contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that changes something, committed when the block ends.

    Raises: OutcomeUnknownError if the commit got no answer; StorageError for other errors of the database, except
    `IntegrityError`: callers need it, since it says that another process inserted the same row first.
    """
    ends = False
    try:
        with engine.begin() as connection:
            yield connection
            ends = True
    except IntegrityError:
        raise
    except DBAPIError as error:
        if ends:
            what = f"{_text(engine, error)}; what was to be changed may or may not be"
            raise OutcomeUnknownError(what) from shown_cause(error)
        raise StorageError(_text(engine, error)) from shown_cause(error)


@contextlib.contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that changes nothing. Raises: StorageError."""
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise StorageError(_text(engine, error)) from shown_cause(error)


def _text(engine: Engine, error: DBAPIError) -> str:
    """What the database or its driver says, on one line."""
    address = engine.url.render_as_string(hide_password=True)
    return f"the JDBC catalog at {address}: {' '.join(str(error.orig).split())}"


def check_properties(engine: Engine, properties: Mapping[str, str]) -> None:
    """Checks that the database can keep these: SQLite keeps any text.

    Raises: InvalidArgumentError, naming the property.
    """
    if engine.dialect.name == "sqlite":
        return
    for key, value in properties.items():
        if len(key) > _KEY_LENGTH or len(value) > _VALUE_LENGTH or "\0" in f"{key}{value}":
            raise InvalidArgumentError(
                f"the JDBC catalog cannot keep {shown(key)}: names have up to {_KEY_LENGTH} characters, values up to "
                f"{_VALUE_LENGTH}, and none of them is NUL; shorten it, or leave it out"
            )


def make_tables(engine: Engine, tables: list[Table]) -> None:
    """Creates those that are missing; other processes may do the same at the same time. Raises: StorageError."""
    for table in tables:
        if _has(engine, table):
            continue
        try:
            with transaction(engine) as connection:
                table.create(connection, checkfirst=False)
        except (StorageError, DBAPIError):
            if not _has(engine, table):
                raise


def _has(engine: Engine, table: Table) -> bool:
    with reading(engine) as connection:
        return inspect(connection).has_table(table.name)


def catalog_tables() -> list[Table]:
    """The tables that every catalog has."""
    return [TABLES, DATABASE_PROPERTIES, TABLE_PROPERTIES]


def has_views(engine: Engine) -> bool:
    """Whether a newer Java catalog has created the table of views."""
    return _has(engine, VIEWS)
