"""A Paimon table as the source of a write: planned once, so that all tasks read one snapshot; read by the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.read.read_plan import ReadPart, ReadPlan, UnitReader, plan_at_one_snapshot
from paimon_engine.table.read.read_request import ReadRequest, locate
from paimon_engine.table.read.read_unit import ReadUnit
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.write.row_input import RowInput
from paimon_engine.table.write.source_files import TASK_BYTES
from paimon_engine.table.write.writer import WriteState, write_batches
from paimon_engine.types import RowType


@dataclass(frozen=True, slots=True)
class SourceTable:
    """What is read of a table: `row_type` are its columns, `snapshot_id` is None where it has no snapshot yet."""

    path: str
    plan: ReadPlan
    row_type: RowType
    snapshot_id: int | None

    @property
    def size_bytes(self) -> int:
        """Bytes of the files that are read."""
        return sum(_bytes_of(unit) for part in self.plan.parts for unit in part.units)


@dataclass(frozen=True, slots=True)
class TableWriteTask:
    """Units of a table to write, and where their rows come in the order of all rows.

    `store` is how to reach the source, None where the target's store is the source's.
    """

    state: WriteState
    kind_column: str | None
    read: UnitReader
    units: tuple[ReadUnit, ...]
    store: EnvConfig | None

    def batches(self, env: Env) -> Iterator[pa.RecordBatch]:
        """The rows, in order."""
        return self.read(env if self.store is None else self.store.build(), self.units)


def source_table(table: TableHandle, request: ReadRequest) -> SourceTable:
    """What the request reads of the table, which stays at the snapshot that is the latest now, unless it names one.

    Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError.
    """
    seen, _ = locate(table, request)
    plan, snapshot_id = plan_at_one_snapshot(table, request)
    fields = {field.name: field for field in seen.schema.row_type}
    row_type = RowType(tuple(fields[name] for name in plan.schema.names), nullable=False)
    return SourceTable(table.paths.root, plan, row_type, snapshot_id)


def plan_table(
    table: TableHandle, state: WriteState, source: SourceTable, kind_column: str | None
) -> list[TableWriteTask]:
    """Tasks of about `TASK_BYTES` over what is read, in its order."""
    tasks: list[TableWriteTask] = []
    rows_before = 0
    for part in source.plan.parts:
        read = UnitReader(part.table.seen(), part.rows, source.plan.schema)
        store = None if _is_same_store(part.table.config, table.config) else part.table.config
        for units in _groups(part):
            shifted = replace(state, sequence_offset=rows_before)
            tasks.append(TableWriteTask(shifted, kind_column, read, units, store))
            rows_before += rows_in(file for unit in units for file in _files_of(unit))
    return tasks


def write_units(env: Env, task: TableWriteTask) -> list[CommitMessage]:
    """Writes the rows of the task's units, in order."""
    return write_batches(task.state.table.load(env), task.state, task.batches(env), kind_column=task.kind_column)


def read_unit_rows(env: Env, task: TableWriteTask) -> Iterator[pa.RecordBatch]:
    """The rows of the task's units, in order, as columns of the table that is written; see `RowInput.of_source`."""
    rows = RowInput(task.state.table.load(env).schema, task.kind_column)
    return map(rows.of_source, task.batches(env))


def check_table_rows(schema: TableSchema, source: SourceTable, kind_column: str | None) -> None:
    """Raises InvalidArgumentError naming the column that does not fit a table of that schema."""
    try:
        RowInput(schema, kind_column).read(pa.RecordBatch.from_pylist([], source.plan.schema))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"source {source.path}: {error}") from error


def _groups(part: ReadPart) -> list[tuple[ReadUnit, ...]]:
    groups: list[list[ReadUnit]] = []
    size = TASK_BYTES
    for unit in part.units:
        if size >= TASK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(unit)
        size += _bytes_of(unit)
    return [tuple(group) for group in groups]


def _is_same_store(one: EnvConfig, other: EnvConfig) -> bool:
    return replace(one, address=_store_of(one)) == replace(other, address=_store_of(other))


def _store_of(config: EnvConfig) -> str:
    """Scheme and authority of the address."""
    scheme, separator, rest = config.address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else ""


def _bytes_of(unit: ReadUnit) -> int:
    return sum(file.size_bytes for file in _files_of(unit))


def _files_of(unit: ReadUnit) -> list[DataFile]:
    if isinstance(unit, Split):
        return [file for section in unit.sections for run in section for file in run]
    return [entry.file for entry in (*unit.before, *unit.after)]
