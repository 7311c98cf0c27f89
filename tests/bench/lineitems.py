"""Rows as TPC-H's lineitem has them, 16 columns, and the tables that the benchmarks read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from paimon_engine import Catalog

KEYS: Final = ["l_orderkey", "l_linenumber"]
THREE_COLUMNS: Final = ["l_orderkey", "l_quantity", "l_shipdate"]
LINES_PER_ORDER: Final = 4
RUNS: Final = 8
TINY_RUNS: Final = 30
_WORDS: Final = ("furiously", "final", "deposits", "carefully", "pending", "requests", "sleep", "quickly", "ironic")


def _money(cents: Any) -> pa.Array:
    whole = np.stack([cents, cents >> 63], axis=1)
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(cents), [None, pa.py_buffer(whole)])


def _chosen(random: np.random.Generator, values: list[str], count: int) -> pa.Array:
    return pa.array(values).take(pa.array(random.integers(0, len(values), count)))


def rows(numbers: Any, seed: int = 1) -> pa.Table:
    """A row for each of the numbers, which choose its key."""
    random, count = np.random.default_rng(seed), len(numbers)
    shipped = random.integers(8_036, 10_562, count)
    comments = np.array([f"{one} {other}" for one in _WORDS for other in _WORDS])
    numbered = np.char.add(comments[random.integers(0, len(comments), count)], np.char.mod(" %d", numbers % 99_991))
    return pa.table(
        {
            "l_orderkey": pa.array(numbers // LINES_PER_ORDER),
            "l_partkey": pa.array(random.integers(1, 200_000, count)),
            "l_suppkey": pa.array(random.integers(1, 10_000, count)),
            "l_linenumber": pa.array((numbers % LINES_PER_ORDER).astype("i4")),
            "l_quantity": _money(random.integers(1, 51, count) * 100),
            "l_extendedprice": _money(random.integers(90_000, 10_500_000, count)),
            "l_discount": _money(random.integers(0, 11, count)),
            "l_tax": _money(random.integers(0, 9, count)),
            "l_returnflag": _chosen(random, ["A", "N", "R"], count),
            "l_linestatus": _chosen(random, ["F", "O"], count),
            "l_shipdate": pa.array(shipped.astype("i4")).cast(pa.date32()),
            "l_commitdate": pa.array((shipped + random.integers(-60, 60, count)).astype("i4")).cast(pa.date32()),
            "l_receiptdate": pa.array((shipped + random.integers(1, 31, count)).astype("i4")).cast(pa.date32()),
            "l_shipinstruct": _chosen(random, ["DELIVER TO BUYER", "COLLECT COD", "NONE", "RETURN TO SELLER"], count),
            "l_shipmode": _chosen(random, ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"], count),
            "l_comment": pa.array(numbered),
        }
    )


def _schema(*, keyed: bool) -> pa.Schema:
    fields = rows(np.arange(1)).schema
    return pa.schema([field.with_nullable(not keyed or field.name not in KEYS) for field in fields])


def new_table(warehouse: str, name: str, *, keyed: bool) -> Any:
    """A table without rows: keyed in one bucket, or an append table without buckets."""
    return Catalog(warehouse).create_table(
        f"db.{name}",
        schema=_schema(keyed=keyed),
        primary_keys=KEYS if keyed else (),
        options={"bucket": "1" if keyed else "-1", "write-only": "true", "write-buffer-size": "8 gb"},
    )


def make(warehouse: str, count: int) -> None:
    """The tables `compacted`, `runs`, `tiny` and `one`, and the rows of writes as Arrow files."""
    random = np.random.default_rng(3)
    table = new_table(warehouse, "compacted", keyed=True)
    table.write(rows(np.arange(count)))
    table.compact(full=True)
    table = new_table(warehouse, "runs", keyed=True)
    for number in range(RUNS):
        table.write(rows(np.sort(random.choice(count, count // RUNS, replace=False)), number))
    table = new_table(warehouse, "tiny", keyed=True)
    for number in range(TINY_RUNS):
        table.write(rows(np.arange(number, number + 10), number))
    new_table(warehouse, "one", keyed=True).write(rows(np.arange(1)))
    for name in ("empty_append", "empty_keyed"):
        new_table(warehouse, name, keyed=name == "empty_keyed")
    for name, numbers in (("ordered", np.arange(count)), ("shuffled", random.permutation(count))):
        data = rows(numbers)
        with ipc.new_file(str(Path(warehouse) / f"{name}.arrow"), data.schema) as sink:
            sink.write_table(data, max_chunksize=1 << 16)


def stored(warehouse: str, name: str) -> pa.Table:
    """The rows of a write, in memory."""
    with pa.OSFile(f"{warehouse}/{name}.arrow") as source:
        return ipc.open_file(source).read_all()
