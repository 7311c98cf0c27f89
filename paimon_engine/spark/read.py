"""Tables as DataFrames: files that need no merge by Spark's own reader, all else by the engine in tasks."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from paimon_engine.env import Env
from paimon_engine.executor import Executor
from paimon_engine.format.layout import replace_leaves
from paimon_engine.inspect.system_tables import RowView, open_system_table, plan_row_view
from paimon_engine.meta.manifest import DataFile
from paimon_engine.predicate import bind
from paimon_engine.spark.conditions import spark_condition
from paimon_engine.spark.dataframe import numbered, numbered_name, read_files, spark_arrow_schema, to_dataframe
from paimon_engine.spark.executor import SparkExecutor, check_reachable
from paimon_engine.spark.failures import spark_calls
from paimon_engine.spark.native import NativeFiles, native_files
from paimon_engine.spark.partition_columns import discovered_columns, discovered_fields, literals
from paimon_engine.table.read.read_plan import ReadPart, ReadPlan, UnitReader, plan_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.read.read_unit import ReadUnit
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import to_arrow_schema

_TASKS_PER_CORE = 4
"""Enough to even out tasks of unequal length."""

_APART_MIN, _APART_MAX = 16, 64
"""How many partitions may be read by separate tasks, however few tasks run at once, and however many."""

_REFUSED = "Spark cannot make a DataFrame of the table"
_LOOK_UPS = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_SETTING = threading.Lock()
"""Acquired while a setting of a session is temporarily another one than its user's."""

