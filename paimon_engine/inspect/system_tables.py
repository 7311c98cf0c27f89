"""The system tables `db.table$name`: which there are, and reading one like any table.

Three kinds: views of rows (`audit_log`, `binlog`, `ro`), tables of the manifests of one snapshot, and tables of a
complete branch. Only the first two travel in time, only the first reads changes.

Source: `SystemTableLoader` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, NotFoundError, naming
from paimon_engine.inspect import branch_tables, file_tables
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.predicate import as_predicate, matches
from paimon_engine.supported import check_row_views_readable
from paimon_engine.table.read.open_read import check_limit, limited
from paimon_engine.table.read.read_plan import ReadPlan, plan_read
from paimon_engine.table.read.read_request import ReadRequest, State, check_newest_schema, locate
from paimon_engine.table.read.reader import ROW_KIND
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.types import missing_column

Stream = tuple[pa.Schema, Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class RowView:
    """How rows of a read become those of a system table: which columns in which order, values as lists of one or not.

    A picklable plain value.
    """

    schema: pa.Schema
    order: tuple[int, ...]
    in_lists: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether rows stay as they are."""
        return self.order == tuple(range(len(self.order))) and not self.in_lists

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the read in `schema`."""
        if self.is_plain:
            return batch
        chosen = batch.select(list(self.order))
        if not self.in_lists:
            return chosen
        ends = pa.array(np.arange(batch.num_rows + 1, dtype=np.int32))
        columns = [
            column if field.name == ROW_KIND else pa.ListArray.from_arrays(ends, column, type=field.type)
            for column, field in zip(chosen.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


Plan = tuple[ReadPlan, RowView]


def _audit_log(table: TableHandle, request: ReadRequest) -> Plan:
    """Rows with their kinds in front, delete records and old values included."""
    check_row_views_readable(table.options)
    asked = request.columns
    plain = None if asked is None else tuple(name for name in asked if name != ROW_KIND)
    if asked is not None and asked.count(ROW_KIND) > 1:
        raise _twice(ROW_KIND)
    plan = plan_read(table, replace(request, columns=plain, with_row_kinds=True), keeps_retracts=True)
    if asked is None or asked[:1] == (ROW_KIND,):
        return plan, _all_columns(plan)
    # The kind comes first, then the other requested columns, in that order but under the names of fields of rows.
    others = iter(range(1, len(plan.schema.names)))
    order = tuple(0 if name == ROW_KIND else next(others) for name in asked)
    return plan, RowView(pa.schema([plan.schema.field(place) for place in order]), order)


def _binlog(table: TableHandle, request: ReadRequest) -> Plan:
    """As the audit log, each value as a list of one; a filter looks at the values."""
    plan, view = _audit_log(table, request)
    fields = [
        field if field.name == ROW_KIND else pa.field(field.name, pa.list_(pa.field("element", field.type)))
        for field in view.schema
    ]
    return plan, RowView(pa.schema(fields), view.order, in_lists=True)


def _read_optimized(table: TableHandle, request: ReadRequest) -> Plan:
    """Rows of the highest level of a primary-key table: as of its last full compaction; all rows of an append table."""
    plan = plan_read(table, request, only_highest_level=True)
    return plan, _all_columns(plan)


def _row_tracking(table: TableHandle, request: ReadRequest) -> Plan:
    """Rows with their ids, and with the snapshot that wrote each, behind the columns of the table."""
    if not table.options.row_tracking_enabled:
        raise InvalidArgumentError("$row_tracking needs a table that was created with 'row-tracking.enabled' = 'true'")
    plan = plan_read(table, request, row_ids=True)
    return plan, _all_columns(plan)


def _all_columns(plan: ReadPlan) -> RowView:
    return RowView(plan.schema, tuple(range(len(plan.schema))))


_OF_ROWS: Final[Mapping[str, Callable[[TableHandle, ReadRequest], Plan]]] = {
    "audit_log": _audit_log,
    "binlog": _binlog,
    "ro": _read_optimized,
    "row_tracking": _row_tracking,
}
_OF_SNAPSHOTS: Final[Mapping[str, Callable[[TableHandle, Snapshot | None], pa.Table]]] = {
    "buckets": file_tables.buckets,
    "file_key_ranges": file_tables.file_key_ranges,
    "files": file_tables.files,
    "manifests": file_tables.manifests,
    "partitions": file_tables.partitions,
    "statistics": branch_tables.statistics,
    "table_indexes": file_tables.table_indexes,
}
_OF_BRANCHES: Final[Mapping[str, Callable[[TableHandle], pa.Table]]] = {
    "aggregation_fields": branch_tables.aggregation_fields,
    "branches": branch_tables.branch_table,
    "consumers": branch_tables.consumer_table,
    "options": branch_tables.options,
    "schemas": branch_tables.schemas,
    "snapshots": branch_tables.snapshots,
    "tags": branch_tables.tags,
}
SYSTEM_TABLES: Final = tuple(sorted([*_OF_ROWS, *_OF_SNAPSHOTS, *_OF_BRANCHES]))
"""Names of the system tables."""


def check_system_table(name: str) -> None:
    """Raises NotFoundError naming the system tables that exist if this is none of them."""
    if name not in SYSTEM_TABLES:
        raise NotFoundError(f"system table {name!r} does not exist; these exist: {', '.join(SYSTEM_TABLES)}")


def plan_row_view(table: TableHandle, name: str, request: ReadRequest) -> Plan | None:
    """What the table's system table of that name consists of, and its view; None if it is not one of rows.

    Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError.
    """
    check_system_table(name)
    return _OF_ROWS[name](table, request) if name in _OF_ROWS else None


def open_system_table(table: TableHandle, name: str, request: ReadRequest) -> Stream:
    """Schema and rows of the table's system table of that name.

    Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError.
    """
    check_system_table(name)
    if name in _OF_ROWS:
        check_limit(request.limit)
        plan, view = _OF_ROWS[name](table, request)
        return view.schema, limited(map(view, plan.batches()), request.limit)
    if request.with_row_kinds:
        raise InvalidArgumentError(f"the rows of ${name} have no row kinds")
    if name in _OF_SNAPSHOTS:
        handle, scope = locate(table, request)
        if not isinstance(scope, State):
            raise InvalidArgumentError(f"${name} shows one snapshot, not changes; leave incremental out")
        with naming(f"{handle.paths.root}/manifest: what its files say for ${name}"):
            return _chosen(_OF_SNAPSHOTS[name](handle, scope.snapshot), request)
    branch = ReadRequest(columns=request.columns, where=request.where, branch=request.branch, limit=request.limit)
    if request != branch:
        raise InvalidArgumentError(f"${name} shows the complete branch; only columns, where, branch and limit apply")
    handle = table if request.branch in (None, table.paths.branch) else table.on_branch(str(request.branch))
    check_newest_schema(handle, latest_snapshot(handle))
    return _chosen(_OF_BRANCHES[name](handle), request)


def _twice(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"column {name!r} would come twice; leave one out")


def _chosen(found: pa.Table, request: ReadRequest) -> Stream:
    """Matching rows, with the requested columns, up to the limit."""
    check_limit(request.limit)
    where = as_predicate(request.where)
    if where is not None:
        found = found.filter(matches(where, found))
    if request.columns is not None:
        for name in request.columns:
            if name not in found.schema.names:
                raise missing_column(name, found.schema.names)
            if request.columns.count(name) > 1:
                raise _twice(name)
        found = found.select(list(request.columns))
    if request.limit is not None:
        found = found.slice(0, request.limit)
    return found.schema, iter(found.to_batches())
