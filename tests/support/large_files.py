"""A Parquet file so large that remote stores give it in ranges, which are fetched side by side."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_batches
from paimon_engine.storage import Storage
from paimon_engine.storage.remote_file import READ_AHEAD_BYTES

ROWS = 240_000


def check_large_file(storage: Storage, path: str) -> None:
    """Writes it, and fails if its rows, read in turns within little memory, or its bytes from the middle, are others."""
    random = np.random.default_rng(5)
    columns = {f"n{number}": random.integers(0, 1 << 60, ROWS) for number in range(4)}
    table = pa.table({"k": np.arange(ROWS), **columns})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=ROWS // 2)
    data = buffer.getvalue()
    assert len(data) > 2 * READ_AHEAD_BYTES
    with storage.writer(path) as sink:
        sink.write(data)

    with storage.open(path, size_bytes=len(data)) as source:
        batches = read_batches(source, table.schema, path=path, limit=BatchLimit(10_000, 4 << 20))
        assert pa.Table.from_batches(batches).equals(table)
        source.seek(len(data) // 2)
        assert source.read(1_000) == data[len(data) // 2 :][:1_000]
        source.seek(-10, io.SEEK_END)
        assert source.read() == data[-10:]
