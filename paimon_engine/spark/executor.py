"""SparkExecutor: tasks as Spark tasks, with the same code on a classic session and on Spark Connect.

map: `range(n)` with one partition per task, and `mapInArrow` runs the function. No shuffle, and no data crosses the
JVM but the pickled tasks and outcomes; tasks read and write files themselves.

shuffle:

1. `mapInArrow` adds two columns: the group, and the row's place in the source (partition, then position).
2. Repartition by group, sort by group and place within partitions. Spark spills to disk as it needs.
3. `mapInArrow` cuts the sorted stream at group borders and runs the function once per group, as a stream.

Rows that tasks read (`TaskRows`) come out of `range(n)` with one partition per task, as in a map.

Spark repeats a task whose worker was lost, and with speculation runs it twice at once. That is harmless because a
task writes only new files under fresh names, and only the outcome that Spark delivers is ever committed; the files of
the others are orphans.
"""

from __future__ import annotations

import itertools
import pickle
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from paimon_engine import errors
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import PaimonError, UnsupportedError
from paimon_engine.executor import Done, Failed, Group, TaskRows, attempt

try:
    from py4j.protocol import Py4JError
except ImportError:  # The Connect client alone comes without py4j, and then nothing raises its errors.
    Py4JError = PySparkException

T = TypeVar("T")
R = TypeVar("R")

_GROUP = "__paimon_group"
_PLACE = "__paimon_place"
_PLACE_BITS = 40
"""Bits of a row's position in its source partition; a trillion rows, and 8 million partitions above them."""

_PARTITIONS_PER_CORE = 4
"""Shuffle partitions per running task: evens out groups of unequal size, and costs some 20 ms each."""

_OUTCOME = StructType([StructField("number", IntegerType(), False), StructField("outcome", BinaryType(), False)])
_OUTCOME_ARROW = pa.schema([pa.field("number", pa.int32(), False), pa.field("outcome", pa.binary(), False)])

_OUR_ERROR = re.compile(r"^paimon_engine\.errors\.(\w+): (.*)$", re.MULTILINE)


class SparkExecutor:
    """Runs tasks in a Spark session, classic or Connect; `Executor` is the contract.

    Workers must be able to import `paimon_engine`: see `session.ship_engine`.
    `on_done` hears once, when the Spark job has ended: callers who want finer progress send rounds of tasks.
    A job that Spark itself gives up on (a worker out of memory, a lost cluster) makes every task of the call `Failed`.
    """

    def __init__(self, session: SparkSession, *, parallelism: int | None = None) -> None:
        self.session = session
        self._parallelism = parallelism

    @property
    def parallelism(self) -> int:
        """How many tasks the session runs at once, as far as Spark tells; asked once."""
        if self._parallelism is None:
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
        _check_reachable(config)
        work = _map_work(run, [pickle.dumps(task) for task in tasks], config)
        frame = self.session.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, _OUTCOME)
        try:
            found = self._collect(frame)
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
        group: Group,
        run: Callable[[Env, int, Iterator[pa.RecordBatch]], R],
        config: EnvConfig,
    ) -> list[Done[R] | Failed]:
        """Run every group as part of one Spark task; see `Executor.shuffle`. Groups are not negative.

        Raises: PaimonError if Spark gives the job up.
        """
        _check_reachable(config)
        frame = self._frame(source, config)
        added = [StructField(_GROUP, IntegerType(), False), StructField(_PLACE, LongType(), False)]
        placed = frame.mapInArrow(_place_work(group), StructType([*frame.schema.fields, *added]))
        sorted_groups = self._by_group(placed).sortWithinPartitions(_GROUP, _PLACE)
        found = self._collect(sorted_groups.mapInArrow(_group_work(run, config), _OUTCOME))
        return [found[number] for number in sorted(found)]

    def _frame(self, source: DataFrame | pa.Table | TaskRows[Any], config: EnvConfig) -> DataFrame:
        """The rows as a DataFrame; those of tasks with a partition for each, so that their order is kept."""
        if isinstance(source, pa.Table):
            return self.session.createDataFrame(source, from_arrow_schema(source.schema))
        if isinstance(source, TaskRows):
            count = len(source.tasks)
            work = _read_work(source.read, [pickle.dumps(task) for task in source.tasks], config)
            return self.session.range(0, count, 1, count).mapInArrow(work, from_arrow_schema(source.schema))
        return source

    def _by_group(self, frame: DataFrame) -> DataFrame:
        partitions = self.parallelism * _PARTITIONS_PER_CORE
        # Hashing a handful of small numbers puts many of them into one partition; Spark 4.1 can place them one by one.
        if hasattr(frame, "repartitionById"):
            return frame.repartitionById(partitions, frame[_GROUP])
        return frame.repartition(partitions, _GROUP)

    def _collect(self, frame: DataFrame) -> dict[int, Any]:
        """Run the job: outcomes by number. Raises: PaimonError if Spark gives up."""
        with _tagged(self.session), _mapped():
            return {row[0]: pickle.loads(bytes(row[1])) for row in frame.collect()}


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


