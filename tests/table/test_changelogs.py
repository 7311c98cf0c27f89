"""Changelogs: what they say, replayed, gives the table as it is read, for every engine and producer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.manifests import changelog_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.write.writer import write_batches, write_state

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("b", pa.string()), ("s", pa.int64())]
)
ENGINES = {
    "deduplicate": {},
    "by sequence": {"sequence.field": "s"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.s.ignore-retract": "true",
    },
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
}
CHANGES = {"incremental-between-scan-mode": "changelog"}


def make(warehouse: Path, **options: str) -> Table:
    given = {"bucket": "1", **{name.replace("_", "-"): value for name, value in options.items()}}
    return Catalog(str(warehouse)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=given)


def write(table: Table, *rows: tuple[Any, ...]) -> None:
    """Rows as (kind, k, a, b, s)."""
    kinds, *columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    table.write(pa.table(arrays, schema=SCHEMA), row_kinds=pa.array(kinds))


def changes_between(warehouse: Path, after: int, up_to: int) -> list[tuple[Any, ...]]:
    """What the changelogs of some snapshots say, in their order."""
    log = Catalog(str(warehouse)).table("db.t$audit_log")
    found = [log.to_arrow(incremental=(snapshot, snapshot + 1), options=CHANGES) for snapshot in range(after, up_to)]
    return [tuple(row.values()) for part in found for row in part.to_pylist()]


def replay(state: dict[int, tuple[Any, ...]], changes: list[tuple[Any, ...]]) -> None:
    """Applies changes one after another; a removed row must have been there exactly so."""
    for kind, *row in changes:
        if kind in ("-U", "-D"):
            assert state.pop(row[0]) == tuple(row)
        else:
            assert row[0] not in state, f"{kind} of a row that is there already"
            state[row[0]] = tuple(row)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.parametrize("engine", ENGINES)
def test_changes_replayed_give_the_table(tmp_path: Path, engine: str, producer: str, seed: int):
    if engine == "first-row" and producer == "full-compaction":
        pytest.skip("first-row takes no such producer")
    chance = random.Random(f"{engine} {producer} {seed}")
    options = {"changelog-producer": producer, "num-levels": "4", "target-file-size": "1 kb", **ENGINES[engine]}
    table = make(tmp_path, **options)
    kinds = (
        ("+I",)
        if engine == "first-row"
        else ("+I", "+I", "-D")
        if engine == "aggregation"
        else ("+I", "-U", "+U", "-D")
    )
    state: dict[int, tuple[Any, ...]] = {}
    seen = 0
    for _ in range(8):
        for _ in range(chance.randint(1, 3)):
            keys = chance.sample(range(60), chance.choice([1, 5, 40]))
            write(
                table,
                *(
                    (chance.choice(kinds), k, chance.randint(0, 9), chance.choice("xyz"), chance.randint(0, 5))
                    for k in keys
                ),
            )
        result = table.compact(full=producer == "full-compaction" or chance.random() < 0.3)
        if result.snapshot_id is None:
            continue
        replay(state, changes_between(tmp_path, seen, result.snapshot_id))
        seen = result.snapshot_id
        assert sorted(state.values()) == sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def test_input_is_logged_as_it_was_written(tmp_path: Path):
    table = make(tmp_path, changelog_producer="input")

    write(table, ("+I", 2, 1, "x", 0), ("-U", 1, 1, "x", 0), ("+U", 1, 2, "y", 0), ("-D", 2, 1, "x", 0))

    assert changes_between(tmp_path, 0, 1) == [
        ("-U", 1, 1, "x", 0), ("+U", 1, 2, "y", 0), ("+I", 2, 1, "x", 0), ("-D", 2, 1, "x", 0),
    ]  # fmt: skip
    assert table.to_arrow().num_rows == 1


def test_an_overwrite_logs_nothing_and_leaves_no_file(tmp_path: Path):
    table = make(tmp_path, changelog_producer="input")

    table.write(pa.table({"k": [1], "a": [1], "b": ["x"], "s": [1]}, schema=SCHEMA), overwrite={})

    assert latest_snapshot(table._handle).changelog_manifest_list is None
    assert not list(tmp_path.rglob("changelog-*"))


@pytest.mark.parametrize(("ignored", "count"), [("", 2), ("b", 0)])
def test_updates_that_change_nothing_are_left_out_by_option(tmp_path: Path, ignored: str, count: int):
    options = {
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": ignored,
    }
    table = make(tmp_path, **options)
    write(table, ("+I", 1, 1, "x", 0), ("+I", 2, 1, "x", 0))
    table.compact()
    write(table, ("+I", 1, 1, "x", 0), ("+I", 2, 1, "y", 0))

    result = table.compact()

    assert len(changes_between(tmp_path, result.snapshot_id - 1, result.snapshot_id)) == count


def test_a_file_moved_to_the_highest_level_is_logged_but_not_rewritten(tmp_path: Path):
    table = make(tmp_path, changelog_producer="full-compaction", target_file_size="1 b")
    write(table, ("+I", 1, 1, "x", 0), ("+I", 2, 1, "x", 0))
    before = table.files()["file_path"].to_pylist()

    result = table.compact(full=True)

    assert table.files()["file_path"].to_pylist() == before
    assert [row[:2] for row in changes_between(tmp_path, 1, result.snapshot_id)] == [("+I", 1), ("+I", 2)]


def test_changelog_files_have_their_own_name_and_format(tmp_path: Path):
    options = {"changelog-producer": "input", "changelog-file.prefix": "cdc-", "changelog-file.format": "avro"}
    table = make(tmp_path, **options)

    write(table, ("+I", 1, 1, "x", 0))

    (entry,) = changelog_entries(table._handle, latest_snapshot(table._handle))
    assert entry.file.name.startswith("cdc-")
    assert entry.file.name.endswith(".avro")
    assert changes_between(tmp_path, 0, 1) == [("+I", 1, 1, "x", 0)]


def test_messages_carry_their_changelog(tmp_path: Path):
    table = make(tmp_path, changelog_producer="input")._handle
    rows = pa.record_batch({"k": [1], "a": [1], "b": ["x"], "s": [1]}, schema=SCHEMA)

    (message,) = write_batches(table, write_state(table), [rows])

    assert CommitMessage.from_json(message.to_json()) == message
    assert len(message.changelog_files) == 1
    assert {file.name for file in message.changelog_files} <= set(message.written_names())
    older = {key: value for key, value in json.loads(message.to_json()).items() if key != "changelogFiles"}
    assert CommitMessage.from_json(json.dumps(older)).changelog_files == ()
