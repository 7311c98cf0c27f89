"""Requests of a commit on S3 by kind, and commits a second of several writers of one table.

    python -m tests.bench.s3_commits                       # 1, 4 and 8 writers, 10 seconds each
    python -m tests.bench.s3_commits --writers 4 --seconds 30

The server is moto's, in a separate process, which answers one request after another: compare figures of one run, or
of runs that take turns on one machine. Requests are those of the server's log, so what its clients add is in them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from paimon_engine import Catalog, Table, open_table
from tests.support.s3 import BUCKET, RequestLog, start_s3

COLUMNS = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64())])
VERBS = ("GET", "HEAD", "LIST", "PUT", "DELETE")
PATIENT = {"commit.max-retries": "100000"}


def write(table: Table, name: str, number: int) -> None:
    table.write(pa.table([[f"{name}-{number}"], [number]], schema=COLUMNS))


def write_for(path: str, storage: Mapping[str, str], name: str, seconds: float, done: multiprocessing.Queue) -> None:
    """Commits one after another, and returns how many."""
    table, number, until = open_table(path, storage_options=storage, options=PATIENT), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        write(table, name, number)
        number += 1
    done.put(number)


def new_table(name: str, storage: Mapping[str, str]) -> Table:
    catalog = Catalog(f"s3://{BUCKET}/lake", storage_options=dict(storage))
    return catalog.create_table(f"db.{name}", schema=COLUMNS, options={"bucket": "-1"})


def alone(storage: Mapping[str, str], log: RequestLog, grid: Grid) -> None:
    """Requests of single commits and of a compaction."""
    table = new_table("alone", storage)
    for number in range(100):
        log.take()
        write(table, "alone", number)
        if number in (0, 9, 99):
            tell(grid, f"commit {number + 1}", Counter(verb for verb, _ in log.take()))
    table.compact(full=True)
    found = log.take()
    tell(grid, "full compaction", Counter(verb for verb, _ in found))
    tell(grid, "… its metadata", Counter(verb for verb, path in found if "/bucket-" not in path))


def contended(storage: Mapping[str, str], log: RequestLog, grid: Grid, writers: int, seconds: float) -> None:
    """Requests per commit, and commits a second."""
    table, spawn = new_table(f"by{writers}", storage), multiprocessing.get_context("spawn")
    done = spawn.Queue()
    log.take()
    begun = time.monotonic()
    given = [(table.path, dict(storage), f"w{number}", seconds, done) for number in range(writers)]
    processes = [spawn.Process(target=write_for, args=each) for each in given]
    for process in processes:
        process.start()
    commits = sum(done.get() for _ in processes)
    for process in processes:
        process.join()
    took = time.monotonic() - begun
    requests = Counter(verb for verb, _ in log.take())
    tell(grid, f"{writers} writers", requests, commits, commits / took)


def tell(grid: Grid, what: str, requests: Counter[str], commits: int = 1, rate: float | None = None) -> None:
    numbers = [*(requests[verb] for verb in VERBS), sum(requests.values())]
    grid.add_row(what, *(f"{number / commits:.3g}" for number in numbers), "" if rate is None else f"{rate:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writers", type=int, nargs="+", default=(1, 4, 8))
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    grid = Grid(title="requests per commit")
    for title in ("what", *VERBS, "all", "commits/s"):
        grid.add_column(title, justify="left" if title == "what" else "right")
    with tempfile.TemporaryDirectory() as directory:
        log = RequestLog(Path(directory) / "requests.log")
        for storage in start_s3(one_at_a_time=True, log=log):
            alone(storage, log, grid)
            for writers in arguments.writers:
                contended(storage, log, grid, writers, arguments.seconds)
    Console().print(grid)


if __name__ == "__main__":
    main()