def _read_work(
    read: Callable[[Env, T], Iterator[pa.RecordBatch]], tasks: Sequence[bytes], config: EnvConfig
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that puts the rows of tasks in the place of their numbers."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(config.build(), pickle.loads(tasks[number]))

    return work


def _run_task(run: Callable[[Env, T], R], task: bytes, config: EnvConfig) -> R:
    return run(config.build(), pickle.loads(task))


def _place_work(group: Group) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that adds group and place to the rows of one source partition."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        context = TaskContext.get()
        first = (context.partitionId() if context else 0) << _PLACE_BITS
        for batch in batches:
            places = pa.array(np.arange(first, first + len(batch), dtype=np.int64))
            first += len(batch)
            numbers = group(batch).cast(pa.int32())
            added = [pa.field(_GROUP, pa.int32(), False), pa.field(_PLACE, pa.int64(), False)]
            schema = pa.schema([*batch.schema, *added])
            yield pa.RecordBatch.from_arrays([*batch.columns, numbers, places], schema=schema)

    return work


def _group_work(
    run: Callable[[Env, int, Iterator[pa.RecordBatch]], R], config: EnvConfig
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs every group in one sorted shuffle partition."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        # groupby skips what a group left unread, so a run that fails or stops early does not disturb the next.
        for number, pieces in itertools.groupby(_cut(batches), key=lambda piece: piece[0]):
            yield _outcome(number, attempt(_run_group, run, config, number, (rows for _, rows in pieces)))

    return work


def _run_group(
    run: Callable[[Env, int, Iterator[pa.RecordBatch]], R],
    config: EnvConfig,
    number: int,
    batches: Iterator[pa.RecordBatch],
) -> R:
    return run(config.build(), number, batches)


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut batches that are sorted by group at the group borders, without the added columns."""
    for batch in batches:
        numbers = batch.column(batch.num_columns - 2).to_numpy()
        rows = batch.select(range(batch.num_columns - 2))
        borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in itertools.pairwise(borders):
            if end > start:
                yield int(numbers[start]), rows.slice(start, end - start)


def _outcome(number: int, outcome: Done[Any] | Failed) -> pa.RecordBatch:
    """An outcome as one row; a value that does not pickle is a failure of its task."""
    pickled = attempt(pickle.dumps, outcome)
    payload = pickled.value if isinstance(pickled, Done) else pickle.dumps(pickled)
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), pa.array([payload])], schema=_OUTCOME_ARROW)


def _check_reachable(config: EnvConfig) -> None:
    if config.address.startswith("memory:"):
        raise UnsupportedError(
            f"{config.address} lives in the memory of one process, which Spark's workers cannot see; "
            "use LocalExecutor, or keep the table on a disk or in an object store"
        )


def _default_parallelism(session: SparkSession) -> int:
    """From the master's address if that tells, else from how Spark cuts a range when left to itself."""
    local = re.fullmatch(r"local\[(\d+)\]", session.conf.get("spark.master", None) or "")
    if local:
        return int(local[1])
    partitions = session.range(0, 1 << 20).selectExpr("spark_partition_id() AS partition").distinct()
    return max(1, int(partitions.count()))


@contextmanager
def _tagged(session: SparkSession) -> Iterator[None]:
    """Tag the jobs started inside, and cancel them if the caller is interrupted."""
    tag = f"paimon-{uuid.uuid4()}"
    session.addTag(tag)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        session.interruptTag(tag)
        raise
    finally:
        session.removeTag(tag)


@contextmanager
def _mapped() -> Iterator[None]:
    """Turn Spark's errors into ours; an error of ours that was raised in a worker keeps its class and text."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        ours = _OUR_ERROR.search(str(error))
        kind = getattr(errors, ours[1], PaimonError) if ours else PaimonError
        raise kind(ours[2] if ours else f"Spark gave the job up: {_without_java_stack(str(error))}") from error


def _without_java_stack(message: str) -> str:
    return "\n".join(line for line in message.splitlines() if not line.lstrip().startswith(("at ", "...")))
