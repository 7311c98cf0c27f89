"""Reads by a filter that take some pages of a row group give the rows that a read of everything gives."""

import io
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format import parquet, parquet_stored, parquet_widths
from paimon_engine.format.layout import BatchLimit, WriteOptions
from paimon_engine.format.parquet import read_batches, read_matching
from paimon_engine.format.parquet_page_sizes import begin_of
from paimon_engine.format.parquet_pages import GroupPages
from paimon_engine.predicate import col, to_arrow_expression
from paimon_engine.storage.remote_file import RemoteFile

ROWS = 72_000
BEGIN = datetime(2020, 1, 1)


def _rows(count: int = ROWS) -> pa.Table:
    numbers = np.arange(count)
    random = np.random.default_rng(7)
    missing = random.random(count) < 0.1
    return pa.table(
        {
            "k": pa.array(numbers),
            "loose": pa.array(random.permutation(count)),
            "text": pa.array([f"text {number}" for number in random.integers(0, 1 << 30, count)], mask=missing),
            "few": pa.array([f"value {number % 7}" for number in numbers], mask=missing),
            "real": pa.array(random.random(count), mask=missing),
            "money": pa.array([Decimal(int(number)) / 100 for number in numbers], pa.decimal128(15, 2)),
            "yes": pa.array(random.random(count) < 0.5),
            "time": pa.array([BEGIN + timedelta(seconds=int(number)) for number in numbers], pa.timestamp("us")),
            "parts": pa.StructArray.from_arrays([pa.array(numbers), pa.array(numbers % 3)], names=["a", "b"]),
        }
    )


STORED = _rows()
OWN = object()
LAYOUTS = {
    "own": OWN,
    "small pages": {"max_rows_per_page": 1_000, "write_batch_size": 1_000},
    "unequal pages": {"data_page_size": 20_000, "write_batch_size": 500},
    "second version": {"data_page_version": "2.0", "max_rows_per_page": 1_000, "write_batch_size": 1_000},
    "no dictionary": {"use_dictionary": False, "max_rows_per_page": 1_000, "write_batch_size": 1_000},
    "deltas": {
        "use_dictionary": False,
        "column_encoding": {"k": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "few": "DELTA_LENGTH_BYTE_ARRAY"},
        "max_rows_per_page": 1_000,
        "write_batch_size": 1_000,
    },
    "gzip": {"compression": "gzip", "compression_level": 1, "max_rows_per_page": 1_000, "write_batch_size": 1_000},
    "lz4": {"compression": "lz4", "max_rows_per_page": 1_000, "write_batch_size": 1_000},
    "none": {"compression": "none", "max_rows_per_page": 1_000, "write_batch_size": 1_000},
    "row groups": {"row_group_size": 30_000, "max_rows_per_page": 1_000, "write_batch_size": 1_000},
    "page index": {"write_page_index": True, "max_rows_per_page": 1_000, "write_batch_size": 1_000},
    "page index, unequal pages": {"write_page_index": True, "data_page_size": 20_000, "write_batch_size": 500},
    "page index, second version": {
        "write_page_index": True,
        "data_page_version": "2.0",
        "use_dictionary": False,
        "row_group_size": 30_000,
        "max_rows_per_page": 1_000,
        "write_batch_size": 1_000,
    },
    "types of Arrow": {"store_schema": True, "max_rows_per_page": 1_000, "write_batch_size": 1_000},
}
FILTERS = {
    "one": col("k") == 54_321,
    "first": col("k") == 0,
    "last": col("k") == ROWS - 1,
    "some": (col("k") >= 60_000) & (col("k") < 60_700),
    "two places": (col("k") == 10) | (col("k") == 70_000),
    "loose": col("loose") == 4_711,
    "two columns": (col("k") >= 20_000) & (col("k") <= 20_050) & (col("few") == "value 3"),
    "text": col("text") == STORED["text"].drop_null()[57_777].as_py(),
    "real": col("real") > 0.99999,
    "time": col("time") == BEGIN + timedelta(seconds=33_333),
    "none": (col("k") == 5) & (col("k") == 6),
    "most": col("k") >= 1_000,
}


