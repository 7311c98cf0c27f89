"""The command line as a user meets it: what it prints, where, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from paimon_engine import Catalog, Table
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.write import Write
from paimon_engine.cli import app, main
from paimon_engine.cli.guard import GRACE_S
from paimon_engine.cli.terminal import _fitting, shown, size
from paimon_engine.jobs import Job, TableRef

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("share", pa.float64()),
        pa.field("raw", pa.binary()),
        pa.field("marks", pa.list_(pa.int64())),
    ]
)


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]


Run = Callable[..., Ended]


@pytest.fixture
def paimon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PAIMON_WAREHOUSE", raising=False)

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["paimon-engine", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
            sys.exit(0)
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three commits to one bucket: two rows, one of them again, a third row."""
    options = {"bucket": 1, "snapshot.num-retained.min": 1}
    made = Catalog(str(tmp_path / "lake")).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    nothing = {"raw": None, "marks": None}
    made.write(rows({"k": 1, "name": "one", "share": 0.5, "raw": b"\x00", "marks": [1, 2]}, {"k": 2, "name": "two"}))
    made.create_tag("first")
    made.write(rows({"k": 1, "name": "uno", **nothing}))
    made.write(rows({"k": 3, "share": float("nan"), **nothing}))
    return made


def rows(*found: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(found), SCHEMA)


# ── read ────────────────────────────────────────────────────────────────────────────────────────


def test_read_prints_a_table(paimon: Run, table: Table):
    ended = paimon("read", table.path, "--columns", "k,name,share")

    assert ended.lines == ["k  name  share", "1  uno    NULL", "2  two    NULL", "3  NULL    nan"]
    assert ended.err == ""
    assert ended.code == 0


