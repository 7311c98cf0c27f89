"""The commit lock of a Hive metastore: an exclusive lock of the table, the same that Java's catalog takes.

The metastore forgets a lock whose holder is silent for `metastore.txn.timeout`, 300 s unless configured otherwise, so a
holder that died blocks others for that time only.

Source: `HiveCatalogLock` of the Java library.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_engine.errors import ConflictError, NotFoundError, StorageError
from paimon_engine.metastores.config import CatalogConfig
from paimon_engine.servers.hive_client import HiveServers, HiveSession, user_name
from paimon_engine.units import parse_duration_ms

logger = logging.getLogger(__name__)

_FIRST_SLEEP_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class HiveLockSettings:
    """`check_max_sleep_ms`: longest pause between two looks; `acquire_timeout_ms`: total time to wait."""

    check_max_sleep_ms: int = 8_000
    acquire_timeout_ms: int = 480_000

    @classmethod
    def of(cls, options: Mapping[str, str]) -> HiveLockSettings:
        """Settings of a catalog's options. Raises: InvalidArgumentError."""
        return cls(
            parse_duration_ms(options.get("lock-check-max-sleep", "8 s")),
            parse_duration_ms(options.get("lock-acquire-timeout", "8 min")),
        )


class HiveLock:
    """`Lock` of one table. Threads of this process wait for each other first, so only one of them asks the server."""

    def __init__(self, servers: HiveServers, database: str, table: str, settings: HiveLockSettings) -> None:
        self._servers = servers
        self._database = database
        self._table = table
        self._settings = settings
        self._thread_lock = threading.Lock()
        self._id: int | None = None

    def acquire(self) -> None:
        begun = time.monotonic()
        if not self._thread_lock.acquire(timeout=self._settings.acquire_timeout_ms / 1000):
            raise self._timed_out()
        try:
            with self._servers.session() as session:
                self._wait(session, begun)
        except BaseException:
            self._thread_lock.release()
            raise

    def release(self) -> bool:
        number, self._id = self._id, None
        try:
            with self._servers.session() as session:
                # The answer to an unlock is the same for a lock that has expired.
                session.read("check_lock", session.types.CheckLockRequest(lockid=number))
                session.change("unlock", session.types.UnlockRequest(lockid=number))
                return True
        except NotFoundError:
            return False  # it has expired
        finally:
            self._thread_lock.release()

    def _wait(self, session: HiveSession, begun: float) -> None:
        """Requests the lock and waits until it is ours. Raises: ConflictError after the time is up."""
        types = session.types
        answer = session.change("lock", self._request(types))
        try:
            state = self._state(session, answer, begun)
        except BaseException:
            self._give_up(session, answer.lockid)
            raise
        if state != types.LockState.ACQUIRED:
            self._give_up(session, answer.lockid)
            raise self._timed_out()
        self._id = answer.lockid

    def _state(self, session: HiveSession, answer: Any, begun: float) -> int:
        """The state of a request once it is not waiting any more, or time is up."""
        types, sleep_s = session.types, _FIRST_SLEEP_S
        while answer.state == types.LockState.WAITING:
            if (time.monotonic() - begun) * 1000 >= self._settings.acquire_timeout_ms:
                break
            sleep_s = min(sleep_s * 2, self._settings.check_max_sleep_ms / 1000)
            time.sleep(sleep_s)
            answer = session.read("check_lock", types.CheckLockRequest(lockid=answer.lockid))
        return int(answer.state)

    def _request(self, types: Any) -> Any:
        part = types.LockComponent(
            type=types.LockType.EXCLUSIVE, level=types.LockLevel.TABLE, dbname=self._database, tablename=self._table
        )
        return types.LockRequest(component=[part], user=user_name(), hostname=socket.gethostname())

    def _give_up(self, session: HiveSession, number: int) -> None:
        """Withdraws a request that would otherwise get the lock later, when nobody waits for it."""
        try:
            session.change("unlock", session.types.UnlockRequest(lockid=number))
        except (NotFoundError, StorageError) as error:
            logger.warning("the lock %d of %s has to expire: %s", number, self, error)

    def _timed_out(self) -> ConflictError:
        return ConflictError(
            f"the commit lock of {self} could not be acquired within {self._settings.acquire_timeout_ms} ms; raise "
            "'lock-acquire-timeout', or ask the metastore who holds it (SHOW LOCKS in Hive)"
        )

    def __str__(self) -> str:
        return f"{self._database}.{self._table} in the Hive metastore at {self._servers}"


def lock_of(config: CatalogConfig, lock_id: str) -> HiveLock:
    """The lock of a table, `database.table`, of a catalog. Raises: InvalidArgumentError."""
    database, _, table = lock_id.partition(".")
    return HiveLock(HiveServers.of(config.values()), database, table, HiveLockSettings.of(config.values()))
