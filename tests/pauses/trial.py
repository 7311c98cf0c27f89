"""A trial: an action is paused at one call of the store, a clean-up removes what nothing names, and it continues.

1. The action succeeds, or raises a PaimonError that is no mere "not found" of its own files after it was acknowledged.
2. The table is valid, nothing that a snapshot, tag or branch needs is deleted, and its rows are those before or after.
3. After an error the action repeated under the same name gives the rows of a run that was not paused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.errors import PaimonError
from paimon_engine.table.removal.orphans import NameScan, list_files, older_files
from tests.support.lying_storage import LyingStorage
from tests.support.world import HOUR_MS, World
from tests.support.world.check import assert_sound, look
from tests.support.world.rehearsal import Rehearsal
from tests.support.world.scenarios import SCENARIOS

WRITING = tuple(
    scenario.name
    for scenario in SCENARIOS
    if scenario.takes_back
    or scenario.name
    in (
        "write, tidy and compact",
        "create a tag",
        "restore quarantines",
        "drop partitions",
        "alter the schema",
        "create a branch of a snapshot",
        "roll back as the latest",
    )
)
"""Scenarios whose action writes files to a table while a clean-up of orphan files may run."""


_OF_AN_OLD_SNAPSHOT = ("create a tag", "create a branch of a snapshot", "roll back as the latest")


def cleaned(world: World, *, quarantine: bool = False, older_than: int | None = None) -> None:
    """The engine's clean-up, of everything that is there."""
    world.now_ms += 1
    # Files of jobs at work are newer than the newest commit: it is confirmed that all versions are visible.
    newest = world.table().latest_snapshot_id() or 0
    older_than = world.now_ms if older_than is None else older_than
    spec = RemoveOrphanFiles(older_than, confirm_latest_snapshot=newest, quarantine=quarantine)
    result = world.run(spec, "clean-up")
    assert result.status in ("deleted", "quarantined", "noop"), result


def cleaned_by_old_times(world: World) -> None:
    """A clean-up of files older than an hour; all files look older, as by a clock that is ahead of the store's."""
    cleaned(world.beside(LyingStorage(world.inner, time_offset_ms=-24 * HOUR_MS)), older_than=world.now_ms - HOUR_MS)


def cleaned_and_expired(world: World) -> None:
    """The fence is deleted again when the action continues, since others have committed and snapshots have expired."""
    cleaned(world)
    world.run(ExpireSnapshots(retain_max=1, retain_min=1, older_than=world.now_ms), "expiry")


def cleaned_by_another_engine(world: World) -> None:
    """A clean-up that only checks the age and commits no snapshot, like Java's; a day has passed."""
    world.now_ms += 25 * HOUR_MS
    table, executor = world.handle, world.executor
    found = older_files(list_files(table)[0], world.now_ms - HOUR_MS)
    seen = NameScan()
    seen.update(table, executor)
    seen.update(table, executor)
    assert not seen.doubts
    world.inner.delete([info.path for info in found if info.path.rpartition("/")[2] not in seen.names])


CLEAN_UPS: dict[str, Callable[..., None]] = {
    "deleted": cleaned,
    "quarantined": partial(cleaned, quarantine=True),
    "old times": cleaned_by_old_times,
    "deleted, then expired": cleaned_and_expired,
    "another engine": cleaned_by_another_engine,
}


@dataclass(frozen=True, slots=True)
class Pause:
    """Paused before call `number`, while the clean-up of that name runs."""

    number: int
    clean_up: str


def pauses(stage: Rehearsal) -> Iterator[Pause]:
    """Every call, with every clean-up.

    No restore recovers what another engine has deleted; and not beyond a snapshot that has expired meanwhile. What
    names a snapshot cannot be repeated once that has expired.
    """
    without: tuple[str, ...] = ()
    if stage.scenario.name == "restore quarantines":
        without = ("another engine", "deleted, then expired")
    elif stage.scenario.name in _OF_AN_OLD_SNAPSHOT:
        without = ("deleted, then expired",)
    for number in range(len(stage.calls)):
        for name in (name for name in CLEAN_UPS if name not in without):
            yield Pause(number, name)


def run_pause(stage: Rehearsal, pause: Pause) -> str:
    """`succeeded`, or the kind of error that the action raised. Raises AssertionError for what is not allowed."""
    stage.reset()
    outcome, result = stage.attempt(fail_at=pause.number, act=lambda _verb, _path: _once(stage, pause))
    results = result if isinstance(result, list) else [result]
    if outcome == "stopped" and all(one.status != "stopped" for one in results):
        outcome = "succeeded"
    # Postponed rows whose buckets are refused wait for the next run, and the result counts them.
    if any(getattr(one, "conflicts", 0) for one in results) and look(stage.world).rows != stage.after.rows:
        outcome = "partial"
    _check(stage, outcome)
    if outcome != "succeeded":
        with contextlib.suppress(PaimonError):
            stage.act()
        stage.act()
        _check(stage, "succeeded")
    return outcome


def _once(stage: Rehearsal, pause: Pause) -> None:
    stage.faulty.act = None
    stage.faulty.fail_at = None
    CLEAN_UPS[pause.clean_up](stage.world.beside())


def _check(stage: Rehearsal, outcome: str) -> None:
    assert_sound(stage.world.handle)
    if outcome != "succeeded":
        stage.assert_known_rows()
        return
    now = look(stage.world)
    assert now.rows["main"] == stage.after.rows["main"], f"{now.rows} instead of {stage.after.rows}"
    assert set(now.commits.values()) <= {1}, now.commits
