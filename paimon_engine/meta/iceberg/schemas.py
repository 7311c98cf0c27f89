"""Iceberg's form of a table's columns and partition columns.

Source: `IcebergDataField`, `IcebergSchema`, `SpecialFields` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paimon_engine.errors import UnsupportedError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VariantType,
    VectorType,
)

FIRST_PARTITION_FIELD: Final = 1000
_NESTED_ID_BASE: Final = 536870911
"""Ids of elements, keys and values are counted from here, as in Parquet files of the Java library."""
_NESTED_DEPTH_MAX: Final = 1 << 10
_TIME_DIGITS_MAX: Final = 3
_TIMESTAMP_DIGITS_MIN: Final = 3
_MICROS_DIGITS: Final = 6

_SIMPLE: Final[Mapping[TypeRoot, str]] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: "date",
    **dict.fromkeys(STRING_ROOTS, "string"),
    **dict.fromkeys(BINARY_ROOTS, "binary"),
}


def iceberg_schema(schema: TableSchema) -> dict[str, Any]:
    """The schema in metadata. Raises: UnsupportedError naming a column whose type Iceberg's readers do not know."""
    return {"type": "struct", "schema-id": schema.id, "fields": [_field(field) for field in schema.row_type]}


def partition_fields(schema: TableSchema) -> list[dict[str, Any]]:
    """The fields of the partition spec: each partition column as it is."""
    ids = {field.name: field.id for field in schema.row_type}
    return [
        {"name": name, "transform": "identity", "source-id": ids[name], "field-id": FIRST_PARTITION_FIELD + index}
        for index, name in enumerate(schema.partition_keys)
    ]


def element_id(field_id: int, depth: int) -> int:
    """Id of the elements of a list or the values of a map, so many levels within a column."""
    return _NESTED_ID_BASE + field_id * _NESTED_DEPTH_MAX + depth


def key_id(field_id: int, depth: int) -> int:
    """Id of the keys of a map."""
    return _NESTED_ID_BASE - field_id * _NESTED_DEPTH_MAX - depth


def _field(field: DataField) -> dict[str, Any]:
    found = {
        "id": field.id,
        "name": field.name,
        "required": not field.type.nullable,
        "type": _type(field.type, field.id, 0, field.name),
    }
    return found if field.description is None else {**found, "doc": field.description}


def _type(data_type: DataType, field_id: int, depth: int, name: str) -> Any:
    """The type of a column, or of what is `depth` levels within it."""
    inner = depth + 1
    match data_type:
        case VariantType() | VectorType():
            kind = "VARIANT" if isinstance(data_type, VariantType) else "VECTOR"
            raise UnsupportedError(
                f"column {name!r} is {kind}, which Iceberg metadata beside a table cannot say; drop the column, or "
                "set 'metadata.iceberg.storage' = 'disabled'"
            )
        case AtomicType():
            return _atomic(data_type, name)
        case ArrayType():
            return {
                "type": "list",
                "element-id": element_id(field_id, inner),
                "element-required": not data_type.element.nullable,
                "element": _type(data_type.element, field_id, inner, name),
            }
        case MapType():
            key, value, required = data_type.key, data_type.value, not data_type.value.nullable
            value_type = _type(value, field_id, inner, name)
        case MultisetType():
            key, required, value_type = data_type.element, True, "int"
        case RowType():
            return {"type": "struct", "fields": [_field(field) for field in data_type.fields]}
    return {
        "type": "map",
        "key-id": key_id(field_id, inner),
        "key": _type(key, field_id, inner, name),
        "value-id": element_id(field_id, inner),
        "value-required": required,
        "value": value_type,
    }


def _atomic(data_type: AtomicType, name: str) -> str:
    """The type of a column `name` without parts. Raises: UnsupportedError."""
    root = data_type.root
    if root in _SIMPLE:
        return _SIMPLE[root]
    if root == TypeRoot.DECIMAL:
        return f"decimal({data_type.precision}, {data_type.scale})"
    if root == TypeRoot.TIME and data_type.precision <= _TIME_DIGITS_MAX:
        return "time"
    if root in TIMESTAMP_ROOTS and data_type.precision >= _TIMESTAMP_DIGITS_MIN:
        kind = "timestamp" if root == TypeRoot.TIMESTAMP else "timestamptz"
        return kind if data_type.precision <= _MICROS_DIGITS else f"{kind}_ns"
    raise UnsupportedError(
        f"column {name!r} is {root}({data_type.precision}): Iceberg metadata beside a table takes TIME of 0 to 3 and "
        "timestamps of 3 to 9 digits; change the column, or set 'metadata.iceberg.storage' = 'disabled'"
    )
