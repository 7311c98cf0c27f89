"""The commit lock of a JDBC catalog: a row that only one process can insert, as its key is unique.

The holder deletes the row to release the lock. Any process may delete a row that is older than its
`expire_time_seconds` (`lock-acquire-timeout`), so that a holder that died blocks others for a limited time only. Rows
are the same as Java's, so writers of both engines wait for each other.

Source: `JdbcCatalogLock`, `JdbcDistributedLockDialect` of the Java library. Difference: release deletes the row only if
it is the one that this process inserted, so it cannot release the lock of another holder after its own has expired.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import tenacity
from sqlalchemy import (
    URL,
    ColumnElement,
    Engine,
    String,
    Table,
    cast,
    delete,
    extract,
    func,
    insert,
    literal_column,
    select,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import Float

from paimon_engine.errors import ConflictError, InvalidArgumentError
from paimon_engine.metastores.config import CatalogConfig
from paimon_engine.metastores.jdbc_tables import LOCK_KEY_LENGTH, engine_for, lock_table, make_tables, transaction
from paimon_engine.metastores.jdbc_url import url_of
from paimon_engine.units import parse_duration_ms

_FIRST_SLEEP_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class LockSettings:
    """Limits of waiting for the lock.

    `check_max_sleep_ms`: longest pause between two attempts. `acquire_timeout_ms`: total time to wait, and the age at
    which a lock expires. `key_length`: longest lock id, in characters.
    """

    check_max_sleep_ms: int = 8_000
    acquire_timeout_ms: int = 480_000
    key_length: int = LOCK_KEY_LENGTH

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LockSettings:
        """Settings of a catalog's options. Raises: InvalidArgumentError."""
        length = options.get("lock-key-max-length", str(LOCK_KEY_LENGTH))
        if not length.isdigit():
            raise InvalidArgumentError(f"catalog option 'lock-key-max-length' = {length!r} is not an integer")
        return cls(
            parse_duration_ms(options.get("lock-check-max-sleep", "8 s")),
            parse_duration_ms(options.get("lock-acquire-timeout", "8 min")),
            int(length),
        )


class JdbcLock:
    """`Lock` by its id. Threads of this process wait for each other first, so only one of them polls the database."""

    def __init__(self, url: URL, lock_id: str, settings: LockSettings) -> None:
        """Raises: InvalidArgumentError if the id is longer than the column of the lock table."""
        if len(lock_id) > settings.key_length:
            raise InvalidArgumentError(
                f"the lock id {lock_id!r} is longer than 'lock-key-max-length' = '{settings.key_length}'"
            )
        self._url = url
        self._lock_id = lock_id
        self._settings = settings
        self._table = lock_table(settings.key_length)
        self._thread_lock = threading.Lock()
        self._acquired_at: Any = None

    def acquire(self) -> None:
        timeout_s = self._settings.acquire_timeout_ms / 1000
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_delay(timeout_s),
            wait=tenacity.wait_exponential(multiplier=_FIRST_SLEEP_S, max=self._settings.check_max_sleep_ms / 1000),
            retry=tenacity.retry_if_result(lambda acquired_at: acquired_at is None),
        )
        if not self._thread_lock.acquire(timeout=timeout_s):
            raise self._timed_out()
        try:
            self._acquired_at = retrying(self._try)
        except BaseException as error:
            self._thread_lock.release()
            if isinstance(error, tenacity.RetryError):
                raise self._timed_out() from error
            raise

    def release(self) -> bool:
        try:
            with transaction(engine_for(self._url)) as connection:
                since = cast(self._table.c.acquired_at, String)
                ours = delete(self._table).where(self._table.c.lock_id == self._lock_id, since == self._acquired_at)
                return bool(connection.execute(ours).rowcount)
        finally:
            self._thread_lock.release()

    def _try(self) -> Any | None:
        """Inserts the row; the time at which the lock was acquired, None if another process holds it."""
        engine = engine_for(self._url)
        with transaction(engine) as connection:
            overdue = _age_s(engine, self._table) > self._table.c.expire_time_seconds
            connection.execute(delete(self._table).where(overdue, self._table.c.lock_id == self._lock_id))
        try:
            with transaction(engine) as connection:
                values = {"lock_id": self._lock_id, "expire_time_seconds": self._settings.acquire_timeout_ms // 1000}
                connection.execute(insert(self._table).values(values))
                # As text: SQLite stores seconds without fractions, but its driver compares timestamps with fractions.
                since = select(cast(self._table.c.acquired_at, String))
                return connection.scalar(since.where(self._table.c.lock_id == self._lock_id))
        except IntegrityError:
            return None

    def _timed_out(self) -> ConflictError:
        return ConflictError(
            f"the commit lock {self._lock_id!r} could not be acquired within {self._settings.acquire_timeout_ms} ms; "
            "raise 'lock-acquire-timeout', or look up its row in the table paimon_distributed_locks"
        )


def lock_of(config: CatalogConfig, lock_id: str) -> JdbcLock:
    """The lock of that id in a catalog's database. Raises: InvalidArgumentError, UnsupportedError."""
    values = config.values()
    return JdbcLock(url_of(values), lock_id, LockSettings.of(values))


def make_lock_table(engine: Engine, settings: LockSettings) -> None:
    """Creates the table of locks if it is missing. Raises: StorageError."""
    make_tables(engine, [lock_table(settings.key_length)])


def _age_s(engine: Engine, table: Table) -> ColumnElement[Any]:
    """Seconds since the row was inserted, by the clock of the database."""
    if engine.dialect.name == "sqlite":
        return func.strftime("%s", "now", type_=Float) - func.strftime("%s", table.c.acquired_at, type_=Float)
    # The column has no time zone. CURRENT_TIMESTAMP filled it with the session's local time, as LOCALTIMESTAMP is.
    return extract("epoch", literal_column("LOCALTIMESTAMP") - table.c.acquired_at)
