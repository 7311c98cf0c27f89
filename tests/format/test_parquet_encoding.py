"""How columns of Parquet files are encoded: what is hardly made smaller is stored as it is."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.parquet import ParquetWriter

ROWS = 100_000
RANDOM = np.random.default_rng(3)
NULLS = RANDOM.random(ROWS) < 0.4
BITS = RANDOM.integers(-(1 << 63), (1 << 63) - 1, ROWS)
RANDOM_COLUMNS: dict[str, pa.Array] = {
    "long": pa.array(BITS),
    "long with nulls": pa.array(BITS, mask=NULLS),
    "int": pa.array(BITS.astype("i4")),
    "double": pa.array(RANDOM.standard_normal(ROWS)),
    "float with nulls": pa.array(RANDOM.random(ROWS).astype("f4") ** 9, mask=NULLS),
}
REPEATED_COLUMNS: dict[str, pa.Array] = {
    "few": pa.array(BITS % 64),
    "few texts": pa.array([f"text {number}" for number in BITS % 64]),
    "few with nulls": pa.array(BITS % 128, mask=NULLS),
}
COLUMNS: dict[str, pa.Array] = {
    "ordered": pa.array(np.arange(ROWS)),
    "small": pa.array(RANDOM.integers(0, 1 << 40, ROWS)),
    "few in order": pa.array(np.sort(BITS % 100)),
    "few of long texts": pa.array([f"{number:0100d}" for number in BITS % 256]),
    "nulls": pa.nulls(ROWS, pa.int64()),
    "text.with.dots": pa.array([f"text {number}" for number in range(ROWS)]),
    "time": pa.array([timedelta(days=20_000, seconds=number) for number in range(ROWS)])
    .cast("int64")
    .cast(pa.timestamp("us")),
    "rows": pa.array([{"a": number, "b": [number]} for number in range(ROWS)]),
    "map": pa.array([[("k", number)] for number in range(ROWS)], pa.map_(pa.string(), pa.int64())),
}


def written(columns: dict[str, pa.Array], *, batch_rows: int = 30_000, **options: Any) -> bytes:
    sink = io.BytesIO()
    rows = pa.table(columns)
    writer = ParquetWriter(sink, rows.schema, WriteOptions(**options))
    for batch in rows.to_batches(max_chunksize=batch_rows):
        writer.write(batch)
    writer.close()
    return sink.getvalue()


def codecs_in(data: bytes) -> dict[str, str]:
    group = pq.read_metadata(io.BytesIO(data)).row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    return {chunk.path_in_schema: chunk.compression for chunk in chunks}


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip"])
def test_random_numbers_and_indices_are_stored_as_they_are_and_nothing_else(codec: str):
    plain = RANDOM_COLUMNS | REPEATED_COLUMNS
    columns = plain | COLUMNS

    data = written(columns, compression=codec)

    found = codecs_in(data)
    assert {path for path, used in found.items() if used == "UNCOMPRESSED"} == set(plain)
    assert {used for path, used in found.items() if path not in plain} == {codec.upper()}
    assert pq.read_table(io.BytesIO(data)).equals(pa.table(columns).cast(pq.read_schema(io.BytesIO(data))))


FEW: dict[str, pa.Array] = {
    "small": pa.array(range(60)),
    "small rows": pa.array([{"a": number, "b": [number % 7]} for number in range(10)] * 6),
    "small.with.dots": pa.array([None, "text"] * 30),
    "long": pa.array([f"{number:0100d}" for number in range(60)]),
    "long parts": pa.array([{"a": "x" * 100, "b": number} for number in range(60)]),
}


def test_small_columns_of_a_small_file_have_a_codec_that_begins_quickly():
    data = written(FEW, zstd_level=3, mixes_codecs=True)

    assert codecs_in(data) == {
        "small": "SNAPPY",
        "small rows.a": "SNAPPY",
        "small rows.b.list.element": "SNAPPY",
        "small.with.dots": "SNAPPY",
        "long": "ZSTD",
        "long parts.a": "ZSTD",
        "long parts.b": "ZSTD",
    }
    assert pq.read_table(io.BytesIO(data)).equals(pa.table(FEW).cast(pq.read_schema(io.BytesIO(data))))


def test_a_file_of_small_columns_alone_can_be_written():
    assert set(codecs_in(written({"small": FEW["small"]}, mixes_codecs=True)).values()) == {"SNAPPY"}


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "brotli"])
def test_other_codecs_than_zstd_stay_in_small_columns(codec: str):
    assert len(set(codecs_in(written(FEW, compression=codec, mixes_codecs=True)).values())) == 1
    assert set(codecs_in(written(FEW, compression="zstd")).values()) == {"ZSTD"}


def test_a_small_first_row_group_says_nothing_of_those_behind_it():
    sink, rows = io.BytesIO(), pa.table({"number": pa.array(range(5_000))})
    writer = ParquetWriter(sink, rows.schema, WriteOptions(mixes_codecs=True))
    writer.write(rows.slice(0, 10).to_batches()[0])
    writer.close_row_group()
    writer.write(rows.to_batches()[0])
    writer.close()

    assert set(codecs_in(sink.getvalue()).values()) == {"ZSTD"}


def test_files_grow_by_a_twentieth_at_most():
    for name, column in (RANDOM_COLUMNS | REPEATED_COLUMNS).items():
        squeezed, repeats = io.BytesIO(), name in REPEATED_COLUMNS
        pq.write_table(
            pa.table({name: column}), squeezed, compression="zstd", compression_level=1, use_dictionary=repeats
        )

        assert len(written({name: column})) < 1.06 * len(squeezed.getvalue()), name


def test_without_a_codec_nothing_is_compressed():
    assert set(codecs_in(written(RANDOM_COLUMNS | COLUMNS, compression="none")).values()) == {"UNCOMPRESSED"}


def test_numbers_that_are_random_in_the_first_rows_only():
    numbers = BITS.copy()
    numbers[10_000:] = np.arange(ROWS - 10_000)

    assert codecs_in(written({"number": pa.array(numbers)}, batch_rows=5_000)) == {"number": "ZSTD"}


@pytest.mark.parametrize(
    ("numbers", "has_dictionary"),
    [
        (np.arange(ROWS), False),
        (np.arange(ROWS) // 2, True),
        (np.arange(ROWS) % 7_919, True),
        (BITS % 8_000, True),
        (BITS % 60_000, False),
        (np.zeros(ROWS, np.int64), True),
    ],
    ids=["ascending", "pairs", "periods", "few", "many", "one"],
)
def test_repeated_numbers_have_a_dictionary(numbers: np.ndarray, has_dictionary: bool):
    for rows in (ROWS, 20_000):
        group = pq.read_metadata(io.BytesIO(written({"x": pa.array(numbers[:rows])}))).row_group(0)

        assert group.column(0).has_dictionary_page == has_dictionary, rows


@pytest.mark.parametrize(
    ("kinds", "compression", "has_dictionary"),
    [(0, "zstd", False), (0, "none", True), (np.arange(ROWS) % 4, "zstd", True), (None, "zstd", False)],
    ids=["one", "one, uncompressed", "several", "nulls"],
)
def test_one_byte_that_is_always_the_same_is_left_to_the_codec(kinds: Any, compression: str, has_dictionary: bool):
    """As the row kinds of inserts: it is as small, and written in half the time."""
    column = pa.array(np.broadcast_to(kinds, ROWS), pa.int8())
    data = written({"kind": column}, compression=compression)

    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    assert chunk.has_dictionary_page == has_dictionary
    assert pq.read_table(io.BytesIO(data))["kind"].to_pylist() == column.to_pylist()
    assert len(data) < ROWS // 2


def test_few_numbers_prove_nothing():
    assert codecs_in(written({"number": pa.array(BITS[:500])})) == {"number": "ZSTD"}


def test_bounds_of_columns_whose_names_look_alike():
    rows = pa.record_batch(
        {"r": pa.array([{"x": "b"}, {"x": "a"}]), "r.x": pa.array([7, 3]), "s": pa.array(["d", "c"])}
    )
    writer = ParquetWriter(io.BytesIO(), rows.schema, WriteOptions())
    writer.write(rows)
    writer.close()

    assert writer.stored_bounds == {"r.x": (3, 7), "s": ("c", "d")}


def test_pages_of_long_texts_are_small():
    data = written({"text": pa.array([f"{number:0100000d}" for number in range(400)]), "number": pa.array(range(400))})
    before = pa.total_allocated_bytes()

    batches = pq.ParquetFile(io.BytesIO(data)).iter_batches(1, use_threads=False)
    first = next(batches)

    assert first.num_rows == 1
    assert pa.total_allocated_bytes() - before < 8 << 20
    assert sum(batch.num_rows for batch in batches) == 399
