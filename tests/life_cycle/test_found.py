"""What histories have found, as short tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import ConflictError, InvalidArgumentError, RemoveOption, SetOption, Table
from paimon_engine.actions.remove_unexisting_files import RemoveUnexistingFilesResult
from paimon_engine.meta.schema_change import AddColumn
from paimon_engine.table.commit import added_again
from tests.life_cycle.pairs import as_latest, sweep, write
from tests.life_cycle.world import Call, World
from tests.support.world import HOUR_MS, MAIN
from tests.support.world.kinds import of_name


@pytest.mark.parametrize("early_waits", [True, False], ids=["the early handle waits", "the late handle waits"])
def test_two_first_writes_with_other_numbers_of_buckets_do_not_mix(early_waits: bool) -> None:
    world = World(of_name("key-partitioned"))
    early = world.opened(MAIN, 1)
    world.table(MAIN).alter([SetOption("bucket", "3")])
    late = world.table(MAIN)
    waits, goes = (early, late) if early_waits else (late, early)
    call = Call("write", MAIN, lambda: write(world, waits, 1, 2, 3, 4), writes=True)
    world.begin(call, 12)
    assert world.paused
    world.now_ms += HOUR_MS
    world.begin(Call("write", MAIN, lambda: write(world, goes, 1, 2, 3, 4), writes=True), None)

    world.resume(0, None)

    assert call.actor is not None
    assert isinstance(call.actor.error, ConflictError | InvalidArgumentError)
    world.finish()


@pytest.mark.parametrize("call", range(10, 60, 7))
def test_a_tag_made_during_a_fast_forward_does_not_outlive_its_schema(call: int) -> None:
    world = World(of_name("key"))
    table = world.table(MAIN)
    write(world, table, 1)
    table.create_branch("dev", snapshot=1)
    table.alter([AddColumn("x0", "BIGINT")])
    write(world, world.table(MAIN), 2)
    write(world, world.table("dev"), 3)
    world.observe()
    main = world.table(MAIN)
    world.begin(Call("fast_forward", MAIN, lambda: main.fast_forward("dev"), exclusive=True), call)
    world.begin(Call("create_tag", MAIN, lambda: main.create_tag("late")), None)

    world.resume(0, None)

    world.finish()


@pytest.mark.parametrize("call", range(4, 17, 3))
def test_a_branch_that_is_deleted_while_it_is_made_is_complete_or_deleted(call: int) -> None:
    world = World(of_name("key"))
    table = world.table(MAIN)
    write(world, table, 1)
    table.alter([AddColumn("x0", "BIGINT")])
    write(world, world.table(MAIN), 2)
    world.observe()
    made = Call("create_branch", MAIN, lambda: table.create_branch("new", snapshot=2))
    world.begin(made, call)
    assert world.paused
    deleter = world.table(MAIN)
    world.begin(Call("delete_branch", MAIN, lambda: deleter.delete_branch("new"), exclusive=True), None)

    world.resume(0, None)

    world.finish()


@pytest.mark.parametrize("as_tags", [False, True], ids=["at its path", "as a tag"])
def test_no_version_is_restored_whose_files_were_deleted_later(as_tags: bool) -> None:
    world = World(of_name("key"))
    table = world.table(MAIN)
    write(world, table, 1)
    table.create_tag("a")
    write(world, table, 1, overwrite={})
    table.compact_manifests()
    write(world, table, 1)
    world.observe()
    expired = table.expire_snapshots(retain_max=1, quarantine=True)
    table.delete_tag("a")
    assert expired.quarantine is not None

    if as_tags:
        back = table.restore(expired.quarantine, as_tags=True)
        assert (back.snapshots, back.tags) == ((), ("restored-3",))
        assert [reason.split(" cannot")[0] for reason in back.left] == ["tag 'restored-1'", "tag 'restored-2'"]
    else:
        with pytest.raises(ConflictError, match=r"snapshot 1 .*it was deleted since"):
            table.restore(expired.quarantine)

    world.observe()
    world.finish()


def test_what_a_later_deletion_has_moved_aside_is_restored_first() -> None:
    world = World(of_name("key"))
    table = world.table(MAIN)
    write(world, table, 1)
    table.create_tag("a")
    table.compact(full=True)
    write(world, table, 1)
    world.observe()
    expired = table.expire_snapshots(retain_max=1, quarantine=True)
    deleted = table.delete_tag("a", quarantine=True)
    assert expired.quarantine is not None
    assert deleted.quarantine is not None

    with pytest.raises(ConflictError, match=f"quarantine {deleted.quarantine} holds"):
        table.restore(expired.quarantine)
    table.restore(deleted.quarantine)
    table.restore(expired.quarantine)

    assert [version.name for version in world.versions(MAIN, "snapshot")] == ["1", "2", "3"]
    world.observe()
    world.finish()


def test_purging_takes_the_data_files_that_are_the_changelog_of_expired_snapshots() -> None:
    world = World(of_name("append-kept"))
    table = world.table(MAIN)
    write(world, table, 1)
    write(world, table, 2, overwrite={})
    table.expire_snapshots(retain_max=1)
    world.observe()
    assert [version.kind for version in world.reach.versions()] == ["changelog", "snapshot"]

    table.purge_files()

    world.assert_exact("purge_files")


def test_snapshots_of_a_history_that_was_rolled_back_are_not_restored_below_another() -> None:
    world = World(of_name("key"))
    table = world.table(MAIN)
    for key in range(1, 6):
        write(world, table, key)
    world.observe()
    aside = table.rollback(snapshot=3, quarantine=True).quarantine
    for key in range(6, 9):
        write(world, table, key)
    world.observe()
    table.expire_snapshots(retain_max=1)
    assert aside is not None

    with pytest.raises(ConflictError, match="snapshot 6 does not build on snapshot 5"):
        table.restore(aside)

    assert table.restore(aside, as_tags=True).tags == ("restored-4", "restored-5")
    world.observe()
    world.finish()


def test_clustering_by_an_early_handle_keeps_columns_that_were_added_later() -> None:
    world = World(of_name("append"))
    early = world.opened(MAIN, 1)
    world.table(MAIN).alter([AddColumn("x0", "BIGINT")])
    table = world.table(MAIN)
    for number in range(3):
        row = {"dt": "2024-01-01", "k": number, "v": 1, "w": "a", "x0": number}
        table.write(pa.Table.from_pylist([row], table.arrow_schema))

    assert early.cluster("k").status == "committed"

    assert sorted(world.table(MAIN).to_arrow()["x0"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("call", range(4, 60, 3))
def test_a_changelog_that_others_have_expired_meanwhile_does_not_come_back(call: int) -> None:
    world = World(of_name("kept-deltas"))
    for number in range(5):
        write(world, world.table(MAIN), number)
        world.now_ms += HOUR_MS
    world.observe()
    early, late = world.opened(MAIN, 1), world.table(MAIN)
    world.begin(Call("expire_snapshots", MAIN, lambda: early.expire_snapshots(retain_max=2, retain_min=1)), call)

    world.begin(Call("expire_snapshots", MAIN, lambda: late.expire_snapshots(retain_max=2, retain_min=1)), None)
    world.begin(Call("expire_changelogs", MAIN, lambda: late.expire_changelogs(delete_all=True)), None)
    while world.paused:
        world.resume(0, None)

    world.finish()
    assert world.versions(MAIN, "changelog") == []


@pytest.mark.parametrize("call", range(12, 30, 2))
def test_a_commit_that_only_removes_is_not_taken_for_one_that_others_made(call: int) -> None:
    """Its snapshot comes when that number has expired, and an overwrite has removed the same files."""
    world = World(of_name("append"))
    table = world.table(MAIN)
    write(world, table, 1)
    table.create_tag("a")
    write(world, table, 2)
    world.observe()
    early, late = world.opened(MAIN, 1), world.table(MAIN)
    world.begin(Call("rollback_to_as_latest", MAIN, lambda: as_latest(world, early), writes=True), call)
    write(world, late, 2, overwrite={})
    write(world, late, 3)
    write(world, late, 4)
    world.observe()
    world.begin(Call("expire_snapshots", MAIN, lambda: late.expire_snapshots(retain_max=2, retain_min=1)), None)
    while world.paused:
        world.resume(0, None)

    world.finish()


@pytest.mark.parametrize("least", [0, 1_000_000], ids=["in columns", "entry by entry"])
def test_no_manifest_removes_a_file_that_has_its_level_or_index_again(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(added_again, "ENTRIES_MIN", least)
    world = World(of_name("key-partitioned"))
    table = world.table(MAIN)
    write(world, table, 1, 2, 3)
    table.create_tag("a")
    table.compact(full=True)
    as_latest(world, table)
    assert table.compact(full=True).status == "committed"
    world.observe()
    table.alter([SetOption("file-index.bitmap.columns", "w"), SetOption("file-index.in-manifest-threshold", "1 mb")])
    assert table.rewrite_file_index().status == "committed"
    table.alter([RemoveOption("file-index.bitmap.columns")])
    assert table.rewrite_file_index().status == "committed"

    world.observe()
    world.finish()


@pytest.mark.parametrize("call", range(0, 60, 2))
def test_no_manifest_removes_a_file_that_is_added_again_after_a_lost_race(call: int) -> None:
    world = World(of_name("key"))
    table = world.table(MAIN)
    write(world, table, 1)
    table.create_tag("a")
    table.compact(full=True)
    as_latest(world, table)
    world.observe()
    world.begin(Call("compact", MAIN, lambda: world.table(MAIN).compact(full=True), writes=True), call)
    write(world, table, 2)
    table.compact_manifests()
    write(world, table, 3)
    while world.paused:
        world.resume(0, None)

    world.finish()


@pytest.mark.parametrize("call", range(2, 30, 3))
def test_a_late_merge_of_manifests_does_not_come_before_the_earliest_snapshot(call: int) -> None:
    """Nothing tells its snapshot from those of others but its manifests: none of them has changed a file."""
    world = World(of_name("append"))
    table = world.table(MAIN)
    write(world, table, 1)
    write(world, table, 2)
    world.observe()
    early, late = world.opened(MAIN, 1), world.table(MAIN)
    world.begin(Call("compact_manifests", MAIN, lambda: early.compact_manifests(), writes=True), call)
    late.analyze()
    write(world, late, 3)
    late.analyze()
    world.observe()
    world.begin(Call("expire_snapshots", MAIN, lambda: late.expire_snapshots(retain_max=2, retain_min=1)), None)
    while world.paused:
        world.resume(0, None)

    world.finish()


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "run"])
@pytest.mark.parametrize("call", range(4, 12))
def test_files_that_expire_while_they_are_looked_up_are_not_reported_as_lost(call: int, dry_run: bool) -> None:
    world = World(of_name("key"))
    table = world.table(MAIN)
    write(world, table, 1)
    write(world, table, 2)
    world.observe()
    found: list[RemoveUnexistingFilesResult] = []
    early, late = world.opened(MAIN, 1), world.table(MAIN)
    world.begin(
        Call("remove", MAIN, lambda: found.append(early.remove_unexisting_files(dry_run=dry_run)), writes=True), call
    )
    late.compact(full=True)
    write(world, late, 3)
    world.begin(Call("expire", MAIN, lambda: late.expire_snapshots(retain_max=1)), None)
    while world.paused:
        world.resume(0, None)

    assert [result.status for result in found] in ([], ["noop"])
    world.finish()


@pytest.mark.parametrize("call", range(10, 100, 10))
@pytest.mark.parametrize("how", ["rollback", "fast_forward"])
def test_no_changelog_stays_of_snapshots_that_were_removed_while_they_expired(how: str, call: int) -> None:
    world = World(of_name("kept-deltas"))
    table = world.table(MAIN)
    write(world, table, 1)
    table.create_tag("a")
    table.create_branch("dev", tag="a")
    for number in range(4):
        write(world, table, number)
        world.now_ms += HOUR_MS
    world.observe()
    early, late = world.opened(MAIN, 1), world.table(MAIN)
    action = (lambda: early.rollback(tag="a")) if how == "rollback" else (lambda: early.fast_forward("dev"))
    world.begin(Call(how, MAIN, action, exclusive=True), call)
    world.begin(Call("expire_snapshots", MAIN, lambda: late.expire_snapshots(retain_max=2, retain_min=1)), None)
    while world.paused:
        world.resume(0, None)

    world.finish()


@pytest.mark.parametrize("first", ["expire_snapshots", "rollback", "rollback to a tag", "fast_forward"])
@pytest.mark.parametrize("call", range(50, 110, 6))
def test_a_table_keeps_a_snapshot_whoever_removes_the_others(first: str, call: int) -> None:
    """An expiry keeps the newest one, and the others an older one, which each has seen before it began."""
    world = World(of_name("key"))
    table = world.table(MAIN)
    write(world, table, 1)
    table.create_tag("a")
    table.create_branch("dev", tag="a")
    for number in range(3):
        write(world, table, number)
        world.now_ms += HOUR_MS
    world.observe()
    early, late = world.opened(MAIN, 1), world.table(MAIN)
    acts: dict[str, Callable[[Table], Any]] = {
        "expire_snapshots": lambda table: table.expire_snapshots(retain_max=1),
        "rollback": lambda table: table.rollback(snapshot=1),
        "rollback to a tag": lambda table: table.rollback(tag="a"),
        "fast_forward": lambda table: table.fast_forward("dev"),
    }
    others = [name for name in acts if (name == "expire_snapshots") != (first == "expire_snapshots")]
    world.begin(Call(first, MAIN, lambda: acts[first](early)), call)
    world.begin(Call(others[call % len(others)], MAIN, lambda: acts[others[call % len(others)]](late)), None)
    while world.paused:
        world.resume(0, None)

    assert world.versions(MAIN, "snapshot")
    assert world.table(MAIN).to_arrow().num_rows
    world.finish()


@pytest.mark.parametrize("first", ["delete_tag", "replace_tag", "expire_tags"])
def test_a_snapshot_that_becomes_a_changelog_while_versions_are_listed_keeps_its_files(first: str) -> None:
    assert sweep(of_name("kept-deltas"), first, "expire_snapshots", range(24, 60, 2)) > 10


def test_a_job_that_waits_drops_no_partition_that_was_not_too_old_when_it_began() -> None:
    world = World(of_name("append"))
    write(world, world.table(MAIN), 1)
    world.observe()
    (day,) = {datetime.fromisoformat(row["dt"]) for row in world.table(MAIN).to_arrow().to_pylist()}
    age = datetime.fromtimestamp(world.now_ms / 1000) - day + timedelta(hours=1)
    table = world.table(MAIN)
    call = Call("expire_partitions", MAIN, lambda: table.expire_partitions(age), writes=True)
    world.begin(call, 3)
    assert world.paused
    write(world, world.table(MAIN), 2)
    world.now_ms += 2 * HOUR_MS

    world.resume(0, None)

    assert call.actor is not None
    assert call.actor.result.status == "noop"
    world.finish()


@pytest.mark.parametrize("other", ["delete_tag", "replace_tag"])
def test_a_rollback_to_a_tag_that_others_take_away_leaves_no_snapshot_without_files(other: str) -> None:
    """It alone had the files of the snapshot that was the latest afterwards."""
    origin = World(of_name("key"))
    table = origin.table(MAIN)
    write(origin, table, 1)
    table.create_tag("a")
    for number in (2, 3):
        origin.observe()
        write(origin, table, number)
        origin.observe()
        table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    origin.observe()
    acts: dict[str, Callable[[Table], Any]] = {
        "delete_tag": lambda table: table.delete_tag("a"),
        "replace_tag": lambda table: table.create_tag("a", if_exists="replace"),
    }
    call, ends = 0, set()
    while True:
        world = origin.copy()
        table = world.table(MAIN)
        went_back = Call("rollback", MAIN, partial(table.rollback, tag="a"), exclusive=True)
        world.begin(went_back, call)
        if not world.paused:
            break
        world.begin(Call(other, MAIN, partial(acts[other], table)), None)
        world.resume(0, None)
        assert went_back.actor is not None
        ends.add(type(went_back.actor.error))
        world.finish()
        call += 1
    assert ends >= {type(None), ConflictError}