def _file(rows: pa.Table, layout: object) -> bytes:
    sink = io.BytesIO()
    if layout is OWN:
        writer = parquet.ParquetWriter(sink, rows.schema, WriteOptions())
        for batch in rows.to_batches(max_chunksize=10_000):
            writer.write(batch)
        writer.close()
    else:
        pq.write_table(rows, sink, **{"store_schema": False, "write_page_checksum": True, **layout})
    return sink.getvalue()


def _chosen(rows: pa.Table, where) -> list[int]:
    return rows.filter(to_arrow_expression(where, rows.schema))["k"].to_pylist()


def _read(data: bytes, schema: pa.Schema, where, **given):
    return list(read_matching(io.BytesIO(data), schema, where, path="f.parquet", **given))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_row_that_matches_comes_at_its_place(layout):
    data = _file(STORED, LAYOUTS[layout])
    everything = pa.Table.from_batches(read_batches(io.BytesIO(data), STORED.schema, path="f.parquet"))
    for name, where in FILTERS.items():
        found = _read(data, STORED.schema, where, limit=BatchLimit(777 if name == "some" else 40_000))
        for position, rows in found:
            assert pa.Table.from_batches([rows]) == everything.slice(position, rows.num_rows), (name, position)
        places = [place for first, rows in found for place in range(first, first + rows.num_rows)]
        assert places == sorted({*places}), name
        assert {*_chosen(STORED, where)} <= {*places}, name


def _counted(monkeypatch) -> list[int]:
    """Rows of each batch that Arrow decodes."""
    counts, decoded = [], parquet_widths.decoded

    def counting(rows, *arguments):
        counts.append(rows.num_rows * rows.num_columns)
        return decoded(rows, *arguments)

    monkeypatch.setattr(parquet_stored, "decoded", counting)
    return counts


def test_few_rows_are_decoded_for_one_key(monkeypatch):
    data = _file(STORED, LAYOUTS["own"])
    counts = _counted(monkeypatch)
    [(position, rows)] = _read(data, STORED.schema, FILTERS["one"])
    assert (position, rows.num_rows) == (54_321, 1)
    assert sum(counts) <= ROWS + len(STORED.schema)


def test_no_row_is_decoded_where_none_matches(monkeypatch):
    data = _file(STORED, LAYOUTS["own"])
    counts = _counted(monkeypatch)
    assert _read(data, STORED.schema, FILTERS["none"]) == []
    assert sum(counts) <= ROWS


def test_columns_of_the_filter_are_decoded_in_vain_once_only(monkeypatch):
    data = _file(STORED, {"row_group_size": 25_000})
    counts = _counted(monkeypatch)
    assert sum(rows.num_rows for _, rows in _read(data, STORED.schema, col("loose").is_not_null())) == ROWS
    assert sum(counts) == ROWS * len(STORED.schema) + 25_000


def test_nothing_is_decoded_in_vain_where_statistics_show_that_all_rows_match(monkeypatch):
    data = _file(STORED, {"row_group_size": 25_000})
    counts = _counted(monkeypatch)
    assert sum(rows.num_rows for _, rows in _read(data, STORED.schema, col("loose") >= 0)) == ROWS
    assert sum(counts) == ROWS * len(STORED.schema)


def test_rows_with_a_null_in_the_filter_are_kept():
    """Who reads the rows may know what was there: keys that Java has left out are put back later."""
    keys = pa.array(range(ROWS), mask=np.arange(ROWS) == 40_000)
    data = _file(STORED.set_column(0, "k", keys), LAYOUTS["own"])
    places = [
        place
        for first, rows in _read(data, STORED.schema, col("k") == 54_321)
        for place in range(first, first + rows.num_rows)
    ]
    assert {40_000, 54_321} <= {*places}
    assert len(places) < ROWS / 2


def test_lists_are_read_with_the_whole_row_group():
    rows = STORED.append_column("list", pa.array([[number, number] for number in range(ROWS)]))
    data = _file(rows, LAYOUTS["small pages"])
    found = _read(data, rows.schema, FILTERS["one"])
    assert sum(batch.num_rows for _, batch in found) == ROWS


