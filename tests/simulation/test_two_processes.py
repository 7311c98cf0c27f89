"""Real processes on one table: writers and compactors at once, each acknowledged commit is there exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from paimon_engine import Catalog
from paimon_engine.env import EnvConfig
from paimon_engine.table.check import check_table
from paimon_engine.table.handle import load_table

WRITER = """
import json, sys
import pyarrow as pa
from paimon_engine import ConflictError, open_table
path, name, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
table = open_table(path, options={"commit.max-retries": "100"})
done = []
for number in range(count):
    rows = pa.table({"k": [1000 * name + number, -1], "v": [f"{name}-{number}"] * 2})
    result = table.write(rows)
    done.append(result.snapshot_id)
print(json.dumps(done))
"""

COMPACTOR = """
import json, sys
from paimon_engine import ConflictError, open_table
path, count = sys.argv[1], int(sys.argv[2])
table = open_table(path, options={"commit.max-retries": "100"})
done, conflicts = [], 0
for number in range(count):
    try:
        result = table.compact(full=True)
    except ConflictError:
        conflicts += 1
        continue
    conflicts += result.conflicts
    if result.status == "committed":
        done.append(result.snapshot_id)
print(json.dumps(done))
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def acknowledged(process: subprocess.Popen[str]) -> list[int]:
    with process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err[-2000:]
    return list(json.loads(out))


def test_two_writers_and_two_compactors(tmp_path: Path) -> None:
    writers, commits, compactions = 2, 25, 12
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": 1})

    processes = [start(WRITER, table.path, number, commits) for number in range(writers)]
    compactors = [start(COMPACTOR, table.path, compactions) for _ in range(2)]
    written = [snapshot for process in processes for snapshot in acknowledged(process)]
    compacted = [snapshot for process in compactors for snapshot in acknowledged(process)]

    snapshots = table.snapshots().to_pylist()
    assert [row["snapshot_id"] for row in snapshots] == list(range(1, len(snapshots) + 1))
    assert sorted(written) == [row["snapshot_id"] for row in snapshots if row["commit_kind"] == "APPEND"]
    assert sorted(compacted) == [row["snapshot_id"] for row in snapshots if row["commit_kind"] == "COMPACT"]
    rows = table.to_arrow().to_pylist()
    expected = {1000 * name + number: f"{name}-{number}" for name in range(writers) for number in range(commits)}
    assert {row["k"]: row["v"] for row in rows if row["k"] >= 0} == expected
    assert len(rows) == len(expected) + 1
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []
