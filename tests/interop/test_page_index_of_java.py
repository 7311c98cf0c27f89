"""Files of Java have page indexes: reads by a filter find the pages of its rows by them."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import open_table
from paimon_engine.format.parquet import read_matching
from paimon_engine.predicate import col, parse_where, to_arrow_expression
from paimon_engine.storage.remote_file import RemoteFile
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

FIELDS = [["k", "BIGINT NOT NULL"], ["t", "STRING"], ["n", "INT"], ["d", "DATE"]]
OPTIONS = {"bucket": "1", "parquet.page.row.count.limit": "500"}
ROWS = 20_000
FIRST_DAY = date(2019, 1, 1)


def rows() -> list[list[object]]:
    return [
        [
            key * 3,
            None if key % 11 == 0 else f"text {key:07} {'ü' * (key % 40)}",
            key // 100,
            str(FIRST_DAY + timedelta(key // 50)),
        ]
        for key in range(ROWS)
    ]


def test_rows_are_found_by_the_page_index(paimon2: JavaPaimon, tmp_path: Path):
    path = str(tmp_path / "t")
    paimon2.call("create_table", table=path, fields=FIELDS, primary_keys=["k"], partition_keys=[], options={**OPTIONS})
    paimon2.call("write", table=path, rows=rows())
    paimon2.call("compact", table=path, full=True)
    table = open_table(path)
    file = max(Path(path).glob("bucket-0/*.parquet"), key=lambda one: one.stat().st_mtime_ns)
    assert pq.read_metadata(file).num_rows == ROWS
    chunk = pq.read_metadata(file).row_group(0).column(0)
    assert chunk.has_offset_index
    assert chunk.has_column_index
    everything = table.to_arrow()
    random = Random(1)
    numbers = sorted(random.sample(range(3 * ROWS), 40))
    filters = [
        *(f"k = {number}" for number in numbers),
        *(f"k >= {low} and k < {high}" for low, high in pairwise(numbers)),
        *(f"n = {number % 200} and k > {number}" for number in numbers[:9]),
        "t = 'text 0012345 " + "ü" * (12_345 % 40) + "'",
        "t is null and k < 900",
        "d = date '2019-05-01'",
    ]
    for where in filters:
        wanted = everything.filter(to_arrow_expression(parse_where(where), everything.schema))
        assert table.to_arrow(where=where).sort_by("k").equals(wanted.sort_by("k")), where

    data, requests = file.read_bytes(), list[int]()

    def fetch(begin: int, size: int) -> bytes:
        requests.append(size)
        return data[begin : begin + size]

    schema = pa.schema([everything.schema.field(name) for name in ("k", "t")])
    source = RemoteFile(str(file), len(data), fetch)
    source.hold_end()
    held = sum(requests)
    found = read_matching(source, schema, col("k") == 3 * 7_777, path=str(file))
    assert [batch["k"].to_pylist() for _, batch in found] == [[3 * 7_777]]
    assert sum(requests) - held < len(data) / 10
