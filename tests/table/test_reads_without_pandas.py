"""Reads with filters do not import pandas, which takes a process longer than most reads."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa

from paimon_engine import Catalog

COUNT = 20_000
"""Enough for the rows of a filter to be found before the other columns are decoded."""
PROGRAM = """
import sys, paimon_engine
found = paimon_engine.open_table(sys.argv[1]).to_arrow(where=sys.argv[2])
print(found.num_rows, "pandas" in sys.modules)
"""


def test_filters_on_partitions_row_groups_and_rows(tmp_path: Path):
    rows = pa.table(
        {
            "day": pa.array([date(2024, 1, 1), date(2024, 1, 2), None, None] * (COUNT // 4)),
            "city": pa.array(["Ulm", "Köln"] * (COUNT // 2)),
            "k": pa.array(range(COUNT)),
            "price": pa.array(range(COUNT), pa.int32()).cast(pa.decimal128(12, 2)),
            "share": pa.array([0.5] * COUNT),
            "comment": pa.array([f"{number} is a long comment on it" for number in range(COUNT)]),
        }
    )
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=rows.schema, partition_keys=["day", "city"], options={"bucket": "-1"}
    )
    table.write(rows)

    for where, count in (
        ("day = DATE '2024-01-01' AND k < 12", 3),
        ("day IS NULL AND city <> 'Ulm' AND price <= 15", 4),
        ("city IN ('Köln', 'Bonn') AND comment LIKE '7 %' AND share > 0.25", 1),
    ):
        done = subprocess.run([sys.executable, "-c", PROGRAM, table.path, where], capture_output=True, text=True)
        assert done.stdout.split() == [str(count), "False"], done.stderr