def test_read_finds_a_table_by_warehouse_and_name(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    warehouse = table.path.removesuffix("/db.db/t")

    assert paimon("read", "db.t", "-w", warehouse, "-c", "k").lines == ["k", "1", "2", "3"]
    monkeypatch.setenv("PAIMON_WAREHOUSE", warehouse)
    assert paimon("read", "db.t", "-c", "k", "--where", "k > 1", "-n", "1").lines == ["k", "2"]


def test_read_says_what_it_leaves_out(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "12")

    ended = paimon("read", table.path, "--limit", 2)

    assert ended.lines == ["k  name", "1  uno", "2  two"]
    assert " ".join(ended.err.split()) == (
        "3 more columns: share, raw, marks (choose with --columns) "
        "the first 2 rows; more with --limit N, all with --output csv or json"
    )


def test_read_travels_in_time(paimon: Run, table: Table):
    for how in (["--tag", "first"], ["--snapshot", "1"]):
        assert paimon("read", table.path, "-c", "name", *how).lines == ["name", "one", "two"]
    assert paimon("read", table.path, "--timestamp", "2000-01-01").code == 1


def test_read_gives_json_lines(paimon: Run, table: Table):
    ended = paimon("read", table.path, "--output", "json", "--tag", "first")
    newest = paimon("read", table.path, "--output", "json", "-c", "k,share", "--where", "k = 3")

    assert [json.loads(line) for line in ended.lines] == [
        {"k": 1, "name": "one", "share": 0.5, "raw": "AA==", "marks": [1, 2]},
        {"k": 2, "name": "two", "share": None, "raw": None, "marks": None},
    ]
    assert newest.out == '{"k": 3, "share": "NaN"}\n'


def test_read_gives_csv(paimon: Run, table: Table):
    ended = paimon("read", table.path, "-o", "csv", "--tag", "first")

    assert list(csv.reader(io.StringIO(ended.out))) == [
        ["k", "name", "share", "raw", "marks"],
        ["1", "one", "0.5", "AA==", "[1, 2]"],
        ["2", "two", "", "", ""],
    ]


def test_read_stores_files_by_their_ending(paimon: Run, table: Table, tmp_path: Path):
    for ending in ("parquet", "csv", "jsonl"):
        target = tmp_path / f"rows.{ending}"
        ended = paimon("read", table.path, "--to", target)
        assert (ended.code, ended.out) == (0, "")
        assert ended.err.startswith("3 rows in")
        assert target.stat().st_size > 0

    assert pq.read_table(tmp_path / "rows.parquet").column("k").to_pylist() == [1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "rows.csv", "rows.jsonl", "rows.parquet"]


def test_a_failed_read_leaves_the_old_file(paimon: Run, table: Table, tmp_path: Path):
    target = tmp_path / "rows.csv"
    target.write_text("old")
    for data_file in Path(table.path).rglob("*.parquet"):
        data_file.write_bytes(b"broken")

    assert paimon("read", table.path, "--to", target).code == 1
    assert target.read_text() == "old"
    assert list(tmp_path.glob(".*")) == []


def test_stored_text_cannot_steer_the_terminal(paimon: Run, table: Table):
    table.write(rows({"k": 1, "name": "[red]\x1b[31m\n"}))

    assert paimon("read", table.path, "-c", "name", "-n", 1).lines[1] == r"[red]\x1b[31m\n"
    assert shown("naïve ✓") == "naïve ✓"


@pytest.mark.parametrize(
    ("widths", "width", "fitting"),
    [
        ({"a": 5, "b": 5}, 80, "ab"),
        ({"a": 40, "b": 40, "c": 5}, 80, "a"),
        ({"a": 38, "b": 40, "c": 5}, 80, "ab"),
        ({"a": 500, "b": 30}, 80, "ab"),
        ({"a": 500, "b": 500}, 20, "a"),
        ({}, 80, ""),
    ],
)
def test_so_many_columns_fit_side_by_side(widths: dict[str, int], width: int, fitting: str):
    assert "".join(_fitting(widths, width)) == fitting


def test_sizes_are_for_people():
    assert [size(value) for value in (0, 1023, 1536, 5 << 20, 3 << 30, 2 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB", "2.0 TiB",
    ]  # fmt: skip


# ── listing ─────────────────────────────────────────────────────────────────────────────────────


def test_tables_lists_a_warehouse(paimon: Run, table: Table):
    warehouse = table.path.removesuffix("/db.db/t")

    assert paimon("tables", warehouse).lines == [
        "table  primary key  partitioned by  snapshot",
        "db.t   k            -                      3",
    ]
    [row] = json.loads(paimon("tables", "-w", warehouse, "--json").out)
    assert row["table"] == "db.t"
    assert "no tables" in paimon("tables", warehouse + "/nowhere").err
    assert paimon("tables").code == 2


def test_a_broken_table_does_not_hide_the_others(paimon: Run, table: Table):
    warehouse = table.path.removesuffix("/db.db/t")
    Catalog(warehouse).create_table("db.a", schema=SCHEMA)
    Path(table.path, "schema", "schema-0").write_text("{")

    ended = paimon("tables", warehouse)

    assert ended.code == 0
    assert ended.lines[1].split() == ["db.a", "-", "-", "-"]
    assert "no JSON" in " ".join(ended.out.split())


def test_snapshots_fit_80_columns(paimon: Run, table: Table):
    ended = paimon("snapshots", table.path)

    header, first, *_ = ended.lines
    assert header.split() == ["id", "kind", "time", "(UTC)", "records", "change", "user"]
    assert first.split()[:2] == ["1", "APPEND"]
    assert max(len(line) for line in ended.lines) <= 80


def test_tags_and_files_are_listed(paimon: Run, table: Table):
    assert paimon("tags", table.path).lines[1].split()[:2] == ["first", "1"]
    files = paimon("files", table.path, "--tag", "first")
    assert files.lines[0].split() == ["bucket", "level", "records", "size", "min", "key", "max", "key"]
    assert files.lines[1].split()[-2:] == ["[1]", "[2]"]
    assert files.err.startswith("1 file, ")


@pytest.mark.parametrize(
    ("command", "column"), [("snapshots", "snapshot_id"), ("tags", "tag_name"), ("files", "level")]
)
def test_lists_as_json_have_all_columns(paimon: Run, table: Table, command: str, column: str):
    found = json.loads(paimon(command, table.path, "--json").out)

    assert column in found[0]
    assert len(found[0]) >= 7


def test_nothing_to_list_is_said_in_words(paimon: Run, tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA)

    for command, said in (("snapshots", "no snapshots yet"), ("tags", "no tags yet"), ("files", "no data files")):
        assert paimon(command, table.path) == Ended(0, "", f"{said}\n")


# ── changing ────────────────────────────────────────────────────────────────────────────────────


def test_compact_plans_then_does_then_has_nothing_to_do(paimon: Run, table: Table):
    planned = paimon("compact", table.path, "--full", "--dry-run")
    done = paimon("compact", table.path, "--full")
    again = paimon("compact", table.path, "--full")

    assert planned.lines[-1].startswith("dry run: would compact 1 bucket and rewrite ")
    assert done.lines[1].split()[:4] == ["0", "3", "→", "1"]
    assert done.lines[-1].startswith("committed snapshot 4: 3 → 1 file, ")
    assert "4 → 3 records" in done.lines[-1]
    assert "skipped" in again.out
    assert again.lines[-1].startswith("nothing to compact: 1 file, ")
    assert table.latest_snapshot_id() == 4


def test_compact_tells_what_a_budget_left(paimon: Run, table: Table):
    planned = paimon("compact", table.path, "--full", "--max-bytes", "1b", "--dry-run")
    left = paimon("compact", table.path, "--full", "--max-bytes", "1b", "--max-seconds", "9", "--task-memory", "1gb")
    other = paimon("compact", table.path, "--full", "--bucket", "7", "--partition-idle-time", "1ms")

    assert planned.lines[-1] == "dry run: would compact 0 buckets and rewrite 0 B; 1 bucket left for another run"
    assert left.lines[-1].startswith("nothing to compact: 3 files, ")
    assert left.lines[-1].endswith("; 1 bucket left for another run")
    assert "no data files to compact" in other.err
    assert table.latest_snapshot_id() == 3


def test_rescale_brings_partitions_to_the_number_of_buckets(paimon: Run, table: Table):
    before = paimon("rescale", table.path)
    paimon("alter", "set", table.path, "bucket=2")
    planned = paimon("rescale", table.path, "--dry-run")
    done = paimon("rescale", table.path)
    again = json.loads(paimon("rescale", table.path, "--json").out)

    assert before.lines[-1] == "nothing to rescale: every partition has 1 bucket"
    assert planned.lines[-1].startswith("dry run: would bring 1 partition to 2 buckets, and rewrite ")
    assert done.lines[-1].startswith("committed snapshot 4: brought 1 partition to 2 buckets, 3 → 2 files in ")
    assert (again["status"], again["buckets"]) == ("noop", 2)


def test_cluster_orders_rows_by_columns(paimon: Run, tmp_path: Path):
    table = Catalog(str(tmp_path / "lake")).create_table("db.t", schema=SCHEMA, options={"bucket": "-1"})
    nothing = paimon("cluster", table.path, "--by", "k")
    for keys in ([5, 3], [4, 1, 2]):
        table.write(pa.table({"k": keys}))

    planned = paimon("cluster", table.path, "--by", "k", "--dry-run")
    left = paimon("cluster", table.path, "--by", "k", "--max-bytes", "1b")
    done = paimon("cluster", table.path, "--by", "k", "--target-file", "1mb")
    refused = paimon("cluster", table.path, "--by", "nowhere")

    assert nothing.lines[-1] == "nothing to cluster"
    assert planned.lines[-1].startswith("dry run: would cluster 1 partition by k (order), and rewrite ")
    assert left.lines[-1] == "nothing to cluster; 1 partition left to another run"
    assert done.lines[-1].startswith("committed snapshot 3: clustered 1 partition by k (order), 2 → 1 file in ")
    assert table.to_arrow()["k"].to_pylist() == [1, 2, 3, 4, 5]
    assert refused.code == 2
    assert "nowhere" in refused.err


def test_compact_tells_of_postponed_records_that_get_a_bucket(paimon: Run, tmp_path: Path):
    catalog = Catalog(str(tmp_path / "postponed"))
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": -2})
    table.write(pa.table({"k": [1, 2, 3]}))

    done = paimon("compact", table.path)

    assert done.lines[-1].startswith("committed snapshot 2: 3 postponed records given a bucket, 1 → 1 file, ")


def test_compact_as_json_is_the_whole_result(paimon: Run, table: Table):
    result = json.loads(paimon("compact", table.path, "--full", "--json").out)

    assert result["status"] == "committed"
    assert result["buckets"][0]["rows_after"] == 3


def test_files_get_the_indexes_that_the_table_asks_for_by_now(paimon: Run, table: Table):
    nothing = paimon("rewrite-file-index", table.path)
    path = Path(table.path) / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"]["file-index.bitmap.columns"] = "name"
    path.write_text(json.dumps(schema))
    planned = paimon("rewrite-file-index", table.path, "--dry-run")
    done = paimon("rewrite-file-index", table.path)
    rebuilt = paimon("rewrite-file-index", table.path, "--rebuild", "--json")

    assert nothing.out == "nothing to index: 3 files left as they are\n"
    assert planned.out.startswith("dry run: would index 3 files, clear 0, and read ")
    assert done.out.startswith("committed snapshot 4: indexed 3 files (")
    assert json.loads(rebuilt.out)["files_indexed"] == 3


def test_progress_as_json_goes_to_standard_error(paimon: Run, table: Table):
    ended = paimon("compact", table.path, "--full", "--progress", "json")

    steps = [json.loads(line.removeprefix("@paimon ")) for line in ended.err.splitlines()]
    assert steps == [{"stage": "compact", "done": done, "total": 1} for done in (0, 1)]


def test_manifests_are_planned_then_rewritten_then_nothing_is_left_to_do(paimon: Run, table: Table):
    planned = paimon("compact-manifests", table.path, "--dry-run")
    done = paimon("compact-manifests", table.path)
    again = paimon("compact-manifests", table.path)

    assert planned.lines[0].startswith("dry run: would turn 3 manifests, ")
    assert done.lines[0].startswith("committed snapshot 4: 3 manifests, ")
    assert " → 1 manifest, " in done.lines[0]
    assert again.lines[0].startswith("nothing to rewrite: 1 manifest, ")
    result = json.loads(paimon("compact-manifests", table.path, "--json").out)
    assert (result["status"], result["manifests_before"]) == ("noop", 1)


def test_columns_are_analyzed(paimon: Run, table: Table):
    ended = paimon("analyze", table.path, "--columns", "k")

    assert ended.lines[1].split()[:5] == ["k", "3", "0", "1", "3"]
    assert ended.lines[-1].startswith("committed snapshot 4: 3 rows, ")
    assert set(json.loads(paimon("analyze", table.path, "--json").out)["columns"]) >= {"k", "name"}


def test_verify_says_sound_or_what_is_wrong_and_fails_then(paimon: Run, table: Table):
    assert paimon("verify", table.path, "--depth", "metadata").lines == ["sound: 4 versions, 3 manifests"]
    assert paimon("verify", table.path).lines == ["sound: 4 versions, 3 manifests, 3 data files"]
    assert paimon("verify", table.path, "--depth", "rows").lines[0].endswith("3 data files, 4 rows")
    gone = next(Path(table.path, "bucket-0").iterdir())
    gone.unlink()

    ended = paimon("verify", table.path)
    result = json.loads(paimon("verify", table.path, "--json").out)

    assert ended.code == 1
    assert f"{gone.name} is missing" in ended.out
    assert ended.lines[-1] == "1 problem: 4 versions, 3 manifests, 3 data files"
    assert result["status"] == "damaged"
    assert gone.name in result["problems"][0]["what"]


def test_partitions_are_marked_dropped_and_expired(paimon: Run, tmp_path: Path):
    schema = pa.schema([("k", pa.int64()), ("day", pa.string())])
    table = Catalog(str(tmp_path / "lake")).create_table("db.p", schema=schema, partition_keys=["day"])
    table.write(pa.table({"k": [1, 2, 3], "day": ["2024-01-01", "2024-01-02", "never"]}, schema))

    marked = paimon("mark-partition-done", table.path, "day=2024-01-01")
    planned = paimon("drop-partition", table.path, "day=2024-01-01", "--dry-run")
    dropped = paimon("drop-partition", table.path, "day=2024-01-01")
    expired = paimon("expire-partitions", table.path, "--older-than", "30 d")
    again = json.loads(paimon("expire-partitions", table.path, "--older-than", "30 d", "--json").out)

    assert marked.lines == [f"wrote {table.path}/day=2024-01-01/_SUCCESS"]
    assert planned.lines[:1] == dropped.lines[:1] == ["day=2024-01-01"]
    assert planned.lines[1].startswith("dry run: would drop 1 partition with 1 file, 1 record, ")
    assert dropped.lines[1].startswith("committed snapshot 2: dropped 1 partition")
    assert expired.lines[0] == "day=2024-01-02"
    assert "stand for no time" in expired.err
    assert (again["status"], len(again["stopped"])) == ("noop", 1)
    assert table.to_arrow()["k"].to_pylist() == [3]


def test_an_expiry_is_moved_aside_listed_brought_back_and_emptied(paimon: Run, table: Table):
    aside = json.loads(paimon("expire", table.path, "--retain-max", 1, "--quarantine", "--json").out)
    listed = paimon("quarantines", table.path)
    back = paimon("restore", table.path, aside["quarantine"])
    again = paimon("expire", table.path, "--retain-max", 1, "--quarantine", "--parallelism", 1)
    planned = paimon("empty-quarantine", table.path, "--older-than", "2999-01-01", "--dry-run")
    emptied = paimon("empty-quarantine", table.path, "--older-than", "2999-01-01")

    assert aside["expired_snapshots"] == [1, 2]
    assert aside["quarantine"][:8] in listed.out
    assert back.lines[0].startswith("restored:")
    assert back.lines[0].endswith("of expire_snapshots; snapshot 1, snapshot 2")
    assert "restore brings it back" in " ".join(again.err.split())
    assert planned.lines[0].startswith("dry run, would be: 1 quarantine")
    assert emptied.lines[0].startswith("deleted: 1 quarantine")
    assert paimon("quarantines", table.path).err.split() == ["no", "quarantines"]


def test_lost_files_and_gaps_are_mended(paimon: Run, table: Table):
    assert paimon("repair-earliest", table.path).lines == ["nothing to repair"]
    assert paimon("remove-lost-files", table.path).lines == ["no file is lost"]
    assert paimon("remove-lost-manifests", table.path).lines == ["no manifest is lost"]
    Path(table.path, "snapshot", "snapshot-2").unlink()
    next(Path(table.path, "bucket-0").iterdir()).unlink()

    repaired = paimon("repair-earliest", table.path)
    lost = paimon("remove-lost-files", table.path)

    assert "the table begins with snapshot 3; removed 1 snapshot" in repaired.lines[-1]
    assert lost.lines[-1].startswith("committed: removed 1 file with ")


def test_a_purge_asks_first(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert paimon("purge", table.path).code == 1
    planned = paimon("purge", table.path, "--dry-run", "--keep-tags")
    done = paimon("purge", table.path, "--yes", "--keep-tags")

    assert planned.lines[-1].startswith("dry run, would be: 3 snapshots, 0 tags, 0 branches, 0 consumers, ")
    assert done.lines[0].startswith("purged: 4 snapshots, 0 tags, 0 branches, 0 consumers, ")
    assert paimon("read", table.path, "-c", "k").lines == ["k"]
    assert paimon("read", table.path, "-c", "k", "--tag", "first").lines == ["k", "1", "2"]


def test_a_branch_is_merged_or_says_what_is_in_the_way(paimon: Run, table: Table):
    paimon("branch", "create", table.path, "dev", "--snapshot", 3)
    branch = Catalog(table.path.removesuffix("/db.db/t")).table("db.t$branch_dev")
    branch.write(rows({"k": 9, "name": "nine"}))

    merged = paimon("branch", "merge", table.path, "dev")
    table.write(rows({"k": 1, "name": "one"}))
    branch.write(rows({"k": 9, "name": "neuf"}))
    refused = paimon("branch", "merge", table.path, "dev", "--dry-run")

    assert merged.lines == ["committed: branch dev up to its snapshot 4; added 1 file, removed 0"]
    assert refused.code == 1
    assert "both have changed bucket 0" in " ".join(refused.err.split())


def test_orphans_are_planned_moved_aside_brought_back_and_deleted(paimon: Run, table: Table):
    orphan = Path(table.path, "bucket-0", "data-dead.parquet")
    orphan.write_bytes(b"dead")
    os.utime(orphan, (1, 1))

    planned = paimon("remove-orphans", table.path, "--dry-run")
    aside = json.loads(paimon("remove-orphans", table.path, "--quarantine", "--json").out)
    nothing = paimon("remove-orphans", table.path)
    back = paimon("restore", table.path, aside["quarantine"])
    there = orphan.exists()
    os.utime(orphan, (1, 1))
    done = paimon("remove-orphans", table.path)

    assert planned.lines[-1] == "dry run: would remove 1 file, 4 B, of 1 old file"
    assert aside["status"] == "quarantined"
    assert nothing.lines == ["nothing to remove: 0 old files, all in use"]
    assert back.lines == ["restored: 1 file of remove_orphan_files"]
    assert there
    assert done.lines[-1] == "deleted 1 file, 4 B, of 1 old file"
    assert not orphan.exists()


def test_orphans_stay_and_the_command_fails_where_metadata_is_damaged(paimon: Run, table: Table):
    Path(table.path, "snapshot", "snapshot-2").write_text("{")

    ended = paimon("remove-orphans", table.path)

    assert ended.code == 1
    assert "nothing is deleted" in ended.err


def test_tags_are_created_and_deleted(paimon: Run, table: Table):
    assert paimon("tag", "create", table.path, "now").lines == ["created: tag now on snapshot 3"]
    assert paimon("tag", "create", table.path, "now").lines == ["already done: tag now on snapshot 3"]
    conflict = paimon("tag", "create", table.path, "now", "--snapshot", 1)
    assert conflict.code == 1
    assert "3" in conflict.err
    assert "1" in conflict.err
    assert paimon("tag", "delete", table.path, "now").lines[0].startswith("deleted: tag now")
    assert table.tags()["tag_name"].to_pylist() == ["first"]


def test_expire_plans_then_does(paimon: Run, table: Table):
    table.compact(full=True)

    planned = paimon("expire", table.path, "--retain-max", 1, "--dry-run")
    before = table.snapshots().num_rows
    done = paimon("expire", table.path, "--retain-max", 1)

    assert before == 4
    assert planned.lines[-1].startswith("dry run: would expire 3 snapshots (1 to 3): ")
    assert planned.lines[-1].split(": ")[-1] == done.lines[-1].split(": ")[-1]
    assert "files kept for 1 tag: first" in done.err
    assert table.snapshots().num_rows == 1
    assert paimon("expire", table.path, "--retain-max", 1).lines == ["nothing to expire"]


def test_changelogs_live_on_until_they_are_expired(paimon: Run, table: Table):
    assert paimon("alter", "set", table.path, "changelog.num-retained.min=20").code == 0

    expired = paimon("expire", table.path, "--retain-max", 1)
    planned = paimon("expire-changelogs", table.path, "--all", "--dry-run")
    done = paimon("expire-changelogs", table.path, "--all")

    assert "changelogs live on: 1 to 2" in expired.err
    assert planned.lines[-1].startswith("dry run: would expire 2 changelogs (1 to 2): ")
    assert done.lines[-1].startswith("expired 2 changelogs (1 to 2): ")
    assert paimon("expire-changelogs", table.path).lines == ["nothing to expire"]


def test_rollback_asks_first(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert paimon("rollback", table.path, "--tag", "first").code == 1
    assert table.latest_snapshot_id() == 3

    ended = paimon("rollback", table.path, "--tag", "first", "--yes")

    assert ended.lines[0].startswith("rolled back: snapshot 1 is the latest; removed 2 snapshots, 0 tags, ")
    assert table.latest_snapshot_id() == 1


def test_run_carries_out_a_job(paimon: Run, table: Table, tmp_path: Path):
    job, result = tmp_path / "job.json", tmp_path / "result.json"
    job.write_text(Job(TableRef(path=table.path), Compact(full=True), "me").to_json())

    assert paimon("run", "--job", job, "--result", result) == Ended(0, "", "")
    again = paimon("run", "--job", job)

    assert json.loads(result.read_text())["status"] == "committed"
    assert json.loads(again.out)["status"] == "already_done"


def test_run_takes_a_job_from_standard_input(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    job = Job(TableRef(path=table.path), Compact(dry_run=True), "me").to_json()
    monkeypatch.setattr(sys, "stdin", io.StringIO(job))

    assert json.loads(paimon("run", "--job", "-").out)["status"] == "dry_run"
    assert paimon("run", "--job", "-", "--guard").code == 2


# ── versions ────────────────────────────────────────────────────────────────────────────────────


def test_tags_of_a_moment_renamed_listed_and_expired(paimon: Run, table: Table):
    table.delete_tag("first")
    first = table.snapshots()["commit_time"].cast("int64").to_pylist()[0]

    made = paimon("tag", "create", table.path, "jan-1", "--timestamp", str(first), "--retain", "30 d")
    renamed = paimon("tag", "rename", table.path, "jan-1", "feb-1")
    table.create_tag("mar-1")

    assert (made.code, made.out) == (0, "created: tag jan-1 on snapshot 1\n")
    assert renamed.out == "renamed: tag feb-1 on snapshot 1\n"
    listed = json.loads(paimon("tags", table.path, "--like", "f*", "--json").out)
    assert [row["tag_name"] for row in listed] == ["feb-1"]
    assert json.loads(paimon("tags", table.path, "--until", str(first - 1), "--json").out) == []
    assert "no tag's time is over" in paimon("tag", "expire", table.path).out
    planned = paimon("tag", "expire", table.path, "--older-than", "2999-01-01", "--dry-run")
    assert "dry run, would be: 2 tags (feb-1, mar-1)" in planned.out
    assert table.tags()["tag_name"].to_pylist() == ["feb-1", "mar-1"]
    assert paimon("tag", "delete", table.path, "feb-1", "--dry-run").out.startswith("dry run, would be: tag feb-1")


def test_due_tags(paimon: Run, table: Table):
    assert paimon("tag", "create-due", table.path).out == "no tag is due\n"
    paimon("alter", "set", table.path, "tag.automatic-creation=process-time")

    planned = paimon("tag", "create-due", table.path, "--dry-run")
    made = paimon("tag", "create-due", table.path)

    assert planned.out.startswith("dry run, would be: ")
    assert made.out.startswith("created: ")
    assert made.out.endswith(" on snapshot 1\n")
    assert len(table.tags()) == 2


def test_back_to_a_moment_and_as_the_latest(paimon: Run, table: Table):
    before, rows = table.latest_snapshot_id(), table.to_arrow(snapshot=1).num_rows

    kept = paimon("rollback", table.path, "--snapshot", "1", "--as-latest")

    assert kept.out == f"committed: snapshot {before + 1} holds snapshot 1 again\n"
    assert table.to_arrow().num_rows == rows
    first = table.snapshots()["commit_time"].cast("int64").to_pylist()[0]
    back = paimon("rollback", table.path, "--timestamp", str(first), "--yes")
    assert "snapshot 1 is the latest" in back.out
    assert paimon("rollback", table.path, "--yes").code == 2


def test_branches(paimon: Run, table: Table):
    table.create_tag("base", snapshot=1)

    made = paimon("branch", "create", table.path, "dev", "--tag", "base")
    paimon("branch", "rename", table.path, "dev", "next")

    assert made.out == "created: branch dev, at snapshot 1\n"
    assert [row["branch_name"] for row in json.loads(paimon("branch", "list", table.path, "--json").out)] == ["next"]
    planned = paimon("branch", "fast-forward", table.path, "next", "--dry-run")
    assert planned.out.splitlines()[-1].startswith("dry run, would be: to snapshot 1 of branch next")
    done = paimon("branch", "fast-forward", table.path, "next", "--yes")
    assert done.out.startswith("forwarded: to snapshot 1")
    assert table.latest_snapshot_id() == 1
    assert paimon("branch", "delete", table.path, "next").out.startswith("deleted: branch next")
    assert "no branches" in paimon("branch", "list", table.path).err


def test_consumers(paimon: Run, table: Table):
    assert paimon("consumer", "reset", table.path, "etl", "--next", "1").out == "reset: consumer etl, next snapshot 1\n"
    assert "etl" in paimon("consumer", "list", table.path).out
    assert paimon("consumer", "clear", table.path, "--dry-run").out == "dry run, would be: etl\n"
    assert paimon("consumer", "expire", table.path).out == "no consumer to forget\n"
    assert paimon("consumer", "clear", table.path).out == "removed: etl\n"


# ── errors and help ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["read", "db.t"], 2, "add --warehouse"),
        (["read", "{lake}/db.db/none"], 1, "there is no table in"),
        (["read", "{t}", "--where", "nope = 1"], 2, "no column 'nope'"),
        (["read", "{t}", "--where", "k ="], 2, "cannot read the filter"),
        (["read", "{t}", "--columns", "nope"], 2, "no column 'nope'"),
        (["read", "{t}", "--tag", "nope"], 1, "no tag 'nope'"),
        (["read", "{t}", "--snapshot", "9"], 1, "no snapshot 9"),
        (["read", "{t}", "--timestamp", "noon"], 2, "'noon' is no time"),
        (["read", "{t}", "-o", "parquet"], 2, "add --to FILE"),
        (["read", "{t}", "--to", "rows.xls"], 2, "cannot tell the format"),
        (["read", "{t}", "--to", "{lake}/no/rows.csv"], 1, "No such file or directory"),
        (["read", "{t}", "-s", "key"], 2, "write KEY=VALUE"),
        (["compact", "{t}", "--spark", "yarn"], 2, "sc://"),
        (["compact", "{t}", "--where", "k = 1"], 2, "partition columns only"),
        (["compact", "{t}", "--max-bytes", "much"], 2, "is no size"),
        (["analyze", "{t}", "--columns", "nope"], 2, "nope"),
        (["tag", "create", "{t}", "7"], 2, "is a number"),
        (["tag", "delete", "{t}", "nope"], 0, ""),
        (["expire", "{t}", "--older-than", "x"], 2, "'x' is no time"),
        (["rollback", "{t}"], 2, "one of --snapshot ID, --tag NAME"),
        (["run", "--job", "{lake}/none.json"], 1, "none.json: No such file or directory"),
    ],
)
def test_errors_are_one_line(paimon: Run, table: Table, arguments: list[str], code: int, said: str):
    lake = table.path.removesuffix("/db.db/t")

    ended = paimon(*(argument.format(t=table.path, lake=lake) for argument in arguments))

    assert ended.code == code
    assert said in ended.err
    if code:
        assert ended.err.startswith("error: ")
        assert ended.err.count("\n") == 1
        assert ended.out == ""


@pytest.mark.parametrize("arguments", [["fly"], ["read"], ["read", "{t}", "--limit", "x"], ["tag", "create", "{t}"]])
def test_wrong_usage_ends_with_2(paimon: Run, arguments: list[str]):
    ended = paimon(*arguments)

    assert ended.code == 2
    assert "Usage:" in ended.err


def commands() -> Iterator[tuple[str, ...]]:
    group = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        yield from ((name, inner) for inner in below) if below else [(name,)]


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_has_help_with_an_example(paimon: Run, command: tuple[str, ...]):
    ended = paimon(*command, "--help")

    assert ended.code == 0
    assert f"paimon-engine {' '.join(command)} " in ended.out.split("Examples:")[1]
    assert max(len(line) for line in ended.lines) <= 80


def test_the_commands_are_those_that_are_promised():
    assert [" ".join(command) for command in commands()] == [
        "alter add-column", "alter rename-column", "alter drop-column", "alter type", "alter nullable",
        "alter move-column", "alter default", "alter comment", "alter set", "alter unset", "alter apply", "analyze",
        "branch list", "branch create", "branch rename", "branch delete", "branch merge", "branch fast-forward", "cluster",
        "compact", "compact-manifests", "consumer list", "consumer reset", "consumer clear", "consumer expire",
        "drop-partition", "empty-quarantine", "expire", "expire-changelogs", "expire-partitions", "files",
        "mark-partition-done", "purge", "quarantines", "read", "remove-lost-files", "remove-lost-manifests",
        "remove-orphans", "repair-earliest", "rescale", "restore", "rewrite-file-index", "rollback", "run", "snapshots",
        "tables",
        "tag create", "tag rename", "tag delete", "tag expire", "tag create-due", "tags", "verify", "warm-up",
    ]  # fmt: skip


# ── as a process ────────────────────────────────────────────────────────────────────────────────

COMMAND = [sys.executable, "-m", "paimon_engine"]


def test_it_runs_as_a_module(table: Table):
    done = subprocess.run(
        [*COMMAND, "read", table.path, "-c", "k"], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stdout.split() == ["k", "1", "2", "3"]


def test_a_failed_task_shows_its_trace_only_when_asked(table: Table):
    for data_file in Path(table.path).rglob("*.parquet"):
        data_file.write_bytes(b"broken")

    plain = subprocess.run([*COMMAND, "read", table.path], capture_output=True, text=True, timeout=120, check=False)
    verbose = subprocess.run(
        [*COMMAND, "--verbose", "read", table.path], capture_output=True, text=True, timeout=120, check=False
    )

    assert (plain.returncode, verbose.returncode) == (1, 1)
    assert "Traceback" not in plain.stderr
    assert "Traceback" in verbose.stderr


@pytest.fixture
def guarded(table: Table, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A guarded job that waits for ever for its source, a named pipe."""
    source = tmp_path / "never.csv"
    os.mkfifo(source)
    job = tmp_path / "job.json"
    job.write_text(Job(TableRef(path=table.path), Write(str(source), format="csv"), "me").to_json())
    command = [*COMMAND, "run", "--job", str(job), "--guard", "--progress", "json"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("@paimon ")
        yield process
        if process.poll() is None:
            process.kill()


def ends_within(process: subprocess.Popen[str], seconds: float) -> int:
    begun = time.monotonic()
    while process.poll() is None:
        assert time.monotonic() - begun < seconds, "still running"
        time.sleep(0.02)
    assert process.returncode is not None
    return process.returncode


# Mostly the job hangs in a library's call by then, which no signal interrupts: after the grace time it is killed.
ENDED = (130, -signal.SIGKILL)


def test_a_guarded_job_ends_with_its_starter(guarded: subprocess.Popen[str]):
    assert guarded.poll() is None
    assert guarded.stdin is not None
    assert guarded.stderr is not None

    guarded.stdin.close()

    assert ends_within(guarded, GRACE_S + 60) in ENDED
    assert "the process that started this one is gone" in guarded.stderr.read()


def test_a_guarded_job_ends_when_asked(guarded: subprocess.Popen[str]):
    guarded.send_signal(signal.SIGTERM)

    assert ends_within(guarded, GRACE_S + 60) in ENDED
