"""How much memory the engine takes for what is large: rows, buckets, numbers of files and of snapshots.

`python -m tests.bench.memory` runs every case in a separate process and prints its peak beyond what the process had
when the work began, in MB; `python -m tests.bench.memory CASE [SIZE]` one of them, also with another size.
`docs/sizing.md` says what is promised; `tests/table/test_memory_peaks.py` holds the quick cases to it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd  # noqa: F401 - Arrow imports it at its first conversion; it is none of the memory that the work takes
import pyarrow as pa

from paimon_engine import Catalog, open_table
from paimon_engine.action import Context
from paimon_engine.actions.expire_snapshots import ExpireSnapshots, expire_snapshots
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles, remove_orphan_files
from paimon_engine.env import EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.storage import LocalStorage
from paimon_engine.table.commit.commit import commit
from paimon_engine.table.commit.request import CommitRequest
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.world.made_up import History

_MB: Final = 1 << 20
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_EVERY_S: Final = 0.002
_ROW_BYTES: Final = 200
_WIDE_ROW_BYTES: Final = 4 << 10
_ROWS: Final = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("data", pa.binary())])


def _watched(act: Callable[[], Any]) -> int:
    """MB that this process takes beyond what it has now, at most, while `act` runs."""
    before, highest, ended = _resident_bytes(), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not ended.wait(_EVERY_S):
            highest = max(highest, _resident_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        act()
    finally:
        ended.set()
        watcher.join()
    return max(0, highest - before, _resident_bytes() - before) // _MB


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def _handle(directory: str) -> TableHandle:
    root = f"{directory}/db.db/t"
    return load_table(root, EnvConfig(root))


# ── cases ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    """`prepare` makes the table of a size; each step begins on it in a separate process, and gives what is watched."""

    size: int
    prepare: Callable[[str, int], None]
    steps: dict[str, Callable[[str, int], Callable[[], Any]]]


def _large_rows(first: int, count: int) -> pa.Table:
    chance = np.random.default_rng(first)
    values = pa.array([chance.bytes(50 * _MB) for _ in range(count)], pa.binary())
    return pa.table([pa.array(range(first, first + count)), values], schema=_ROWS)


def _write_large_rows(directory: str, count: int) -> None:
    catalog = Catalog(directory)
    options = {"bucket": 1, "num-sorted-run.compaction-trigger": 100}
    table = catalog.create_table("db.t", schema=_ROWS, primary_keys=["id"], options=options)
    for first in (0, count):
        table.write(_large_rows(first, count))


def _write_more(directory: str, count: int) -> Callable[[], Any]:
    rows = _large_rows(0, count)
    return lambda: open_table(f"{directory}/db.db/t").write(rows)


def _create_keyed(directory: str, _: int, *, buckets: int = 1) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.binary())])
    options = {"bucket": buckets, "write-only": True, "write-buffer-size": "1 gb"}
    Catalog(directory).create_table("db.t", schema=schema, primary_keys=["k"], options=options)


def _write_shuffled(directory: str, megabytes: int) -> Callable[[], Any]:
    """A write of so many MB of rows in memory, in any order of their keys."""
    chance = np.random.default_rng(2)
    count = megabytes * _MB // (_ROW_BYTES + 8)
    ends = pa.py_buffer(np.arange(0, (count + 1) * _ROW_BYTES, _ROW_BYTES, dtype=np.int32))
    values = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(chance.bytes(count * _ROW_BYTES))])
    rows = pa.table({"k": chance.permutation(count), "v": values})
    parts = pa.Table.from_batches(rows.to_batches(max_chunksize=1 << 16))
    return lambda: open_table(f"{directory}/db.db/t").write(parts)


def _read_all(directory: str, _: int) -> Callable[[], Any]:
    return lambda: [batch.num_rows for batch in open_table(f"{directory}/db.db/t").to_batches()]


def _compact_all(directory: str, _: int) -> Callable[[], Any]:
    return lambda: open_table(f"{directory}/db.db/t").compact(full=True)


def _write_runs(directory: str, task_memory_mb: int) -> None:
    """Four overlapping runs, together ten times the memory of a task."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    options = {"bucket": 1, "num-sorted-run.compaction-trigger": 100, "target-file-size": "32 mb"}
    table = Catalog(directory).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    chance = np.random.default_rng(1)
    count = 10 * task_memory_mb * _MB // _ROW_BYTES // 4
    for run in range(4):
        keys = pa.array(np.sort(chance.integers(0, 4 * count, count)))
        numbers = chance.integers(0, 1 << 60, count).tolist()
        values = pa.array([f"{run}-{number:0{_ROW_BYTES - 20}x}" for number in numbers])
        table.write(pa.table([keys, values], schema=schema))


