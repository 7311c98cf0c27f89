"""Real processes on one table: writers and compactors at once, each acknowledged commit is there exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow as pa

from paimon_engine import Catalog, Table
from tests.support.key_places import assert_each_key_in_one_bucket
from tests.support.world import Real
from tests.support.world.check import assert_sound

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
    assert_sound(Real(table.path).handle)


UPSERTER = """
import json, random, sys
import pyarrow as pa
from paimon_engine import open_table
path, name, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
table = open_table(path, options={"commit.max-retries": "100"})
random = random.Random(name)
done = []
for number in range(count):
    keys = random.sample(range(100), 10)
    result = table.write(pa.table({"p": [key % 2 for key in keys], "k": keys, "v": [name] * 10}))
    done.append(result.snapshot_id)
print(json.dumps(done))
"""


def test_two_writers_give_new_keys_to_dynamic_buckets_at_once(tmp_path: Path) -> None:
    writers, commits = 2, 15
    schema = pa.schema([pa.field("p", pa.int32()), pa.field("k", pa.int64()), pa.field("v", pa.int32())])
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=schema, primary_keys=["p", "k"], partition_keys=["p"], options=options
    )

    processes = [start(UPSERTER, table.path, number, commits) for number in range(writers)]
    written = [snapshot for process in processes for snapshot in acknowledged(process)]

    assert sorted(written) == list(range(1, writers * commits + 1))
    keys: dict[int, set[int]] = {}
    for name in range(writers):
        random = Random(name)
        for _ in range(commits):
            for key in random.sample(range(100), 10):
                keys.setdefault(key, set()).add(name)
    rows = table.to_arrow().to_pylist()
    assert sorted(row["k"] for row in rows) == sorted(keys)
    assert all(row["v"] in keys[row["k"]] for row in rows)
    assert_each_key_in_one_bucket(table)


def test_two_writers_move_keys_between_partitions_at_once(tmp_path: Path) -> None:
    writers, commits = 2, 6
    schema = pa.schema([pa.field("p", pa.int32()), pa.field("k", pa.int64()), pa.field("v", pa.int32())])
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=schema, primary_keys=["k"], partition_keys=["p"], options={"bucket": "-1"}
    )

    script = UPSERTER.replace("key % 2", "(key + number + name) % 3")
    processes = [start(script, table.path, number, commits) for number in range(writers)]
    written = [snapshot for process in processes for snapshot in acknowledged(process)]

    assert sorted(written) == list(range(1, writers * commits + 1))
    for snapshot in written:
        assert_each_key_in_one_partition(table, snapshot)
    assert_sound(Real(table.path).handle)


def assert_each_key_in_one_partition(table: Table, snapshot: int) -> None:
    """Fails if a key has two rows at that snapshot."""
    keys = table.to_arrow(snapshot=snapshot)["k"].to_pylist()
    assert len(set(keys)) == len(keys)
