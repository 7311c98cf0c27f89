"""A table in memory, or on disk, that tests write, compact and read in one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine.arrow_types import from_arrow_field
from paimon_engine.env import Env, EnvConfig
from paimon_engine.lsm.plan import CompactTask, plan_bucket
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.paths import TablePaths
from paimon_engine.meta.schema import new_schema, schema_to_json
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.storage import MemoryStorage, storage_for
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.compaction.rewrite import RewriteTask, rewrite
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.read.open_read import open_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.read.reader import read_schema
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries, live_index_files
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.write.writer import write_batches, write_state
from paimon_engine.types import RowType

NOON_MS = 1_356_998_400_000
KIND = "_KIND"


@dataclass
class Subject:
    """The table under test."""

    handle: TableHandle
    commits: int = 0

    @property
    def path(self) -> str:
        return self.handle.paths.root

    def messages(self, rows: pa.RecordBatch | pa.Table | Mapping[str, Any], **options: Any) -> list[CommitMessage]:
        """Written, but not committed."""
        table = rows if isinstance(rows, pa.Table | pa.RecordBatch) else self._table(rows)
        batches = table.to_batches() if isinstance(table, pa.Table) else [table]
        kind = KIND if KIND in table.schema.names else None
        return write_batches(self.handle, write_state(self.handle, **options), batches, kind_column=kind)

    def write(self, rows: pa.RecordBatch | pa.Table | Mapping[str, Any]) -> Subject:
        """Rows as Arrow or as columns; the column `_KIND` holds row kinds."""
        return self.commit(self.messages(rows), CommitKind.APPEND)

    def compact(self, *, full: bool = True, **how: Any) -> Subject:
        """Compacts every bucket that the plan finds worth it."""
        messages = self.compacted(full=full, **how)
        return self.commit(messages, CommitKind.COMPACT) if messages else self

    def compacted(self, *, full: bool = True, **how: Any) -> list[CommitMessage]:
        """What compactions of the buckets have written, not committed; `how` are members of `RewriteTask`."""
        index = live_index_files(self.handle, self.snapshot)
        messages = []
        for task in self.plan(full=full):
            vectors = tuple(file for file in index if (file.partition, file.bucket) == (task.partition, task.bucket))
            messages.append(rewrite(self.handle.env, RewriteTask(self.handle.plain(), task, vectors, **how)))
        return messages

    def plan(self, *, full: bool = True) -> list[CompactTask]:
        """Compaction tasks of all buckets."""
        schema = self.handle.schema
        found = [
            plan_bucket(partition, bucket, members[0].total_buckets, files, schema=schema, full=full, now_ms=0)
            for (partition, bucket), members in by_bucket(live_entries(self.handle, self.snapshot)).items()
            for files in [[member.file for member in members]]
        ]
        return [task for task in found if isinstance(task, CompactTask)]

    def commit(self, messages: Sequence[CommitMessage], kind: CommitKind) -> Subject:
        self.commits += 1
        assert isinstance(commit(self.handle, CommitRequest(messages, kind, f"user-{self.commits}")), Committed)
        return self

    @property
    def snapshot(self) -> Any:
        return latest_snapshot(self.handle)

    @property
    def files(self) -> list[DataFile]:
        """Live data files."""
        return [entry.file for entry in live_entries(self.handle, self.snapshot)]

    def read(self, where: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The table's rows, sorted by all columns that can be sorted."""
        names = None if columns is None else tuple(columns)
        schema, batches = open_read(self.handle, ReadRequest(columns=names, where=where))
        rows = pa.Table.from_batches(batches, schema)
        keys = [(field.name, "ascending") for field in rows.schema if not pa.types.is_nested(field.type)]
        return rows.sort_by(keys) if keys else rows

    def rows(self, where: str | None = None, columns: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """The table's rows as tuples, sorted."""
        return [tuple(row.values()) for row in self.read(where, columns).to_pylist()]

    def data_paths(self) -> list[str]:
        """Data files in the store, live or not."""
        walked = self.handle.env.storage.walk(self.path)
        return sorted(info.path for info in walked if info.path.endswith(".parquet"))

    def _table(self, columns: Mapping[str, Any]) -> pa.Table:
        types = {field.name: field.type for field in read_schema(self.handle, None)}
        return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})


MakeTable = Callable[..., Subject]


@pytest.fixture
def make_table(tmp_path: Path) -> Iterator[MakeTable]:
    """`make_table({"k": pa.int64(), …}, primary_keys=["k"], options={…})`; in memory unless `on_disk`."""
    made = 0

    def make(
        columns: Mapping[str, pa.DataType] | pa.Schema,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        on_disk: bool = False,
    ) -> Subject:
        nonlocal made
        made += 1
        root = f"{tmp_path}/db.db/t{made}" if on_disk else f"memory://test/db.db/t{made}"
        env = Env(storage_for(root, {}) if on_disk else MemoryStorage(), clock=lambda: NOON_MS)
        schema = new_schema(
            RowType(tuple(from_arrow_field(field) for field in pa.schema(columns))),
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options={"bucket": "1"} if options is None and primary_keys else options or {},
            comment=None,
            time_ms=NOON_MS,
        )
        assert env.storage.create(TablePaths(root).schema(0), schema_to_json(schema).encode())
        return Subject(load_table(root, EnvConfig(root), env=env))

    yield make
