"""Time and memory of work on metadata, on tables of many files: `python -m tests.bench.scale [SIZE ...]`.

Each step runs in a separate process, on metadata that is written as it would be by real commits, for data files that do
not exist: what is measured reads no rows. Printed are CPU seconds, wall seconds and the peak of the process in MB, by
number of files, and the exponent from one size to the next (1.0: linear).
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from paimon_engine import Catalog, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.snapshot import snapshot_to_json
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import MetadataWriter, live_entries
from paimon_engine.table.state.snapshots import latest_snapshot

_PARTITIONS: Final = 100
_COLUMNS: Final = 16
_FILES_PER_WRITE: Final = 10_000
_SIZES: Final = (10_000, 100_000)
_MIDDLE: Final = [pa.field(f"c{number}", pa.string() if number % 3 else pa.int64()) for number in range(_COLUMNS - 2)]
ROWS: Final = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), *_MIDDLE, pa.field("day", pa.int32(), nullable=False)]
)


def _rows(days: list[int]) -> pa.Table:
    numbers = range(len(days))
    texts = [f"text {number}" for number in numbers]
    middle = [pa.array(texts if pa.types.is_string(field.type) else numbers, field.type) for field in _MIDDLE]
    return pa.table([pa.array(numbers, pa.int64()), *middle, pa.array(days, pa.int32())], schema=ROWS)


def make_table(warehouse: str, kind: str, files: int) -> None:
    """A table `db.<kind>`, `keyed` or `append`, with metadata of so many live files in 100 partitions."""
    keyed = kind == "keyed"
    table = Catalog(warehouse).create_table(
        f"db.{kind}",
        schema=ROWS,
        partition_keys=["day"],
        primary_keys=["id", "day"] if keyed else (),
        options={"bucket": "4" if keyed else "-1"},
    )
    table.write(_rows(list(range(_PARTITIONS))))
    _add_files(handle(warehouse, kind), files)


def handle(warehouse: str, kind: str) -> TableHandle:
    """The table as the engine's layers below the facade know it."""
    path = f"{warehouse}/db.db/{kind}"
    return load_table(path, EnvConfig(path))


def _add_files(table: TableHandle, files: int) -> None:
    """The next snapshot: its base list names manifests of so many more files, like those of the latest one."""
    latest = latest_snapshot(table)
    assert latest is not None
    like = live_entries(table, latest)
    files_each = -(-files // len(like))
    made = _entries(like, files_each)
    writer = MetadataWriter(table)
    manifests = []
    while part := list(islice(made, _FILES_PER_WRITE)):
        manifests += writer.manifests(part)
    name, size_bytes = writer.manifest_list([*writer.manifests(like), *manifests])
    empty, empty_bytes = writer.manifest_list([])
    newest = replace(
        latest,
        id=latest.id + 1,
        base_manifest_list=name,
        base_manifest_list_size=size_bytes,
        delta_manifest_list=empty,
        delta_manifest_list_size=empty_bytes,
        total_record_count=sum(entry.file.row_count for entry in like) * (1 + files_each),
        delta_record_count=0,
        commit_user=str(uuid.uuid4()),
    )
    table.env.storage.create(table.paths.snapshot(newest.id), snapshot_to_json(newest).encode())


def _entries(like: list[ManifestEntry], files_each: int) -> Iterator[ManifestEntry]:
    """Files partition by partition, as commits of a day bring them; in keyed tables one run at the highest level."""
    number = 0
    for entry in like:
        for place in range(files_each):
            number += 1
            name = f"data-{uuid.UUID(int=number)}-0.{entry.file.format}"
            yield replace(
                entry, file=replace(entry.file, name=name, min_sequence_number=place, max_sequence_number=place)
            )


# ── steps ───────────────────────────────────────────────────────────────────────────────────────


def _plan(warehouse: str, kind: str) -> Callable[[], Any]:
    from paimon_engine.table.read.scan import plan_splits

    table = handle(warehouse, kind)
    return lambda: plan_splits(table, latest_snapshot(table))


def _plan_day(warehouse: str, kind: str) -> Callable[[], Any]:
    from paimon_engine.predicate import parse_where
    from paimon_engine.table.read.scan import plan_splits

    table = handle(warehouse, kind)
    where = parse_where("day = 7")
    return lambda: plan_splits(table, latest_snapshot(table), where)


def _write_row(warehouse: str, kind: str) -> Callable[[], Any]:
    table = open_table(f"{warehouse}/db.db/{kind}")
    rows = _rows([5])
    return lambda: table.write(rows)


STEPS: Final = {"plan": _plan, "plan one of 100 partitions": _plan_day, "write one row": _write_row}


def _carry_out(warehouse: str, kind: str, step: str) -> None:
    act = STEPS[step](warehouse, kind)
    cpu, wall = time.process_time(), time.monotonic()
    act()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.monotonic() - wall, "mb": peak_mb}))


def measured(warehouse: str, kind: str, step: str) -> dict[str, float]:
    """CPU seconds, wall seconds and peak MB of a step, in a separate process."""
    command = [sys.executable, "-m", "tests.bench.scale", "--step", warehouse, kind, step]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str]) -> None:
    """Prints a line for each kind of table, step and size."""
    if arguments[:1] == ["--step"]:
        _carry_out(*arguments[1:])
        return
    sizes = sorted(map(int, arguments)) or _SIZES
    before: dict[tuple[str, str], tuple[int, float]] = {}
    print(f"{'table':8}{'step':30}{'files':>10}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}{'exponent':>10}")
    for size in sizes:
        with tempfile.TemporaryDirectory() as warehouse:
            for kind in ("append", "keyed"):
                make_table(warehouse, kind, size)
                for step in STEPS:
                    found = measured(warehouse, kind, step)
                    exponent = _exponent(before.get((kind, step)), size, found["cpu"])
                    before[kind, step] = size, found["cpu"]
                    cpu, wall, peak = found["cpu"], found["wall"], int(found["mb"])
                    print(f"{kind:8}{step:30}{size:>10,}{cpu:>9.3f}{wall:>9.3f}{peak:>9,}{exponent:>10}", flush=True)


def _exponent(before: tuple[int, float] | None, size: int, cpu_s: float) -> str:
    if before is None or before[1] <= 0 or cpu_s <= 0:
        return ""
    return f"{math.log(cpu_s / before[1]) / math.log(size / before[0]):.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
