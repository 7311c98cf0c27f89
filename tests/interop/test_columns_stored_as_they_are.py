"""Files in which some columns are compressed and some are not are read by the other engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, Table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.newest import NewestPaimon
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

ROWS = 24_000


def compacted(folder: Path, codec: str) -> Table:
    """Two commits of numbers, random and repeated, with keys, texts and nulls, compacted into one file."""
    random = np.random.default_rng(5)
    table = None
    for begin in (0, ROWS // 2):
        rows = pa.table(
            {
                "k": pa.array(random.permutation(np.arange(begin, begin + ROWS)) * 0x9E3779B9),
                "n": pa.array(random.integers(-(1 << 63), (1 << 63) - 1, ROWS), mask=random.random(ROWS) < 0.3),
                "x": random.standard_normal(ROWS),
                "i": random.integers(-(1 << 31), 1 << 31, ROWS).astype("i4"),
                "s": [f"text {number % 700}" for number in range(ROWS)],
                "c": pa.array(random.integers(0, 16, ROWS), mask=random.random(ROWS) < 0.1),
                "t": [f"city {number}" for number in random.integers(0, 16, ROWS)],
            }
        )
        if table is None:
            table = Catalog(str(folder)).create_table(
                "db.t",
                schema=pa.schema([field.with_nullable(field.name != "k") for field in rows.schema]),
                primary_keys=["k"],
                options={"bucket": "1", "file.compression": codec},
            )
        table.write(rows)
    assert table is not None
    table.compact(full=True)
    return table


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_other_engines_read_them(
    tmp_path: Path, codec: str, oracle: JavaPaimon, newest: NewestPaimon, pypaimon: PyPaimon
):
    table = compacted(tmp_path, codec)
    expected = rows_of(table.to_arrow())

    [file] = table.files()["file_path"].to_pylist()
    group = pq.read_metadata(file).row_group(0)
    used = {
        group.column(position).path_in_schema: group.column(position).compression
        for position in range(group.num_columns)
    }
    assert [used[name] for name in ("n", "x", "i", "c", "t", "s")] == [*["UNCOMPRESSED"] * 5, codec.upper()]
    assert all(group.column(table.schema.row_type.names.index(name) + 3).has_dictionary_page for name in "cts")
    assert len(expected) == ROWS + ROWS // 2
    assert_same_rows(oracle.read(table.path), expected)
    oracle.assert_sound(table.path)
    assert_same_rows(newest.read(table.path), expected)
    for client in ("python", "rust"):
        assert_same_rows(rows_of(pypaimon.read(table.path, client=client)), expected)
