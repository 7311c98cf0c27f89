"""Partition columns that Spark gets before it opens a file, so that a user's filter on them drops files.

By path: Spark's own discovery takes the values from the names of directories, for as many partitions as there are. It
gets the columns' types, and is used only where it finds the very value of the manifest: texts, booleans, whole
numbers and dates, which are in names as days since 1970 where the table says `partition.legacy-name`.

As literals: a DataFrame per partition, so that Spark's optimizer drops those that a filter excludes. For the
others, such as nulls and blank texts, which share a directory, and timestamps; and for rows that tasks of the engine
read. Each costs Spark some milliseconds, so there are few at most.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
)
from pyspark.sql.types import DataType as SparkType

from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.paths import partition_text
from paimon_engine.spark.conditions import literal
from paimon_engine.spark.dataframe import numbered_name
from paimon_engine.table.files.partition_columns import partition_values
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import AtomicType, DataField, TypeRoot

_SPARK_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""Name of a directory that means null to Spark."""

_IN_NAMES: Final[Mapping[TypeRoot, SparkType]] = {
    TypeRoot.CHAR: StringType(),
    TypeRoot.VARCHAR: StringType(),
    TypeRoot.BOOLEAN: BooleanType(),
    TypeRoot.TINYINT: ByteType(),
    TypeRoot.SMALLINT: ShortType(),
    TypeRoot.INT: IntegerType(),
    TypeRoot.BIGINT: LongType(),
    TypeRoot.DATE: DateType(),
}


def is_readable_from_path(table: TableHandle, partition: bytes, columns: Collection[str]) -> bool:
    """Whether Spark finds the partition's values of these columns in the names of its directories."""
    fields = table.schema.partition_type.fields
    values = decode_row([field.type for field in fields], partition)
    return all(
        _is_in_name(table, field, value) for field, value in zip(fields, values, strict=True) if field.name in columns
    )


def _is_in_name(table: TableHandle, field: DataField, value: Any) -> bool:
    if value is None or _type_in_name(table, field) is None:
        return False
    text = partition_text(field.type, value, legacy_name=table.options.partition_legacy_name)
    return bool(text.strip()) and text != _SPARK_NULL


def _type_in_name(table: TableHandle, field: DataField) -> SparkType | None:
    """The type as which Spark is to take a value from the name of a directory; None if it cannot."""
    if not isinstance(field.type, AtomicType):
        return None
    return IntegerType() if _is_in_days(table, field) else _IN_NAMES.get(field.type.root)


def _is_in_days(table: TableHandle, field: DataField) -> bool:
    is_date = isinstance(field.type, AtomicType) and field.type.root is TypeRoot.DATE
    return is_date and table.options.partition_legacy_name


def discovered_fields(table: TableHandle, columns: Collection[str]) -> list[StructField]:
    """All partition columns, for Spark to read from names of directories; those that are not needed as texts."""
    found = []
    for field in table.schema.partition_type.fields:
        kind = _type_in_name(table, field) if field.name in columns else None
        found.append(StructField(field.name, kind or StringType()))
    return found


def discovered_columns(table: TableHandle, columns: Collection[str], begin: int) -> dict[str, str]:
    """SQL expressions of the partition columns among these, over `discovered_fields`, numbered from `begin` on."""
    found = {}
    for number, field in enumerate(table.schema.partition_type.fields, begin):
        if field.name in columns:
            name = numbered_name(number)
            found[field.name] = f"date_from_unix_date({name})" if _is_in_days(table, field) else name
    return found


def literals(table: TableHandle, partition: bytes, columns: Sequence[str]) -> dict[str, str]:
    """SQL texts of the partition's values of the partition columns among these; without those that have none.

    Each is nullable for Spark, like columns of files; its optimizer still finds the constant.
    """
    found = {}
    for name, value in partition_values(table.schema, partition, columns).items():
        text = literal(value) if value.is_valid else "NULL"
        if text is not None:
            found[name] = f"IF(FALSE, NULL, {text})"
    return found
