"""What a process loads that opens a table and reads a row, and has no filter and no CREATE TABLE statement."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from paimon_engine import Catalog

PROGRAM = """
import json, sys
from paimon_engine import open_table
assert open_table(sys.argv[1]).to_arrow().num_rows == 1
print(json.dumps(sorted(sys.modules)))
"""
NOT_NEEDED = {"sqlglot", "pydantic", "rich", "pyspark", "fsspec", "httpx", "sqlalchemy", "pandas"}


def test_reading_a_row_loads_no_parser_of_filters(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema={"k": "BIGINT NOT NULL"}, primary_keys=["k"])
    table.write(pa.table({"k": [1]}))

    done = subprocess.run([sys.executable, "-c", PROGRAM, table.path], capture_output=True, text=True, check=True)

    loaded = json.loads(done.stdout)
    assert not NOT_NEEDED & {name.partition(".")[0] for name in loaded}
    assert not [name for name in loaded if name.startswith("paimon_engine.actions.")]