def _write_wide_runs(directory: str, runs: int) -> None:
    """Runs of 12 MB that all overlap, of rows of 4 KB."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.binary())])
    options = {"bucket": 1, "write-only": True}
    table = Catalog(directory).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    chance = np.random.default_rng(3)
    count = 12 * _MB // _WIDE_ROW_BYTES
    ends = pa.py_buffer(np.arange(0, (count + 1) * _WIDE_ROW_BYTES, _WIDE_ROW_BYTES, dtype=np.int32))
    for _ in range(runs):
        values = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(chance.bytes(12 * _MB))])
        keys = pa.array(np.sort(chance.choice(runs * count, count, replace=False)))
        table.write(pa.table([keys, values], schema=schema))


def _compact_bounded(directory: str, task_memory_mb: int) -> Callable[[], Any]:
    limit = task_memory_mb * _MB
    return lambda: open_table(f"{directory}/db.db/t").compact(full=True, task_memory_bytes=limit)


def _write_snapshots(directory: str, count: int) -> None:
    history = History({"snapshot.num-retained.min": "1"}, storage=LocalStorage(), root=f"{directory}/db.db/t")
    for number in range(count):
        history.compact() if number % 10 == 9 else history.write()


def _expire(directory: str, _: int) -> Callable[[], Any]:
    table = _handle(directory)
    return lambda: expire_snapshots(Context(table, LocalExecutor(env=table.env)), ExpireSnapshots(retain_max=1))


def _plan(directory: str, _: int) -> Callable[[], Any]:
    table = _handle(directory)
    return lambda: plan_splits(table, latest_snapshot(table))


def _list_files(directory: str, _: int) -> Callable[[], Any]:
    return lambda: open_table(f"{directory}/db.db/t").files()


def _plan_compaction(directory: str, _: int) -> Callable[[], Any]:
    return lambda: open_table(f"{directory}/db.db/t").compact(full=True, dry_run=True)


def _name_files(directory: str, count: int) -> None:
    """Empty files that manifests name, as far as they are looked into."""
    history = History({"snapshot.num-retained.min": "1"}, storage=LocalStorage(), root=f"{directory}/db.db/t")
    one = history.file("one")
    for begin in range(0, count, 10_000):
        numbers = range(begin, min(count, begin + 10_000))
        files = tuple(replace(one, name=f"data-{number:032d}-0.orc", extra_files=()) for number in numbers)
        for file in files:
            Path(history.path(file.name)).touch()
        message = CommitMessage(EMPTY_ROW, 0, 1, new_files=files)
        commit(history.handle, CommitRequest([message], CommitKind.APPEND, f"user-{begin}"))


def _add_orphans(directory: str, count: int) -> None:
    _name_files(directory, count // 2)
    for number in range(count // 2):
        Path(f"{directory}/db.db/t/bucket-0/data-{number:032d}-orphan.orc").touch()


def _remove_orphans(directory: str, count: int) -> Callable[[], Any]:
    table = _handle(directory)
    latest = latest_snapshot(table)
    assert latest is not None
    # The orphans are newer than the last commit, as after a job that has just died.
    spec = RemoveOrphanFiles(older_than=time.time_ns() // 1_000_000, confirm_latest_snapshot=latest.id)

    def act() -> None:
        done = remove_orphan_files(Context(table, LocalExecutor(env=table.env)), spec)
        assert done.files_deleted >= count // 2, done.stopped

    return act


CASES: Final = {
    "rows": Case(4, _write_large_rows, {"write": _write_more, "read": _read_all, "compact": _compact_all}),
    "shuffled": Case(400, _create_keyed, {"write": _write_shuffled}),
    "buckets": Case(400, partial(_create_keyed, buckets=4), {"write": _write_shuffled}),
    "runs": Case(40, _write_wide_runs, {"read": _read_all, "compact": _compact_all}),
    "bucket": Case(64, _write_runs, {"compact": _compact_bounded}),
    "files": Case(
        100_000,
        _name_files,
        {"plan": _plan, "list files": _list_files, "plan compaction": _plan_compaction, "expire": _expire},
    ),
    "snapshots": Case(5_000, _write_snapshots, {"expire": _expire}),
    "orphans": Case(200_000, _add_orphans, {"remove orphans": _remove_orphans}),
}
"""By name: rows of 50 MB; MB of rows in any order, in one bucket and in four; runs that overlap; a bucket of ten times so many MB of task memory; numbers of files and of snapshots."""


def measured(name: str, size: int | None = None) -> dict[str, int]:
    """Peaks of a case in MB by step, each in a separate process."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        number = str(size or CASES[name].size)
        for step in ("", *CASES[name].steps):
            command = [sys.executable, "-m", "tests.bench.memory", name, number, directory, step]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
            if step:
                found[step] = int(done.stdout.splitlines()[-1])
    return found


def _carry_out(name: str, size: int, directory: str, step: str) -> None:
    # What is measured is memory: that files are flushed to the disk would only take time.
    os.fsync = lambda _: None
    case = CASES[name]
    if step:
        print(_watched(case.steps[step](directory, size)))
    else:
        case.prepare(directory, size)


def main(arguments: list[str]) -> None:
    if len(arguments) > 2:
        name, size, directory, step = arguments
        _carry_out(name, int(size), directory, step)
        return
    for name in arguments[:1] or CASES:
        size = int(arguments[1]) if len(arguments) > 1 else CASES[name].size
        for step, extra_mb in measured(name, size).items():
            print(f"{name:10} {size:>8,}  {step:16} {extra_mb:>6,} MB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
