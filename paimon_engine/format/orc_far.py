"""Timestamps before 1677 and after 2262 in ORC files, of which Arrow cannot count the nanoseconds.

Their streams are decoded here. For all others Arrow gets the stripe as a separate file, with zeros instead of these
streams. Why this is not left to a library: `orc_timestamps`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from paimon_engine.errors import UnsupportedError
from paimon_engine.format.orc_message import (
    FOOTER_ROWS,
    STRIPE_ROWS,
    fields,
)
from paimon_engine.format.orc_timestamps import (
    PER_SECOND,
    Moments,
    Tail,
    one_stripe_file,
    rewritten_stripe,
    stored_moments,
    stripe_footer,
    timestamp_columns,
    type_tree,
)

_ENCODINGS, _ENCODING_KIND, _ZONE = 2, 1, 3
_DIRECT_V2: Final = 2
_ZONES: Final = (b"UTC", b"GMT", b"")


def read_far_stripe(source: BinaryIO, file: po.ORCFile, number: int, wanted: Sequence[pa.Field]) -> pa.RecordBatch:
    """The wanted columns of a stripe, timestamps in the units that are wanted.

    Raises: UnsupportedError for timestamps that such a unit cannot count; an error out of `orc_message.WRONG` where
    the bytes are damaged.
    """
    tail = Tail.read(source, file)
    stripe = tail.stripes[number]
    columns = [column for _, column in timestamp_columns(file.schema)]
    footer = _countable_footer(source, stripe, columns, tail)
    moments = {column: stored_moments(source, stripe, footer, column, tail) for column in columns}
    zeros = {column: Moments(*2 * [np.zeros(len(found.seconds), np.int64)]) for column, found in moments.items()}
    parts = rewritten_stripe(source, stripe, footer, zeros, tail)
    rows_alone = [(key, stripe[STRIPE_ROWS] if key == FOOTER_ROWS else value) for key, value in tail.footer]
    alone = one_stripe_file(replace(tail, footer=rows_alone), stripe, *parts)
    rows = po.ORCFile(pa.BufferReader(alone)).read_stripe(0, [field.name for field in wanted])
    numbers, number = {}, 1
    for field in file.schema:
        numbers[field.name] = number
        number += _size(field.type)
    arrays = [_rebuilt(rows[field.name], field.type, numbers[field.name], moments) for field in wanted]
    return pa.RecordBatch.from_arrays(arrays, [field.name for field in wanted])


def _size(data_type: pa.DataType) -> int:
    return sum(1 for _ in type_tree(data_type))


def _countable_footer(
    source: BinaryIO, stripe: Mapping[int, Any], columns: Sequence[int], tail: Tail
) -> list[tuple[int, Any]]:
    """The fields of the stripe's footer, if timestamps of these columns are kept as they are decoded here."""
    footer = stripe_footer(source, stripe, tail)
    zone = dict(footer).get(_ZONE, b"")
    if zone not in _ZONES:
        raise UnsupportedError(f"timestamps before 1677 or after 2262, counted in the time zone {zone.decode()!r}")
    encodings = [dict(fields(value)).get(_ENCODING_KIND, 0) for number, value in footer if number == _ENCODINGS]
    for column in columns:
        if encodings[column] != _DIRECT_V2:
            raise UnsupportedError(f"timestamps before 1677 or after 2262 in the encoding {encodings[column]}")
    return footer


def _rebuilt(array: pa.Array, wanted: pa.DataType, column: int, moments: Mapping[int, Moments]) -> pa.Array:
    """The array with the timestamps of the columns from this one on, and of rows the fields that are wanted."""
    kind = array.type
    mask = array.is_null() if array.null_count else None
    if pa.types.is_timestamp(kind):
        return _timestamps(array, wanted, moments[column])
    if pa.types.is_map(kind):
        keys = _rebuilt(array.keys, wanted.key_type, column + 1, moments)
        items = _rebuilt(array.items, wanted.item_type, column + 1 + _size(kind.key_type), moments)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=mask)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            array.offsets, _rebuilt(array.values, wanted.value_type, column + 1, moments), mask=mask
        )
    if pa.types.is_struct(kind):
        inner = [kind.field(index) for index in range(kind.num_fields)]
        sizes = [_size(field.type) for field in inner]
        named = {field.name: (index, column + 1 + sum(sizes[:index])) for index, field in enumerate(inner)}
        asked = [wanted.field(index) for index in range(wanted.num_fields)]
        parts = [_rebuilt(array.field(named[one.name][0]), one.type, named[one.name][1], moments) for one in asked]
        return pa.StructArray.from_arrays(parts, [one.name for one in asked], mask=mask)
    return array


def _timestamps(array: pa.Array, wanted: pa.TimestampType, moments: Moments) -> pa.Array:
    per_second = PER_SECOND[wanted.unit]
    is_valid = np.asarray(array.is_valid())
    if is_valid.sum() != len(moments.seconds):
        raise ValueError(f"{len(moments.seconds)} timestamps for {is_valid.sum()} rows that have one")
    farthest = np.abs(moments.seconds).max(initial=0)
    if farthest >= np.iinfo(np.int64).max // per_second:
        raise UnsupportedError(f"timestamps {farthest:,} seconds from 1970, which Arrow cannot count in {wanted.unit}")
    counts = np.zeros(len(array), np.int64)
    counts[is_valid] = moments.seconds * per_second + moments.nanos // (1_000_000_000 // per_second)
    return pa.array(counts, mask=~is_valid).cast(wanted)
