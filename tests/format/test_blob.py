"""Files of BLOB columns: which values are read, and that wrong bytes are named and cost no memory."""

from __future__ import annotations

import io
import random
import struct
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.blob import NULL, PLACEHOLDER, read_index, read_values
from paimon_engine.format.blob_writer import BlobWriter
from tests.support.blob_bytes import Value, blob_file, framed, index_of, record

PATH = "some/x.blob"


def read(data: bytes, row_count: int, rows: Sequence[int] | None = None) -> list[bytes]:
    index = read_index(io.BytesIO(data), len(data), row_count, PATH)
    wanted = np.flatnonzero(index.lengths >= 0) if rows is None else np.array(rows, np.int64)
    return list(read_values(io.BytesIO(data), index, wanted, PATH).to_pylist())


def test_values_are_those_of_the_rows():
    made = random.Random(7)
    values: list[Value] = [
        made.choice([NULL, PLACEHOLDER, made.randbytes(made.choice([0, 1, 200, 70_000]))]) for _ in range(500)
    ]
    data = blob_file(values)

    index = read_index(io.BytesIO(data), len(data), len(values), PATH)
    assert [value if value < 0 else None for value in index.lengths.tolist()] == [
        value if isinstance(value, int) else None for value in values
    ]
    assert read(data, len(values)) == [value for value in values if isinstance(value, bytes)]
    some = [row for row, value in enumerate(values) if isinstance(value, bytes) and row % 3]
    assert read(data, len(values), some) == [values[row] for row in some]
    assert read(blob_file([]), 0) == []
    assert read(blob_file([NULL]), 1) == []


def test_what_is_written_is_a_file_of_these_values():
    made = random.Random(8)
    values = [made.choice([None, made.randbytes(made.choice([0, 1, 200, 70_000, 1 << 21]))]) for _ in range(300)]
    array = pa.array([b"before", *values, None], pa.binary())[1:-1]
    sink = io.BytesIO()
    writer = BlobWriter(sink)
    while len(array):
        count = writer.rows_until(array, writer.size_bytes + made.randrange(1, 1 << 22))
        writer.write(array[:count])
        array = array[count:]
    writer.close()

    assert sink.getvalue() == blob_file([NULL if value is None else value for value in values])
    assert writer.row_count == len(values)


def test_a_file_ends_with_the_value_that_reaches_its_size():
    writer = BlobWriter(io.BytesIO())
    values = pa.array([b"a" * 84, None, b"b" * 84, b"", b"c"], pa.binary())
    assert [writer.rows_until(values, size) for size in (1, 100, 101, 200, 201, 216, 232, 10_000)] == [
        *(1, 1, 3, 3, 4, 4, 5, 5)
    ]
    writer.write(values[:3])
    assert writer.size_bytes == 200
    assert [writer.rows_until(values[3:], size) for size in (200, 216, 217, 300)] == [1, 1, 2, 2]
    assert writer.rows_until(pa.array([None], pa.binary()), 1) == 1


def test_a_long_value_is_read_in_one_piece():
    values: list[Value] = [b"a" * (9 << 20), b"b", b"c" * (9 << 20)]
    assert read(blob_file(values), 3) == values


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "at least 5"),
        (b"\1\0\0\0", "at least 5"),
        (framed(record(b"x"), index_of([17]), version=2), "version 1"),
        (framed(record(b"x"), index_of([17, 17])), "its index has 2"),
        (framed(record(b"x"), b""), "its index has 0 bytes"),
        (framed(record(b"x"), index_of([18])), "longer than the file"),
        (framed(record(b"x") * 2, index_of([17])), "the 34 bytes"),
        (framed(b"", index_of([3])), "no record can have"),
        (framed(b"", index_of([-3])), "no record can have"),
        (framed(b"", index_of([1 << 62])), "longer than the file"),
        (framed(b"", b"\x80"), "ends within a number"),
        (framed(b"", b"\x80" * 9 + b"\x80\x01"), "impossible for 1 rows"),
        (struct.pack("<iB", -1, 1), "impossible"),
        (struct.pack("<iB", 1 << 30, 1), "impossible"),
        (framed(record(b"x")[:-1] + b"\0", index_of([17])), "the record at 0"),
        (framed(b"\0" + record(b"x")[1:], index_of([17])), "the record at 0"),
        (framed(record(b"xy").replace(b"xy", b"xz"), index_of([18])), "the record at 0"),
    ],
)
def test_wrong_bytes_are_named(data: bytes, what: str):
    with pytest.raises(CorruptTableError, match=rf"some/x\.blob: .*{what}"):
        read(data, 1)


def test_wrong_bytes_cost_no_memory():
    made = random.Random(3)
    data = blob_file([made.randbytes(50), NULL, made.randbytes(5)] * 20)
    tracemalloc.start()
    for _ in range(3_000):
        wrong = bytearray(data)
        for _ in range(made.randrange(1, 4)):
            wrong[-made.randrange(1, 150)] = made.randrange(256)
        rows = made.choice([60, 60, 61, 1 << 40])
        try:
            found = read(bytes(wrong), rows)
        except CorruptTableError:
            continue
        assert len(found) <= 60
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
