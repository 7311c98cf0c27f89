"""What a process loads that opens a table and reads a row, and has no filter and no CREATE TABLE statement."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog

PROGRAM = """
import json, sys
from paimon_engine import open_table
assert open_table(sys.argv[1]).to_arrow().num_rows == 1
print(json.dumps(sorted(sys.modules)))
"""
COMPACTION = """
import json, sys
from paimon_engine import open_table
assert open_table(sys.argv[1]).compact(full=True).rows_after == 1
print(json.dumps(sorted(sys.modules)))
"""
MERGE = """
import sys
from paimon_engine import open_table
assert open_table(sys.argv[1]).to_arrow().num_rows == 3
assert "pandas" not in sys.modules
"""
PLAN = """
import sys
from paimon_engine.env import EnvConfig
from paimon_engine.predicate import parse_where
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import latest_snapshot
table = load_table(sys.argv[1], EnvConfig(sys.argv[1]))
assert len(plan_splits(table, latest_snapshot(table), parse_where("k = 2"))) == 1
assert "pandas" not in sys.modules
"""
OF_FEW_TABLES = {"datasketches", "pymetastore", "thrift", "hdfs_native", "sqlalchemy", "s3fs", "adlfs", "gcsfs"}
NOT_NEEDED = {"sqlglot", "pydantic", "rich", "pyspark", "fsspec", "httpx", "pandas", *OF_FEW_TABLES}


def test_reading_a_row_loads_no_parser_of_filters(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema={"k": "BIGINT NOT NULL"}, primary_keys=["k"])
    table.write(pa.table({"k": [1]}))

    done = subprocess.run([sys.executable, "-c", PROGRAM, table.path], capture_output=True, text=True, check=True)

    loaded = json.loads(done.stdout)
    assert not NOT_NEEDED & {name.partition(".")[0] for name in loaded}
    assert not [name for name in loaded if name.startswith(("paimon_engine.actions.", "paimon_engine.table.commit."))]
    assert "importlib.metadata" not in loaded


def test_a_compaction_loads_no_package_that_few_tables_need(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "bucket": "1"}
    schema = {"k": "BIGINT NOT NULL", "v": "BIGINT"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    for value in (1, 2):
        table.write(pa.table({"k": [1], "v": [value]}))

    done = subprocess.run([sys.executable, "-c", COMPACTION, table.path], capture_output=True, text=True, check=True)

    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "numpy" in loaded
    assert not OF_FEW_TABLES & loaded


@pytest.mark.parametrize("program", [MERGE, PLAN], ids=["rows are merged", "a key is planned"])
def test_pandas_is_not_loaded_where(program: str, tmp_path: Path) -> None:
    assert importlib.util.find_spec("pandas") is not None
    schema, options = {"k": "BIGINT NOT NULL", "v": "STRING"}, {"bucket": "1"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    for keys in ([1, 2], [2, 3]):
        table.write(pa.table({"k": keys, "v": [f"text {key}" for key in keys]}))
    table.write(pa.table({"k": [1], "v": ["gone"]}), row_kinds=["-D"])
    table.write(pa.table({"k": [1], "v": ["again"]}))

    done = subprocess.run([sys.executable, "-c", program, table.path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
