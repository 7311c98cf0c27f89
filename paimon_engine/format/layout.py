"""What the file formats share: how to write, how many rows to read at once, and a walk over nested Arrow types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.format.variant_columns import InferenceLimits

BATCH_ROWS: Final = 65_536
"""Rows per batch. 64 k was fastest: smaller pays per batch, larger leaves the processor's cache."""


BATCH_BYTES: Final = 32 << 20
"""Decoded bytes per batch, so that a few rows with long values do not fill the memory."""

BATCH_BYTES_MIN: Final = 1 << 20
"""No limit is lower: the work per batch would outweigh that per row."""


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """At most so many rows at once, and of long rows only about so many bytes, though one row at least."""

    rows: int = BATCH_ROWS
    size_bytes: int = BATCH_BYTES

    def rows_of(self, row_bytes: int) -> int:
        """Rows of a batch whose rows take that many bytes each."""
        return max(1, min(self.rows, self.size_bytes // max(1, row_bytes)))

    def shared(self, together_bytes: int, streams: int) -> BatchLimit:
        """The limit of each of some streams that are read side by side, and together at most so many bytes at once."""
        return replace(self, size_bytes=min(self.size_bytes, max(together_bytes // streams, BATCH_BYTES_MIN)))


BATCH_LIMIT: Final = BatchLimit()


ROW_GROUP_BYTES_MAX: Final = 64 << 20
"""Arrow bytes per row group: bounds a writer's memory, and lets readers skip."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Codec name as in `file.compression`, in small letters, and its level where it is zstd.

    `copies`: names of columns whose values are, in each batch, those of a column before; a format may make use of it.
    `mixes_codecs`: the codec was not chosen by anyone, so that a format may take another one where that is read sooner.
    `row_group_bytes`: Arrow bytes that a writer of row groups gathers for one.
    `variants`: how VARIANT values of these columns are taken apart, as `variant_shredding` says, or within which limits
    that is inferred for all columns; a format that has no columns for parts leaves the values whole.
    """

    compression: str = "zstd"
    zstd_level: int = 1
    copies: Mapping[str, str] = field(default_factory=dict)
    row_group_bytes: int = ROW_GROUP_BYTES_MAX
    variants: Mapping[str, pa.DataType] | InferenceLimits = field(default_factory=dict)
    mixes_codecs: bool = False


def text_offsets(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Where each text, or byte string, begins in the bytes of the column, and where the last ends: shape [n + 1]."""
    if not len(texts):
        return np.zeros(1, np.int32)
    return np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, 4 * texts.offset)


def replace_leaves(
    data_type: pa.DataType, replace: Callable[[pa.DataType], pa.DataType], *, nullable: bool = False
) -> pa.DataType:
    """The type with every type that is not nested replaced; names stay.

    Nullability stays too, or with `nullable` everything inside may be null, but for keys of maps.
    """

    def inner(field: pa.Field) -> pa.Field:
        changed = field.with_type(replace_leaves(field.type, replace, nullable=nullable))
        return changed.with_nullable(nullable or field.nullable)

    if pa.types.is_map(data_type):
        return pa.map_(inner(data_type.key_field).with_nullable(False), inner(data_type.item_field))
    if pa.types.is_list(data_type):
        return pa.list_(inner(data_type.value_field))
    if pa.types.is_struct(data_type):
        return pa.struct([inner(data_type.field(index)) for index in range(data_type.num_fields)])
    return replace(data_type)


def leaves_of(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """The types without parts within a type, in order; for a type without parts, the type itself."""
    if not pa.types.is_nested(data_type):
        yield data_type
        return
    for index in range(data_type.num_fields):
        yield from leaves_of(data_type.field(index).type)


def leaf_arrays(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays behind `leaves_of` the array's type; values below nulls are left out."""
    if pa.types.is_map(array.type):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        for part in (array.keys, array.items):
            yield from leaf_arrays(part[begin:end])
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from leaf_arrays(part)
    elif pa.types.is_nested(array.type):
        yield from leaf_arrays(array.flatten())
    else:
        yield array


def leaf_paths(wanted: pa.Schema, stored: pa.Schema) -> list[str]:
    """What to read of a file for the columns of `wanted` that it has: of rows the fields that are wanted, by dots."""
    names = {*stored.names}
    if not any(map(pa.types.is_struct, wanted.types)):
        return [name for name in wanted.names if name in names]
    return [leaf for field in wanted if field.name in names for leaf in _paths(field, stored.field(field.name))]


def _paths(wanted: pa.Field, stored: pa.Field) -> list[str]:
    if not (pa.types.is_struct(wanted.type) and pa.types.is_struct(stored.type)):
        return [stored.name]
    inner = {stored.type.field(index).name: stored.type.field(index) for index in range(stored.type.num_fields)}
    fields = [wanted.type.field(index) for index in range(wanted.type.num_fields)]
    if not {field.name for field in fields} <= inner.keys():
        return [stored.name]
    paths = [path for field in fields for path in _paths(field, inner[field.name])]
    # A nested field may have fewer fields than in the file, even if the outer ones are complete.
    return [stored.name] if paths == list(inner) else [f"{stored.name}.{path}" for path in paths]


def dictionary_decoded(rows: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    """The rows with plain values in the columns of these names, which are Arrow dictionaries."""
    for name in names:
        index = rows.schema.get_field_index(name)
        field = rows.schema.field(index)
        rows = rows.set_column(index, field.with_type(field.type.value_type), rows.column(index).dictionary_decode())
    return rows


def cast(array: pa.Array, data_type: pa.DataType, *, safe: bool = True) -> pa.Array:
    """The array in another type of the same shape.

    Below a row that is null, a field that must not be null may have nulls; Arrow's cast refuses that.
    Raises: pyarrow.ArrowInvalid for values that do not fit, where `safe`.
    """
    if array.type == data_type:
        return array
    if not pa.types.is_nested(data_type):
        return array.cast(data_type, safe=safe)
    nullable = array.cast(replace_leaves(data_type, lambda leaf: leaf, nullable=True), safe=safe)
    return _relabelled(copied(nullable), data_type)


def cast_rows(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema, in its order and types, as `cast` makes them.

    Raises: pyarrow.ArrowInvalid for values that do not fit.
    """
    return pa.RecordBatch.from_arrays([cast(rows[field.name], field.type) for field in schema], schema=schema)


def without_nulls_below(array: pa.Array) -> pa.Array:
    """The array with no nulls in fields that must not be null, as Arrow's encoders want it below null rows too."""
    return _relabelled(copied(array), array.type) if _has_required_field(array.type) else array


def _has_required_field(data_type: pa.DataType) -> bool:
    inner = [data_type.field(index) for index in range(data_type.num_fields)]
    is_one = pa.types.is_struct(data_type) and not all(field.nullable for field in inner)
    return is_one or any(_has_required_field(field.type) for field in inner)


def copied(array: pa.Array) -> pa.Array:
    """The same values in new buffers: the children of a slice do not begin where the slice does."""
    return pa.concat_arrays([array, array.slice(0, 0)])


def _relabelled(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The array with names and nullability of a type; shape and leaves are the same."""
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        parts = [_part(array.field(index), field) for index, field in enumerate(fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    if pa.types.is_list(data_type):
        values = _part(array.values, data_type.value_field)
        return pa.ListArray.from_arrays(array.offsets, values, type=data_type, mask=mask)
    if pa.types.is_map(data_type):
        keys, items = _part(array.keys, data_type.key_field), _part(array.items, data_type.item_field)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=data_type, mask=mask)
    return array


def _part(array: pa.Array, field: pa.Field) -> pa.Array:
    inner = _relabelled(array, field.type)
    return inner if field.nullable or not inner.null_count else _without_nulls(inner)


def _without_nulls(array: pa.Array) -> pa.Array:
    """The array with some value instead of each null; these are not read, as the row around them is null."""
    if pa.types.is_struct(array.type):
        fields = [array.type.field(index) for index in range(array.type.num_fields)]
        parts = [_part(array.field(index), field) for index, field in enumerate(fields)]
        return pa.StructArray.from_arrays(parts, fields=fields)
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=array.type)
    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=array.type)
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], offset=array.offset)
