"""Reads and compactions of tables on S3 where each answer takes a while: time, requests and bytes.

    python -m tests.bench.s3_reads                       # 30 ms for each answer
    python -m tests.bench.s3_reads --milliseconds 0 --rows 4000000

The server is moto's, in a separate process, which needs time of its own for each request, and one core for all of them:
compare figures of one run, or of runs that take turns on one machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from paimon_engine import Catalog, Table
from tests.bench.compaction import CASES, rows_of_run
from tests.support.s3 import BUCKET, RequestLog, start_s3

LARGE_RUNS, TINY_RUNS, TINY_ROWS = 4, 30, 100


def table_of(storage: Mapping[str, str], name: str, runs: int, rows: int) -> Table:
    """A table of one bucket and so many overlapping runs of `rows` rows, in a file each."""
    random, known = np.random.default_rng(7), 0
    table = None
    for _ in range(runs):
        data = rows_of_run(random, CASES["deduplicate"], known, rows)
        known += rows
        if table is None:
            schema = pa.schema([field.with_nullable(field.name != "k") for field in data.schema])
            options = {"bucket": "1", "write-only": "true", "write-buffer-size": "8 gb", "target-file-size": "8 gb"}
            catalog = Catalog(f"s3://{BUCKET}/lake", storage_options=dict(storage))
            table = catalog.create_table(f"db.{name}", schema=schema, primary_keys=["k"], options=options)
        table.write(data)
    assert table is not None
    return table


def measured(grid: Grid, log: RequestLog, table: Table, what: str, act: Callable[[], object]) -> None:
    """Adds a line for what was done; its bytes are compared with those of the data files before."""
    stored = sum(table.files()["file_size_in_bytes"].to_pylist())
    log.take()
    cpu, begun = time.process_time(), time.perf_counter()
    act()
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begun
    verbs = Counter(verb for verb, _ in log.take())
    grid.add_row(
        what,
        f"{seconds:.2f}",
        f"{cpu:.2f}",
        str(verbs["GET"]),
        str(sum(verbs.values()) - verbs["GET"]),
        f"{stored / 1e6:.1f}",
        f"{log.bytes_read / 1e6:.1f}",
    )


def streamed(table: Table) -> int:
    """Rows of the table, of which no batch is kept."""
    return sum(batch.num_rows for batch in table.to_batches())


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--milliseconds", type=float, default=30)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    grid = Grid(title=f"{arguments.milliseconds:g} ms for each answer")
    for title in ("what", "wall s", "CPU s", "GET", "other", "MB stored", "MB read"):
        grid.add_column(title, justify="left" if title == "what" else "right")
    with tempfile.TemporaryDirectory() as directory:
        log = RequestLog(Path(directory) / "requests.log")
        for storage in start_s3(log=log, seconds=max(arguments.milliseconds, 0.1) / 1000):
            for name, runs, rows in (
                (f"{LARGE_RUNS} large runs", LARGE_RUNS, arguments.rows // LARGE_RUNS),
                (f"{TINY_RUNS} tiny runs", TINY_RUNS, TINY_ROWS),
            ):
                table = table_of(storage, f"t{runs}", runs, rows)
                streamed(table)  # what is imported and connected once
                measured(grid, log, table, f"read of {name}", lambda table=table: streamed(table))
                measured(grid, log, table, f"compaction of {name}", lambda table=table: table.compact(full=True))
                measured(grid, log, table, "read behind it", lambda table=table: streamed(table))
    Console().print(grid)


if __name__ == "__main__":
    main()
