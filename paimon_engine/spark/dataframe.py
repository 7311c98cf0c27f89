"""DataFrames as sources of a write and as results of a read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DateType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from pyspark.sql.types import DataType as SparkType

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import UnsupportedError
from paimon_engine.format.layout import cast, leaves_of, replace_leaves
from paimon_engine.spark.failures import spark_calls

T = TypeVar("T")


def is_dataframe(value: object) -> bool:
    """Whether a value is a Spark DataFrame, of a classic or a Connect session."""
    return isinstance(value, DataFrame)


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of a DataFrame's batches: timestamps in UTC, timestamps without zone as they are.

    Raises: UnsupportedError, naming the column, for a Spark type that has no Arrow form.
    """
    fields = []
    for field in frame.schema:
        try:
            fields.append(to_arrow_schema(StructType([field]), timezone="UTC").field(0))
        except PySparkTypeError as error:
            raise UnsupportedError(
                f"column {field.name!r} of the DataFrame has a type without a Paimon counterpart; cast it first: "
                f"{error}"
            ) from error
    return pa.schema(fields)


def with_moments_of(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The frame with timestamps as the table has them: with or without a time zone, in columns and parts of them.

    Spark casts them by the time zone of its session, as it does for any other table; Arrow would do so by UTC.
    """
    wanted = {field.name: field.type for field in schema}
    with spark_calls("Spark does not say what the DataFrame has"):
        given = list(frame.schema)
        types = [_with_moments_of(field.dataType, wanted.get(field.name)) for field in given]
        if types == [field.dataType for field in given]:
            return frame
        plain = numbered(frame, len(given))
        columns = [plain[numbered_name(number)] for number in range(len(given))]
        moments = [
            column if kind == field.dataType else column.cast(kind)
            for column, kind, field in zip(columns, types, given, strict=True)
        ]
        return plain.select(*moments).toDF(*(field.name for field in given))


def _with_moments_of(given: SparkType, wanted: pa.DataType | None) -> SparkType:
    """The Spark type of a column, or of a part of one, with moments of the kind that the table's type has there."""
    if wanted is None:
        return given
    match given:
        case TimestampType() if pa.types.is_timestamp(wanted) and wanted.tz is None:
            return TimestampNTZType()
        case TimestampNTZType() | DateType() if pa.types.is_timestamp(wanted) and wanted.tz is not None:
            return TimestampType()
        case ArrayType(elementType=element) if pa.types.is_list(wanted) or pa.types.is_fixed_size_list(wanted):
            return ArrayType(_with_moments_of(element, wanted.value_type), given.containsNull)
        case MapType(keyType=key, valueType=value) if pa.types.is_map(wanted):
            key, value = _with_moments_of(key, wanted.key_type), _with_moments_of(value, wanted.item_type)
            return MapType(key, value, given.valueContainsNull)
        case StructType() if pa.types.is_struct(wanted):
            parts = {field.name: field.type for field in wanted}
            kinds = [_with_moments_of(field.dataType, parts.get(field.name)) for field in given]
            fields = zip(given, kinds, strict=True)
            return StructType([StructField(one.name, kind, one.nullable, one.metadata) for one, kind in fields])
        case _:
            return given


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in the Arrow types that Spark takes: timestamps in microseconds, times of day in nanoseconds, lists.

    Raises: UnsupportedError for timestamps of more than 6 digits, of which Spark would drop the last ones.
    """
    fields = []
    for field in schema:
        if any(pa.types.is_timestamp(leaf) and leaf.unit == "ns" for leaf in leaves_of(field.type)):
            raise UnsupportedError(
                f"column {field.name!r} has timestamps of more than 6 digits, Spark's have 6; "
                "leave the column out, or read the table without Spark"
            )
        fields.append(field.with_type(replace_leaves(_any_length(field.type), _spark_leaf)))
    return pa.schema(fields)


def _any_length(data_type: pa.DataType) -> pa.DataType:
    """A list of a fixed size, as a VECTOR is, as one of any size: Spark has no others."""
    return pa.list_(data_type.value_field) if pa.types.is_fixed_size_list(data_type) else data_type


def _spark_leaf(leaf: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(leaf):
        return pa.timestamp("us", leaf.tz)
    return pa.time64("ns") if pa.types.is_time(leaf) else leaf


def numbered(frame: DataFrame, count: int) -> DataFrame:
    """The `count` columns of a frame under plain names by their position, `numbered_name`, for SQL texts.

    In names of users dots, backquotes and stars mean something else in some places, even where they are quoted: they
    are regular expressions if the session says `spark.sql.parser.quotedRegexColumnNames`.
    """
    return frame.toDF(*map(numbered_name, range(count)))


def numbered_name(position: int) -> str:
    """The name of a column of `numbered`."""
    return f"c{position}"


def read_files(
    session: SparkSession,
    paths: Sequence[str],
    *,
    file_format: str,
    options: Mapping[str, str] | None = None,
    schema: StructType | None = None,
) -> DataFrame:
    """A DataFrame over files that Spark reads itself, with its own options; with a schema, of exactly its columns."""
    reader = session.read.format(file_format).options(**(options or {}))
    return (reader if schema is None else reader.schema(schema)).load(list(paths))


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

    Raises: UnsupportedError for values that Spark cannot represent.
    """
    taken = spark_arrow_schema(schema)
    if not tasks:
        return session.createDataFrame([], from_arrow_schema(taken))
    numbered = session.range(0, len(tasks), 1, len(tasks))
    work = _read_work(read, [pickle.dumps(task) for task in tasks], taken, config)
    return numbered.mapInArrow(work, from_arrow_schema(taken))


def _read_work(
    read: Callable[[Env, Any], Iterator[pa.RecordBatch]], tasks: Sequence[bytes], taken: pa.Schema, config: EnvConfig
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in read(config.build(), pickle.loads(tasks[number])):
                    arrays = [cast(column, field.type) for column, field in zip(rows.columns, taken, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=taken)

    return work
