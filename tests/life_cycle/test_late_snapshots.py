"""A commit of another engine that was prepared before a rollback, or a purge, and whose snapshot comes while that runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from paimon_engine import ConflictError, Table
from tests.life_cycle.pairs import write
from tests.life_cycle.world import Call, World
from tests.support.world import HOUR_MS, MAIN
from tests.support.world.kinds import of_name

KINDS = ("key", "changelog-input", "append")
LATEST = 4
ACTS: dict[str, Callable[[Table], Any]] = {
    "rollback": lambda table: table.rollback(snapshot=3),
    "rollback to a tag": lambda table: table.rollback(tag="a"),
    "purge": lambda table: table.purge_files(),
}


def made(kind: str) -> World:
    """A table with snapshots 3 and 4, and a tag on 1."""
    world = World(of_name(kind))
    table = world.table(MAIN)
    for number in range(1, LATEST + 1):
        write(world, table, number)
        world.observe()
        world.now_ms += HOUR_MS
        if number == 1:
            table.create_tag("a")
    table.expire_snapshots(retain_max=2)
    world.observe()
    return world


def prepared(origin: World) -> tuple[dict[str, Any], str]:
    """The files of a commit on the latest snapshot, without it, and its path."""
    other = origin.copy()
    before = other.inner.dump()
    write(other, other.table(MAIN), 9)
    new = {path: file for path, file in other.inner.dump().items() if path not in before}
    snapshot = next(path for path in new if path.endswith(f"/snapshot-{LATEST + 1}"))
    return new, snapshot


def land(world: World, snapshot: str, content: bytes) -> None:
    """As Java does it: the snapshot if its number is free, then the hint."""
    if world.inner.create(snapshot, content):
        world.inner.overwrite(snapshot.rpartition("/")[0] + "/LATEST", str(LATEST + 1).encode())


def test_commits_on_the_target_are_no_late_ones_also_where_the_first_have_expired() -> None:
    world = made("append")
    table, other = world.table(MAIN), world.table(MAIN)
    went_back = Call("rollback", MAIN, partial(ACTS["rollback"], table), exclusive=True)
    went_back.actor = world.stage.actor(went_back.work)
    while not went_back.actor.go(1).is_done:
        names = [path.rpartition("/")[2] for path in world.inner.dump() if "/snapshot/snapshot-" in path]
        if names == ["snapshot-3"] and went_back.actor.made[-1].startswith("delete"):
            for number in (5, 6, 7):
                write(world, other, number)
            other.expire_snapshots(retain_max=1)

    assert went_back.actor.error is None
    assert went_back.actor.result.status == "rolled_back"
    assert {5, 6, 7} <= set(world.table(MAIN).to_arrow()["k"].to_pylist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", ACTS)
def test_a_snapshot_that_comes_late_is_noticed_and_the_next_run_removes_it(act: str, kind: str) -> None:
    origin = made(kind)
    files, snapshot = prepared(origin)
    expected = {"rollback": [1, 2, 3], "rollback to a tag": [1], "purge": []}[act]
    call, noticed, is_done = 0, 0, False
    while not is_done:
        world = origin.copy()
        world.numbers = itertools.count(1_000)
        world.inner.load({**world.inner.dump(), **{path: file for path, file in files.items() if path != snapshot}})
        table = world.table(MAIN)
        one = Call(act, MAIN, partial(ACTS[act], table), exclusive=True)
        assert one.actor is None
        one.actor = world.stage.actor(one.work).go(call)
        is_done = one.actor.is_done
        if not is_done:
            land(world, snapshot, files[snapshot][0])
            one.actor.go(None)
        if isinstance(one.actor.error, ConflictError):
            noticed += 1
            ACTS[act](world.table(MAIN))
        elif one.actor.error is not None:
            raise one.actor.error
        elif not any(made.startswith("list ") and made.endswith("/snapshot") for made in one.actor.made[call:]):
            break  # after the last look
        table = world.table(MAIN)
        assert table.verify("rows").problems == (), call
        assert sorted(table.to_arrow()["k"].to_pylist()) == expected, call
        call += 3
    assert noticed
