"""Compaction, clustering, indexes, statistics: planned, done, reported."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from tests.support.command_line import SCHEMA, Run


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


def test_compact_reports_what_a_limit_left(paimon: Run, table: Table):
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
    assert planned.lines[-1].startswith("dry run: would rescale 1 partition to 2 buckets, and rewrite ")
    assert done.lines[-1].startswith("committed snapshot 4: rescaled 1 partition to 2 buckets, 3 → 2 files in ")
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


def test_compact_reports_postponed_records_that_get_a_bucket(paimon: Run, tmp_path: Path):
    catalog = Catalog(str(tmp_path / "postponed"))
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": -2})
    table.write(pa.table({"k": [1, 2, 3]}))

    done = paimon("compact", table.path)

    assert done.lines[-1].startswith("committed snapshot 2: 3 postponed records given a bucket, 1 → 1 file, ")


def test_compact_as_json_is_the_complete_result(paimon: Run, table: Table):
    result = json.loads(paimon("compact", table.path, "--full", "--json").out)

    assert result["status"] == "committed"
    assert result["buckets"][0]["rows_after"] == 3


def test_files_get_the_indexes_that_the_table_requires_now(paimon: Run, table: Table):
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
    # They came out as they were.
    assert json.loads(rebuilt.out)["files_current"] == 3


def test_progress_as_json_is_written_to_standard_error(paimon: Run, table: Table):
    ended = paimon("compact", table.path, "--full", "--progress", "json")

    steps = [json.loads(line.removeprefix("@paimon ")) for line in ended.err.splitlines()]
    assert steps == [{"stage": "compact, round 1", "done": done, "total": 1} for done in (0, 1)]


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


def test_a_table_is_created_from_a_statement(paimon: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statement = "CREATE TABLE db.made (id INT, v VARCHAR(3), PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')"

    made = paimon("create", statement, "-w", tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(statement.replace("made", "other")))
    other = paimon("create", "-", "-w", tmp_path, "--json")
    again = paimon("create", statement, "-w", tmp_path)
    wrong = paimon("create", "CREATE TABLE db.x (id INTT)", "-w", tmp_path)

    assert (made.code, made.out) == (0, f"{tmp_path}/db.db/made: id, v\n")
    assert json.loads(other.out)["columns"] == ["id", "v"]
    assert (again.code, wrong.code) == (1, 2)
    assert "column 'id': 'INTT' is not a Paimon type" in wrong.err
