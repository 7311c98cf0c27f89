"""A table whose snapshots are not visible is an error for readers and writers, not an empty table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paimon_engine.errors import CorruptTableError, StorageError
from tests.support.faulty_storage import DOWN, FaultyStorage
from tests.support.lying_storage import LyingStorage
from tests.support.world import ROOT, World
from tests.support.world.scenarios import keyed


def _hide(world: World, *parts: str) -> None:
    found = [info.path for info in world.inner.walk(ROOT) if any(part in f"{info.path}|" for part in parts)]
    assert found
    world.inner.delete(found)


def _world() -> World:
    world = World()
    keyed(world)
    return world


USES: dict[str, Callable[[World], object]] = {
    "read": lambda world: world.table().to_arrow(),
    "write": lambda world: world.write({1: 1}),
    "overwrite": lambda world: world.write({1: 1}, overwrite={}),
    "compact": lambda world: world.table().compact(full=True),
    "latest": lambda world: world.table().latest_snapshot_id(),
}
VIEWS = {
    "all snapshots": (("/snapshot-",), "LATEST names snapshot 5, but .*/snapshot lists none"),
    "all snapshots and the hint": (("/snapshot-", "/LATEST"), "EARLIEST names snapshot 1"),
    "the directory": (("/snapshot/",), "tag-middle exists"),
    "the directory and the tags": (("/snapshot/", "/tag/"), "builds on an earlier commit"),
    "the newest": (
        ("/snapshot-5|",),
        r"LATEST names snapshot 5, but the newest one listed is 4; .*rollback\(snapshot=4\)",
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", VIEWS)
def test_vanished_snapshots_are_reported(name: str, use: str) -> None:
    world = _world()
    hidden, why = VIEWS[name]
    _hide(world, *hidden)
    before = {info.path for info in world.inner.walk(ROOT) if "/bucket-" not in info.path}

    with pytest.raises(CorruptTableError, match=why):
        USES[use](world)

    assert {info.path for info in world.inner.walk(ROOT) if "/bucket-" not in info.path} == before


def test_a_listing_that_answers_not_there_hides_no_rows() -> None:
    world = _world()
    rows = world.table().to_arrow().sort_by("k")
    lying = LyingStorage(world.inner, lists="empty", where=r"/snapshot$")

    assert world.through(lying).table().to_arrow().sort_by("k").equals(rows)
    world.write({7: 7})
    assert world.table().latest_snapshot_id() == 6

    # Not even the hint is there.
    world.inner.delete([f"{ROOT}/snapshot/LATEST"])
    with pytest.raises(CorruptTableError, match="EARLIEST names snapshot 1"):
        world.table().to_arrow()


def test_snapshots_that_a_listing_lacks_are_found_from_the_hint_on() -> None:
    world = _world()
    world.inner.overwrite(f"{ROOT}/snapshot/LATEST", b"3")
    world.through(LyingStorage(world.inner, lists="stale", where=r"/snapshot$", hidden=4))

    assert world.table().latest_snapshot_id() == 5
    assert world.table().to_arrow().num_rows == 8


def test_a_rollback_makes_the_newest_snapshot_in_sight_the_latest() -> None:
    world = _world()
    _hide(world, "/snapshot-5|")

    result = world.table().rollback(snapshot=4)

    assert result.status == "noop"
    assert world.table().latest_snapshot_id() == 4
    world.write({1: 1})


def test_a_table_begins_anew_when_somebody_says_that_it_has_no_snapshot() -> None:
    world = _world()
    _hide(world, "/snapshot/", "/tag/")
    world.now_ms += 1

    assert world.table().remove_orphan_files(world.now_ms, confirm_latest_snapshot=0).status == "deleted"

    world.write({1: 1})
    assert world.table().to_arrow().num_rows == 1


@pytest.mark.parametrize("options", [{}, {"changelog_producer": "input"}])
def test_a_first_commit_that_was_killed_at_any_call_keeps_no_other_from_being_the_first(
    options: dict[str, str],
) -> None:
    number, done = 0, False
    while not done:
        world = World()
        world.create(keys=("p", "k"), bucket=1, **options)
        world.through(store := FaultyStorage(world.inner))
        for start in (number, number + 3):
            store.arm(start, DOWN)
            try:
                world.write({1: 1})
                done = True
            except StorageError:
                pass
        world.through(world.inner).write({2: 2})
        assert 2 in world.table().to_arrow().column("k").to_pylist()
        number += 1
    assert number > 10


def test_a_branch_may_have_commits_where_main_has_none() -> None:
    world = World()
    world.create(keys=("p", "k"), bucket=1)
    world.table().create_branch("b")
    for number in range(3):
        world.write({number: 1}, branch="b")

    assert world.table().to_arrow().num_rows == 0
    world.write({9: 9})

    assert world.table().to_arrow().num_rows == 1
    assert world.table("b").to_arrow().num_rows == 3


def test_what_a_deleted_branch_leaves_does_not_keep_main_from_its_first_commit() -> None:
    world = World()
    world.create(keys=("p", "k"), bucket=1)
    world.table().create_branch("b")
    for number in range(3):
        world.write({number: 1}, branch="b")
    left = world.table().delete_branch("b")
    assert "main has no snapshot" in left.stopped[0]
    assert any("/manifest-list-" in info.path for info in world.inner.walk(ROOT))

    assert world.table().to_arrow().num_rows == 0
    world.write({9: 9})

    assert world.table().to_arrow().num_rows == 1
