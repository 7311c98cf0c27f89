"""What a read consists of: units that can be read apart from each other, here or in tasks.

Everything that is wrong with the request itself is said while it is planned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_engine.env import Env
from paimon_engine.errors import UnsupportedError
from paimon_engine.format.layout import cast_rows
from paimon_engine.predicate import as_predicate
from paimon_engine.supported import check_changes_readable
from paimon_engine.table.files.row_ids import with_row_ids
from paimon_engine.table.read.other_branch import OtherBranch, locate_other_branch
from paimon_engine.table.read.read_request import (
    Changes,
    Difference,
    ReadRequest,
    State,
    locate,
    reads_latest,
)
from paimon_engine.table.read.read_unit import ReadUnit, read_units
from paimon_engine.table.read.reader import RowSelection, check_rows
from paimon_engine.table.read.scan import FileChoice, plan_splits, visible_entries
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import SeenTable, TableHandle
from paimon_engine.table.state.level_mode import check_mode


@dataclass(frozen=True, slots=True)
class ReadPart:
    """Units of one branch of a table, and what the read gives of their rows."""

    table: TableHandle
    rows: RowSelection
    units: Sequence[ReadUnit]


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A read in the order of its rows; all of them have `schema`."""

    schema: pa.Schema
    parts: tuple[ReadPart, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, read in this process."""
        for part in self.parts:
            for batch in read_units(part.table, part.units, part.rows):
                yield cast_rows(batch, self.schema)


@dataclass(frozen=True, slots=True)
class UnitReader:
    """Reads units of a part in a task: a picklable plain value."""

    table: SeenTable
    rows: RowSelection
    schema: pa.Schema

    def __call__(self, env: Env, units: Sequence[ReadUnit]) -> Iterator[pa.RecordBatch]:
        """Rows of the units in `schema`. Raises: NotFoundError, CorruptTableError, UnsupportedError."""
        for batch in read_units(self.table.load(env), units, self.rows):
            yield cast_rows(batch, self.schema)


def plan_read(
    table: TableHandle,
    request: ReadRequest,
    *,
    keeps_retracts: bool = False,
    only_highest_level: bool = False,
    row_ids: bool = False,
    keeps_statistics: bool = False,
) -> ReadPlan:
    """What the read consists of, without its limit.

    With `row_ids` the rows have their ids and sequence numbers as columns. With `keeps_retracts` delete records and old
    values come out too; with `only_highest_level` the rows of a primary-key table are those that a full compaction has
    seen, without a merge. Unless it `keeps_statistics`, files may have lost theirs.

    Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError.
    """
    handle, scope = locate(table, request)
    handle = with_row_ids(handle) if row_ids else handle
    rows = RowSelection(request.columns, as_predicate(request.where), request.with_row_kinds, keeps_retracts)
    schema = check_rows(handle, rows)
    other = locate_other_branch(handle, request, scope)
    replaced = _partitions(other, rows) if other is not None and other.comes_first else frozenset()
    units: Sequence[ReadUnit]
    match scope:
        case State():
            check_mode(handle, scope.snapshot)
            units = _state_splits(
                handle,
                scope,
                rows,
                only_highest_level=only_highest_level,
                keeps_statistics=keeps_statistics,
                without=replaced,
            )
        case Changes():
            from paimon_engine.table.read.incremental import plan_changes

            check_changes_readable(handle.options)
            units = plan_changes(handle, scope, rows)
        case Difference():
            from paimon_engine.table.read.incremental import plan_difference

            check_changes_readable(handle.options)
            check_mode(handle, scope.before, scope.after)
            units = plan_difference(handle, scope, rows)
    parts = [ReadPart(handle, rows, units)]
    if handle.options.chain_branches is not None:
        parts += _of_chain(handle, request, scope, rows)
    if other is not None:
        assert isinstance(scope, State)
        parts.append(_of_other_branch(handle, scope, other, rows, keeps_statistics=keeps_statistics))
    return ReadPlan(schema, tuple(parts))


def _of_chain(
    table: TableHandle, request: ReadRequest, scope: State | Changes | Difference, rows: RowSelection
) -> list[ReadPart]:
    """What a read of a chain table reads in its branches; nothing for one of these branches."""
    from paimon_engine.table.read.chain_table import chain_of, chain_splits

    chain = chain_of(table)
    if chain is None:
        return []
    if not isinstance(scope, State) or not reads_latest(table, request):
        raise UnsupportedError(
            "reading a chain table is supported as it is now; read its branches by themselves for an earlier state, or "
            "for changes"
        )
    for branch in (chain.complete, chain.delta):
        check_rows(branch, rows)
    return [ReadPart(branch, rows, found) for branch, found in chain_splits(table, scope, chain, rows.file_filter)]


def plan_at_one_snapshot(table: TableHandle, request: ReadRequest) -> tuple[ReadPlan, int | None]:
    """As `plan_read`, and the id of the snapshot that is read: the latest one now, unless the request names another.

    It is None where there is no snapshot, and for changes.
    """
    _, scope = locate(table, request)
    number = scope.snapshot.id if isinstance(scope, State) and scope.snapshot is not None else None
    is_latest = request.tag is None and request.snapshot is None and request.timestamp_ms is None
    if number is not None and is_latest and request.branch is None and not request.options and not _has_ways(table):
        # What is committed between is not read.
        request = replace(request, snapshot=number)
    return plan_read(table, request), number


def _has_ways(table: TableHandle) -> bool:
    """Whether options of the table say what a read of it reads."""
    return any(name.startswith(("scan.", "incremental-")) for name in table.options.raw)


def _state_splits(
    table: TableHandle,
    state: State,
    rows: RowSelection,
    *,
    only_highest_level: bool = False,
    keeps_statistics: bool = False,
    without: Collection[bytes] = (),
) -> Sequence[Split]:
    if state.created_since_ms is not None:
        check_changes_readable(table.options)
    level = table.options.num_levels - 1 if only_highest_level and _has_stale_levels(table) else None
    chosen = FileChoice(level, state.created_since_ms, frozenset(without))
    return plan_splits(table, state.snapshot, rows.file_filter, chosen, keeps_statistics=keeps_statistics)


def _partitions(branch: OtherBranch, rows: RowSelection) -> frozenset[bytes]:
    """The partitions that the branch has, of those that can match."""
    found = visible_entries(branch.table, branch.state.snapshot, rows.file_filter, statistics=False)
    return frozenset(entry.partition for entry in found)


def _of_other_branch(
    table: TableHandle, state: State, other: OtherBranch, rows: RowSelection, *, keeps_statistics: bool
) -> ReadPart:
    """The partitions that only the branch has, or all of them if it comes first."""
    branch, branch_state, comes_first = other
    check_mode(branch, branch_state.snapshot)
    check_rows(branch, rows)
    own = [] if comes_first else visible_entries(table, state.snapshot, rows.file_filter, statistics=False)
    without = {entry.partition for entry in own}
    found = _state_splits(branch, branch_state, rows, keeps_statistics=keeps_statistics, without=without)
    return ReadPart(branch, rows, found)


def _has_stale_levels(table: TableHandle) -> bool:
    """Whether levels hold several versions of a key; with vectors and first-row each key is valid in one file only."""
    options = table.options
    is_valid_once = options.deletion_vectors_enabled or options.merge_engine == "first-row"
    return options.has_primary_key and (options.merges_vectors_on_read or not is_valid_once)
