"""SparkExecutor: tasks as Spark tasks, with the same code on a classic session and on Spark Connect.

map: `range(n)` with one partition per task, and `mapInArrow` runs the function. No shuffle, and no data crosses the
JVM but the pickled tasks and outcomes; tasks read and write files themselves.

shuffle:

1. `mapInArrow` splits the rows of each source partition and packs those of a group together. A row of the shuffle is
   such a pack, as bytes: its group, its position in the source (partition, then offset), many table rows. So only the
   first crossing from the JVM turns rows into columns, and Spark sorts few rows.
2. Repartition by group, sort by group and position within partitions. Spark spills to disk as it needs.
3. `mapInArrow` opens the packs and runs the function once per group, as a stream. What splitting gave as done, or
   failed, is sent along in groups below zero.

Rows that tasks read (`TaskRows`) come out of `range(n)` with one partition per task, as in a map.

Spark repeats a task whose worker was lost, and with speculation runs it twice at once. That is harmless because a
task writes only new files under fresh names, and only the outcome that Spark delivers is ever committed; the files of
the others are orphans.

A part whose packs were lost with a worker is split again, when some groups may have had theirs. If that gives other
packs, as it may where rows come in another order, rows would be lost or there twice: Spark notices, and ends the job.
"""

from __future__ import annotations

import itertools
import pickle
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import InvalidArgumentError, PaimonError, UnsupportedError
from paimon_engine.executor import Done, Failed, SplitRows, TaskRows, attempt, coalesce
from paimon_engine.spark.dataframe import arrow_schema, numbered
from paimon_engine.spark.failures import spark_calls

T = TypeVar("T")
R = TypeVar("R")

_PLACE_BITS = 40
"""Bits of a pack's position in its source partition; 8 million partitions above them."""
_PACK_BYTES = 8 << 20
"""Bytes of a pack at most, but for single rows: the JVM has a few in memory at a time."""

_PARTITIONS_PER_CORE = 4
"""Shuffle partitions per running task: evens out groups of unequal size, and costs some 20 ms each."""

_PACKS = StructType(
    [
        StructField("group", IntegerType(), False),
        StructField("place", LongType(), False),
        StructField("pack", BinaryType(), False),
    ]
)
_PACKS_ARROW = pa.schema(
    [
        pa.field("group", pa.int32(), False),
        pa.field("place", pa.int64(), False),
        pa.field("pack", pa.binary(), False),
    ]
)
_OUTCOME = StructType([StructField("number", IntegerType(), False), StructField("outcome", BinaryType(), False)])
_OUTCOME_ARROW = pa.schema([pa.field("number", pa.int32(), False), pa.field("outcome", pa.binary(), False)])

_GAVE_UP = "Spark gave the job up"


