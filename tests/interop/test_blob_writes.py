"""Writes of BLOB columns: Java Paimon 2.0 reads them, and makes the same files of the same rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import (
    AddColumn,
    Catalog,
    InvalidArgumentError,
    RenameColumn,
    Table,
    UnsupportedError,
    open_table,
)
from paimon_engine.actions.write import Write
from paimon_engine.jobs import Job, TableRef, run
from tests.support.blob_tables import OPTIONS, alike, alike_but_for_snapshots, blob_files, filled, made, row
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

COLUMNS = {"k": "BIGINT", "s": "STRING", "a": "BLOB", "b": "BLOB"}


def made_here(path: Path, columns: dict[str, str] = COLUMNS, **options: Any) -> Table:
    keys = options.pop("partition_keys", [])
    return Catalog(str(path)).create_table(
        "db.t", schema=columns, partition_keys=keys, options={**OPTIONS, "bucket": "-1", **options}
    )


def value(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text.removeprefix("0x"))


def rows(first: int, end: int, names: str = "ksab", **more: Any) -> pa.Table:
    """The rows of `test_blobs.row`, in Arrow."""
    found = [row(key) for key in range(first, end)]
    columns: dict[str, Any] = {
        "k": pa.array([one[0] for one in found], pa.int64()),
        "s": pa.array([one[1] for one in found]),
        "a": pa.array([value(one[2]) for one in found], pa.binary()),
        "b": pa.array([value(one[3]) for one in found], pa.binary()),
    }
    return pa.table({**more, **{name: columns[name] for name in names}})


def layout(java: JavaPaimon, path: str) -> list[Any]:
    """Of each file the rows, ids and columns that its entry has, as Java reads it."""
    files = java.call("files", table=path)["files"]
    kept = ("partition", "bucket", "level", "rows", "delete_rows", "first_row_id", "columns", "external")
    return sorted(([one.get(name) for name in kept] for one in files), key=json.dumps)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_java_reads_them_and_makes_the_same_files(file_format: str, paimon2: JavaPaimon, tmp_path: Path):
    ours = made_here(tmp_path, **{"file.format": file_format})
    theirs = made(paimon2, tmp_path / "theirs", **{"file.format": file_format})
    for step in range(3):
        ours.write(rows(step * 10, step * 10 + 10))
        paimon2.call("write", table=theirs, rows=[row(key) for key in range(step * 10, step * 10 + 10)])

    found = alike(paimon2, ours.path)

    assert found == alike(paimon2, theirs)
    assert len(found) == 30
    assert layout(paimon2, ours.path) == layout(paimon2, theirs)
    assert sorted(file.read_bytes() for file in blob_files(ours.path)) == sorted(
        file.read_bytes() for file in blob_files(theirs)
    )
    counts = [
        open_table(f"{path}$snapshots").to_arrow(columns=["total_record_count", "delta_record_count"]).to_pylist()
        for path in (ours.path, theirs)
    ]
    assert counts[0] == counts[1]
    assert paimon2.problems(ours.path) == []
    assert ours.verify("rows").status == "sound"


def test_turns_on_one_table(paimon2: JavaPaimon, tmp_path: Path):
    path = filled(paimon2, tmp_path / "t", **{"compaction.min.file-num": "2"})
    table = open_table(path)
    table.write(rows(30, 40))
    assert len(alike(paimon2, path)) == 40
    paimon2.call("write", table=path, columns=["a"], first_row_id=30, rows=[[f"0x{key:02x}"] for key in range(10)])
    table.write(rows(40, 45))
    before = alike(paimon2, path)
    assert {one[0]: one[2] for one in before}[33] == "0x03"

    paimon2.call("compact", table=path)
    assert alike_but_for_snapshots(paimon2, path) == before
    table.write(rows(45, 50))
    before = alike_but_for_snapshots(paimon2, path)
    table.compact(full=True)
    assert alike_but_for_snapshots(paimon2, path) == before
    paimon2.call("write", table=path, rows=[row(key) for key in range(50, 55)])
    paimon2.call("compact", table=path)
    assert len(alike_but_for_snapshots(paimon2, path)) == 55
    assert paimon2.problems(path) == []
    assert table.verify("rows").status == "sound"


def test_partitions_branches_and_overwrites(paimon2: JavaPaimon, tmp_path: Path):
    table = made_here(tmp_path, {"p": "STRING", **COLUMNS}, partition_keys=["p"])
    table.write(rows(0, 20, p=pa.array(["xy"[key % 2] for key in range(20)])))
    before = alike(paimon2, table.path)
    assert len(before) == 20

    table.create_tag("first")
    table.create_branch("side", tag="first")
    side = open_table(f"{table.path}$branch_side")
    side.write(rows(20, 25, p=pa.array(["x"] * 5)), overwrite={"p": "x"})
    assert side.to_arrow().num_rows == 15
    assert alike(paimon2, table.path) == before
    table.write(rows(30, 33, p=pa.array(["y"] * 3)), overwrite={"p": "y"})
    found = alike(paimon2, table.path)
    assert [one for one in found if one[0] == "x"] == [one for one in before if one[0] == "x"]
    assert [one[1] for one in found if one[0] == "y"] == [30, 31, 32]
    table.write(rows(0, 0, p=pa.array([], pa.string())), overwrite={"p": "y"})
    assert len(alike(paimon2, table.path)) == 10
    assert paimon2.problems(table.path) == []


def test_columns_that_are_missing_new_and_renamed(paimon2: JavaPaimon, tmp_path: Path):
    table = made_here(tmp_path, {"k": "BIGINT", "s": "STRING", "a": "BLOB"})
    table.write(rows(0, 5, "ksa"))
    table.write(rows(5, 10, "ks"))
    table.alter([AddColumn("b", "BLOB")])
    table.write(rows(10, 15))
    found = alike(paimon2, table.path)
    assert [one[2] for one in found if 5 <= one[0] < 10] == [None] * 5
    assert [one[3] for one in found if one[0] < 10] == [None] * 10

    with pytest.raises((UnsupportedError, InvalidArgumentError), match="s2|rename"):
        table.alter([RenameColumn("s", "s2"), RenameColumn("s2", "k")])
    table.alter([RenameColumn("s", "t")])
    table.write(rows(15, 20).rename_columns(["k", "t", "a", "b"]))
    assert len(alike(paimon2, table.path)) == 20


def test_not_null_is_kept(tmp_path: Path):
    table = made_here(tmp_path, {"k": "BIGINT", "a": "BLOB NOT NULL"})
    with pytest.raises(InvalidArgumentError, match="column 'a' is NOT NULL"):
        table.write(pa.table({"k": [1], "a": pa.array([None], pa.binary())}))
    table.write(pa.table({"k": [1], "a": [b"x"]}))
    assert table.to_arrow().to_pylist() == [{"k": 1, "a": b"x"}]


def test_large_values_and_many_small_ones(paimon2: JavaPaimon, tmp_path: Path):
    table = made_here(tmp_path, {"k": "BIGINT", "a": "BLOB"}, **{"blob.target-file-size": "1 mb"})
    large = [os.urandom(3 << 18), b"", None, os.urandom(5 << 18), os.urandom(100)]
    table.write(pa.table({"k": range(5), "a": pa.array(large, pa.binary())}))
    small = [bytes([key % 251]) * (key % 300) for key in range(5_000)]
    table.write(pa.table({"k": range(5, 5_005), "a": pa.array(small, pa.binary())}))

    found = table.to_arrow().sort_by("k")["a"].to_pylist()

    assert found == large + small
    assert len(alike(paimon2, table.path)) == 5_005
    plain = [one for one in open_table(f"{table.path}$files").to_arrow().to_pylist() if one["file_format"] == "parquet"]
    assert [one["record_count"] for one in plain] == [5, 5_000]


def test_another_writer_takes_the_ids_first(paimon2: JavaPaimon, tmp_path: Path):
    table = made_here(tmp_path)
    table.write(rows(0, 5))
    messages = table.prepare_write(rows(5, 10))
    paimon2.call("write", table=table.path, rows=[row(key) for key in range(10, 15)])

    table.commit(messages, commit_user="late")

    found = alike(paimon2, table.path)
    assert [one[0] for one in found] == sorted((one[0] for one in found), key=text_of)
    assert len(found) == 15
    by_id = rows_of(open_table(f"{table.path}$row_tracking").to_arrow(columns=["k", "_ROW_ID"]))
    assert sorted(by_id, key=lambda one: one[1]) == [
        [key, at] for at, key in enumerate([*range(5), *range(10, 15), *range(5, 10)])
    ]


def test_a_failed_write_leaves_nothing(tmp_path: Path):
    table = made_here(tmp_path)
    table.write(rows(0, 5))
    before = sorted(Path(table.path).rglob("*.*"))

    with pytest.raises(ValueError, match="the source has no more"):
        table.write(pa.RecordBatchReader.from_batches(rows(5, 6).schema, _that_fail()))
    assert sorted(Path(table.path).rglob("*.*")) == before
    assert table.to_arrow().num_rows == 5


def _that_fail() -> Any:
    for key in range(40):
        yield pa.record_batch({"k": [key], "s": ["x"], "a": [bytes(9_000_000)], "b": [b"z"]})
    raise ValueError("the source has no more")


def test_a_value_that_refers_to_bytes_elsewhere_is_refused(tmp_path: Path):
    table = made_here(tmp_path)
    uri = b"file:/tmp/x"
    descriptor = b"\x02" + b"CSEDBOLB" + len(uri).to_bytes(4, "little") + uri + bytes(16)
    given = pa.table({"k": [1, 2], "s": ["a", "b"], "a": [b"plain", descriptor], "b": [None, b""]})
    with pytest.raises(UnsupportedError, match="column 'a': a value is a reference to bytes elsewhere"):
        table.write(given)
    assert blob_files(table.path) == []
    # Not one of a version that is known, or too short to be one: bytes as any others.
    others = [b"\x03" + descriptor[1:], descriptor[:8], b"x" + descriptor]
    table.write(pa.table({"k": [1, 2, 3], "s": ["a"] * 3, "a": others, "b": pa.nulls(3, pa.binary())}))
    assert table.to_arrow()["a"].to_pylist() == others


def test_jobs_and_the_command_line(paimon2: JavaPaimon, tmp_path: Path):
    table = made_here(tmp_path)
    pq.write_table(rows(0, 10), tmp_path / "rows.parquet")
    run(Job(TableRef(path=table.path), Write(str(tmp_path / "rows.parquet")), "first"))
    pq.write_table(rows(10, 20), tmp_path / "more.parquet")
    done = subprocess.run(
        [sys.executable, "-m", "paimon_engine", "write", table.path, str(tmp_path / "more.parquet")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert len(alike(paimon2, table.path)) == 20
    copy = Catalog(str(tmp_path)).create_table("db.copy", schema=COLUMNS, options=OPTIONS)
    run(Job(TableRef(path=copy.path), Write(table.path, format="paimon"), "copy"))
    assert alike(paimon2, copy.path)[0][:-2] == alike(paimon2, table.path)[0][:-2]


def test_clean_ups_after_a_killed_write(paimon2: JavaPaimon, tmp_path: Path):
    table = made_here(tmp_path)
    table.write(rows(0, 5))
    needed = blob_files(table.path)
    program = (
        "import pyarrow as pa, sys, time\n"
        "from paimon_engine import open_table\n"
        "def batches():\n"
        "    while True:\n"
        "        yield pa.record_batch({'k': [1], 's': ['x'], 'a': [b'y' * 9_000_000], 'b': [b'z' * 900]})\n"
        "        print('.', flush=True)\n"
        "schema = pa.schema({'k': pa.int64(), 's': pa.string(), 'a': pa.binary(), 'b': pa.binary()})\n"
        "open_table(sys.argv[1]).write(pa.RecordBatchReader.from_batches(schema, batches()))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, table.path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    deadline = time.monotonic() + 60
    while len(blob_files(table.path)) <= len(needed) and time.monotonic() < deadline:
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    left = [file for file in blob_files(table.path) if file not in needed]
    assert left
    assert len(alike(paimon2, table.path)) == 5
    for file in Path(table.path).rglob("*.*"):
        os.utime(file, (1, 1))
    table.remove_orphan_files()
    assert blob_files(table.path) == needed
    assert len(alike(paimon2, table.path)) == 5
