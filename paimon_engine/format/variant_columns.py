"""The columns in which a Parquet file has VARIANT values: two, or more where they are shredded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from paimon_engine.arrow_variant import is_arrow_variant

METADATA: Final = "metadata"
VALUE: Final = "value"
TYPED: Final = "typed_value"


DEPTH_MAX: Final = 30
"""Of objects and arrays within each other that get columns: Arrow reads no Parquet file of more than 100 levels."""


@dataclass(frozen=True, slots=True)
class InferenceLimits:
    """`rows`: how many of a file's first rows are looked at.

    `width` limits the columns of all VARIANT columns of a file together, `depth` how deep values are looked into.
    Fields that a smaller share of values has than `share`, from 0 to 1, get no columns.
    """

    width: int = 300
    depth: int = 50
    share: float = 0.1
    rows: int = 4_096


def physical_schema(wanted: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """The columns, where a VARIANT that the file has in several columns has the file's type."""
    if not any(map(pa.types.is_nested, wanted.types)):
        return wanted
    names = {*stored.names}
    return pa.schema(
        [
            field.with_type(physical_type(field.type, stored.field(field.name).type)) if field.name in names else field
            for field in wanted
        ]
    )


def _is_shredded(stored: pa.DataType) -> bool:
    """Whether a VARIANT has other columns than its two; where one of these is missing, joining them fails."""
    names = {field.name for field in stored} if pa.types.is_struct(stored) else set()
    return TYPED in names or not names >= {VALUE, METADATA}


def physical_type(wanted: pa.DataType, stored: pa.DataType) -> pa.DataType:
    """The type, with the file's own where it has a VARIANT in several columns."""
    if is_arrow_variant(wanted):
        return stored if _is_shredded(stored) else wanted
    if pa.types.is_struct(wanted) and pa.types.is_struct(stored):
        inner = {field.name: field.type for field in stored}
        return pa.struct(
            [
                field.with_type(physical_type(field.type, inner[field.name])) if field.name in inner else field
                for field in wanted
            ]
        )
    if pa.types.is_map(wanted) and pa.types.is_map(stored):
        return pa.map_(wanted.key_field, wanted.item_field.with_type(physical_type(wanted.item_type, stored.item_type)))
    if pa.types.is_list(wanted) and pa.types.is_list(stored):
        return pa.list_(wanted.value_field.with_type(physical_type(wanted.value_type, stored.value_type)))
    return wanted
