"""Columns of VARIANT: which tables may have them, and what their first bytes must be."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import UnsupportedError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType, VariantType, VectorType


def holds_variant(data_type: DataType) -> bool:
    """Whether the type is VARIANT, or has one inside."""
    match data_type:
        case VariantType():
            return True
        case ArrayType(element) | MultisetType(element):
            return holds_variant(element)
        case MapType(key, value):
            return holds_variant(key) or holds_variant(value)
        case RowType(fields):
            return any(holds_variant(field.type) for field in fields)
        case AtomicType() | VectorType():
            return False


def check_formats_of_variants(schema: TableSchema) -> None:
    """Raises UnsupportedError if files of the table could not store its columns of VARIANT."""
    options = schema.table_options
    others = {*options.file_formats, options.changelog_file_format or "parquet"} - {"parquet"}
    for field in schema.row_type:
        if others and holds_variant(field.type):
            raise UnsupportedError(
                f"column {field.name!r}: VARIANT is stored in Parquet only, as in Java; use 'file.format' = 'parquet', "
                f"and no {', '.join(sorted(others))} for levels or changelogs"
            )


_VARIANT_VERSION: Final = 1
_VERSION_BITS: Final = 0x0F


def has_bad_variant(column: pa.Array, data_type: DataType) -> bool:
    """Whether the first bytes of a VARIANT, at any depth, show that it is none: no reader could read it."""
    column = column.drop_null()
    match data_type:
        case VariantType():
            heads = pc.binary_slice(column.field("metadata"), 0, 1)
            versions = [bytes([head]) for head in range(256) if head & _VERSION_BITS == _VARIANT_VERSION]
            is_good = pc.and_(
                pc.is_in(heads, value_set=pa.array(versions, pa.binary())),
                pc.greater(pc.binary_length(column.field("value")), 0),
            )
            return not pc.all(is_good, min_count=0).as_py()
        case ArrayType(element):
            return has_bad_variant(column.flatten(), element)
        case MapType(_, value):
            begin, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
            return has_bad_variant(column.items[begin:end], value)
        case RowType(fields):
            return any(has_bad_variant(part, one.type) for part, one in zip(column.flatten(), fields, strict=True))
        case _:
            return False
