"""Row groups of Parquet files that are copied into another file, and those that are not."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format import parquet
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter, layout_of
from paimon_engine.format.parquet_page_sizes import begin_of
from paimon_engine.format.parquet_row_groups import StoredRowGroup, stored_row_groups
from tests.support.page_indexes import assert_indexes_fit, assert_offsets_fit

ROWS = 900
COLUMNS: dict[str, pa.Array] = {
    "k": pa.array(np.arange(ROWS)),
    "row": pa.array([{"a": number, "b": [number, None]} for number in range(ROWS)]),
    "text": pa.array([f"text-{number}" for number in range(ROWS)]),
    "few": pa.array([None if number % 7 == 0 else f"text-{number % 5}" for number in range(ROWS)]),
    "long": pa.array(["é" * 5_000 if number == 5 else "a" for number in range(ROWS)]),
    "decimal": pa.array([Decimal(number).scaleb(-2) for number in range(ROWS)], pa.decimal128(30, 2)),
    "short": pa.array([Decimal(-number).scaleb(-2) for number in range(ROWS)], pa.decimal128(9, 2)),
    "day": pa.array(np.arange(ROWS, dtype=np.int32) - (1 << 30), pa.date32()),
    "clock": pa.array(np.arange(ROWS, dtype=np.int32), pa.time32("ms")),
    "moment": pa.array([datetime(2020, 1, 1)] * ROWS, pa.timestamp("us")),
    "instant": pa.array(np.arange(ROWS) - (1 << 50), pa.timestamp("ms", "UTC")),
    "number": pa.array(np.arange(ROWS, dtype=np.float32) / 3),
    "small": pa.array(np.arange(ROWS) % 100 - 50, pa.int8()),
    "flag": pa.array([True] * ROWS),
    "bytes": pa.array([bytes([number % 256]) for number in range(ROWS)]),
    "nothing": pa.nulls(ROWS, pa.int32()),
    "last": pa.array(np.arange(ROWS)),
}
SCHEMA = pa.schema(
    pa.field(name, column.type, nullable=name not in ("k", "last"), metadata={"PARQUET:field_id": str(index)})
    for index, (name, column) in enumerate(COLUMNS.items())
)
RECORDS = pa.RecordBatch.from_arrays(list(COLUMNS.values()), schema=SCHEMA)
OPTIONS = WriteOptions(copies={"last": "k"})


def file_of(rows: pa.RecordBatch, schema: pa.Schema = SCHEMA, options: WriteOptions = OPTIONS) -> bytes:
    """A file of three row groups."""
    sink = io.BytesIO()
    writer = ParquetWriter(sink, schema, options)
    for begin in range(0, rows.num_rows, ROWS // 3):
        writer.write(rows.slice(begin, ROWS // 3))
        writer.close_row_group()
    writer.close()
    return sink.getvalue()


def groups_of(data: bytes, schema: pa.Schema = SCHEMA, options: WriteOptions = OPTIONS) -> list[StoredRowGroup | None]:
    return stored_row_groups(io.BytesIO(data), "file", layout_of(schema, options), ROWS)


def described(data: bytes) -> list[Any]:
    """What a footer says, except offsets."""
    footer = pq.read_metadata(io.BytesIO(data))
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [(group.num_rows, group.column(index)) for group in groups for index in range(group.num_columns)]
    return [
        str(footer.schema).split("\n", 1)[1],
        footer.num_rows,
        [group.total_byte_size for group in groups],
        [
            (rows, one.path_in_schema, one.compression, one.encodings, one.num_values, one.total_compressed_size)
            for rows, one in chunks
        ],
        [
            (one.statistics.min_raw, one.statistics.max_raw, one.statistics.null_count)
            for _, one in chunks
            if one.statistics.has_min_max
        ],
    ]


@pytest.mark.parametrize("order", ["ccc", "wcw", "cwc", "wwc", "cww"])
@pytest.mark.parametrize("codec", ["zstd", "snappy", "lz4", "none"])
def test_row_groups_between_written_ones(order: str, codec: str):
    options = WriteOptions(codec, copies=OPTIONS.copies)
    plain = file_of(RECORDS, options=options)
    sink = io.BytesIO()
    writer = ParquetWriter(sink, SCHEMA, options)

    for number, (how, group) in enumerate(zip(order, groups_of(plain, options=options), strict=True)):
        if how == "c":
            assert group is not None
            writer.copy(group, io.BytesIO(plain))
        else:
            writer.write(RECORDS.slice(number * ROWS // 3, ROWS // 3))
            writer.close_row_group()
    writer.close()

    assert described(sink.getvalue()) == described(plain)
    for pre_buffer in (False, True):
        file = pq.ParquetFile(sink, page_checksum_verification=True, pre_buffer=pre_buffer)
        assert file.read().equals(pq.read_table(io.BytesIO(plain)))
    assert_indexes_fit(sink.getvalue())
    bounds = {name: (min(found), max(found)) for name in ("text", "few") for found in [_values(name)]}
    assert {name: writer.stored_bounds[name] for name in bounds} == bounds


def _values(name: str) -> list[Any]:
    return [value for value in COLUMNS[name].to_pylist() if value is not None]


def test_bounds_are_those_of_the_rows():
    for number, group in enumerate(groups_of(file_of(RECORDS))):
        assert group is not None
        rows = RECORDS.slice(number * ROWS // 3, ROWS // 3)
        for name in ("k", "text", "few", "decimal", "short", "clock", "moment", "number", "small", "flag", "bytes"):
            values = [value for value in rows[name].to_pylist() if value is not None]
            assert group.bounds[name].to_pylist() == [min(values), max(values)], name
            assert group.null_counts[name] == rows[name].null_count
        for name in ("day", "instant"):
            assert group.bounds[name].equals(rows[name].take([0, rows.num_rows - 1]))
        assert group.bounds["long"].null_count == (2 if number == 0 else 0)
        assert group.bounds["row"].null_count == group.bounds["nothing"].null_count == 2
        assert group.null_counts["row"] is None
        assert group.null_counts["nothing"] == ROWS // 3


def by_arrow(rows: pa.Table | None = None, **options: Any) -> bytes:
    sink = io.BytesIO()
    layout: dict[str, Any] = {
        "store_decimal_as_integer": True,
        "write_time_adjusted_to_utc": True,
        "store_schema": False,
        "compression": "zstd",
    }
    pq.write_table(rows or pa.Table.from_batches([RECORDS]), sink, ROWS // 3, **layout | options)
    return sink.getvalue()


def test_a_row_group_with_small_columns_is_copied():
    """They have another codec, where they are all of a file."""
    sink = io.BytesIO()
    writer = ParquetWriter(sink, SCHEMA, replace(OPTIONS, mixes_codecs=True))
    writer.write(RECORDS)
    writer.close()
    stored = pq.read_metadata(io.BytesIO(sink.getvalue())).row_group(0)

    assert {stored.column(index).compression for index in range(stored.num_columns)} >= {"SNAPPY", "ZSTD"}
    assert all(groups_of(sink.getvalue()))
    assert groups_of(sink.getvalue(), options=replace(OPTIONS, compression="snappy")) == [None]


def test_files_that_arrow_alone_has_written_alike_are_copied():
    assert all(groups_of(by_arrow(write_page_index=True)))


def test_a_file_without_page_index_gets_offset_indexes_where_rows_of_pages_are_known():
    """Of lists pages tell no rows, and without an index of each column chunk arrow-rs uses none."""
    assert groups_of(by_arrow()) == [None] * 3
    schema = SCHEMA.remove(SCHEMA.get_field_index("row"))
    options = WriteOptions()
    rows = pa.table(RECORDS).select(schema.names)
    plain = by_arrow(rows)
    sink = io.BytesIO()
    writer = ParquetWriter(sink, schema, options)
    for group in groups_of(plain, schema, options):
        assert group is not None
        writer.copy(group, io.BytesIO(plain))
    writer.close()

    assert pq.read_table(sink).equals(pq.read_table(io.BytesIO(plain)))
    footer = pq.read_metadata(sink)
    for number in range(footer.num_row_groups):
        chunks = [footer.row_group(number).column(index) for index in range(footer.num_columns)]
        assert all(chunk.has_offset_index and not chunk.has_column_index for chunk in chunks)
    assert_indexes_fit(sink.getvalue())


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "column_encoding": {"k": "DELTA_BINARY_PACKED"}},
        {"use_dictionary": False, "column_encoding": {"number": "BYTE_STREAM_SPLIT"}},
        {"compression": "snappy"},
        {"compression": "none"},
        {"store_decimal_as_integer": False},
        {"bloom_filter_options": {"k": True}},
        {"sorting_columns": [pq.SortingColumn(0)]},
    ],
    ids=str,
)
def test_what_could_not_have_been_written_here_is_not_copied(options: dict[str, Any]):
    assert groups_of(by_arrow(**options)) == [None] * 3


def test_another_schema_is_not_copied():
    fields = list(SCHEMA)
    for index, changed in (
        (0, fields[0].with_nullable(True)),
        (2, fields[2].with_name("words")),
        (2, fields[2].with_metadata({"PARQUET:field_id": "99"})),
        (2, fields[2].remove_metadata()),
        (12, fields[12].with_type(pa.int16())),
        (10, fields[10].with_type(pa.timestamp("ms"))),
    ):
        schema = pa.schema([*fields[:index], changed, *fields[index + 1 :]])

        assert groups_of(file_of(RECORDS), schema) == [None] * 3
    assert stored_row_groups(io.BytesIO(file_of(RECORDS)), "file", layout_of(SCHEMA, OPTIONS), ROWS + 1) == [None] * 3


def test_only_wanted_row_groups_are_looked_at():
    """By their bounds alone, in the types of the schema: a row group that overlaps others is not described."""
    asked = []

    def is_wanted(bounds: pa.RecordBatch) -> bool:
        asked.append(bounds.to_pydict())
        return bounds["k"][0].as_py() == ROWS // 3

    columns = ["decimal", "k", "row"]
    found = stored_row_groups(
        io.BytesIO(file_of(RECORDS)), "file", layout_of(SCHEMA, OPTIONS), ROWS, columns=columns, is_wanted=is_wanted
    )

    assert found == [None, groups_of(file_of(RECORDS))[1], None]
    assert asked == [
        {
            "decimal": [Decimal(first).scaleb(-2), Decimal(first + ROWS // 3 - 1).scaleb(-2)],
            "k": [first, first + ROWS // 3 - 1],
            "row": [None, None],
        }
        for first in range(0, ROWS, ROWS // 3)
    ]


def test_damage_is_seen():
    data = bytearray(file_of(RECORDS))
    group = groups_of(bytes(data))[1]
    assert group is not None
    data[group.begin + group.size_bytes // 2] ^= 1

    with pytest.raises(CorruptTableError, match="file: a page"):
        group.copy(io.BytesIO(data), bytes, 4)
    with pytest.raises(CorruptTableError, match="file: a "):
        group.copy(io.BytesIO(data[: group.begin + 100]), bytes, 4)
    with pytest.raises(CorruptTableError, match="file: "):
        groups_of(bytes(data[:-20]))


def test_a_damaged_page_index_is_not_copied():
    """Each byte of the indexes changed: what is copied still fits its pages, but for bounds, which are believed."""
    schema = pa.schema([SCHEMA.field(name) for name in ("k", "row", "text", "last")])
    rows = RECORDS.select(schema.names)
    data = file_of(rows, schema)
    footer = pq.read_metadata(io.BytesIO(data))
    group = footer.row_group(footer.num_row_groups - 1)
    chunks = [group.column(index) for index in range(group.num_columns)]
    begin = max(begin_of(chunk) + chunk.total_compressed_size for chunk in chunks)
    outcomes = set()
    for place in range(begin, len(data) - 8 - footer.serialized_size):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        sink = io.BytesIO()
        writer = ParquetWriter(sink, schema, OPTIONS)
        try:
            for one in groups_of(bytes(flipped), schema):
                assert one is not None
                writer.copy(one, io.BytesIO(flipped))
        except CorruptTableError:
            outcomes.add("reported")
            continue
        writer.close()
        assert pq.read_table(sink).num_rows == ROWS
        assert_offsets_fit(sink.getvalue())
        outcomes.add("copied")
    assert outcomes == {"copied", "reported"}


def test_row_groups_have_no_more_rows_than_they_may_have(monkeypatch: pytest.MonkeyPatch):
    """Whatever the sizes of the batches: readers decode the keys of a row group to find one."""
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS_MAX", 1_000)
    sink = io.BytesIO()
    rows = pa.record_batch({"k": range(3_500)})
    writer = ParquetWriter(sink, rows.schema, WriteOptions())
    for begin, end in ((0, 10), (10, 990), (990, 1_950), (1_950, 3_500)):
        writer.write(rows.slice(begin, end - begin))
    writer.close()
    file = pq.ParquetFile(sink)
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    assert groups == [1_000] * 3 + [500]
    assert file.read()["k"].to_pylist() == list(range(3_500))
