"""Ids of what is inside of nested columns in Parquet files, by which Iceberg's readers find them.

Source: `ParquetSchemaConverter`, `SpecialFields` of the Java library.
"""

from __future__ import annotations

import pyarrow as pa

from paimon_engine.meta.iceberg.schemas import element_id, key_id
from paimon_engine.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, VariantType

_KEY = "PARQUET:field_id"


def with_inner_ids(arrow: pa.Field, field: DataField) -> pa.Field:
    """The Arrow field of a column, with ids of its elements, keys, values and fields."""
    return arrow.with_type(_type(arrow.type, field.type, field.id, 1))


def _type(arrow: pa.DataType, data_type: DataType, field_id: int, depth: int) -> pa.DataType:
    """The type of a column `field_id`, or of what is `depth` - 1 levels within it."""
    match data_type:
        case ArrayType(element):
            return pa.list_(_part(arrow.value_field, element, element_id(field_id, depth), field_id, depth))
        case MapType() | MultisetType():
            key, value = _inner(data_type)
            arrow_key = _part(arrow.key_field, key, key_id(field_id, depth), field_id, depth)
            arrow_value = arrow.item_field.with_metadata({_KEY: str(element_id(field_id, depth))})
            if value is not None:
                arrow_value = _part(arrow.item_field, value, element_id(field_id, depth), field_id, depth)
            return pa.map_(arrow_key, arrow_value)
        case VariantType():
            return arrow
        case RowType(fields):
            parts = [arrow.field(index) for index in range(arrow.num_fields)]
            return pa.struct(
                [_part(part, field.type, field.id, field.id, 0) for part, field in zip(parts, fields, strict=True)]
            )
    return arrow


def _inner(data_type: MapType | MultisetType) -> tuple[DataType, DataType | None]:
    if isinstance(data_type, MapType):
        return data_type.key, data_type.value
    return data_type.element, None


def _part(arrow: pa.Field, data_type: DataType, own_id: int, field_id: int, depth: int) -> pa.Field:
    """A part of a column `field_id`, with its own id."""
    return arrow.with_type(_type(arrow.type, data_type, field_id, depth + 1)).with_metadata({_KEY: str(own_id)})
