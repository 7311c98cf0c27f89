"""Random Parquet files: rows of all types, in every layout that writers may choose."""

from __future__ import annotations

import io
import math
from decimal import Decimal
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter

ROWS_MAX: Final = 900
PLAIN: Final = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time32("ms"),
    pa.decimal128(7, 2),
    pa.decimal128(18, 4),
    pa.decimal128(38, 10),
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
]
NESTED: Final = [
    pa.struct([("a", pa.int64()), ("b", pa.string())]),
    pa.list_(pa.int32()),
    pa.map_(pa.string(), pa.int32()),
]
CODECS: Final = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]
DELTAS: Final = {
    "int32": ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"],
    "int64": ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"],
    "float": ["BYTE_STREAM_SPLIT", "PLAIN"],
    "double": ["BYTE_STREAM_SPLIT", "PLAIN"],
    "string": ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"],
    "binary": ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"],
    "bool": ["RLE", "PLAIN"],
}


def random_rows(random: Random, count: int) -> pa.Table:
    """Columns of random types; the values of each are in an order of its own."""
    kinds = [random.choice(PLAIN) for _ in range(random.randint(1, 8))]
    kinds += [random.choice(NESTED)] if random.random() < 0.2 else []
    fields = [pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)]
    return pa.table([_column(random, field.type, count) for field in fields], schema=pa.schema(fields))


def _column(random: Random, kind: pa.DataType, count: int) -> pa.Array:
    distinct = random.choice([1, 3, 20, count, count])
    some = [_value(random, kind) for _ in range(min(distinct, count))]
    if not pa.types.is_nested(kind) and random.random() < 0.5:
        some.sort(key=lambda one: (isinstance(one, float) and math.isnan(one), one))
    repeated = [some[number * len(some) // count] for number in range(count)]
    if random.random() < 0.3:
        random.shuffle(repeated)
    return pa.array(_with_nulls(random, repeated), kind)


def _with_nulls(random: Random, values: list[Any]) -> list[Any]:
    """None, some, a run of them, or all."""
    count = len(values)
    match random.randrange(6):
        case 0:
            return [None if random.random() < 0.2 else one for one in values]
        case 1:
            begin = random.randrange(count + 1)
            end = random.randint(begin, count)
            return [None if begin <= at < end else one for at, one in enumerate(values)]
        case 2 if random.random() < 0.3:
            return [None] * count
        case _:
            return values


def _value(random: Random, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {"a": random.randrange(9), "b": random.choice([None, "x", "y" * 30])}
    if pa.types.is_list(kind):
        return [random.randrange(9) for _ in range(random.randrange(4))]
    if pa.types.is_map(kind):
        return [(str(key), random.randrange(9)) for key in range(random.randrange(3))]
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    if pa.types.is_floating(kind):
        width = np.float32 if kind == pa.float32() else np.float64
        odd = [0.0, -0.0, math.nan, math.inf, -math.inf]
        return random.choice(odd) if random.random() < 0.2 else float(width(random.uniform(-50, 50)))
    if pa.types.is_integer(kind):
        edge = 2 ** (kind.bit_width - 1)
        return random.choice([random.randint(-100, 100), random.randint(-edge, edge - 1), -edge, edge - 1])
    if pa.types.is_string(kind):
        return random.choice(["", "a", "ü", "\U0001f600", "%_\\", "x" * 300]) + str(random.randrange(1_000))
    if pa.types.is_binary(kind):
        return random.randbytes(random.randrange(6))
    if pa.types.is_date(kind):
        return random.randint(-719_162, 2_932_896)
    if pa.types.is_time(kind):
        return random.randrange(86_400_000)
    if pa.types.is_decimal(kind):
        edge = 10**kind.precision - 1
        unscaled = random.choice([random.randint(-1_000, 1_000), random.randint(-edge, edge), edge, -edge])
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    seconds = random.choice([random.randint(-(10**9), 2 * 10**9), 0, -1])
    return seconds * per_second + random.randrange(per_second)


def random_layout(random: Random, rows: pa.Table) -> dict[str, Any] | None:
    """Arguments of pyarrow's writer; None: as this engine writes."""
    if random.random() < 0.25:
        return None
    page_rows = random.choice([1, 7, 50, 200, 20_000])
    layout: dict[str, Any] = {
        "row_group_size": random.choice([rows.num_rows, rows.num_rows // 3 + 1, 100]),
        "data_page_version": random.choice(["1.0", "2.0"]),
        "max_rows_per_page": page_rows,
        "write_batch_size": random.choice([page_rows, 3, 1_024]),
        "data_page_size": random.choice([64, 1_000, 1 << 20]),
        "compression": random.choice(CODECS),
        "store_schema": random.random() < 0.5,
        "write_page_checksum": random.random() < 0.5,
        "write_page_index": random.random() < 0.3,
        "write_statistics": random.choice([True, True, False]),
        "store_decimal_as_integer": random.random() < 0.5,
        "use_deprecated_int96_timestamps": random.random() < 0.2,
        # Earlier versions have no nanoseconds, and pyarrow refuses to lose them.
        "version": "2.6" if pa.timestamp("ns") in rows.schema.types else random.choice(["1.0", "2.4", "2.6"]),
    }
    match random.randrange(3):
        case 0:
            layout["use_dictionary"] = True
            # The dictionary is given up in the middle of a chunk.
            layout["dictionary_pagesize_limit"] = random.choice([16, 200, 1 << 20])
        case 1:
            layout["use_dictionary"] = False
        case _:
            layout["use_dictionary"] = False
            layout["column_encoding"] = {
                field.name: random.choice(DELTAS[str(field.type)]) for field in rows.schema if str(field.type) in DELTAS
            }
    return layout


def file_of(rows: pa.Table, layout: dict[str, Any] | None, random: Random) -> bytes:
    """The bytes of a Parquet file."""
    sink = io.BytesIO()
    if layout is None:
        writer = ParquetWriter(sink, rows.schema, WriteOptions())
        for batch in rows.to_batches(max_chunksize=random.choice([30, 1_000])):
            writer.write(batch)
            if random.random() < 0.3:
                writer.close_row_group()
        writer.close(without_rows=True)
    else:
        pq.write_table(rows, sink, **layout)
    return sink.getvalue()
