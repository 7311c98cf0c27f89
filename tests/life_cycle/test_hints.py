"""Two jobs at once, or one that dies, leave no hint that names a missing file: a clean-up would stop there for good."""

from __future__ import annotations

import pytest

from paimon_engine.table.state.hints import hint_of
from tests.life_cycle.pairs import FIRST, SECOND, call_of, prepared, purge, sweep, write
from tests.life_cycle.world import ROOT, World
from tests.support.world import HOUR_MS, MAIN
from tests.support.world.kinds import of_name


def _calls(kind: str, first: str, made: str, *, expired: bool = False) -> list[int]:
    """The numbers of those calls of the store, when that action runs alone."""
    world = prepared(of_name(kind), expired=expired).copy()
    world.now_ms += HOUR_MS
    call = call_of(world, first, FIRST[first])
    world.begin(call, None)
    assert call.actor is not None
    method, path = made.split()
    return [number for number, one in enumerate(call.actor.made) if one == f"{method} {ROOT}/{path}"]


@pytest.mark.parametrize(
    ("kind", "first", "made", "second"),
    [
        ("append-kept", "expire_snapshots", "overwrite snapshot/EARLIEST", "go_on"),
        ("append-kept", "expire_snapshots", "delete snapshot/snapshot-2", "rollback"),
        ("append-kept", "expire_snapshots", "overwrite snapshot/EARLIEST", "rollback"),
        ("append-kept", "expire_snapshots", "overwrite changelog/LATEST", "expire_changelogs"),
        ("append-kept", "expire_snapshots", "overwrite changelog/EARLIEST", "expire_changelogs"),
        ("append-kept", "restore", "overwrite snapshot/EARLIEST", "expire_snapshots"),
        ("append-kept", "fast_forward", "overwrite snapshot/EARLIEST", "expire_snapshots"),
        ("kept-changelog", "expire_snapshots aside", "overwrite snapshot/EARLIEST", "go_on"),
        ("kept-changelog", "expire_snapshots", "overwrite changelog/changelog-4", "go_on"),
    ],
)
def test_a_hint_that_is_written_late_names_what_is_there(kind: str, first: str, made: str, second: str) -> None:
    numbers = _calls(kind, first, made)
    assert numbers
    assert sweep(of_name(kind), first, second, numbers) == len(numbers)


def test_a_rollback_does_not_name_a_changelog_that_others_have_removed() -> None:
    kind, first = "kept-changelog", "rollback to a tag"
    numbers = _calls(kind, first, "overwrite changelog/LATEST", expired=True)
    assert numbers
    assert sweep(of_name(kind), first, "expire_changelogs", numbers, expired=True) == len(numbers)


def test_a_changelog_that_another_expiry_has_made_stays() -> None:
    kind, made = "kept-changelog", "overwrite changelog/changelog-4"
    world = prepared(of_name(kind)).copy()
    world.now_ms += HOUR_MS
    world.begin(
        call_of(world, "expire_snapshots", FIRST["expire_snapshots"]), _calls(kind, "expire_snapshots", made)[0]
    )
    world.begin(call_of(world, "go_on", SECOND["go_on"]), None)
    kept = world.versions(MAIN, "changelog")
    assert [one.name for one in kept] == ["4", "5", "6"]
    world.resume(0, None)
    assert world.versions(MAIN, "changelog") == kept
    world.finish()


@pytest.mark.parametrize("kind", ["append-kept", "kept-changelog"])
def test_a_purge_takes_the_changelogs_and_their_hints(kind: str) -> None:
    world = prepared(of_name(kind)).copy()
    table = world.table(MAIN)
    world.now_ms += HOUR_MS
    assert table.expire_snapshots(retain_max=1).kept_changelogs
    purge(world, table)
    paths = table._handle.paths
    assert hint_of(table._handle, paths.earliest_changelog_hint) is None
    assert hint_of(table._handle, paths.latest_changelog_hint) is None
    world.now_ms += 48 * HOUR_MS
    assert table.remove_orphan_files(dry_run=True).stopped == ()


def test_an_expiry_that_deletes_no_file_and_is_killed_before_the_hint_does_not_stop_the_next() -> None:
    """Tags have all files of the snapshots that go."""
    world = World(of_name("append"))
    table = world.table(MAIN)
    for number in (1, 2, 3):
        write(world, table, number)
        table.create_tag(f"of {number}")
    world.observe()
    expire = SECOND["expire_snapshots"]
    alone = world.copy()
    alone.begin(call := call_of(alone, "expire_snapshots", expire), None)
    assert call.actor is not None
    assert not call.actor.result.deleted
    world.begin(
        call_of(world, "expire_snapshots", expire), call.actor.made.index(f"overwrite {ROOT}/snapshot/EARLIEST")
    )
    world.kill(0)
    assert [one.name for one in world.versions(MAIN, "snapshot")] == ["3"]
    assert table.expire_snapshots(dry_run=True).stopped == ()
    assert hint_of(table._handle, table._handle.paths.earliest_hint) == 1
    assert table.expire_snapshots(retain_max=1).stopped == ()
    world.finish()