def test_dictionaries_are_kept_where_they_are_asked_for():
    data = _file(STORED, LAYOUTS["own"])
    [(_, rows)] = _read(data, STORED.schema, FILTERS["some"], dictionary_columns=["few"])
    assert pa.types.is_dictionary(rows["few"].type)
    assert rows["few"].dictionary_decode() == STORED["few"].slice(60_000, 700).combine_chunks()


def test_damage_in_a_page_that_is_taken_is_found():
    data = bytearray(_file(STORED, LAYOUTS["none"]))
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(STORED.schema.get_field_index("money"))
    at = begin_of(chunk) + int(chunk.total_compressed_size * 54_321 / ROWS)
    data[at] ^= 0xFF
    with pytest.raises(CorruptTableError, match=r"f\.parquet"):
        _read(bytes(data), STORED.schema, FILTERS["one"])


def test_keys_are_decoded_of_the_pages_only_that_may_have_them(monkeypatch):
    data = _file(STORED, LAYOUTS["small pages"])
    counts = _counted(monkeypatch)
    for name in ("one", "last", "time"):
        counts.clear()
        assert sum(rows.num_rows for _, rows in _read(data, STORED.schema, FILTERS[name])) == 1
        assert sum(counts) <= 1_000 + 1_000 * len(STORED.schema), name


def test_of_a_range_only_the_ends_are_decoded_to_find_it(monkeypatch):
    data = _file(STORED, LAYOUTS["small pages"])
    counts = _counted(monkeypatch)
    where = (col("k") >= 20_500) & (col("k") < 40_500)
    found = _read(data, STORED.schema, where)
    assert [found[0][0], sum(rows.num_rows for _, rows in found)] == [20_500, 20_000]
    assert sum(counts) <= 2 * 1_000 + 21_000 * len(STORED.schema)


@pytest.mark.parametrize("layout", ["own", "small pages", "row groups"])
def test_what_a_row_group_begins_with_is_read_up_to_its_last_row(monkeypatch, layout):
    data = _file(STORED, LAYOUTS[layout])
    counts = _counted(monkeypatch)
    found = _read(data, STORED.schema, col("k") < 11_111, limit=BatchLimit(10_000))
    assert [(first, rows.num_rows) for first, rows in found] == [(0, 5_556), (5_556, 5_555)]
    assert sum(counts) <= ROWS + 11_112 * len(STORED.schema)


@pytest.mark.parametrize("bounds", [(54_999, 54_000), (1 << 40, 1 << 41), (-7, -5)])
def test_bounds_of_a_page_that_cannot_be_are_not_believed(bounds):
    """The least value is above the largest, or both are beyond those of the row group."""
    data = _file(STORED, {**LAYOUTS["small pages"], "write_page_index": False})
    pages = GroupPages(io.BytesIO(data), pq.read_metadata(io.BytesIO(data)), 0, "f.parquet")
    page = pages.of(STORED.schema.get_field_index("k")).pages[54_000]
    header = data[page.begin : page.data_begin]
    low, high = map(_eight_bytes, bounds)
    assert header.count(_eight_bytes(54_000))
    # In two steps, since one of the bounds may become the other.
    changed = header.replace(_eight_bytes(54_000), b"<" * 8).replace(_eight_bytes(54_999), b">" * 8)
    data = data.replace(header, changed.replace(b"<" * 8, low).replace(b">" * 8, high))
    [(position, _)] = _read(data, STORED.schema, FILTERS["one"])
    assert position == 54_321


@pytest.mark.parametrize("name", ["one", "some", "last"])
def test_a_store_that_takes_long_is_not_asked_for_headers_of_pages(name):
    """They would take requests of their own, and the keys of a row group take one."""
    data = _file(STORED, LAYOUTS["small pages"])
    requests: list[tuple[int, int]] = []

    def fetch(begin: int, count: int) -> bytes:
        requests.append((begin, count))
        return data[begin : begin + count]

    source = RemoteFile("f.parquet", len(data), fetch)
    found = list(read_matching(source, STORED.schema, FILTERS[name], path="f.parquet"))
    assert {*_chosen(STORED, FILTERS[name])} == {key for _, rows in found for key in rows["k"].to_pylist()}
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    end = begin_of(chunk) + chunk.total_compressed_size
    assert (begin_of(chunk), end - begin_of(chunk)) in requests


def _eight_bytes(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)
