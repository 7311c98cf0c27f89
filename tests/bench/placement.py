"""Up to which size a job is better off in the process of its Airflow task than on an embedded Spark.

`python -m tests.bench.placement [MB …]` compacts the same table of each size, four overlapping runs in two buckets,
both ways, each in a separate process: seconds on the clock and of processor time, and memory of the process and of
all that it started, at its highest. On a machine with other work, the processor time is what can be compared.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

_MB: Final = 1 << 20
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_RUNS: Final = 4
_ROW_BYTES: Final = 40
_SIZES_MB: Final = (1, 16, 64, 256, 512)


def main() -> None:
    """Prints a line for each size and way to run."""
    print(f"{'MB':>6} {'place':<12} {'clock s':>8} {'CPU s':>8} {'peak MB':>8}")
    for size_mb in [int(text) for text in sys.argv[1:]] or _SIZES_MB:
        with tempfile.TemporaryDirectory(prefix="paimon-placement-") as directory:
            made = f"{directory}/made"
            table_of(made, size_mb)
            for place in ("in_process", "subprocess"):
                copy = f"{directory}/{place}"
                shutil.copytree(made, copy)
                command = [sys.executable, "-m", "tests.bench.placement", "--job", place, copy]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                took = json.loads(done.stdout.splitlines()[-1])
                print(f"{took['mb']:6.0f} {place:<12} {took['clock']:8.1f} {took['cpu']:8.1f} {took['peak']:8.0f}")
                sys.stdout.flush()
                shutil.rmtree(copy)


def table_of(warehouse: str, size_mb: int) -> None:
    """A table of about that many MB: each run has rows of all keys, and every other row of a run is newer elsewhere."""
    from paimon_engine import Catalog

    rows = size_mb * _MB // _ROW_BYTES // _RUNS
    schema = {"id": "BIGINT NOT NULL", "a": "BIGINT", "b": "DOUBLE", "text": "STRING"}
    options = {"bucket": "2", "write-only": "true"}
    table = Catalog(warehouse).create_table("db.t", schema=schema, primary_keys=["id"], options=options)
    random = np.random.default_rng(7)
    for number in range(_RUNS):
        ids = np.arange(rows) * 2 + number % 2
        texts = pa.array(random.integers(0, 1 << 40, rows)).cast(pa.string())
        table.write(
            pa.table({"id": ids, "a": random.integers(0, 1 << 62, rows), "b": random.random(rows), "text": texts})
        )


def job(place: str, warehouse: str) -> None:
    """Runs the compaction and prints what it took."""
    from airflow_provider_paimon.launchers import choose_launcher
    from airflow_provider_paimon.placement import Placement
    from paimon_engine.jobs import Job, TableRef, action_type

    ended, peak = threading.Event(), 0

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.05):
            peak = max(peak, _bytes_of_group())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.monotonic()
    asked = Job(TableRef(warehouse, "db.t"), action_type("compact")(full=True), "user")
    result = choose_launcher(Placement(place, "")).launch(asked, {})
    took_s = time.monotonic() - begun
    ended.set()
    watcher.join()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(item.ru_utime + item.ru_stime for item in used)
    rewritten = result.details["bytes_before"] / _MB
    print(json.dumps({"mb": rewritten, "clock": took_s, "cpu": cpu_s, "peak": peak / _MB}))


def _bytes_of_group() -> int:
    """Resident bytes of this process and all below it."""
    parents, sizes = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            sizes[int(folder.name)] = int((folder / "statm").read_text().split()[1]) * _PAGE_BYTES
        except (OSError, ValueError):
            continue
    own, total = os.getpid(), 0
    for pid, size in sizes.items():
        at = pid
        while at not in (own, 0) and at in parents:
            at = parents[at]
        total += size if at == own else 0
    return total


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        job(*sys.argv[2:])
    else:
        main()