class SparkExecutor:
    """Runs tasks in a Spark session, classic or Connect; `Executor` is the contract.

    Workers must be able to import `paimon_engine`: see `session.ship_engine`.
    `on_done` is called once, when the Spark job has ended: callers who want finer progress call `map` with a part of
    the tasks at a time. A job that Spark itself aborts (a worker out of memory, a lost cluster) makes every task
    of the call `Failed`. `native_schemes` are those of paths that Spark's own file systems reach as the engine does:
    where files of a table need no merge, `Table.to_spark` leaves reading them to Spark. Name `s3` or others there where
    Spark is set up so.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        parallelism: int | None = None,
        native_schemes: Collection[str] = ("file", "hdfs"),
    ) -> None:
        self.session = session
        self.native_schemes = frozenset(native_schemes)
        self._parallelism = parallelism

    @property
    def parallelism(self) -> int:
        """How many tasks the session runs at once, as far as Spark says; asked once. Raises: SparkError."""
        if self._parallelism is None:
            with spark_calls("Spark does not say how many tasks it runs at once"):
                self._parallelism = _default_parallelism(self.session)
        return self._parallelism

    def map(
        self,
        run: Callable[[Env, T], R],
        tasks: Sequence[T],
        *,
        config: EnvConfig,
        on_done: Callable[[int], None] | None = None,
    ) -> list[Done[R] | Failed]:
        """Run every task as one Spark task; see `Executor.map`."""
        if not tasks:
            return []
        check_reachable(config)
        work = _map_work(run, [pickle.dumps(task) for task in tasks], config)
        try:
            with spark_calls(_GAVE_UP):
                frame = self.session.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, _OUTCOME)
                found = dict(self._collect(frame))
        except PaimonError as error:
            failed = Failed.of(error)
            found = dict.fromkeys(range(len(tasks)), failed)
        if on_done:
            on_done(len(tasks))
        return [found[number] for number in range(len(tasks))]

    def shuffle(
        self,
        source: DataFrame | pa.Table | TaskRows[Any],
        *,
        split: SplitRows,
        run: Callable[[Env, int, Iterator[pa.RecordBatch]], R],
        config: EnvConfig,
    ) -> list[Done[R] | Failed]:
        """Run every group as part of one Spark task; see `Executor.shuffle`. A part is a partition of the source.

        Raises: SparkError if Spark gives the job up; errors of ours that splitting raised in a worker;
        InvalidArgumentError for a DataFrame without columns.
        """
        check_reachable(config)
        with spark_calls(_GAVE_UP):
            packs = self._packs(source, split, config)
            found = self._collect(self._by_group(packs).mapInArrow(_group_work(run, config), _OUTCOME))
        return [outcome for _, outcome in sorted(found, key=lambda item: (item[0] >= 0, abs(item[0])))]

    def _packs(self, source: DataFrame | pa.Table | TaskRows[Any], split: SplitRows, config: EnvConfig) -> DataFrame:
        """The rows of all parts, split; those of tasks with a partition for each, so that their order is kept."""
        if isinstance(source, TaskRows):
            count = len(source.tasks)
            read = _TasksRead(source.read, [pickle.dumps(task) for task in source.tasks], config)
            return self.session.range(0, count, 1, count).mapInArrow(_split_work(split, config, read), _PACKS)
        if isinstance(source, pa.Table):
            source = self.session.createDataFrame(source, from_arrow_schema(source.schema))
        else:
            # Workers would get columns that Arrow for Python has no class for.
            arrow_schema(source)
        # `mapInArrow` looks columns up by their names.
        names = source.columns
        if not names:
            # Spark gives no rows to Python then, however many there are.
            raise InvalidArgumentError("the DataFrame has no columns; select those that are to be written")
        return numbered(source, len(names)).mapInArrow(_split_work(split, config, _Named(names)), _PACKS)

    def _by_group(self, packs: DataFrame) -> DataFrame:
        partitions = self.parallelism * _PARTITIONS_PER_CORE
        # Hashing a handful of small numbers would put many of them into one partition.
        return packs.repartitionById(partitions, packs["group"]).sortWithinPartitions("group", "place")

    def _collect(self, frame: DataFrame) -> list[tuple[int, Any]]:
        """Run the job: outcomes with their numbers."""
        with _tagged(self.session):
            return [(row[0], pickle.loads(bytes(row[1]))) for row in frame.collect()]


def _map_work(
    run: Callable[[Env, T], R], tasks: Sequence[bytes], config: EnvConfig
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a Spark task applies to its part of `range(n)`."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _outcome(number, attempt(_run_task, run, tasks[number], config))

    return work


def _run_task(run: Callable[[Env, T], R], task: bytes, config: EnvConfig) -> R:
    return run(config.build(), pickle.loads(task))


class _TasksRead:
    """Replaces the numbers of tasks by the tasks' rows."""

    def __init__(
        self, read: Callable[[Env, T], Iterator[pa.RecordBatch]], tasks: Sequence[bytes], config: EnvConfig
    ) -> None:
        self._read, self._tasks, self._config = read, tasks, config

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(self._config.build(), pickle.loads(self._tasks[number]))


