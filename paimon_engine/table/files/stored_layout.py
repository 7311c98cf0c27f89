"""How rows are laid out in new data files: their columns with field ids, and how they are encoded.

Source: `KeyValueDataFileWriter`, `RowDataFileWriter` of the Java library.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from paimon_engine.errors import UnsupportedError
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import layout_of
from paimon_engine.format.parquet_row_groups import Layout
from paimon_engine.meta.iceberg.field_ids import with_inner_ids
from paimon_engine.meta.schema import KEY_FIELD_ID_OFFSET, KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from paimon_engine.meta.variants import shredding_of
from paimon_engine.types import (
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic_types,
    stored_arrow,
)

_AVRO_TIME_PRECISION_MAX: Final = 3
_SEQUENCE_NUMBER_ID: Final = 2147483646
_VALUE_KIND_ID: Final = 2147483645


def file_arrow_schema(schema: TableSchema) -> pa.Schema:
    """Columns of a data file, with field ids: keys, sequence number, row kind and all columns of the table, the values.

    Thin files leave out the keys, which are among the values too. Files of append tables have the values only.
    """
    values = [_with_id(field, field.name, field.id) for field in schema.row_type]
    if schema.table_options.iceberg_storage != "disabled":
        values = [with_inner_ids(arrow, field) for arrow, field in zip(values, schema.row_type, strict=True)]
    if not schema.primary_keys:
        return pa.schema(values)
    in_front = () if schema.table_options.thin_files else schema.key_type
    keys = [_with_id(field, KEY_PREFIX + field.name, field.id + KEY_FIELD_ID_OFFSET) for field in in_front]
    system = [
        _identified(pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False), _SEQUENCE_NUMBER_ID),
        _identified(pa.field(VALUE_KIND, pa.int8(), nullable=False), _VALUE_KIND_ID),
    ]
    return pa.schema([*keys, *system, *values])


def _with_id(field: DataField, name: str, field_id: int) -> pa.Field:
    return _identified(pa.field(name, stored_arrow(field.type), field.type.nullable), field_id)


def _identified(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(field_id)})


def encoding_of(schema: TableSchema, file_format: str, codec: str) -> WriteOptions:
    """How columns are encoded. Raises: UnsupportedError, InvalidArgumentError for a codec that the format lacks."""
    options = schema.table_options
    stored = {*file_arrow_schema(schema).names}
    copies = {name: KEY_PREFIX + name for name in schema.key_type.names if KEY_PREFIX + name in stored}
    variants = shredding_of(schema) if file_format == "parquet" else {}
    return WriteOptions(
        options.codec_of(file_format, codec),
        options.zstd_level,
        copies,
        variants=variants,
        mixes_codecs=not options.chooses_codec(file_format),
    )


def parquet_layout(schema: TableSchema, level: int) -> Layout:
    """Layout of the Parquet files that a `RollingWriter` writes at a level."""
    codec = schema.table_options.file_compression_of(level)
    return layout_of(file_arrow_schema(schema), encoding_of(schema, "parquet", codec))


def check_types(schema: TableSchema, file_format: str) -> None:
    """Checks what Arrow types do not show; the formats check these types themselves. Raises: UnsupportedError."""
    for field in schema.row_type if file_format == "avro" else ():
        for part in atomic_types(field.type):
            if part.root is TypeRoot.TIME and part.precision > _AVRO_TIME_PRECISION_MAX:
                raise UnsupportedError(
                    f"column {field.name!r}: Avro files store times of up to 3 digits; "
                    "use TIME(3), or another 'file.format'"
                )
        if _has_multiset_of_non_texts(field.type):
            raise UnsupportedError(
                f"column {field.name!r}: no released reader knows an Avro file with a MULTISET of anything but texts; "
                "use another 'file.format'"
            )


def _has_multiset_of_non_texts(data_type: DataType) -> bool:
    match data_type:
        case MultisetType(element):
            return not isinstance(element, AtomicType) or element.root not in STRING_ROOTS
        case ArrayType(element):
            return _has_multiset_of_non_texts(element)
        case MapType(key, value):
            return _has_multiset_of_non_texts(key) or _has_multiset_of_non_texts(value)
        case RowType(fields):
            return any(_has_multiset_of_non_texts(field.type) for field in fields)
        case _:
            return False
