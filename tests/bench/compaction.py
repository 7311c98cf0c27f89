"""How fast writes, compaction and merged reads are on one core, beside the least that the bytes themselves cost.

    python -m tests.bench.compaction --rows 2000000

Four commits, each with 30 % of its keys from earlier ones, into one bucket; then a merged read and a full compaction.
The floor is the same Parquet bytes read and as many rows written again, with nothing in between. Compare figures of
one run only: they are processor seconds, but machines differ and have neighbours.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

from paimon_engine import Catalog, Table
from paimon_engine.format.layout import BATCH_ROWS, WriteOptions
from paimon_engine.format.parquet import ParquetWriter

COMMITS = 4
REPEATED = 0.3


def rows_of_commit(random: np.random.Generator, fresh: int, count: int) -> pa.Table:
    """`count` rows, of which 70 % have the keys from `fresh` on, and the others older keys."""
    new = count if fresh == 0 else int(count * (1 - REPEATED))
    keys = np.concatenate([np.arange(fresh, fresh + new), random.integers(0, max(fresh, 1), count - new)])
    random.shuffle(keys)
    return pa.table(
        {
            "k": keys,
            "a": random.integers(0, 100, count).astype("i4"),
            "b": random.integers(0, 1 << 40, count),
            "x": random.random(count),
            "y": random.random(count),
            "few": np.char.mod("%012d", random.integers(0, 5000, count)),
            "many": np.char.mod("%012x", random.integers(0, 1 << 47, count)),
        }
    )


class Clock:
    """Processor seconds of this process, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begun = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begun


def copy_files(table: Table, rows: int) -> None:
    """Reads all data files and writes as many rows as the compacted table has: what no compaction can do without."""
    sink = io.BytesIO()
    writer = None
    for path in sorted(Path(table.path).rglob("*.parquet")):
        for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(BATCH_ROWS, use_threads=False):
            if writer is None:
                writer = ParquetWriter(sink, batch.schema, WriteOptions())
            if rows > 0:
                writer.write(batch.slice(0, rows))
                rows -= batch.num_rows
    assert writer is not None
    writer.close()


def run(folder: Path, rows: int) -> tuple[Clock, int, int]:
    """Seconds by step, rows written, and rows left."""
    random, clock, fresh = np.random.default_rng(1), Clock(), 0
    table = None
    for _ in range(COMMITS):
        data = rows_of_commit(random, fresh, rows // COMMITS)
        fresh = max(fresh, int(pa.compute.max(data["k"]).as_py()) + 1)
        if table is None:
            options = {"bucket": "1"}
            schema = pa.schema([field.with_nullable(field.name != "k") for field in data.schema])
            table = Catalog(str(folder)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
        with clock("write"):
            table.write(data)
    assert table is not None
    with clock("merged read"):
        left = table.to_arrow().num_rows
    with clock("floor of compaction"):
        copy_files(table, left)
    with clock("compaction"):
        table.compact(full=True)
    return clock, rows // COMMITS * COMMITS, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows = parser.parse_args().rows
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        clock, written, left = run(Path(folder), rows)
    grid = Grid(title=f"{written:,} rows written, {left:,} left", box=None, title_justify="left")
    for name in ("", "processor s", "rows/s"):
        grid.add_column(name, justify="left" if not name else "right")
    for name, seconds in clock.seconds.items():
        grid.add_row(name, f"{seconds:.2f}", f"{written / seconds:,.0f}")
    console = Console()
    console.print(grid)
    ratio = clock.seconds["compaction"] / clock.seconds["floor of compaction"]
    console.print(f"compaction takes {ratio:.2f} times its floor")


if __name__ == "__main__":
    main()
