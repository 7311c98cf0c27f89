"""The stripes of an ORC file: number of rows of each, and ranges of the values of its columns.

The end of a file is `… stripe statistics | footer | postscript | length of the postscript`. The first two are protocol
buffers in chunks of the file's codec. Statistics of columns come in the order of the type tree, a row before its parts.

Source: the ORC specification, version 1, "File Tail" and "Column Statistics".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.orc as po

from paimon_engine.format.orc_message import (
    CODECS,
    DATES,
    DECIMALS,
    DOUBLES,
    FOOTER_STRIPES,
    INTEGERS,
    MAX,
    METADATA_STRIPES,
    MIN,
    STRINGS,
    STRIPE_COLUMNS,
    STRIPE_ROWS,
    VALUE_COUNT,
    fields,
    messages,
    number_of,
    plain,
    signed,
)


@dataclass(frozen=True, slots=True)
class StripeColumn:
    """Range of a column in a stripe; None where unknown. A largest value of NaN means that NaN may occur."""

    min: Any
    max: Any
    null_count: int | None


@dataclass(frozen=True, slots=True)
class Stripe:
    """Rows of a stripe, and ranges of its top-level columns by name."""

    row_count: int
    columns: Mapping[str, StripeColumn]


def stripes_of(source: BinaryIO, file: po.ORCFile) -> list[Stripe] | None:
    """The stripes in order; None if the file has no statistics of them, or in a codec that is not supported.

    Also None if several columns have the same name: it is not known which is meant.

    Raises: an error out of `orc_message.WRONG` where the bytes are damaged.
    """
    if file.compression not in CODECS or len(set(file.schema.names)) < len(file.schema.names):
        return None
    end = file.file_length - 1 - file.file_postscript_length
    begin = end - file.file_footer_length - file.stripe_statistics_length
    source.seek(begin)
    tail = source.read(end - begin)
    metadata = plain(tail[: file.stripe_statistics_length], file.compression)
    footer = plain(tail[file.stripe_statistics_length :], file.compression)
    counts = [number_of(stripe, STRIPE_ROWS) for stripe in messages(footer, FOOTER_STRIPES)]
    numbers = _column_numbers(file.schema)
    # Arrow would count them too, but where they are damaged it ends the process.
    statistics = list(messages(metadata, METADATA_STRIPES))
    if len(statistics) != len(counts):
        return None
    found = []
    for rows, stripe in zip(counts, statistics, strict=True):
        columns = list(messages(stripe, STRIPE_COLUMNS))
        ranges = {name: _range(columns[number], rows, file.schema.field(name).type) for name, number in numbers.items()}
        found.append(Stripe(rows, ranges))
    return found


def _column_numbers(schema: pa.Schema) -> dict[str, int]:
    """Place of each top-level column in the type tree, whose root comes first."""
    numbers, number = {}, 1
    for field in schema:
        numbers[field.name] = number
        number += _tree_size(field.type)
    return numbers


def _tree_size(data_type: pa.DataType) -> int:
    if pa.types.is_map(data_type):
        return 1 + _tree_size(data_type.key_type) + _tree_size(data_type.item_type)
    if pa.types.is_list(data_type):
        return 1 + _tree_size(data_type.value_type)
    if pa.types.is_struct(data_type):
        return 1 + sum(_tree_size(data_type.field(index).type) for index in range(data_type.num_fields))
    return 1


def _range(column: bytes, rows: int, data_type: pa.DataType) -> StripeColumn:
    found = dict(fields(column))
    values = found.get(VALUE_COUNT)
    null_count = None if values is None or pa.types.is_nested(data_type) else rows - values
    low, high = _bounds(found, data_type)
    return StripeColumn(low, high, null_count)


def _bounds(found: Mapping[int, Any], data_type: pa.DataType) -> tuple[Any, Any]:
    if pa.types.is_integer(data_type) and INTEGERS in found:
        return _pair(found[INTEGERS], signed)
    if pa.types.is_date(data_type) and DATES in found:
        return _pair(found[DATES], signed)
    if pa.types.is_string(data_type) and STRINGS in found:
        return _pair(found[STRINGS], lambda text: text.decode())
    if pa.types.is_decimal(data_type) and DECIMALS in found:
        return _pair(found[DECIMALS], lambda text: Decimal(text.decode()))
    if pa.types.is_floating(data_type) and DOUBLES in found:
        low, _ = _pair(found[DOUBLES], lambda number: struct.unpack("<d", number)[0])
        return low, None if low is None else float("nan")
    return None, None


def _pair(message: bytes, decode: Any) -> tuple[Any, Any]:
    ends = dict(fields(message))
    if MIN not in ends or MAX not in ends:
        return None, None
    return decode(ends[MIN]), decode(ends[MAX])
