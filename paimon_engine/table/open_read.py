"""A read from request to rows: locate what is asked for, check it, then stream it.

Everything that is wrong with the request itself is said before the first row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.layout import cast_rows
from paimon_engine.predicate import as_predicate
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.incremental import read_changes, read_difference
from paimon_engine.table.level_mode import check_mode
from paimon_engine.table.read import Rows, check_rows, read_splits
from paimon_engine.table.read_request import Changes, Difference, ReadRequest, State, locate, locate_fallback
from paimon_engine.table.scan import FileChoice, plan_splits, visible_entries


def open_read(
    table: TableHandle, request: ReadRequest, *, keeps_retracts: bool = False, only_highest_level: bool = False
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Schema and rows of a read.

    With `keeps_retracts` delete records and old values come out too; with `only_highest_level` the rows of a
    primary-key table are those that a full compaction has seen, without a merge.

    Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError.
    """
    if request.limit is not None and request.limit < 0:
        raise InvalidArgumentError(f"limit={request.limit}; a limit is 0 or more")
    handle, scope = locate(table, request)
    where = as_predicate(request.where)
    rows = Rows(request.columns, where, request.with_row_kinds, keeps_retracts)
    schema = check_rows(handle, rows)
    fallback = locate_fallback(handle, request, scope)
    match scope:
        case State():
            check_mode(handle, scope.snapshot)
            batches = _state_rows(handle, scope, rows, only_highest_level=only_highest_level)
        case Changes():
            batches = read_changes(handle, scope, rows)
        case Difference():
            check_mode(handle, scope.before, scope.after)
            batches = read_difference(handle, scope, rows)
    if fallback is not None:
        assert isinstance(scope, State)
        check_mode(fallback[0], fallback[1].snapshot)
        batches = chain(batches, _missing_partitions(handle, scope, fallback, rows, schema))
    return schema, limited(batches, request.limit)


def _state_rows(
    table: TableHandle,
    state: State,
    rows: Rows,
    *,
    only_highest_level: bool = False,
    without: Collection[bytes] = (),
) -> Iterator[pa.RecordBatch]:
    level = table.options.num_levels - 1 if only_highest_level and _has_stale_levels(table) else None
    chosen = FileChoice(level, state.created_since_ms, frozenset(without))
    return read_splits(table, plan_splits(table, state.snapshot, rows.file_filter, chosen), rows)


def _missing_partitions(
    table: TableHandle, state: State, fallback: tuple[TableHandle, State], rows: Rows, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Rows of the partitions that only the branch has."""
    branch, branch_state = fallback
    check_rows(branch, rows)
    present = {entry.partition for entry in visible_entries(table, state.snapshot, rows.file_filter)}
    for batch in _state_rows(branch, branch_state, rows, without=present):
        yield cast_rows(batch, schema)


def _has_stale_levels(table: TableHandle) -> bool:
    """Whether levels hold several versions of a key; with vectors and first-row each key is valid in one place."""
    options = table.options
    return options.has_primary_key and not options.deletion_vectors_enabled and options.merge_engine != "first-row"


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The batches of the first `limit` rows; nothing is read beyond them."""
    if limit is None:
        yield from batches
        return
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows
