"""Tables on a real S3 server: whole lives, two processes at once without a lock, and how many requests a read takes."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from paimon_engine import Catalog, NotFoundError, StorageError, Table, col, open_table
from paimon_engine.cli import app
from paimon_engine.env import EnvConfig
from paimon_engine.storage.remote_file import READ_AHEAD_BYTES
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table
from tests.storage.conftest import S3Server

pytestmark = pytest.mark.s3

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])

WRITER = """
import json, sys
import pyarrow as pa
from paimon_engine import open_table
path, storage, name, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
table = open_table(path, storage_options=storage, options={"commit.max-retries": "100"})
done = []
for number in range(count):
    rows = pa.table({"k": [1000 * name + number, -1], "v": [f"{name}-{number}"] * 2})
    done.append(table.write(rows).snapshot_id)
print(json.dumps(done))
"""
COMPACTOR = """
import json, sys
from paimon_engine import ConflictError, open_table
path, storage, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
table = open_table(path, storage_options=storage, options={"commit.max-retries": "100"})
done = []
for number in range(count):
    try:
        result = table.compact(full=True)
    except ConflictError:
        continue
    if result.status == "committed":
        done.append(result.snapshot_id)
print(json.dumps(done))
"""


@pytest.fixture
def catalog(s3_options: dict[str, str]) -> Catalog:
    return Catalog(f"s3://lake/{uuid.uuid4()}", storage_options=s3_options)


def test_large_files_are_read_merged_and_searched_in_ranges(catalog: Catalog):
    table = catalog.create_table("db.large", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    keys, random = np.arange(400_000), np.random.default_rng(4)
    texts = [np.char.mod("%x", random.integers(0, 1 << 62, len(keys))).astype(object) for _ in range(2)]
    for begin, values in zip((0, 1), texts, strict=True):
        table.write(
            pa.table({"k": keys[begin::2] if begin else keys, "v": values[begin::2] if begin else values}, SCHEMA)
        )
    expected = texts[0].copy()
    expected[1::2] = texts[1][1::2]
    sizes = table.files()["file_size_in_bytes"].to_pylist()

    assert max(sizes) > READ_AHEAD_BYTES
    assert table.to_arrow().sort_by("k")["v"].to_pylist() == expected.tolist()
    table.compact(full=True)
    assert table.to_arrow()["v"].to_pylist() == expected.tolist()
    assert table.to_arrow(where="k = 123457").to_pylist() == [{"k": 123_457, "v": expected[123_457]}]
    assert table.verify("rows").problems == ()


def make(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **options})


def put(table: Table, *keys: int, value: str = "a") -> None:
    table.write(pa.table({"k": list(keys), "v": [value] * len(keys)}, SCHEMA))


def problems(table: Table, options: dict[str, str]) -> list[Any]:
    return check_table(load_table(table.path, EnvConfig(table.path, options)))


def acknowledged(process: subprocess.Popen[str]) -> list[int]:
    with process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err[-2000:]
    return list(json.loads(out))


def test_processes_that_commit_at_once_lose_nothing(catalog: Catalog, s3_options: dict[str, str]):
    table, commits = make(catalog), 6

    def start(script: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", script, table.path, json.dumps(s3_options), *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    writers, compactor = [start(WRITER, name, commits) for name in range(2)], start(COMPACTOR, 3)
    written = [snapshot for process in writers for snapshot in acknowledged(process)]
    compacted = acknowledged(compactor)

    snapshots = table.snapshots().to_pylist()
    assert [row["snapshot_id"] for row in snapshots] == list(range(1, len(snapshots) + 1))
    assert sorted(written) == [row["snapshot_id"] for row in snapshots if row["commit_kind"] == "APPEND"]
    assert sorted(compacted) == [row["snapshot_id"] for row in snapshots if row["commit_kind"] == "COMPACT"]
    rows = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    rows.pop(-1)
    assert rows == {1000 * name + number: f"{name}-{number}" for name in range(2) for number in range(commits)}
    assert problems(table, s3_options) == []


def test_a_table_is_written_and_read_on_s3(catalog: Catalog, s3_options: dict[str, str]):
    table = make(catalog)
    put(table, 1, 2)
    table.create_tag("first")
    put(table, 2, 3, value="b")
    table.compact(full=True)
    put(table, 4, value="c")

    assert table.expire_snapshots(retain_max=1, retain_min=1).expired_snapshots == (1, 2, 3)
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 2, 3, 4]
    assert table.to_arrow(where=col("k").between(2, 3), columns=["v"])["v"].to_pylist() == ["b", "b"]
    assert table.to_arrow(tag="first").sort_by("k").to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "a"}]
    table.rollback(tag="first")
    assert table.to_arrow()["v"].to_pylist() == ["a", "a"]
    table.delete_tag("first")
    put(table, 9)
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 2, 9]
    assert problems(table, s3_options) == []


def test_the_command_line_reads_and_compacts_on_s3(catalog: Catalog, s3_options: dict[str, str]):
    table = make(catalog)
    put(table, 1, 2)
    put(table, 3)
    storage = [part for name, value in s3_options.items() for part in ("--storage", f"{name}={value}")]

    done = CliRunner().invoke(app, ["compact", table.path, "--full", *storage])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(app, ["read", table.path, "--where", "k > 1", "--output", "json", *storage])
    assert shown.exit_code == 0, shown.output
    assert [json.loads(line)["k"] for line in shown.stdout.splitlines()] == [2, 3]


def test_requests_of_a_read_are_a_matter_of_files_not_of_history(catalog: Catalog, s3_server: S3Server):
    table = make(catalog, **{"manifest.merge-min-count": "3"})
    counts = {}
    for commit in range(1, 13):
        put(table, commit)
        if commit % 4 == 0:
            table.compact(full=True)
            fresh = open_table(table.path, storage_options=s3_server.options)
            s3_server.requests.clear()
            assert fresh.to_arrow().num_rows == commit
            counts[commit] = list(s3_server.requests)

    for requests in counts.values():
        manifests = [one for one in requests if "/manifest-" in one and "manifest-list" not in one]
        files = [one for one in requests if "/data-" in one]
        # Two hints, the snapshot, a look for a newer one, and two manifest lists; the schema was read before.
        assert len(requests) == 6 + len(manifests) + len(files)
        assert len(files) == 1
        assert len(manifests) <= 4
        assert all(one.startswith("GET ") for one in requests)


@pytest.fixture
def refused(s3_server: S3Server) -> Iterator[list[str]]:
    yield s3_server.refused
    s3_server.refused.clear()


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_a_store_that_gives_no_bytes_does_not_make_a_table_damaged(catalog: Catalog, refused: list[str], form: str):
    table = make(catalog, **{"file.format": form, "file.compression": "none"})
    put(table, 1)
    # More than what is fetched in one request.
    table.write(pa.table({"k": range(60_000), "v": [str(number) * 50 for number in range(60_000)]}, schema=SCHEMA))
    refused.append(f".{form}")

    for look in (table.to_arrow, lambda: table.verify("rows"), lambda: table.compact(full=True)):
        with pytest.raises(StorageError, match=rf"s3://lake/.*\.{form}: .*(Access Denied|Forbidden)"):
            look()
    refused.clear()
    assert table.to_arrow().num_rows == 60_000
    assert table.verify("rows").status == "sound"


def test_a_file_that_is_deleted_while_it_is_read_is_named_with_what_to_do(catalog: Catalog, s3_options: dict[str, str]):
    table = make(catalog, **{"file.compression": "none"})
    table.write(pa.table({"k": range(400_000), "v": [str(number) * 5 for number in range(400_000)]}, schema=SCHEMA))
    [path] = table.files()["file_path"].to_pylist()

    batches = table.to_batches()
    next(batches)
    load_table(table.path, EnvConfig(table.path, s3_options)).env.storage.delete([path])
    with pytest.raises(NotFoundError, match=r"\.parquet is missing \(its snapshot expired while it was read"):
        list(batches)
