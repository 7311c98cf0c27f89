"""Tables that are large in metadata: files, partitions, snapshots, tags, and files on disk that nothing needs."""

from __future__ import annotations

import os
import struct
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from paimon_engine import Catalog, Table, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import snapshot_to_json
from paimon_engine.meta.stats import SimpleStats
from paimon_engine.table.state.handle import TableHandle, bucket_path, load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.metadata_writer import MetadataWriter
from paimon_engine.table.state.snapshots import latest_snapshot

_COLUMNS: Final = 16
_FILES_PER_WRITE: Final = 10_000
_REAL_PARTITIONS: Final = 100
_IDS_PER_FILE: Final = 1_000
_FIRST_SLOT: Final = 12
"""Bytes of arity and null bits before the first column of a row of up to 56 columns."""
_COMPACTED_EVERY: Final = 10
_FILES_PER_ORPHAN: Final = 100
_OLD: Final = timedelta(days=3)
_MIDDLE: Final = [pa.field(f"c{number}", pa.string() if number % 3 else pa.int64()) for number in range(_COLUMNS - 2)]
ROWS: Final = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), *_MIDDLE, pa.field("day", pa.int32(), nullable=False)]
)
SMALL_ROWS: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
_KEYS: Final = 50
_TAGS: Final = 50


def rows_of(days: list[int]) -> pa.Table:
    """A row for each of the days."""
    numbers = range(len(days))
    texts = [f"text {number}" for number in numbers]
    middle = [pa.array(texts if pa.types.is_string(field.type) else numbers, field.type) for field in _MIDDLE]
    return pa.table([pa.array(numbers, pa.int64()), *middle, pa.array(days, pa.int32())], schema=ROWS)


def path_of(warehouse: str) -> str:
    """Where the table of a warehouse lies: each has one."""
    return f"{warehouse}/db.db/t"


def opened(warehouse: str) -> Table:
    return open_table(path_of(warehouse))


def handle(warehouse: str) -> TableHandle:
    """The table as the engine's layers below the facade know it."""
    return load_table(path_of(warehouse), EnvConfig(path_of(warehouse)))


# ── many files ──────────────────────────────────────────────────────────────────────────────────


def append_table(warehouse: str, files: int) -> None:
    """Live files of an append table without buckets, in metadata alone, in 100 partitions."""
    _with_files(warehouse, files, _REAL_PARTITIONS, keyed=False)


def table_with_tags(warehouse: str, files: int) -> None:
    """An append table of so many files and 50 tags, one after each of 50 further commits."""
    append_table(warehouse, files)
    table = opened(warehouse)
    for number in range(_TAGS):
        table.write(rows_of([number]))
        table.create_tag(f"tag-{number:02}")
    table.expire_snapshots(retain_max=1, retain_min=1)


def keyed_table(warehouse: str, files: int) -> None:
    """Live files of a primary-key table, in metadata alone, in 100 partitions of four buckets."""
    _with_files(warehouse, files, _REAL_PARTITIONS, keyed=True)


def partitioned_table(warehouse: str, partitions: int) -> None:
    """An append table with a file in each of so many partitions, in metadata alone."""
    _with_files(warehouse, partitions, partitions, keyed=False)


def _with_files(warehouse: str, files: int, partitions: int, *, keyed: bool) -> None:
    table = Catalog(warehouse).create_table(
        "db.t",
        schema=ROWS,
        partition_keys=["day"],
        primary_keys=["id", "day"] if keyed else (),
        options={"bucket": "4" if keyed else "-1"},
    )
    table.write(rows_of(list(range(_REAL_PARTITIONS))))
    add_files(handle(warehouse), files, partitions)


def add_files(table: TableHandle, files: int, partitions: int) -> None:
    """The next snapshot, which adds so many files like those of the latest one, in as many manifests as they need."""
    latest = latest_snapshot(table)
    assert latest is not None
    like = live_entries(table, latest)
    made = _entries(table, like, files, partitions)
    writer = MetadataWriter(table)
    manifests = []
    row_count = 0
    while part := list(islice(made, _FILES_PER_WRITE)):
        manifests += writer.manifests(part)
        row_count += sum(entry.file.row_count for entry in part)
    base, base_bytes = writer.manifest_list(writer.manifests(like))
    delta, delta_bytes = writer.manifest_list(manifests)
    newest = replace(
        latest,
        id=latest.id + 1,
        base_manifest_list=base,
        base_manifest_list_size=base_bytes,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_bytes,
        total_record_count=(latest.total_record_count or 0) + row_count,
        delta_record_count=row_count,
        commit_user=str(uuid.uuid4()),
    )
    table.env.storage.create(table.paths.snapshot(newest.id), snapshot_to_json(newest).encode())


