"""Rows written part by part to tables of every kind of bucket, as several tasks of one job write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from paimon_engine import Catalog, Table
from paimon_engine.env import EnvConfig
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.files.bucketing import BucketRows
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.write.part_writer import write_part
from paimon_engine.table.write.writer import write_rests, write_state

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
Rows = Sequence[tuple[int, int]]


OPTIONS: Mapping[str, Mapping[str, str]] = {
    "keyed": {"bucket": "2"},
    "with a changelog": {"bucket": "2", "changelog-producer": "input"},
    "postponed": {"bucket": "-2"},
    "append": {"bucket": "-1"},
    "append in buckets": {"bucket": "2", "bucket-key": "k"},
}


def new_table(path: Path, kind: str = "keyed", options: Mapping[str, str] | None = None) -> Table:
    keys = [] if kind.startswith("append") else ["k"]
    return Catalog(str(path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=keys, options={**OPTIONS[kind], **(options or {})}
    )


def handle_of(table: Table) -> TableHandle:
    return load_table(table.path, EnvConfig(table.path))


def batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(rows), 3):
        keys, values = zip(*rows[begin : begin + 3], strict=True)
        yield pa.record_batch([pa.array(keys, pa.int64()), pa.array(values, pa.int64())], schema=SCHEMA)


def write_parts(
    table: Table, parts: Sequence[Rows], own_file_bytes: int
) -> tuple[list[CommitMessage], list[BucketRows]]:
    """Writes and commits: the messages of all parts, and the rows that they handed on."""
    handle = handle_of(table)
    state = write_state(handle)
    messages: list[CommitMessage] = []
    rests: list[BucketRows] = []
    for number, rows in enumerate(parts):
        for made in write_part(handle, state, number, batches(rows), own_file_bytes=own_file_bytes):
            if isinstance(made, BucketRows):
                rests.append(made)
            else:
                messages += made
    by_bucket: dict[int, list[pa.RecordBatch]] = {}
    for rest in rests:
        by_bucket.setdefault(rest.bucket, []).append(rest.rows)
    late = [message for group in by_bucket.values() for message in write_rests(handle, state, group)]
    assert isinstance(commit(handle, CommitRequest([*messages, *late], CommitKind.APPEND, "user")), Committed)
    return messages, rests
