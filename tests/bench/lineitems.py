"""TPC-H's lineitem, 16 columns, by tpchgen-cli, and the tables that the benchmarks read."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from paimon_engine import Catalog

KEYS: Final = ["l_orderkey", "l_linenumber"]
THREE_COLUMNS: Final = ["l_orderkey", "l_quantity", "l_shipdate"]
ORDERS_APART: Final = 32
"""Of so many numbers of orders the first eight exist: 1 to 8, 33 to 40, and so on."""
RUNS: Final = 8
TINY_RUNS: Final = 30
_ROWS_PER_SCALE: Final = 6_000_000
_ROWS_MIN: Final = 6_000
"""Of fewer rows the generator makes few columns' whole range of values."""
_TEXTS: Final = ("l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode", "l_comment")
_MONEY: Final = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
SCHEMA: Final = pa.schema(
    [
        pa.field("l_orderkey", pa.int64()),
        pa.field("l_partkey", pa.int64()),
        pa.field("l_suppkey", pa.int64()),
        pa.field("l_linenumber", pa.int32()),
        *(pa.field(name, pa.decimal128(15, 2)) for name in _MONEY),
        *(pa.field(name, pa.string()) for name in _TEXTS[:2]),
        *(pa.field(name, pa.date32()) for name in ("l_shipdate", "l_commitdate", "l_receiptdate")),
        *(pa.field(name, pa.string()) for name in _TEXTS[2:]),
    ]
)


def generated(count: int) -> pa.Table:
    """About `count` rows, in order of the key."""
    scale = max(count, _ROWS_MIN) / _ROWS_PER_SCALE
    generator = Path(sys.executable).with_name("tpchgen-cli")
    if not generator.exists():
        raise SystemExit("tpchgen-cli is missing: pip install -c .constraints.txt -e '.[bench]'")
    with tempfile.TemporaryDirectory() as folder:
        command = [generator, "parquet", "-s", f"{scale:.8f}", "-T", "lineitem", "-o", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = pq.read_table(Path(folder) / "lineitem.parquet").cast(SCHEMA)
    return rows.slice(0, count)


def new_table(warehouse: str, name: str, *, keyed: bool, buckets: int = 1) -> Any:
    """A table without rows: keyed, in one bucket or more, or an append table without buckets."""
    return Catalog(warehouse).create_table(
        f"db.{name}",
        schema=pa.schema([field.with_nullable(not keyed or field.name not in KEYS) for field in SCHEMA]),
        primary_keys=KEYS if keyed else (),
        options={"bucket": str(buckets) if keyed else "-1", "write-only": "true", "write-buffer-size": "8 gb"},
    )


def make(warehouse: str, count: int) -> None:
    """The tables `compacted`, `runs`, `tiny` and `one`, and the rows of writes as Arrow files."""
    random, data = np.random.default_rng(3), generated(count)
    count = data.num_rows
    table = new_table(warehouse, "compacted", keyed=True)
    table.write(data)
    table.compact(full=True)
    table = new_table(warehouse, "runs", keyed=True)
    for _ in range(RUNS):
        table.write(data.take(pa.array(np.sort(random.choice(count, count // RUNS, replace=False)))))
    table = new_table(warehouse, "tiny", keyed=True)
    for number in range(TINY_RUNS):
        table.write(data.slice(number, 10))
    new_table(warehouse, "one", keyed=True).write(data.slice(0, 1))
    new_table(warehouse, "empty_append", keyed=False)
    for name, buckets in (("empty_keyed", 1), ("empty_keyed_4", 4)):
        new_table(warehouse, name, keyed=True, buckets=buckets)
    for name, rows in (("ordered", data), ("shuffled", data.take(pa.array(random.permutation(count))))):
        with ipc.new_file(str(Path(warehouse) / f"{name}.arrow"), SCHEMA) as sink:
            sink.write_table(rows, max_chunksize=1 << 16)


def stored(warehouse: str, name: str) -> pa.Table:
    """The rows of a write, in memory."""
    with pa.OSFile(f"{warehouse}/{name}.arrow") as source:
        return ipc.open_file(source).read_all()
