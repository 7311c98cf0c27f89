"""Reading splits: sections are merged one after another, delete records dropped, the filter applied, columns chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from paimon_engine.lsm.sections import Section
from paimon_engine.merge.deduplicate import drop_retracts
from paimon_engine.merge.frontier import merge_runs
from paimon_engine.merge.functions import merge_function, sequence_order
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options import check_readable
from paimon_engine.predicate import Predicate, columns_of, to_arrow_expression
from paimon_engine.table.file_format import bucket_path, read_data_file
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.scan import Split, plan_splits
from paimon_engine.types import to_arrow_schema


def read_schema(table: TableHandle, columns: Sequence[str] | None) -> pa.Schema:
    """Arrow schema of a read of these columns; all columns for None.

    Raises: InvalidArgumentError naming a column that does not exist.
    """
    row_type = table.schema.row_type
    return to_arrow_schema(row_type if columns is None else row_type.project(tuple(columns)))


def read_snapshot_rows(
    table: TableHandle,
    snapshot: Snapshot | None,
    *,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of a snapshot, bucket by bucket, in `read_schema`. The table must be at the snapshot's schema.

    Raises: UnsupportedError, InvalidArgumentError, NotFoundError, CorruptTableError.
    """
    check_readable(table.options)
    for split in plan_splits(table, snapshot, where):
        yield from read_split(table, split, columns=columns, where=where)


def read_split(
    table: TableHandle, split: Split, *, columns: Sequence[str] | None = None, where: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of one split, in `read_schema`."""
    schema = read_schema(table, columns)
    needed = _needed_columns(table, schema.names, where)
    directory = bucket_path(table, split.partition, split.bucket)
    for section in split.sections:
        for rows in _section_rows(table, directory, section, needed):
            chosen = _filtered(rows, where).select(schema.names)
            if chosen.num_rows:
                yield chosen.cast(schema)


def _needed_columns(table: TableHandle, wanted: Sequence[str], where: Predicate | None) -> list[str]:
    """Columns to decode, in table order: asked for, filtered on, and what the merge looks at."""
    needed = {*wanted, *(columns_of(where) if where is not None else ())}
    needed |= {*table.schema.trimmed_primary_keys, *table.options.sequence_fields}
    return [name for name in table.schema.row_type.names if name in needed]


def _filtered(rows: pa.RecordBatch, where: Predicate | None) -> pa.RecordBatch:
    if where is None or rows.num_rows == 0:
        return rows
    kept = pa.Table.from_batches([rows]).filter(to_arrow_expression(where, rows.schema)).combine_chunks()
    return kept.to_batches()[0] if kept.num_rows else rows.slice(0, 0)


def _section_rows(
    table: TableHandle, directory: str, section: Section, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    if table.schema.primary_keys:
        for rows in merge_section(table, directory, section, columns):
            yield drop_retracts(rows)
        return
    for run in section:
        for file in run:
            yield from read_data_file(table, directory, file, columns, with_system_columns=False)


def merge_section(
    table: TableHandle, directory: str, section: Section, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """One row per key, delete records included, sorted by key: sequence number, kind, then `columns`.

    `columns` must hold the key and the sequence fields.
    """
    oldest_first = sorted(section, key=_sequence_range)
    runs = [_run_rows(table, directory, run, columns) for run in oldest_first]
    if len(runs) == 1:
        yield from runs[0]
        return
    ranges = [_sequence_range(run) for run in oldest_first]
    disjoint = all(older[1] < newer[0] for older, newer in pairwise(ranges))
    order = replace(sequence_order(table.options), by_arrival=disjoint)
    merge = merge_function(table.options)
    for window in merge_runs(runs, table.schema.key_type, order):
        yield merge(window)


def _sequence_range(run: Sequence[DataFile]) -> tuple[int, int]:
    """Smallest and largest sequence number in a run."""
    return min(file.min_sequence_number for file in run), max(file.max_sequence_number for file in run)


def _run_rows(
    table: TableHandle, directory: str, run: Sequence[DataFile], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    for file in run:
        for rows in read_data_file(table, directory, file, columns, with_system_columns=True):
            # Records from before the option was set may still hold retracts.
            kept = drop_retracts(rows) if table.options.ignore_delete else rows
            if kept.num_rows:
                yield kept
