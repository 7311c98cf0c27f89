"""VARIANT in Arrow: a struct of two binary columns, which a mark tells from other structs, as in Spark."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

VARIANT_MARK: Final = b"variant"
"""A key in the metadata of a field of the struct."""
ARROW_VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={VARIANT_MARK: b"true"}),
    ]
)
"""`value` in the binary form of Parquet and Spark; `metadata` has the names in it."""


def is_arrow_variant(arrow_type: pa.DataType) -> bool:
    """Whether it is the Arrow type of VARIANT, of this engine or of Spark."""
    return has_mark(arrow_type, VARIANT_MARK) and {field.name for field in arrow_type} == {"value", "metadata"}


def has_mark(arrow_type: pa.DataType, mark: bytes) -> bool:
    """Whether a field of a struct has the mark by which Spark represents another type."""
    return pa.types.is_struct(arrow_type) and any(mark in (field.metadata or ()) for field in arrow_type)
