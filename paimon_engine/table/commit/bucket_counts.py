"""Whether partitions may have another number of buckets by now than when rows for them were written.

It is found out from snapshots and schemas, without a look at the partitions: nearly always nothing has changed.
"""

from __future__ import annotations

from paimon_engine.errors import NotFoundError
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.commit.request import IndexRead
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, numbered
from paimon_engine.table.state.snapshots import read_snapshot


class BucketCounts:
    """Looks for what may have changed the numbers of buckets since a writer read the table; `read` says when it did."""

    def __init__(self, table: TableHandle, read: IndexRead | None) -> None:
        """Nothing is read yet."""
        self._table = table
        self._read = read
        self._between: dict[int, Snapshot] = {}
        """Snapshots of others between the one that the writer read and the latest one, by id."""
        self._altered = False
        self._looked_up_to = -1
        """The newest schema of a snapshot when the schemas were looked at."""

    def forget_others(self) -> None:
        """Snapshots of others are read again: a rollback may have replaced those already read."""
        self._between.clear()

    def may_differ(self, latest: Snapshot) -> bool:
        """Whether a partition may have another number of buckets at `latest`.

        An OVERWRITE (rescale) may have changed it, also one whose snapshot has expired since. After the `bucket` option
        was altered, another writer may have created the partition, or a rollback may have restored an earlier one.

        Raises: StorageError.
        """
        if self._table.schema.bucket_mode is not BucketMode.FIXED:
            return False
        if self._read is None:
            # When the rows were written is not known.
            return self._were_altered(latest)
        if latest == self._read.snapshot:
            return False
        begin = 0 if self._read.snapshot is None else self._read.snapshot.id
        if latest.id <= begin:
            # The table was rolled back.
            return self._were_altered(latest)
        try:
            later = [self._snapshot(number) for number in range(begin + 1, latest.id)]
            if self._read.snapshot is not None and self._snapshot(begin) != self._read.snapshot:
                return self._were_altered(latest)
        except NotFoundError:
            return True
        if any(item.commit_kind is CommitKind.OVERWRITE for item in (*later, latest)):
            return True
        return self._were_altered(latest)

    def _snapshot(self, number: int) -> Snapshot:
        """A snapshot before the latest one; each is read once."""
        known = self._between.get(number)
        if known is None:
            known = self._between[number] = read_snapshot(self._table, number)
        return known

    def _were_altered(self, latest: Snapshot) -> bool:
        """Whether the `bucket` option was ever altered.

        If so, another writer may have created a partition with another number of buckets meanwhile.
        """
        table = self._table
        if table.schema_service is not None:
            return True
        # A later schema counts once a snapshot has it.
        if not self._altered and latest.schema_id > self._looked_up_to:
            ids = numbered(table.env, table.paths.schema_dir, SCHEMA_PREFIX)
            self._altered = len({table.schema_of(number).options.get("bucket") for number in ids}) > 1
            self._looked_up_to = max(ids, default=latest.schema_id)
        return self._altered
