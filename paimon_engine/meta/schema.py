"""A table's schema: the JSON of `schema/schema-<id>`, its keys, its creation.

Field ids follow the Java library (`Schema.Builder`, `ReassignFieldId`): columns in order, but inside a column the
nested fields are numbered depth-first, children before their parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, UnsupportedError, damaged
from paimon_engine.format.json_text import pretty_json
from paimon_engine.format.stored import INT_MAX, WRONG, parse_object, reason, texts, whole, whole_or_none
from paimon_engine.options import POSTPONED_BUCKET, TableOptions
from paimon_engine.types import (
    BINARY_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    field_to_json,
    parse_field,
    to_arrow,
    with_nullable,
)

VERSION = 3
KEY_FIELD_ID_OFFSET = 1073741823
KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
_KEYS = frozenset(
    {
        *("version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys"),
        *("options", "comment", "timeMillis"),
    }
)
_SYSTEM_NAMES = frozenset({SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID"})


class BucketMode(StrEnum):
    """How a row finds its bucket."""

    FIXED = "fixed"
    """By the hash of the bucket key, over a fixed number of buckets."""
    UNAWARE = "unaware"
    """Append tables without buckets: everything is in bucket 0."""
    DYNAMIC = "dynamic"
    """By a hash index per partition, which grows with the keys; the primary key holds all partition columns."""
    CROSS_PARTITION = "cross-partition"
    """As dynamic, but a key is unique over all partitions, and moves when its row comes with another partition."""
    POSTPONED = "postponed"
    """Rows wait in no bucket until compaction finds one for them."""


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema."""

    id: int
    row_type: RowType
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_ms: int = 0
    version: int = VERSION
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Keys of later releases, carried from one schema to the next."""

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key columns that are not partition columns, in key order."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def key_type(self) -> RowType:
        """Row type of the trimmed primary key."""
        return self.row_type.project(self.trimmed_primary_keys)

    @property
    def partition_type(self) -> RowType:
        """Row type of the partition columns, in partition-key order."""
        return self.row_type.project(self.partition_keys)

    @property
    def bucket_mode(self) -> BucketMode:
        """How rows find their bucket."""
        bucket = self.table_options.bucket
        if not self.primary_keys:
            return BucketMode.FIXED if bucket > 0 else BucketMode.UNAWARE
        if bucket == POSTPONED_BUCKET:
            return BucketMode.POSTPONED
        if bucket > 0:
            return BucketMode.FIXED
        return BucketMode.DYNAMIC if set(self.partition_keys) <= set(self.primary_keys) else BucketMode.CROSS_PARTITION

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns that choose the bucket."""
        return self.table_options.bucket_key or self.trimmed_primary_keys

    @property
    def table_options(self) -> TableOptions:
        """The options, typed."""
        return TableOptions(self.options, has_primary_key=bool(self.primary_keys))

    def with_options(self, options: Mapping[str, str]) -> TableSchema:
        """The same schema with dynamic options laid over the stored ones."""
        return replace(self, options={**self.options, **options})


def parse_schema(data: str | bytes, path: str) -> TableSchema:
    """Schema of its JSON; versions 1 and 2 get the defaults of their time.

    Raises: CorruptTableError naming `path`; UnsupportedError for unknown types.
    """
    value = parse_object(data, path)
    try:
        version = whole(value, "version", 1) if "version" in value else 1
        options = dict(value.get("options") or {})
        if not all(isinstance(item, str) for pair in options.items() for item in pair):
            raise ValueError("an option is no text")
        if version == 1:
            options.setdefault("bucket", "1")
        if version <= 2:
            options.setdefault("file.format", "orc")
        schema = TableSchema(
            id=whole(value, "id", 0),
            row_type=RowType(tuple(parse_field(item) for item in value["fields"]), nullable=False),
            highest_field_id=whole(value, "highestFieldId", -1),
            partition_keys=texts(value, "partitionKeys"),
            primary_keys=texts(value, "primaryKeys"),
            options=options,
            comment=value.get("comment"),
            time_ms=whole_or_none(value, "timeMillis") or 0,
            version=version,
            unknown={key: item for key, item in value.items() if key not in _KEYS},
        )
        _check_stored(schema)
        return schema
    except (*WRONG, InvalidArgumentError, pa.ArrowException) as error:
        raise damaged(path, f"no valid schema: {reason(error)}") from error


