"""Which Paimon type holds the values of an Arrow type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from paimon_engine.arrow_variant import VARIANT_MARK, has_mark, is_arrow_variant
from paimon_engine.errors import UnsupportedError
from paimon_engine.types import (
    MAX_DECIMAL_PRECISION,
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    VariantType,
)

_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], AtomicType], ...] = (
    (pa.types.is_boolean, AtomicType(TypeRoot.BOOLEAN)),
    (pa.types.is_int8, AtomicType(TypeRoot.TINYINT)),
    (pa.types.is_int16, AtomicType(TypeRoot.SMALLINT)),
    (pa.types.is_uint8, AtomicType(TypeRoot.SMALLINT)),
    (pa.types.is_int32, AtomicType(TypeRoot.INT)),
    (pa.types.is_uint16, AtomicType(TypeRoot.INT)),
    (pa.types.is_int64, AtomicType(TypeRoot.BIGINT)),
    (pa.types.is_uint32, AtomicType(TypeRoot.BIGINT)),
    (pa.types.is_uint64, AtomicType(TypeRoot.DECIMAL, precision=20)),
    (pa.types.is_float16, AtomicType(TypeRoot.FLOAT)),
    (pa.types.is_float32, AtomicType(TypeRoot.FLOAT)),
    (pa.types.is_float64, AtomicType(TypeRoot.DOUBLE)),
    (pa.types.is_string, AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)),
    (pa.types.is_large_string, AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)),
    (pa.types.is_string_view, AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)),
    (pa.types.is_binary, AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)),
    (pa.types.is_large_binary, AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)),
    (pa.types.is_binary_view, AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)),
    (pa.types.is_date, AtomicType(TypeRoot.DATE)),
)
_UNIT_PRECISION = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def from_arrow(arrow_type: pa.DataType, *, nullable: bool = True) -> DataType:
    """Narrowest Paimon type for all values of `arrow_type`. Nested fields get id −1.

    Raises: UnsupportedError for Arrow types without a Paimon counterpart.
    """
    for is_type, data_type in _FROM_ARROW:
        if is_type(arrow_type):
            return replace(data_type, nullable=nullable)
    if pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
        return from_arrow(arrow_type.value_type, nullable=nullable)
    if pa.types.is_fixed_size_binary(arrow_type) and arrow_type.byte_width > 0:
        return AtomicType(TypeRoot.BINARY, nullable, length=arrow_type.byte_width)
    if pa.types.is_decimal(arrow_type):
        return _from_arrow_decimal(arrow_type, nullable=nullable)
    if pa.types.is_time(arrow_type):
        return _from_arrow_time(arrow_type, nullable=nullable)
    if pa.types.is_timestamp(arrow_type):
        root = TypeRoot.TIMESTAMP if arrow_type.tz is None else TypeRoot.TIMESTAMP_LTZ
        return AtomicType(root, nullable, precision=_UNIT_PRECISION[arrow_type.unit])
    if pa.types.is_map(arrow_type):
        key, value = arrow_type.key_type, arrow_type.item_field
        return MapType(from_arrow(key, nullable=False), from_arrow(value.type, nullable=value.nullable), nullable)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type) or pa.types.is_fixed_size_list(arrow_type):
        item = arrow_type.value_field
        return ArrayType(from_arrow(item.type, nullable=item.nullable), nullable)
    if is_arrow_variant(arrow_type):
        return VariantType(nullable=nullable)
    if pa.types.is_struct(arrow_type) and arrow_type.num_fields:
        _check_struct(arrow_type)
        return RowType(tuple(from_arrow_field(arrow_type.field(i)) for i in range(arrow_type.num_fields)), nullable)
    raise UnsupportedError(f"Arrow type {arrow_type} has no Paimon counterpart; cast the column first")


def _from_arrow_decimal(arrow_type: pa.DataType, *, nullable: bool) -> AtomicType:
    """The scale is between 0 and the precision here, unlike in Arrow; more digits are added where needed."""
    scale = max(arrow_type.scale, 0)
    precision = max(arrow_type.precision + scale - arrow_type.scale, scale)
    if precision > MAX_DECIMAL_PRECISION:
        raise UnsupportedError(
            f"Arrow type {arrow_type}: a DECIMAL has at most {MAX_DECIMAL_PRECISION} digits; cast the column first"
        )
    return AtomicType(TypeRoot.DECIMAL, nullable, precision=precision, scale=scale)


def _check_struct(arrow_type: pa.DataType) -> None:
    """Refuses structs by which Spark represents other types; one of their fields has a mark."""
    for name in (b"geometry", b"geography", VARIANT_MARK):
        if has_mark(arrow_type, name):
            raise UnsupportedError(
                f"type {name.decode().upper()} is not supported yet, or not in this form ({arrow_type}); cast the "
                "column to STRING or BYTES first"
            )


def _from_arrow_time(arrow_type: pa.DataType, *, nullable: bool) -> AtomicType:
    if arrow_type.unit not in ("s", "ms"):
        raise UnsupportedError(
            f"Arrow type {arrow_type}: Paimon keeps times in milliseconds; cast the column to time32[ms]"
        )
    return AtomicType(TypeRoot.TIME, nullable, precision=_UNIT_PRECISION[arrow_type.unit])


def from_arrow_field(field: pa.Field) -> DataField:
    """Field without an id (−1) of an Arrow field; its comment is the metadata key `description` or `comment`."""
    metadata = field.metadata or {}
    description = metadata.get(b"description") or metadata.get(b"comment")
    return DataField(
        -1, field.name, from_arrow(field.type, nullable=field.nullable), description.decode() if description else None
    )