def _entries(table: TableHandle, like: list[ManifestEntry], files: int, partitions: int) -> Iterator[ManifestEntry]:
    """Files partition by partition, as commits of a day bring them; in keyed tables one run at the highest level."""
    types = [field.type for field in table.schema.partition_type]
    for number in range(files):
        day, index = divmod(number * partitions, files)
        entry = like[day % len(like)]
        low, high = number * _IDS_PER_FILE, (number + 1) * _IDS_PER_FILE - 1
        file, stats = entry.file, entry.file.value_stats
        file = replace(
            file,
            name=f"data-{uuid.UUID(int=number + 1)}-0.{file.format}",
            level=5 if table.schema.primary_keys else 0,
            min_key=_with_first(file.min_key, low),
            max_key=_with_first(file.max_key, high),
            key_stats=_with_ids(file.key_stats, low, high),
            value_stats=_with_ids(stats, low, high),
            min_sequence_number=index,
            max_sequence_number=index,
        )
        yield replace(entry, partition=encode_row(types, [day], reserve_null=False), file=file)


def _with_ids(stats: SimpleStats, low: int, high: int) -> SimpleStats:
    first, last = _with_first(stats.min_values, low), _with_first(stats.max_values, high)
    return replace(stats, min_values=first, max_values=last)


def _with_first(row: bytes, number: int) -> bytes:
    """The binary row with another number in its first column; a row without columns as it is."""
    return row if row == EMPTY_ROW else row[:_FIRST_SLOT] + struct.pack("<q", number) + row[_FIRST_SLOT + 8 :]


# ── many snapshots and tags ─────────────────────────────────────────────────────────────────────


def history(warehouse: str, commits: int) -> None:
    """A keyed table of one bucket after so many commits of a row; every tenth of them compacts it."""
    _with_history(warehouse, commits, tagged_every=0)


def tagged_history(warehouse: str, tags: int) -> None:
    """The same after two commits for each of so many tags."""
    _with_history(warehouse, 2 * tags, tagged_every=2)


def expired_tagged_history(warehouse: str, tags: int) -> None:
    """The same after its snapshots have expired, so that the tags alone keep their files."""
    tagged_history(warehouse, tags)
    opened(warehouse).expire_snapshots(retain_max=1, retain_min=1)


def small_table(warehouse: str) -> Table:
    """A keyed table of one bucket."""
    return Catalog(warehouse).create_table("db.t", schema=SMALL_ROWS, primary_keys=["k"], options={"bucket": "1"})


def small_row(number: int) -> pa.Table:
    """A row whose key has come before."""
    return pa.table({"k": [number % _KEYS], "v": [f"text {number}"]}, schema=SMALL_ROWS)


def _with_history(warehouse: str, commits: int, *, tagged_every: int) -> None:
    table = small_table(warehouse)
    for number in range(1, commits + 1):
        if number % _COMPACTED_EVERY:
            table.write(small_row(number))
        else:
            table.compact(full=True)
        if tagged_every and number % tagged_every == 0:
            table.create_tag(f"tag-{number:05}")


def many_snapshots(warehouse: str, snapshots: int) -> None:
    """A table with so many snapshots that are all alike."""
    small_table(warehouse).write(small_row(1))
    table = handle(warehouse)
    latest = latest_snapshot(table)
    assert latest is not None
    for number in range(latest.id + 1, snapshots + 1):
        newest = replace(latest, id=number, commit_identifier=number, time_ms=latest.time_ms + number)
        table.env.storage.create(table.paths.snapshot(number), snapshot_to_json(newest).encode())


# ── files on disk ───────────────────────────────────────────────────────────────────────────────


def with_orphans(warehouse: str, files: int) -> None:
    """An append table whose files are there, though empty, and one orphan more for a hundred of them; all are old."""
    append_table(warehouse, files)
    table = handle(warehouse)
    old = time.time() - _OLD.total_seconds()
    for index, entry in enumerate(live_entries(table, latest_snapshot(table))):
        folder = Path(bucket_path(table, entry.partition, entry.bucket).removeprefix("file://"))
        folder.mkdir(parents=True, exist_ok=True)
        names = [entry.file.name, *([f"data-{uuid.uuid4()}-0.parquet"] if index % _FILES_PER_ORPHAN == 0 else [])]
        for name in names:
            (folder / name).touch()
            os.utime(folder / name, (old, old))
    for path in Path(path_of(warehouse)).rglob("*"):
        os.utime(path, (old, old))
