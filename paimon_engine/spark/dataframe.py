"""DataFrames as sources of a write and as results of a read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from paimon_engine.env import Env, EnvConfig

T = TypeVar("T")


def is_dataframe(value: object) -> bool:
    """Whether a value is a Spark DataFrame, of a classic or a Connect session."""
    return isinstance(value, DataFrame)


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of a DataFrame's batches: timestamps in UTC, timestamps without zone as they are."""
    return to_arrow_schema(frame.schema)


def read_files(
    session: SparkSession, paths: Sequence[str], *, file_format: str, options: Mapping[str, str] | None = None
) -> DataFrame:
    """A DataFrame over files that Spark knows how to read, by its own options."""
    return session.read.format(file_format).options(**(options or {})).load(list(paths))


def to_dataframe(
    session: SparkSession,
    read: Callable[[Env, T], Iterator[pa.RecordBatch]],
    tasks: Sequence[T],
    *,
    schema: pa.Schema,
    config: EnvConfig,
) -> DataFrame:
    """A lazy DataFrame of what `read` gives for each task; every action on it reads again.

    `read` is a module-level function whose batches have `schema`; tasks pickle. Errors in it fail the Spark job.
    """
    if not tasks:
        return session.createDataFrame([], from_arrow_schema(schema))
    numbered = session.range(0, len(tasks), 1, len(tasks))
    work = _read_work(read, [pickle.dumps(task) for task in tasks], config)
    return numbered.mapInArrow(work, from_arrow_schema(schema))


def _read_work(
    read: Callable[[Env, Any], Iterator[pa.RecordBatch]], tasks: Sequence[bytes], config: EnvConfig
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(config.build(), pickle.loads(tasks[number]))

    return work
