"""Two actions on one table: one is stopped before each of its calls of the store in turn, while the other runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from paimon_engine import Table
from paimon_engine.actions.purge_files import PurgeFiles
from paimon_engine.actions.remove_unexisting_files import RemoveUnexistingFiles
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from tests.life_cycle.merging import merge
from tests.life_cycle.world import Call, World
from tests.support.world import HOUR_MS, MAIN, verbs
from tests.support.world.kinds import Kind
from tests.support.world.model import Rows
from tests.support.world.verbs import Put

Act = Callable[[World, Table], Any]


def write(world: World, table: Table, *keys: int, overwrite: Mapping[str, Any] | None = None) -> Any:
    """Rows of these keys, of one or all partitions."""
    number = world.now_ms // HOUR_MS % 100
    rows = [{"dt": f"2024-01-0{1 + key % 2}", "k": key, "v": number, "w": "a"} for key in keys or (1, 2, 3)]
    put = Put([("+I", row) for row in rows], overwrite)
    return world.do(verbs.write(world.kind, put, keeps_order=None if overwrite is None else False), table)


def as_latest(world: World, table: Table) -> Any:
    """The tagged rows once more."""
    target = next(one.commit for one in world.versions(MAIN, "tag") if one.name == "a")
    spec = RollbackToAsLatest(tag="a")
    return world.do(verbs.other_rows("as latest", spec, lambda _: world.states[target]), table)


def purge(world: World, table: Table) -> Any:
    """No rows, and nothing of what was."""
    spec = PurgeFiles(older_than=world.oldest_work_ms)
    return world.do(verbs.other_rows("purge", spec, lambda _: Rows(world.kind), shows_all=True), table)


def go_on(world: World, table: Table) -> Any:
    """Others commit twice, and expire all but the latest snapshot."""
    write(world, table, 5, 6)
    table.compact(full=True)
    return table.expire_snapshots(retain_max=1)


def forget(world: World, table: Table) -> Any:
    """All but the latest snapshot are deleted, and the tag."""
    table.expire_snapshots(retain_max=1)
    return table.delete_tag("b")


FIRST: Mapping[str, Act] = {
    "write": write,
    "overwrite": lambda world, table: write(world, table, 1, overwrite={}),
    "drop_partition": lambda world, table: world.do(verbs.drop_partition("dt", "2024-01-01"), table),
    "compact": lambda world, table: table.compact(full=True),
    "compact_manifests": lambda world, table: table.compact_manifests(),
    "analyze": lambda world, table: table.analyze(),
    "create_tag": lambda world, table: table.create_tag("c"),
    "create_tag of an old one": lambda world, table: table.create_tag("c", snapshot=3),
    "replace_tag": lambda world, table: table.create_tag("b", if_exists="replace"),
    "rename_tag": lambda world, table: table.rename_tag("b", "d"),
    "delete_tag": lambda world, table: table.delete_tag("b"),
    "expire_tags": lambda world, table: table.expire_tags(world.now_ms),
    "create_due_tags": lambda world, table: table.create_due_tags(),
    "create_branch of a tag": lambda world, table: table.create_branch("new", tag="b"),
    "create_branch of a snapshot": lambda world, table: table.create_branch("new", snapshot=3),
    "delete_branch": lambda world, table: table.delete_branch("dev"),
    "expire_snapshots": lambda world, table: table.expire_snapshots(retain_max=1),
    "expire_changelogs": lambda world, table: table.expire_changelogs(delete_all=True),
    "remove_orphan_files": lambda world, table: table.remove_orphan_files(older_than=world.oldest_work_ms),
    "rollback": lambda world, table: table.rollback(snapshot=3),
    "rollback to a tag": lambda world, table: table.rollback(tag="b"),
    "rollback_to_as_latest": as_latest,
    "fast_forward": lambda world, table: table.fast_forward("dev"),
    "merge_branch": lambda world, table: merge(world, table, "dev"),
    "expire_snapshots aside": lambda world, table: table.expire_snapshots(retain_max=1, quarantine=True),
    "purge_files": purge,
    "restore": lambda world, table: table.restore(table.quarantines()[0]["quarantine"]),
    "repair_earliest_snapshot": lambda world, table: table.repair_earliest_snapshot(),
    "remove_unexisting_files": lambda world, table: world.do(verbs.same_rows("repair", RemoveUnexistingFiles()), table),
}
SECOND: Mapping[str, Act] = {
    "go_on": go_on,
    "write": lambda world, table: write(world, table, 4),
    "expire_snapshots": lambda world, table: table.expire_snapshots(retain_max=1),
    "expire_changelogs": lambda world, table: table.expire_changelogs(delete_all=True),
    "forget": forget,
    "create_tag": lambda world, table: table.create_tag("e", snapshot=3),
    "create_branch": lambda world, table: table.create_branch("other", snapshot=3),
    "delete_branch": lambda world, table: table.delete_branch("dev"),
    "remove_orphan_files": lambda world, table: table.remove_orphan_files(older_than=world.oldest_work_ms),
    "rollback": lambda world, table: table.rollback(snapshot=3),
    "compact": lambda world, table: table.compact(full=True),
}
WRITES = {
    "write",
    "overwrite",
    "drop_partition",
    "compact",
    "compact_manifests",
    "analyze",
    "rollback_to_as_latest",
    "go_on",
    "merge_branch",
    "remove_unexisting_files",
}
EXCLUSIVE = {
    "rollback",
    "rollback to a tag",
    "fast_forward",
    "delete_branch",
    "purge_files",
    "restore",
    "repair_earliest_snapshot",
}


def _before_latest(world: World) -> int:
    return int(world.versions(MAIN, "snapshot")[-2].name)


@cache
def prepared(kind: Kind, *, expired: bool = False) -> World:
    """A table with some snapshots, tags on two of them, a branch with newer snapshots, and a rollback to be undone.

    With `expired` all but its latest snapshot are gone, so that only tags and the branch keep earlier ones.
    """
    world = World(kind)
    table = world.table(MAIN)
    steps: list[Act] = [
        write,
        lambda world, table: table.create_tag("a"),
        lambda world, table: table.compact(full=True),
        lambda world, table: table.create_tag("b"),
        lambda world, table: write(world, table, 2, 7),
        lambda world, table: table.create_branch("dev", tag="a"),
        lambda world, table: write(world, world.table("dev"), 8),
        lambda world, table: write(world, table, 1, 9),
        lambda world, table: table.compact(full=True),
        lambda world, table: write(world, table, 3),
        lambda world, table: table.rollback(snapshot=_before_latest(world), quarantine=True),
    ]
    if expired:
        steps.append(lambda world, table: table.expire_snapshots(retain_max=1))
    for step in steps:
        world.now_ms += HOUR_MS
        step(world, table)
        world.observe()
    return world


def sweep(kind: Kind, first: str, second: str, calls: Iterable[int], *, expired: bool = False) -> int:
    """The first action, stopped before these of its calls until it has no more; before how many it was stopped."""
    tried = 0
    if _excludes(first, second) or _excludes(second, first):
        return tried
    origin = prepared(kind, expired=expired)
    for call in calls:
        world = origin.copy()
        try:
            if not _meet(world, first, second, call):
                break
            tried += 1
        except Exception as error:
            error.add_note(f"{kind.name}: {first}, stopped before call {call}, and {second}")
            raise
        finally:
            world.dismiss()
    return tried


def _excludes(one: str, other: str) -> bool:
    return one in EXCLUSIVE and (other in EXCLUSIVE or other in WRITES)


def _meet(world: World, first: str, second: str, call: int) -> bool:
    world.now_ms += HOUR_MS
    world.begin(call_of(world, first, FIRST[first]), call)
    if not world.paused:
        return False
    world.now_ms += HOUR_MS
    world.begin(call_of(world, second, SECOND[second]), None)
    world.resume(0, None)
    world.finish(reads_all=False)
    return True


def call_of(world: World, name: str, act: Act) -> Call:
    table = world.table(MAIN)
    return Call(name, MAIN, lambda: act(world, table), name in WRITES, name in EXCLUSIVE)
