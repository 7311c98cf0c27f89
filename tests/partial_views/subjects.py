"""Whole tables, of which the views show a part: small, and with everything that can keep a file alive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

from paimon_engine.actions.delete_rows import DeleteRows
from paimon_engine.storage import MemoryStorage
from tests.support.killed_storage import Killed, KilledStorage
from tests.support.world import HOUR_MS, ROOT, World
from tests.support.world.reach import Reach
from tests.support.world.scenarios import appended, keyed

Files = Mapping[str, tuple[bytes, int]]
"""Content and modification time by path, counted from the table's directory."""


@dataclass(frozen=True)
class Whole:
    """A table at rest: its files, the ids of its generator so far, and its time."""

    files: Files
    now_ms: int


def _versions(world: World) -> None:
    """Seven snapshots with compactions, two tags and a branch of the older one, of which the oldest two have expired."""
    table = world.table()
    table.create_tag("old", snapshot=2)
    table.compact(full=True)
    world.write({1: 6, 9: 6})
    table.create_branch("b", tag="middle")
    world.write({1: 100, 50: 100}, branch="b")
    world.write({2: 101, 51: 101}, branch="b")
    world.table("b").compact(full=True)
    table.expire_snapshots(retain_max=6, retain_min=1, older_than=world.now_ms)
    table.compact(full=True)
    world.write({1: 7})
    newest = table.latest_snapshot_id()
    assert newest is not None
    table.reset_consumer("reader", newest - 1)


def _keyed(world: World) -> None:
    keyed(world)
    _versions(world)


def _never_expired(world: World) -> None:
    """Six snapshots since the first one, and none has expired."""
    world.create(keys=("k",), by=(), bucket=1)
    for number in range(3):
        world.write({1: number, number + 2: number})
    world.table().compact(full=True)
    world.write({1: 7})
    world.table().compact(full=True)


def _branched(world: World) -> None:
    """With a branch of a snapshot that no tag keeps; main and the branch have since rewritten all its files."""
    world.create(keys=("k",), by=(), bucket=1)
    for number in range(3):
        world.write({1: number, number + 2: number})
    table = world.table()
    table.create_branch("b", snapshot=2)
    table.compact(full=True)
    world.write({1: 7})
    world.write({1: 100, 50: 100}, branch="b")
    # From now on a hint names the branch's earliest snapshot.
    world.table("b").expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms)
    world.table("b").compact(full=True)


def _changelogs(world: World) -> None:
    keyed(world, changelog_producer="input", changelog__num_retained__min=20, snapshot__num_retained__min=1)
    _versions(world)


def _vectors(world: World) -> None:
    appended(world, deletion_vectors__enabled="true")
    world.run(DeleteRows("k < 3"))
    _versions(world)


def _hash_indexes(world: World) -> None:
    keyed(world, bucket=-1, dynamic_bucket__target_row_num=2)
    _versions(world)


def _set_aside(world: World) -> None:
    """With two quarantines: of an expiry that is whole, and of a deletion of a tag that died while it moved files."""
    _keyed(world)
    table = world.table()
    newest = table.latest_snapshot_id()
    assert newest is not None
    world.write({1: 8})
    table.create_tag("gone", snapshot=newest)
    table.reset_consumer("reader", newest + 1)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms, quarantine=True)
    # It removes the tag, and moves some of the files that only it needs.
    _killed(world, lambda: world.table().delete_tag("gone", quarantine=True, parallelism=1), after="tag/tag-gone")


def _cut_short(world: World) -> None:
    """With the record of a rollback that died once its versions were hidden, before their files were deleted."""
    _keyed(world)
    newest = world.table().latest_snapshot_id()
    assert newest is not None
    _killed(
        world,
        lambda: world.table().rollback(snapshot=newest - 2, parallelism=1),
        after=f"snapshot/snapshot-{newest - 1}",
    )


def _killed(world: World, act: Callable[[], object], *, after: str) -> None:
    """Lets an action die two changes after the one that removes that file."""
    store = KilledStorage(world.inner)
    world.through(store)
    for changes in range(100):
        before = world.inner.dump()
        store.arm(changes)
        try:
            act()
        except Killed:
            if not world.inner.exists(f"{ROOT}/{after}"):
                break
        world.inner.load(before)
    store.arm(changes + 2)
    with suppress(Killed):
        act()
    world.through(world.inner)


SUBJECTS: Final[Mapping[str, Callable[[World], None]]] = {
    "keyed": _keyed,
    "never expired": _never_expired,
    "branched": _branched,
    "changelogs": _changelogs,
    "vectors": _vectors,
    "hash indexes": _hash_indexes,
    "set aside": _set_aside,
    "interrupted": _cut_short,
}


@cache
def whole(name: str) -> Whole:
    """The whole table of that name."""
    world = World()
    SUBJECTS[name](world)
    world.now_ms += HOUR_MS
    return Whole(files_of(world.inner), world.now_ms)


def files_of(storage: MemoryStorage) -> dict[str, tuple[bytes, int]]:
    """All files below the table's directory."""
    found = {info.path: info.modified_ms for info in storage.walk(ROOT)}
    return {path.removeprefix(f"{ROOT}/"): (storage.read(path), time) for path, time in found.items()}


def world_of(files: Files, now_ms: int) -> World:
    """A world in which the table has these files, with their times, and whose clock continues from there."""
    world = World(now_ms=now_ms, first_id=1 << 20)  # ids that the whole table does not have
    world.inner.load({f"{ROOT}/{path}": file for path, file in files.items()})
    return world


def reached(files: Files, versions: list[str]) -> set[str]:
    """Paths of the files that these snapshots, tags and changelogs of the table need."""
    reach = Reach(world_of(files, 0).inner, ROOT)
    return {path for version in reach.versions() if version.path in versions for path in reach.needed(version)}
