"""What bounds the memory of writes of large rows; `docs/sizing.md` lists peaks, `tests.bench.memory` measures them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog
from paimon_engine.format.layout import ROW_GROUP_BYTES_MAX

MB = 1 << 20


def large_rows(count: int) -> pa.Table:
    """Rows of 8 MB."""
    chance = np.random.default_rng(3)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("data", pa.binary())])
    values = pa.array([chance.bytes(8 * MB) for _ in range(count)], pa.binary())
    return pa.table([pa.array(range(count)), values], schema)


@pytest.mark.parametrize("keyed", [True, False], ids=["primary key", "append"])
def test_a_row_group_of_large_rows_is_no_larger_than_others(keyed: bool, tmp_path: Path) -> None:
    rows = large_rows(12)
    keys, options = (["id"], {"bucket": 1}) if keyed else ((), {})
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows.schema, primary_keys=keys, options=options)

    table.write(rows)

    (path,) = table.files()["file_path"].to_pylist()
    footer = pq.read_metadata(io.BytesIO(Path(path).read_bytes()))
    sizes = [footer.row_group(number).total_byte_size for number in range(footer.num_row_groups)]
    assert len(sizes) > 1
    assert max(sizes) < ROW_GROUP_BYTES_MAX + 9 * MB
    assert table.to_arrow(["id"])["id"].to_pylist() == list(range(12))


def test_a_full_buffer_is_flushed_within_a_batch_of_large_rows(tmp_path: Path) -> None:
    rows = large_rows(20)
    options: dict[str, Any] = {"bucket": 1, "write-buffer-size": "16 mb"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=rows.schema, primary_keys=["id"], options=options)

    table.write(rows)

    # Each part of 64 MB of the batch fills the buffer.
    assert sorted(table.files()["record_count"].to_pylist()) == [6, 7, 7]
    assert sorted(table.to_arrow(["id"])["id"].to_pylist()) == list(range(20))
