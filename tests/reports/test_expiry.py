"""apache/paimon#6978, #4743 and #10089: expiry while others read, over a gap in the snapshots, and with invalid numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table
from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.env import now_ms
from paimon_engine.jobs import Job, TableRef, run
from tests.reports.replay import histories, keys_of
from tests.support.newest import NewestPaimon
from tests.support.oracle import JavaPaimon
from tests.support.world import World

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


# ── #6978: readers that start while an expiry runs ──────────────────────────────────────────────


def replaced_four_times() -> World:
    world = World()
    world.create(by=(), snapshot__num_retained__min=1)
    for number in range(4):
        world.write({number: 0}, overwrite={})
    return world


def test_a_visible_snapshot_is_read_at_every_step_of_an_expiry() -> None:
    seen: set[int] = set()

    def reads_all_that_it_sees(table: Table) -> None:
        for number in table.snapshots()["snapshot_id"].to_pylist():
            assert keys_of(table, snapshot=number) == [number - 1]
            seen.add(number)

    found = list(
        histories(replaced_four_times, lambda table: table.expire_snapshots(retain_max=1), reads_all_that_it_sees)
    )

    assert len(found) > 10
    assert seen == {1, 2, 3, 4}
    assert all(len(world.table().snapshots()) == 1 for world, _ in found)


def test_the_newest_java_shows_snapshots_whose_files_are_deleted(tmp_path: Path, newest: NewestPaimon) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA)
    for number in range(4):
        table.write(pa.table({"k": [number]}), overwrite={})

    read = {"op": "read", "table": table.path, "options": {"scan.snapshot-id": "3"}}
    meanwhile = {"call": "delete", "path": "/snapshot/snapshot-3", "run": read}
    expired, answer = newest.expire(table.path, retain_max=1, meanwhile=meanwhile)

    assert expired == 3
    assert "Failed to read manifest-list" in str(answer)


# ── #4743: snapshots are missing between the earliest and the latest ────────────────────────────


def with_a_gap(catalog: Catalog) -> Table:
    """Twenty commits that each replace all rows, of which somebody has deleted the snapshots 4 to 14."""
    table = catalog.create_table("db.t", schema=SCHEMA, options={"snapshot.num-retained.min": "1"})
    for number in range(20):
        table.write(pa.table({"k": [number]}), overwrite={})
    for number in range(4, 15):
        Path(table.path, "snapshot", f"snapshot-{number}").unlink()
    return table


def test_expiry_gets_over_a_gap_and_ends(tmp_path: Path, oracle: JavaPaimon) -> None:
    table = with_a_gap(Catalog(str(tmp_path)))

    table.expire_snapshots(retain_max=2)

    assert table.snapshots()["snapshot_id"].to_pylist() == [19, 20]
    assert [keys_of(table, snapshot=number) for number in (19, 20)] == [[18], [19]]
    assert table.verify(depth="rows").problems == ()
    oracle.assert_sound(table.path)


def test_snapshots_before_the_gap_stay_for_ever_in_java(tmp_path: Path, oracle: JavaPaimon) -> None:
    table = with_a_gap(Catalog(str(tmp_path)))

    expired = [oracle.call("expire", table=table.path, retain_max=2, retain_min=1)["expired"] for _ in range(3)]

    assert expired[1:] == [0, 0]
    assert table.snapshots()["snapshot_id"].to_pylist() == [1, 2, 3, 20]


# ── #10089: retain_min of zero and below ────────────────────────────────────────────────────────


def files_of(path: str) -> Mapping[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}


def with_changelogs(catalog: Catalog) -> Table:
    options = {"bucket": "1", "write-only": "true", "changelog-producer": "input"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    for number in range(3):
        table.write(pa.table({"k": [number], "v": ["a"]}))
    table.compact(full=True)
    return table


@pytest.mark.parametrize(
    "fields", [{"retain_min": 0}, {"retain_min": -1}, {"retain_max": 0}, {"retain_max": -3, "retain_min": -3}]
)
def test_invalid_numbers_are_refused_before_anything_is_deleted(tmp_path: Path, fields: dict[str, Any]) -> None:
    table = with_changelogs(Catalog(str(tmp_path)))
    before = files_of(table.path)

    with pytest.raises(InvalidArgumentError, match="retain"):
        table.expire_snapshots(older_than="0 d", **fields)
    with pytest.raises(InvalidArgumentError, match="retain"):
        run(Job(TableRef(path=table.path), ExpireSnapshots(older_than=now_ms(), **fields), "user"))

    assert files_of(table.path) == before


def test_java_deletes_files_of_snapshots_that_it_keeps(tmp_path: Path, oracle: JavaPaimon) -> None:
    table = with_changelogs(Catalog(str(tmp_path)))
    oracle.assert_sound(table.path)

    with pytest.raises(Exception, match="snapshot-5"):
        oracle.call("expire", table=table.path, retain_max=10, retain_min=0)

    assert len(table.snapshots()) == 4
    assert oracle.problems(table.path) != []
    assert table.verify().problems != ()
