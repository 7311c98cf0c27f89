"""The entry of a table in a Hive metastore gets another name, whatever becomes of the metastore's answers.

See `renaming` for the files.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Final

import tenacity

from paimon_engine.errors import NotFoundError, OutcomeUnknownError, StorageError
from paimon_engine.metastores.base import TableName
from paimon_engine.metastores.hive_entries import EntrySettings
from paimon_engine.servers.hive_client import HiveServers, HiveSession

_TWICE: Final = tenacity.Retrying(
    stop=tenacity.stop_after_attempt(2), retry=tenacity.retry_if_exception_type(StorageError), reraise=True
)
_UNTIL_SEEN: Final = tenacity.Retrying(
    stop=tenacity.stop_after_attempt(5),
    wait=tenacity.wait_exponential(multiplier=0.2),
    retry=tenacity.retry_if_result(lambda is_seen: not is_seen),
    retry_error_callback=lambda _: False,
)
"""A change whose answer got lost may still be under way: it is looked for during three seconds."""


def found_entry(session: HiveSession, name: TableName) -> Any | None:
    """The entry of a table of any kind; None if there is none. Raises: StorageError."""
    try:
        return session.read("get_table", name.database, name.table)
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class EntryRenaming:
    """From `name` to `new_name`; the table's directory was `old`, and is `new`, which may be the same."""

    servers: HiveServers
    settings: EntrySettings
    name: TableName
    new_name: TableName
    old: str
    new: str

    def run(self, entry: Any) -> None:
        """Gives the entry its new name and location: another one, or the metastore would move the directory itself.

        Raises: OutcomeUnknownError if it is not known which name the entry has; other errors of the metastore.
        """
        entry.dbName, entry.tableName = self.new_name.database, self.new_name.table
        if self.old != self.new:
            self.settings.put_table(entry, self.new)
        with self.servers.session() as session:
            context = self.settings.alter_context(session.types, entry)
            database, table = self.name.database, self.name.table
            try:
                session.change("alter_table_with_environment_context", database, table, entry, context)
            except OutcomeUnknownError:
                with contextlib.suppress(StorageError):
                    if _UNTIL_SEEN(self._has, self.new_name):
                        return
                raise

    def has_old_name(self) -> bool:
        """Whether the entry certainly has the old name still."""
        try:
            return self._has(self.name)
        except StorageError:
            return False

    def move_partitions(self) -> None:
        """Gives the partitions their new locations. Raises: OutcomeUnknownError."""
        try:
            _TWICE(self._move_partitions)
        except StorageError as error:
            raise OutcomeUnknownError(
                f"the table is {self.new_name} now, but its partitions may still be listed below {self.old}, which "
                f"Paimon's readers do not use; in Hive, ALTER TABLE … PARTITION … SET LOCATION corrects them: {error}"
            ) from error

    def _move_partitions(self) -> None:
        database, table = self.new_name.database, self.new_name.table
        with self.servers.session() as session:
            parts = session.read("get_partitions", database, table, -1)
            moved = [part for part in parts if self._move(part)]
            if moved:
                session.change("alter_partitions", database, table, moved)

    def _move(self, part: Any) -> bool:
        """Whether the partition was below the table's old directory; then its entry says where it is now."""
        location = self.settings.partition_location(part)
        if location is None or not location.startswith(f"{self.old}/"):
            return False
        self.settings.put_partition(part, f"{self.new}/{location.removeprefix(f'{self.old}/')}")
        return True

    def _has(self, name: TableName) -> bool:
        with self.servers.session() as session:
            return found_entry(session, name) is not None
