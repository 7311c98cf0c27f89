"""Key columns of Parquet files, which are encoded once and stored twice."""

from __future__ import annotations

import io
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter
from tests.support.page_indexes import assert_indexes_fit

ROWS = 40_000
KEYS: dict[str, pa.Array] = {
    "numbers": pa.array(np.arange(ROWS) * 7),
    "few numbers": pa.array(np.arange(ROWS, dtype=np.int32) // 1_000),
    "texts": pa.array([f"key-{number:07}" for number in range(ROWS)]),
    "few texts": pa.array([f"day-{number // 5_000}" for number in range(ROWS)]),
    "long texts": pa.array(["é" * 5_000, *(["z"] * (ROWS - 1))]),
    "days": pa.array(np.arange(ROWS, dtype=np.int32), pa.date32()),
    "decimals": pa.array([Decimal(number).scaleb(-2) for number in range(ROWS)], pa.decimal128(30, 2)),
    "moments": pa.array([datetime(2020, 1, 1)] * ROWS, pa.timestamp("us")),
    "fine moments": pa.array(np.arange(ROWS) * 1_001, pa.timestamp("ns")),
}


def file_of(columns: dict[str, pa.Array], copies: dict[str, str], *, groups: int = 1) -> tuple[bytes, ParquetWriter]:
    fields = [
        pa.field(name, column.type, nullable=not name.startswith("k"), metadata={"PARQUET:field_id": str(index + 5)})
        for index, (name, column) in enumerate(columns.items())
    ]
    rows = pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))
    sink = io.BytesIO()
    writer = ParquetWriter(sink, rows.schema, WriteOptions(copies=copies))
    step = -(-rows.num_rows // groups)
    for begin in range(0, rows.num_rows, step):
        writer.write(rows.slice(begin, step))
        writer.close_row_group()
    writer.close()
    return sink.getvalue(), writer


def described(data: bytes) -> list[dict[str, Any]]:
    """All that the footer says of the chunks, except their offsets, and of the schema."""
    footer = pq.read_metadata(io.BytesIO(data))
    found: list[dict[str, Any]] = [{"schema": str(footer.schema).split("\n", 1)[1], "rows": footer.num_rows}]
    for number in range(footer.num_row_groups):
        group = footer.row_group(number).to_dict()
        for chunk in group["columns"]:
            del chunk["dictionary_page_offset"], chunk["data_page_offset"]
        found.append(group)
    return found


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("groups", [1, 3])
def test_a_copy_is_what_arrow_would_have_written(name: str, groups: int):
    key = KEYS[name]
    nested = pa.array([{"a": number, "b": [number, None]} for number in range(ROWS)])
    columns = {"k0": key, "number": pa.array(np.arange(ROWS)), "nested": nested, "k": key, "last": key}

    plain, plain_writer = file_of(columns, {}, groups=groups)
    copied, writer = file_of(columns, {"k": "k0"}, groups=groups)

    assert described(copied) == described(plain)
    assert_indexes_fit(copied)
    assert len(copied) == pytest.approx(len(plain), abs=100)
    read = [
        pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True, pre_buffer=pre_buffer).read()
        for data in (plain, copied)
        for pre_buffer in (False, True)
    ]
    assert all(one.equals(read[0]) for one in read)
    assert writer.stored_bounds == plain_writer.stored_bounds
    assert _index(plain, "k") < _index(plain, "last")
    assert _index(copied, "k") > _index(copied, "last")


def _index(data: bytes, column: str) -> int:
    group = pq.read_metadata(io.BytesIO(data)).row_group(0)
    chunks = (group.column(index) for index in range(group.num_columns))
    return next(chunk.data_page_offset for chunk in chunks if chunk.path_in_schema == column)


def test_several_keys_in_another_order_than_their_columns():
    one, two = KEYS["numbers"], KEYS["texts"]
    columns = {"k_b": two, "k_a": one, "v": one, "k1": one, "w": two, "k2": two}

    plain, _ = file_of(columns, {}, groups=2)
    copied, _ = file_of(columns, {"k2": "k_b", "k1": "k_a"}, groups=2)

    assert described(copied) == described(plain)
    assert pq.read_table(io.BytesIO(copied)).equals(pq.read_table(io.BytesIO(plain)))


def test_more_than_fourteen_columns():
    columns = (
        {"k0": KEYS["numbers"]} | {f"v{index}": KEYS["few numbers"] for index in range(20)} | {"k": KEYS["numbers"]}
    )

    assert described(file_of(columns, {"k": "k0"})[0]) == described(file_of(columns, {})[0])


def test_columns_that_differ_in_type_or_nulls_are_written_as_they_are():
    key = KEYS["numbers"]
    for columns in (
        {"k0": key, "k": key.cast(pa.int32())},
        {"k0": key, "nullable": key},
        {"v": key, "k0": key, "k": key},
    ):
        last = list(columns)[-1]

        copied, _ = file_of(columns, {last: "k0"})

        assert copied == file_of(columns, {})[0]