_PARQUET_OPTIONS = {
    # Missing and broken files are errors, also if the session ignores them.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def read_frame(executor: Executor, table: TableHandle, request: ReadRequest, system: str | None = None) -> DataFrame:
    """A lazy DataFrame of what `open_read` or, with `system`, `open_system_table` gives; it stays at its snapshot.

    Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError; SparkError.
    """
    assert isinstance(executor, SparkExecutor)
    if system is None:
        # Spark's own reader takes files by what their statistics say.
        plan = plan_read(table, request, keeps_statistics=True)
        with spark_calls(_REFUSED):
            return _frame(executor, plan, None)
    found = plan_row_view(table, system, request)
    if found is None:
        schema, batches = open_system_table(table, system, request)
        taken = spark_arrow_schema(_nullable(schema))
        rows = pa.Table.from_batches(batches, schema).cast(taken)
        with spark_calls(_REFUSED):
            return executor.session.createDataFrame(rows, from_arrow_schema(taken))
    with spark_calls(_REFUSED):
        return _frame(executor, *found)


def _frame(executor: SparkExecutor, plan: ReadPlan, view: RowView | None) -> DataFrame:
    """The union of DataFrames: of files that Spark reads itself, and of tasks that read the others with the engine."""
    session, schema = executor.session, _nullable(plan.schema if view is None else view.schema)
    taken = from_arrow_schema(spark_arrow_schema(schema))
    frames: list[DataFrame] = []
    for part in plan.parts:
        groups: Sequence[NativeFiles] = ()
        if view is None or view.is_plain:
            groups, ours = native_files(part, executor.native_schemes)
        else:
            # Splits may be made whenever they are reached, and these are looked at several times.
            ours = list(part.units)
        frames += [_native_frame(session, part, files, schema) for files in groups]
        if ours:
            check_reachable(part.table.config)
            read = _ViewReader(UnitReader(part.table.seen(), part.rows, plan.schema), view)
            frames += _task_frames(executor, part.table, ours, read, schema)
    if not frames:
        return session.createDataFrame([], taken)
    joined = frames[0]
    for frame in frames[1:]:
        # By position: names may differ in case only.
        joined = joined.union(frame)
    return joined


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Nullable, as Spark makes columns of files: else NOT NULL would depend on how files are read."""
    types = [replace_leaves(field.type, lambda leaf: leaf, nullable=True) for field in schema]
    return pa.schema([pa.field(field.name, kind) for field, kind in zip(schema, types, strict=True)])


@dataclass(frozen=True, slots=True)
class _ViewReader:
    """Reads units, as the system table shows their rows if there is one."""

    read: UnitReader
    view: RowView | None

    def __call__(self, env: Env, units: Sequence[ReadUnit]) -> Any:
        batches = self.read(env, units)
        return batches if self.view is None else map(self.view, batches)


def _native_frame(session: SparkSession, part: ReadPart, files: NativeFiles, schema: pa.Schema) -> DataFrame:
    """Rows of files that need no merge, filtered."""
    table, today = part.table, to_arrow_schema(part.table.schema.row_type)
    types = from_arrow_schema(spark_arrow_schema(pa.schema([today.field(name) for name in files.stored])))
    options, fields = dict(_PARQUET_OPTIONS), list[StructField]()
    columns: dict[str, str] = {}
    if files.root is None:
        # Names of directories add no columns.
        options["recursiveFileLookup"] = "true"
    else:
        options["basePath"] = files.root
    for field, stored in zip(types, files.stored.values(), strict=True):
        if files.root is not None and field.name in table.schema.partition_keys:
            continue
        if stored is None or field.name in files.literals:
            columns[field.name] = _cast(files.literals.get(field.name, "NULL"), field)
        else:
            columns[field.name] = numbered_name(len(fields))
            fields.append(StructField(stored, field.dataType))
    if files.root is not None:
        # Spark has them behind all others, in the order of the directories.
        columns |= discovered_columns(table, files.stored, len(fields))
        fields += discovered_fields(table, files.stored)
    with _listing_in_driver(session, files.paths):
        frame = read_files(session, files.paths, file_format="parquet", options=options, schema=StructType(fields))
    frame = numbered(frame, len(fields))
    if part.rows.where is not None:
        condition = spark_condition(bind(part.rows.where, today), columns)
        assert condition is not None
        frame = frame.where(condition)
    return frame.selectExpr(*(columns[name] for name in schema.names)).toDF(*schema.names)


def _cast(value: str, field: StructField) -> str:
    """The SQL text of a value as one of a column. `TIMESTAMP` alone may mean another type to the session."""
    kind = "TIMESTAMP_LTZ" if isinstance(field.dataType, TimestampType) else field.dataType.simpleString()
    return f"CAST({value} AS {kind})"


@contextmanager
def _listing_in_driver(session: SparkSession, paths: Sequence[str]) -> Iterator[None]:
    """Lets the driver look up local files itself: 1,000 in 0.3 seconds, for which a job of Spark takes 4 (measured).

    Without effect on Spark Connect, where files are looked up later.
    """
    if not all(path.startswith("file:") for path in paths):
        yield
        return
    with _SETTING:
        before = str(session.conf.get(_LOOK_UPS))
        session.conf.set(_LOOK_UPS, str(max(len(paths), int(before))))
        try:
            yield
        finally:
            session.conf.set(_LOOK_UPS, before)


def _task_frames(
    executor: SparkExecutor, table: TableHandle, units: Sequence[ReadUnit], read: _ViewReader, schema: pa.Schema
) -> list[DataFrame]:
    """Rows of units that tasks read; of each partition separately if that needs few additional tasks."""
    target, partitions = executor.parallelism * _TASKS_PER_CORE, dict.fromkeys(unit.partition for unit in units)
    # Rows of `$binlog` have lists of the columns' values.
    names = [] if read.view is not None and read.view.in_lists else schema.names
    has_literals = any(name in table.schema.partition_keys for name in names)
    is_apart = has_literals and len(partitions) <= min(max(target, _APART_MIN), _APART_MAX)
    groups: dict[bytes | None, list[ReadUnit]] = defaultdict(list)
    for unit in units:
        groups[unit.partition if is_apart else None].append(unit)
    types = from_arrow_schema(spark_arrow_schema(schema))
    share = sum(_weight(table, unit) for unit in units) / target
    frames = []
    for partition, members in groups.items():
        tasks = _tasks(table, members, share)
        frame = to_dataframe(executor.session, read, tasks, schema=schema, config=table.config)
        if partition is not None:
            known = literals(table, partition, names)
            values = (
                _cast(known[one.name], one) if one.name in known else numbered_name(number)
                for number, one in enumerate(types)
            )
            frame = numbered(frame, len(names)).selectExpr(*values).toDF(*names)
        frames.append(frame)
    return frames


def _tasks(table: TableHandle, units: Sequence[ReadUnit], share: float) -> list[list[ReadUnit]]:
    """The units in order, small ones together up to that share of all, and none much larger than a split."""
    tasks: list[list[ReadUnit]] = []
    weight = size = 0
    for unit in units:
        unit_weight, unit_size = _weight(table, unit), sum(file.size_bytes for file in _files_of(unit))
        if not tasks or weight + unit_weight > share or size + unit_size > table.options.split_target_size_bytes:
            tasks.append([])
            weight = size = 0
        tasks[-1].append(unit)
        weight, size = weight + unit_weight, size + unit_size
    return tasks


def _weight(table: TableHandle, unit: ReadUnit) -> int:
    """What reading a unit costs, in bytes."""
    return sum(max(file.size_bytes, table.options.split_open_file_cost_bytes) for file in _files_of(unit))


def _files_of(unit: ReadUnit) -> list[DataFile]:
    if isinstance(unit, Split):
        return [file for section in unit.sections for run in section for file in run]
    return [entry.file for entry in (*unit.before, *unit.after)]