class _Named:
    """Gives numbered columns the names that they have in the source."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.rename_columns(self._names) for batch in batches)


def _split_work(
    split: SplitRows, config: EnvConfig, read: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that packs the rows of one source partition by group. `read` makes rows of what Spark has."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        context = TaskContext.get()
        part = context.partitionId() if context else 0
        rows = coalesce(read(batches))
        for place, (group, pack) in enumerate(_packed(split, config, part, rows), part << _PLACE_BITS):
            columns = [pa.array([group], pa.int32()), pa.array([place]), pa.array([pack], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=_PACKS_ARROW)

    return work


def _packed(
    split: SplitRows, config: EnvConfig, part: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[int, bytes]]:
    """Packs with their groups; an outcome, a failure of the part too, is a pack of the group below zero."""
    try:
        for item in split(config.build(), part, batches):
            if isinstance(item, Done):
                yield -1 - part, _pickled(item)
            else:
                group, rows = item
                step = max(1, rows.num_rows * _PACK_BYTES // max(rows.nbytes, 1))
                for begin in range(0, rows.num_rows, step):
                    yield group, _pack(rows.slice(begin, step))
    except Exception as error:  # noqa: BLE001 - what splitting raises is the outcome of the part
        yield -1 - part, _pickled(Failed.of(error))


def _pack(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _unpacked(pack: pa.Buffer) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(pack) as reader:
        yield from reader


def _group_work(
    run: Callable[[Env, int, Iterator[pa.RecordBatch]], R], config: EnvConfig
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs every group in one sorted shuffle partition."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        packs = (
            (number.as_py(), pack.as_buffer())
            for batch in batches
            for number, pack in zip(batch["group"], batch["pack"], strict=True)
        )
        # groupby skips what a group left unread, so a run that fails or stops early does not disturb the next.
        for number, pieces in itertools.groupby(packs, key=lambda item: item[0]):
            if number < 0:
                yield from (_outcome_row(number, pack.to_pybytes()) for _, pack in pieces)
            else:
                rows = coalesce(batch for _, pack in pieces for batch in _unpacked(pack))
                yield _outcome(number, attempt(_run_group, run, config, number, rows))

    return work


def _run_group(
    run: Callable[[Env, int, Iterator[pa.RecordBatch]], R],
    config: EnvConfig,
    number: int,
    batches: Iterator[pa.RecordBatch],
) -> R:
    return run(config.build(), number, batches)


def _outcome(number: int, outcome: Done[Any] | Failed) -> pa.RecordBatch:
    return _outcome_row(number, _pickled(outcome))


def _pickled(outcome: Done[Any] | Failed) -> bytes:
    """An outcome as bytes; a value that does not pickle is a failure of its task."""
    pickled = attempt(pickle.dumps, outcome)
    return pickled.value if isinstance(pickled, Done) else pickle.dumps(pickled)


def _outcome_row(number: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), pa.array([payload])], schema=_OUTCOME_ARROW)


def check_reachable(config: EnvConfig) -> None:
    """Raises UnsupportedError if Spark's workers cannot see a store."""
    if config.address.startswith("memory:"):
        raise UnsupportedError(
            f"{config.address} is in the memory of one process, which Spark's workers cannot read; "
            "use LocalExecutor, or keep the table on a disk or in an object store"
        )


def _default_parallelism(session: SparkSession) -> int:
    """What a classic session says; a Connect session shows it by how it cuts a range when left to itself."""
    if not type(session).__module__.startswith("pyspark.sql.connect."):
        return max(1, int(session.sparkContext.defaultParallelism))
    local = re.fullmatch(r"local\[(\d+)\]", session.conf.get("spark.master", None) or "")
    if local:
        return int(local[1])
    (last,) = session.range(0, 1 << 20).selectExpr("spark_partition_id() AS number").selectExpr("max(number)").collect()
    return int(last[0]) + 1


@contextmanager
def _tagged(session: SparkSession) -> Iterator[None]:
    """Tag the jobs started inside, and cancel them if the caller is interrupted."""
    tag = f"paimon-{uuid.uuid4()}"
    session.addTag(tag)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        # That the caller is interrupted counts: Py4J's connection may get the answer of what was interrupted instead.
        with suppress(Exception):
            session.interruptTag(tag)
            session.removeTag(tag)
        raise
    except BaseException:
        session.removeTag(tag)
        raise
    session.removeTag(tag)
