"""A table's schema: the JSON of `schema/schema-<id>`, its keys, its creation.

Field ids follow the Java library (`Schema.Builder`, `ReassignFieldId`): columns in order, but inside a column the
nested fields are numbered depth-first, children before their parent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, damaged
from paimon_engine.format.json_text import pretty_json
from paimon_engine.format.stored import INT_MAX, WRONG, integer_or_none, parse_object, reason, required_integer, texts
from paimon_engine.options import POSTPONED_BUCKET, TableOptions
from paimon_engine.options.older_names import with_newest_names
from paimon_engine.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
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
ROW_ID = "_ROW_ID"
_KEYS = frozenset(
    {
        *("version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys"),
        *("options", "comment", "timeMillis"),
    }
)


class BucketMode(StrEnum):
    """How a row finds its bucket."""

    FIXED = "fixed"
    """By the hash of the bucket key, over a fixed number of buckets."""
    UNAWARE = "unaware"
    """Append tables without buckets: everything is in bucket 0."""
    DYNAMIC = "dynamic"
    """By a hash index per partition, which grows with the keys; the primary key contains all partition columns."""
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
    def run_key_type(self) -> RowType | None:
        """The trimmed primary key, if levels above 0 are runs sorted by it; else None."""
        has_runs = self.primary_keys and not self.table_options.clustering_overrides_keys
        return self.key_type if has_runs else None

    @property
    def table_options(self) -> TableOptions:
        """The options, typed."""
        return TableOptions(self.options, has_primary_key=bool(self.primary_keys))

    def with_options(self, options: Mapping[str, str]) -> TableSchema:
        """The same schema with dynamic options laid over the stored ones.

        Raises: InvalidArgumentError if these name a column that the table lacks.
        """
        laid = replace(self, options={**self.options, **with_newest_names(options)})
        if "sequence.field" in options:
            laid.check_sequence_fields()
        return laid

    def check_sequence_fields(self) -> None:
        """Raises InvalidArgumentError if rows cannot be put in order, since a column for that is missing."""
        missing = [name for name in self.table_options.sequence_fields if name not in self.row_type]
        if missing:
            names = ", ".join(self.row_type.names)
            raise InvalidArgumentError(f"'sequence.field': no column {missing[0][:100]!r}; the columns are {names}")


def parse_schema(data: str | bytes, path: str) -> TableSchema:
    """Schema of its JSON; versions 1 and 2 get the defaults of their time.

    Raises: CorruptTableError naming `path`; UnsupportedError for unknown types.
    """
    value = parse_object(data, path)
    try:
        version = required_integer(value, "version", 1) if "version" in value else 1
        options = dict(value.get("options") or {})
        if not all(isinstance(item, str) for pair in options.items() for item in pair):
            raise ValueError("an option is not a text")
        if version == 1:
            options.setdefault("bucket", "1")
        if version <= 2:
            options.setdefault("file.format", "orc")
        schema = TableSchema(
            id=required_integer(value, "id", 0),
            row_type=RowType(tuple(parse_field(item) for item in value["fields"]), nullable=False),
            highest_field_id=required_integer(value, "highestFieldId", -1),
            partition_keys=texts(value, "partitionKeys"),
            primary_keys=texts(value, "primaryKeys"),
            options=options,
            comment=value.get("comment"),
            time_ms=integer_or_none(value, "timeMillis") or 0,
            version=version,
            unknown={key: item for key, item in value.items() if key not in _KEYS},
        )
        _check_stored(schema)
        # Releases that do not know the option make the columns NOT NULL when they alter the table.
        return with_key_nullability(schema) if schema.table_options.nullable_keys else schema
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
    schema.check_sequence_fields()


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
    # Java would read an explicit null as the text "null".
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
    """Schema 0 of a new table, ids assigned; `meta.schema_rules` checks it.

    Raises: InvalidArgumentError if keys are named both by argument and by option.
    """
    schema = TableSchema(
        id=0,
        row_type=columns,
        highest_field_id=-1,
        partition_keys=tuple(partition_keys),
        primary_keys=tuple(primary_keys),
        options=dict(options),
        comment=comment,
        time_ms=time_ms,
    )
    schema = keys_of_options(schema)
    fields, highest = _assign_ids(columns)
    row_type = RowType(fields, nullable=False)
    return with_key_nullability(replace(schema, row_type=row_type, highest_field_id=highest))


def keys_of_options(schema: TableSchema) -> TableSchema:
    """The schema with the options `primary-key` and `partition` turned into its keys.

    Raises: InvalidArgumentError if it has such keys already.
    """
    options = dict(schema.options)
    keys = {"primary-key": schema.primary_keys, "partition": schema.partition_keys}
    for option, given in keys.items():
        text = options.pop(option, None)
        if text is None:
            continue
        if given:
            raise InvalidArgumentError(f"'{option}' = {text!r}, but the table has {list(given)} already; leave one out")
        keys[option] = tuple(part.strip() for part in text.split(",") if part.strip())
    return replace(schema, options=options, primary_keys=keys["primary-key"], partition_keys=keys["partition"])


def with_key_nullability(schema: TableSchema) -> TableSchema:
    """The schema, whose primary key is NOT NULL, or may be null with `primary-key.nullable`, whatever was given."""
    nullable = schema.table_options.nullable_keys
    fields = [
        replace(item, type=with_nullable(item.type, nullable=nullable)) if item.name in schema.primary_keys else item
        for item in schema.row_type
    ]
    return replace(schema, row_type=replace(schema.row_type, fields=tuple(fields)))


def _assign_ids(columns: RowType) -> tuple[tuple[DataField, ...], int]:
    """Columns with ids, and the highest one."""
    next_id = itertools.count()
    fields = []
    for item in columns:
        column_id = next(next_id)
        fields.append(replace(item, id=column_id, type=with_nested_ids(item.type, next_id)))
    return tuple(fields), next(next_id) - 1


def with_nested_ids(data_type: DataType, next_id: Iterator[int]) -> DataType:
    """The type with ids for the fields of its rows, children before their parent."""
    match data_type:
        case ArrayType(element) | MultisetType(element):
            return replace(data_type, element=with_nested_ids(element, next_id))
        case MapType(key, value):
            return replace(data_type, key=with_nested_ids(key, next_id), value=with_nested_ids(value, next_id))
        case VariantType():
            return data_type  # its parts are no fields of the table
        case RowType(fields):
            done = []
            for item in fields:
                inner = with_nested_ids(item.type, next_id)
                done.append(replace(item, id=next(next_id), type=inner))
            return replace(data_type, fields=tuple(done))
        case AtomicType() | VectorType():
            return data_type