def _check_stored(schema: TableSchema) -> None:
    """Raises ValueError where columns, ids, types and keys contradict each other."""
    fields = schema.row_type.fields
    for column in fields:
        if not isinstance(column.name, str) or not 0 <= column.id <= INT_MAX:
            raise ValueError(f"column {column.name!r} has the id {column.id}")
        if to_arrow(column.type) is None:
            raise ValueError(f"column {column.name!r} has no type")
    for what, values in (("name", [column.name for column in fields]), ("id", [column.id for column in fields])):
        if len(set(values)) != len(values):
            raise ValueError(f"two columns have one {what}: {values}")
    if any(column.id > schema.highest_field_id for column in fields):
        raise ValueError(f"a column has an id above highestFieldId {schema.highest_field_id}")
    for name in (*schema.partition_keys, *schema.primary_keys):
        schema.row_type.field(name)


def schema_to_json(schema: TableSchema) -> str:
    """JSON text in the Java library's key order."""
    value: dict[str, Any] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [field_to_json(item) for item in schema.row_type],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    # An explicit null would come back from Java as the text "null".
    if schema.comment is not None:
        value["comment"] = schema.comment
    value["timeMillis"] = schema.time_ms
    return pretty_json({**value, **schema.unknown})


# ── creation ────────────────────────────────────────────────────────────────────────────────────


def new_schema(
    columns: RowType,
    *,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    options: Mapping[str, str],
    comment: str | None,
    time_ms: int,
) -> TableSchema:
    """Schema 0 of a new table, ids assigned and rules checked.

    Raises: InvalidArgumentError naming the column or option and the way out.
    """
    _check_columns(columns, primary_keys, partition_keys)
    fields, highest = _assign_ids(columns, primary_keys)
    schema = TableSchema(
        id=0,
        row_type=RowType(fields, nullable=False),
        highest_field_id=highest,
        partition_keys=tuple(partition_keys),
        primary_keys=tuple(primary_keys),
        options=dict(options),
        comment=comment,
        time_ms=time_ms,
    )
    _check_options(schema)
    return schema


def _check_columns(columns: RowType, primary_keys: Sequence[str], partition_keys: Sequence[str]) -> None:
    names = columns.names
    if not names:
        raise InvalidArgumentError("a table needs at least one column")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidArgumentError(f"column names must differ; {', '.join(twice)} occurs more than once")
    for name in names:
        if name in _SYSTEM_NAMES or name.startswith(KEY_PREFIX):
            raise InvalidArgumentError(f"column name {name!r} is reserved by the format; choose another")
    for role, keys in (("primary key", primary_keys), ("partition key", partition_keys)):
        if len(set(keys)) != len(keys):
            raise InvalidArgumentError(f"a {role} column is named twice in {list(keys)}")
        for key in keys:
            if not isinstance(columns.field(key).type, AtomicType):
                raise InvalidArgumentError(f"{role} column {key!r} must not have a nested type")
    for key in partition_keys:
        data_type = columns.field(key).type
        if isinstance(data_type, AtomicType) and data_type.root in BINARY_ROOTS:
            raise UnsupportedError(
                f"partition key column {key!r} must not be binary: Java would put such partitions into directories "
                "that nobody finds again; use a text, such as its hexadecimal form"
            )
    if primary_keys and set(primary_keys) <= set(partition_keys):
        raise InvalidArgumentError(
            f"primary key {list(primary_keys)} has no column besides the partition keys; "
            "each partition would hold one row"
        )


