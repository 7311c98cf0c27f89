"""A restore beside a deletion: what it restores has all its files, or is not restored."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from paimon_engine import ConflictError, Table
from paimon_engine.units import DAY_MS
from tests.reports.replay import histories
from tests.support.world import ROOT, World
from tests.support.world.check import assert_sound, rows

RESTORED: dict[str, Callable[[World], Any]] = {
    "a tag": lambda world: world.table().delete_tag("first", quarantine=True),
    "a snapshot": lambda world: world.table().expire_snapshots(2, 1, quarantine=True),
    "a changelog": lambda world: world.table().expire_changelogs(delete_all=True, quarantine=True),
}


def prepared(what: str) -> World:
    """The version of the first write is in a quarantine, but for a manifest that snapshot 2 needs, too."""
    world = World()
    keeps_changelogs = {"changelog__num_retained__min": 9} if what == "a changelog" else {}
    world.create(keys=("p", "k"), bucket=1, write_only="true", snapshot__num_retained__min=1, **keeps_changelogs)
    world.write({1: 1})
    world.table().create_tag("first")
    world.write({2: 2})
    world.table().compact_manifests()
    if what != "a snapshot":
        world.table().expire_snapshots(2, 1, world.now_ms)
    if what != "a tag":
        world.table().delete_tag("first")
    world.now_ms += 1
    assert RESTORED[what](world).quarantine is not None
    return world


def restore(table: Table) -> str:
    (name,) = {one["quarantine"] for one in table.quarantines()}
    try:
        return str(table.restore(name, parallelism=1).status)
    except ConflictError as error:
        assert "cannot be restored" in str(error)
        return "conflict"


def expire(table: Table) -> str:
    table.expire_snapshots(1, 1, parallelism=1)
    return str(table.expire_changelogs(delete_all=True, parallelism=1).status)


@pytest.mark.parametrize("what", RESTORED)
@pytest.mark.parametrize("waits", ["the restore waits", "the expiry waits"])
def test_what_is_restored_is_whole(what: str, waits: str) -> None:
    job, others = (restore, expire) if waits == "the restore waits" else (expire, restore)
    outcomes = set()
    for world, outcome in histories(lambda: prepared(what), job, others):
        # A snapshot that is restored while the next one expires is apart from the others.
        assert_sound(world.handle, may_lack_snapshots=what == "a snapshot")
        outcomes.add(outcome)
        for tag in world.table().tags()["tag_name"].to_pylist():
            assert rows(world.table(), tag=tag)
    assert len(outcomes) > 1 or job is expire


def test_what_a_run_that_died_may_still_delete_is_restored_a_day_later() -> None:
    world = prepared("a tag")
    aside = min(info.path for info in world.inner.walk(f"{ROOT}/quarantine") if "/manifest-list-" in info.path)
    shared = "manifest/" + aside.rpartition("/")[2].replace("-list", "")
    assert world.inner.exists(f"{ROOT}/{shared}")
    record = {"data": {}, "metadata": [shared], "roots": [], "quarantine": False}
    world.inner.overwrite(f"{ROOT}/deletion/died.json", json.dumps(record).encode())

    (name,) = (one["quarantine"] for one in world.table().quarantines())
    early = world.table().restore(name)
    assert early.status == "stopped"
    assert "deletion/died.json" in early.stopped[0]
    assert world.table().tags().num_rows == 0
    assert world.inner.exists(aside)

    world.now_ms += DAY_MS
    assert world.table().restore(name).status == "restored"
    assert rows(world.table(), tag="first") == (("a", 1, 1),)
