"""Two deletions at the same time leave no file that nothing needs: what each kept for the other is deleted.

One is paused before a call of the store while the other runs from begin to end. `_PAUSES` are spread over all calls.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from paimon_engine.errors import ConflictError, PaimonError
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.snapshots import snapshot_ids
from tests.support.world import HOUR_MS, ROOT, World
from tests.support.world.reach import unreached
from tests.support.world.scenarios import compacted

_PAUSES = 7
_ALONE: Mapping[str, Any] = {"parallelism": 1}
DEEDS: Mapping[str, Callable[[World], Any]] = {
    "expire": lambda w: w.table().expire_snapshots(retain_max=1, retain_min=1, older_than=w.now_ms, **_ALONE),
    "expire, aside": lambda w: w.table().expire_snapshots(
        retain_max=1, retain_min=1, older_than=w.now_ms, quarantine=True, **_ALONE
    ),
    "delete a tag": lambda w: w.table().delete_tag("middle", **_ALONE),
    "replace a tag": lambda w: w.table().create_tag("middle", if_exists="replace", **_ALONE),
    "expire tags": lambda w: w.table().expire_tags(older_than=w.now_ms, **_ALONE),
    "delete a branch": lambda w: w.table().delete_branch("b", **_ALONE),
    "purge": lambda w: w.table().purge_files(older_than=w.now_ms, **_ALONE),
    "expire the branch": lambda w: w.table("b").expire_snapshots(
        retain_max=1, retain_min=1, older_than=w.now_ms, **_ALONE
    ),
    "fast-forward": lambda w: w.table().fast_forward("b", **_ALONE),
    "roll back": lambda w: w.table().rollback(snapshot=8, **_ALONE),
    "expire changelogs": lambda w: w.table().expire_changelogs(delete_all=True, **_ALONE),
    "repair": lambda w: w.table().repair_earliest_snapshot(snapshot=4, **_ALONE),
    "create due tags": lambda w: w.table().create_due_tags(**_ALONE),
}

_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "changelogs": {"changelog_producer": "input", "changelog__num_retained__min": 20, "snapshot__num_retained__min": 1},
    "due tags": {
        "tag__automatic_creation": "process-time",
        "tag__creation_period": "hourly",
        "tag__num_retained_max": 1,
    },
}


def _both_ways(one: str, *others: str) -> tuple[tuple[str, str], ...]:
    return tuple(pair for other in others for pair in ((one, other), (other, one)))


PAIRS = (
    *(("expire", other) for other in ("delete a tag", "replace a tag", "expire tags", "delete a branch")),
    *(("expire, aside", other) for other in ("delete a tag", "delete a branch")),
    *((other, "expire") for other in ("delete a tag", "expire tags", "delete a branch")),
    ("delete a branch", "roll back"),
    ("roll back", "delete a branch"),
    *(("purge", other) for other in ("expire", "expire tags", "delete a branch", "roll back", "fast-forward")),
    *((other, "purge") for other in ("expire", "roll back", "fast-forward")),
    *(("fast-forward", other) for other in ("expire", "expire the branch", "delete a tag", "roll back")),
    *((other, "fast-forward") for other in ("expire", "expire the branch", "roll back")),
)
PAIRS_OF_WORLDS = {
    "history": PAIRS,
    "changelogs": _both_ways("expire changelogs", "expire", "delete a tag", "expire tags", "purge", "fast-forward"),
    "gap": _both_ways("repair", "expire", "delete a tag", "expire tags", "delete a branch", "purge"),
    "due tags": _both_ways("create due tags", "expire", "delete a tag", "expire tags", "purge"),
}


class _Held:
    """Hands everything on to `inner`; before the call `at`, from 1, it carries out `meanwhile`."""

    def __init__(self, inner: Any, at: int | None, meanwhile: Callable[[], Any]) -> None:
        self.inner, self.at, self.meanwhile, self.calls = inner, at, meanwhile, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                self.meanwhile()
            return found(*args, **kwargs)

        return call


@cache
def _before(kind: str = "history") -> tuple[dict[str, Any], int]:
    world = World()
    compacted(world, **_OPTIONS.get(kind, {}))
    world.table().create_tag("later", snapshot=7)
    world.table().create_branch("b", snapshot=5)
    world.write({1: 100}, branch="b")
    world.table("b").compact(full=True)
    if kind == "changelogs":
        world.table().expire_snapshots(retain_max=4, retain_min=1, older_than=world.now_ms)
    if kind == "gap":
        world.inner.delete([f"{ROOT}/snapshot/snapshot-3"])
    if kind == "due tags":
        world.table().create_due_tags()
        world.now_ms += 2 * HOUR_MS
        world.write({1: 8})
        world.table().compact(full=True)
        world.write({1: 9})
    return world.inner.dump(), world.now_ms + HOUR_MS


def _tried(deed: Callable[[World], Any], world: World) -> tuple[str, ...]:
    """Why files stay. The second one may find that its input does not exist any more."""
    try:
        return tuple(getattr(deed(world), "stopped", ()))
    except PaimonError:
        return ()


def _run(one: str, other: str, at: int | None, kind: str = "history") -> tuple[int, set[str]]:
    """Number of calls of the first deletion, and files that both have left."""
    files, now_ms = _before(kind)
    first, second = World(now_ms=now_ms), World(now_ms=now_ms)
    first.inner.load(files)
    first.numbers = itertools.count(1 << 20)  # type: ignore[assignment]
    second.numbers = itertools.count(1 << 25)  # type: ignore[assignment]
    second.inner = first.inner
    second.through(first.inner)
    remedy = None
    reasons: list[str] = []
    storage = _Held(first.inner, at, lambda: reasons.extend(_tried(DEEDS[other], second)))
    try:
        DEEDS[one](first.through(storage))
    except PaimonError as error:
        # It may find out that others were there before; it deletes less then, and the next one finishes it.
        if remedy := re.search(r"repair_earliest_snapshot\(snapshot=(\d+)\)", str(error)):
            second.table().repair_earliest_snapshot(snapshot=int(remedy[1]))
            _tried(DEEDS[one], second)
        second.table().delete_tag("nobody")
    if at is None:
        _tried(DEEDS[other], second)
    assert snapshot_ids(second.handle), "at no time the table is without a snapshot"
    second.table().to_arrow()
    assert check_table(second.handle) == []
    if kind == "gap" or any("is missing and may have needed them" in reason for reason in reasons):
        # What the snapshot alone named that somebody has deleted is for orphan removal, once the gap is repaired; and
        # so is what was kept because of a gap between main's last old snapshot and the new ones of a fast-forward.
        second.now_ms += HOUR_MS
        ids = snapshot_ids(second.handle)
        if kind == "gap":
            second.table().repair_earliest_snapshot(snapshot=ids[0], **_ALONE)
        found = second.table().remove_orphan_files(second.now_ms - 1, confirm_latest_snapshot=ids[-1], **_ALONE)
        assert found.status in ("deleted", "noop"), found
        second.table().to_arrow()
    # Copies that were deleted again belong to no known version: orphan removal finds their files.
    return storage.calls, set() if remedy else _unneeded(first)


def _unneeded(world: World) -> set[str]:
    """Files that nothing needs, but for records of deletions, which stay for a day while their roots are there."""
    return {path for path in unreached(world.inner, ROOT) if not path.startswith("deletion/")}


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [(kind, *pair) for kind, pairs in PAIRS_OF_WORLDS.items() for pair in pairs],
    ids=lambda name: name,
)
def test_files_that_both_keep_for_each_other_are_deleted(kind: str, one: str, other: str) -> None:
    calls, left = _run(one, other, None, kind)
    assert left == set()
    for at in range(1, calls, max(1, calls // _PAUSES)):
        assert _run(one, other, at, kind)[1] == set(), f"paused before call {at} of {calls}"


def test_files_that_a_failed_action_left_are_deleted_by_the_next_deletion() -> None:
    files, now_ms = _before()
    finished = 0
    for at in range(500, 580, 10):
        world, other = World(now_ms=now_ms), World(now_ms=now_ms)
        world.inner.load(files)
        world.numbers, other.numbers = itertools.count(1 << 20), itertools.count(1 << 25)  # type: ignore[assignment]
        other.inner = world.inner
        other.through(world.inner)
        roll_back = _Held(world.inner, at, lambda world=other: _tried(DEEDS["roll back"], world))
        with suppress(ConflictError):
            DEEDS["purge"](world.through(roll_back))
            continue
        left = _unneeded(world)
        assert other.table().delete_tag("nobody").stopped == ()
        assert _unneeded(world) == set()
        finished += bool(left)
    assert finished


@pytest.mark.parametrize("at", range(3, 80, 12))
def test_files_of_a_tag_that_was_deleted_during_an_expiry_are_restored_with_it(at: int) -> None:
    files, now_ms = _before()
    world, other = World(now_ms=now_ms), World(now_ms=now_ms)
    world.inner.load(files)
    world.numbers = itertools.count(1 << 20)  # type: ignore[assignment]
    other.numbers = itertools.count(1 << 25)  # type: ignore[assignment]
    other.inner = world.inner
    other.through(world.inner)
    rows = world.table().to_arrow(snapshot=3).sort_by("k")
    DEEDS["expire, aside"](world.through(_Held(world.inner, at, lambda: DEEDS["delete a tag"](other))))

    for item in reversed(other.table().quarantines()):
        other.table().restore(item["quarantine"])

    assert other.table().to_arrow(snapshot=3).sort_by("k") == rows