def _check_options(schema: TableSchema) -> None:
    options = schema.table_options
    _check_bucket_mode(schema)
    if not schema.primary_keys and options.bucket > 0 and not options.bucket_key:
        raise InvalidArgumentError(
            "an append table with a fixed number of buckets needs 'bucket-key'; or set 'bucket' = '-1'"
        )
    for name in (
        *options.bucket_key,
        *options.sequence_fields,
        *([options.rowkind_field] if options.rowkind_field else []),
    ):
        schema.row_type.field(name)
    if schema.primary_keys and not set(options.bucket_key) <= set(schema.trimmed_primary_keys):
        raise InvalidArgumentError(
            f"'bucket-key' = {options.bucket_key} must be columns of the primary key, none of them a partition key"
        )


def _check_bucket_mode(schema: TableSchema) -> None:
    options, mode = schema.table_options, schema.bucket_mode
    if options.bucket == 0 or options.bucket < POSTPONED_BUCKET:
        raise InvalidArgumentError(f"'bucket' = '{options.bucket}'; use a positive number, or -1")
    if options.bucket == POSTPONED_BUCKET and not schema.primary_keys:
        raise InvalidArgumentError("'bucket' = '-2' is for tables with a primary key; use a positive number, or -1")
    if options.bucket == -1 and options.bucket_key:
        raise InvalidArgumentError(
            "'bucket-key' goes with a fixed number of buckets; remove it, or set 'bucket' to a positive number"
        )
    lacks_partition_key = bool(schema.primary_keys) and not set(schema.partition_keys) <= set(schema.primary_keys)
    if lacks_partition_key and mode is not BucketMode.CROSS_PARTITION:
        raise InvalidArgumentError(
            f"primary key {list(schema.primary_keys)} must hold all partition keys {list(schema.partition_keys)} "
            "when 'bucket' is a fixed number or -2; use 'bucket' = '-1' for keys that are unique over all partitions"
        )
    if mode is BucketMode.CROSS_PARTITION and options.sequence_fields:
        raise InvalidArgumentError(
            f"'sequence.field' needs a primary key that holds all partition keys {list(schema.partition_keys)}: "
            f"{list(schema.primary_keys)} does not, so that its rows move between partitions in their order of arrival"
        )
    for count, key in (
        (options.dynamic_bucket_target_row_num, "dynamic-bucket.target-row-num"),
        (options.dynamic_bucket_initial_buckets, "dynamic-bucket.initial-buckets"),
        (options.postpone_default_bucket_num, "postpone.default-bucket-num"),
    ):
        if count is not None and count < 1:
            raise InvalidArgumentError(f"'{key}' = '{count}'; use a positive number")
    _ = options.dynamic_bucket_max_buckets


def _assign_ids(columns: RowType, primary_keys: Sequence[str]) -> tuple[tuple[DataField, ...], int]:
    next_id = 0

    def take() -> int:
        nonlocal next_id
        next_id += 1
        return next_id - 1

    def nested(data_type: DataType) -> DataType:
        match data_type:
            case ArrayType(element):
                return replace(data_type, element=nested(element))
            case MultisetType(element):
                return replace(data_type, element=nested(element))
            case MapType(key, value):
                return replace(data_type, key=nested(key), value=nested(value))
            case RowType(fields):
                done = []
                for item in fields:
                    inner = nested(item.type)
                    done.append(replace(item, id=take(), type=inner))
                return replace(data_type, fields=tuple(done))
            case AtomicType():
                return data_type

    fields = []
    for item in columns:
        column_id = take()
        data_type = nested(item.type)
        if item.name in primary_keys:
            data_type = with_nullable(data_type, nullable=False)
        fields.append(replace(item, id=column_id, type=data_type))
    return tuple(fields), next_id - 1
