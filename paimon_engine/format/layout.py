"""What the file formats share: how to write, how many rows to read at once, and a walk over nested Arrow types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

BATCH_ROWS: Final = 65_536
"""Rows per batch. 64 k was fastest: smaller pays per batch, larger leaves the processor's cache."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Codec name as in `file.compression`, in small letters, and its level where it is zstd."""

    compression: str = "zstd"
    zstd_level: int = 1


def replace_leaves(data_type: pa.DataType, replace: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with every type that is not nested replaced; names and nullability stay."""

    def inner(field: pa.Field) -> pa.Field:
        return field.with_type(replace_leaves(field.type, replace))

    if pa.types.is_map(data_type):
        return pa.map_(inner(data_type.key_field), inner(data_type.item_field))
    if pa.types.is_list(data_type):
        return pa.list_(inner(data_type.value_field))
    if pa.types.is_struct(data_type):
        return pa.struct([inner(data_type.field(place)) for place in range(data_type.num_fields)])
    return replace(data_type)
