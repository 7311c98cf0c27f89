"""`kill -9` at random moments of writing and compacting: the table stays right, and the repeated job finishes the work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from tests.support.world import Real
from tests.support.world.check import assert_sound

ROWS = 400
JOB = """
import sys
import pyarrow as pa
from paimon_engine import open_table
path, begin, count, rows = sys.argv[1], *map(int, sys.argv[2:])
table = open_table(path)
print("ready", flush=True)
for number in range(begin, begin + count):
    data = pa.table({"k": list(range(rows)), "v": [number] * rows, "w": [f"{number}-{k}" for k in range(rows)]})
    table.write(data, commit_user=f"job-{number}")
    print(f"wrote {number}", flush=True)
    if number % 3 == 2:
        table.compact(full=True)
"""
JOBS = 60


def run_and_kill(table: Table, begin: int, acknowledged: int, delay_s: float) -> int:
    """Starts the job at commit `begin`, kills it a while after some commits; how many it acknowledged in all.

    Commits are waited for, not seconds: on a busy machine a process might be killed before its first one each time.
    """
    command = [sys.executable, "-c", JOB, table.path, str(begin), str(JOBS - begin), str(ROWS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        lines = [process.stdout.readline() for _ in range(acknowledged)]
        time.sleep(delay_s)
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.read().split("\n")
    return begin + sum(line.startswith("wrote") for line in lines)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_happens_twice(tmp_path: Path) -> None:
    chance = random.Random(7)
    schema = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64()), pa.field("w", pa.string())]
    )
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": 2})

    done, kills = 0, 0
    while done < JOBS:
        done = run_and_kill(table, done, chance.randrange(4), chance.uniform(0.0, 0.3))
        kills += 1
        assert kills < 200
        assert_sound(Real(table.path).handle)
        values = set(table.to_arrow(columns=["v"])["v"].to_pylist())
        # The commit in flight may have happened without being acknowledged.
        assert values in ({done - 1}, {done}) or (done == 0 and not values)

    users = [row["commit_user"] for row in table.snapshots().to_pylist() if row["commit_kind"] == "APPEND"]
    assert users == [f"job-{number}" for number in range(JOBS)]
    assert table.to_arrow().num_rows == ROWS
