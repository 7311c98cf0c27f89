"""Tables that lost something in a known way, and what the repairs make of them."""

from __future__ import annotations

from typing import Any

from tests.life_cycle.world import ROOT, World
from tests.support.world import MAIN
from tests.support.world.model import Rows


def _lose(world: World, path: str) -> None:
    world.inner.delete([f"{ROOT}/{path}"])


def _pick(paths: Any, number: int) -> str | None:
    found = sorted(paths)
    return found[number % len(found)] if found else None


def lose_data(world: World, number: int) -> None:
    """A data file of the latest snapshot is lost: the repair removes it from the lists, and the rest can be read."""
    latest = world.versions(MAIN, "snapshot")[-1]
    path = _pick(world.reach.live(latest), number)
    if path is None:
        return
    before = Rows(world.kind, world.read(latest).to_pylist())
    _lose(world, path)
    table = world.table(MAIN)
    plan, result = table.remove_unexisting_files(dry_run=True), table.remove_unexisting_files()

    assert plan.removed == result.removed
    assert [lost.path for lost in result.removed] == [f"{ROOT}/{path}"]
    assert result.status == "committed"
    after = table.to_arrow()
    if not world.kind.primary_keys:
        names = after.column_names
        gone = before.counted(names) - Rows(world.kind, after.to_pylist()).counted(names)
        assert gone.total() <= result.rows
        assert after.num_rows == len(before.rows) - gone.total()
    assert table.remove_unexisting_files().status == "noop"


def lose_manifest(world: World, number: int) -> None:
    """A manifest of the latest snapshot is lost: after both repairs the rest can be read."""
    latest = world.versions(MAIN, "snapshot")[-1]
    path = _pick((item for item in world.reach.listed(latest)), number)
    if path is None:
        return
    _lose(world, path)
    table = world.table(MAIN)
    plan, result = table.remove_unexisting_manifests(dry_run=True), table.remove_unexisting_manifests()

    assert plan.removed == result.removed == (f"{ROOT}/{path}",)
    assert result.status == "committed"
    table.remove_unexisting_files()
    table.to_arrow()
    assert table.remove_unexisting_manifests().status == "noop"


def lose_snapshot(world: World, number: int) -> None:
    """A snapshot between others is lost: the table begins after it, and nothing is left that nothing needs."""
    snapshots = world.versions(MAIN, "snapshot")
    if len(snapshots) < 3:
        return
    lost = 1 + number % (len(snapshots) - 2)
    _lose(world, snapshots[lost].path)
    table = world.table(MAIN)
    assert table.repair_earliest_snapshot().status == "stopped"
    result = table.repair_earliest_snapshot(int(snapshots[lost + 1].name))

    assert result.removed_snapshots == tuple(int(version.name) for version in snapshots[:lost])
    assert result.missing_snapshots == (int(snapshots[lost].name),)
    assert world.versions(MAIN, "snapshot") == snapshots[lost + 1 :]
    world.finish()
