"""One trial: an action is paused at one call of the store, while a clean-up removes what nothing names; then it continues.

1. The action succeeds, or raises a PaimonError that is no mere "not found" of its own files after it was acknowledged.
2. The table is valid, nothing that a snapshot, tag or branch needs is deleted, and its rows are those before or after.
3. After an error the action repeated under the same name gives the rows of a run that was not paused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from paimon_engine.action import Context
from paimon_engine.actions.expire_snapshots import ExpireSnapshots, expire_snapshots
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles, remove_orphan_files
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import PaimonError
from paimon_engine.executor import LocalExecutor
from paimon_engine.storage import FileInfo
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.removal.orphans import NameScan, list_files, older_files
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.snapshots import latest_snapshot_id
from tests.faults.trial import Stage, look
from tests.support.naive_reach import unreached
from tests.support.scenarios import HOUR_MS, ROOT, SCENARIOS, World

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


class TimesAgo:
    """A store that shows each file as a day older than it is, as copies with kept times or a skewed clock do."""

    def __init__(self, inner: Any, ago_ms: int) -> None:
        self._inner, self._ago_ms = inner, ago_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, prefix: str) -> list[FileInfo]:
        return [self._older(info) for info in self._inner.list(prefix)]

    def _older(self, info: FileInfo) -> FileInfo:
        return FileInfo(info.path, info.size_bytes, max(1, info.modified_ms - self._ago_ms), info.is_dir)


def beside(world: World, storage: Any) -> TableHandle:
    """The table as another process sees it."""
    env = Env(storage, lambda: world.now_ms, world._new_id)
    return load_table(ROOT, EnvConfig(ROOT), env=env)


def cleaned(world: World, *, quarantine: bool = False) -> None:
    """The engine's clean-up, of everything that is there."""
    world.now_ms += 1
    table = beside(world, world.inner)
    # Files of jobs at work are newer than the newest commit: it is confirmed that all versions are visible.
    newest = latest_snapshot_id(table) or 0
    spec = RemoveOrphanFiles(world.now_ms, confirm_latest_snapshot=newest, quarantine=quarantine)
    result = remove_orphan_files(Context(table, LocalExecutor(1, env=table.env)), spec)
    assert result.status in ("deleted", "quarantined", "noop"), result


def quarantined(world: World) -> None:
    cleaned(world, quarantine=True)


def cleaned_by_old_times(world: World) -> None:
    """A clean-up of files older than an hour, in a store that shows all of them as older."""
    table = beside(world, TimesAgo(world.inner, 24 * HOUR_MS))
    newest = latest_snapshot_id(table) or 0
    spec = RemoveOrphanFiles(world.now_ms - HOUR_MS, confirm_latest_snapshot=newest)
    result = remove_orphan_files(Context(table, LocalExecutor(1, env=table.env)), spec)
    assert result.status in ("deleted", "noop"), result


def cleaned_and_expired(world: World) -> None:
    """The fence is deleted again when the action continues, since others have committed and snapshots have expired."""
    cleaned(world)
    table = beside(world, world.inner)
    expire_snapshots(
        Context(table, LocalExecutor(1, env=table.env)),
        ExpireSnapshots(retain_max=1, retain_min=1, older_than=world.now_ms),
    )


def cleaned_by_another_engine(world: World) -> None:
    """A clean-up that only checks the age and commits no snapshot, like Java's; a day has passed."""
    world.now_ms += 25 * HOUR_MS
    table = beside(world, world.inner)
    found = older_files(list_files(table)[0], world.now_ms - HOUR_MS)
    seen = NameScan()
    seen.update(table, LocalExecutor(1, env=table.env))
    seen.update(table, LocalExecutor(1, env=table.env))
    assert not seen.doubts
    world.inner.delete([info.path for info in found if info.path.rpartition("/")[2] not in seen.names])


CLEAN_UPS: dict[str, Callable[[World], None]] = {
    "deleted": cleaned,
    "quarantined": quarantined,
    "old times": cleaned_by_old_times,
    "deleted, then expired": cleaned_and_expired,
    "another engine": cleaned_by_another_engine,
}


@dataclass(frozen=True, slots=True)
class Pause:
    """Paused before call `number`, while the clean-up of that name runs."""

    number: int
    clean_up: str


def pauses(stage: Stage) -> Iterator[Pause]:
    """Every call, with every clean-up.

    What another engine has deleted no restore brings back; and not beyond a snapshot that has expired meanwhile. What
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


def run_pause(stage: Stage, pause: Pause) -> str:
    """`succeeded`, or the kind of error that the action raised. Raises AssertionError for what must not be."""
    stage.reset()
    world = stage.world
    outcome = "succeeded"
    stage.faulty.arm(pause.number, act=lambda _verb, _path: _once(stage, pause))
    world.through(stage.faulty)
    result: Any = None
    try:
        result = stage.scenario.act(world)
    except PaimonError as error:
        outcome = type(error).__name__
    finally:
        stage.faulty.fail_at = None
        world.through(world.inner)
    results = result if isinstance(result, list) else [result]
    if any(getattr(one, "failed", ()) or getattr(one, "status", "") == "stopped" for one in results):
        outcome = "partial"
    # Postponed rows whose buckets are refused wait for the next run, and the result counts them.
    if any(getattr(one, "conflicts", 0) for one in results) and look(world).rows != stage.after.rows:
        outcome = "partial"
    _check(stage, outcome)
    if outcome != "succeeded":
        with contextlib.suppress(PaimonError):
            stage.act()
        stage.act()
        _check(stage, "succeeded")
    return outcome


def _once(stage: Stage, pause: Pause) -> None:
    stage.faulty.act = None
    stage.faulty.fail_at = None
    CLEAN_UPS[pause.clean_up](stage.world)


def _check(stage: Stage, outcome: str) -> None:
    world = stage.world
    problems = check_table(world.handle())
    assert problems == [], problems
    unreached(world.inner, world.root)
    now = look(world)
    if outcome == "succeeded":
        assert now.rows["main"] == stage.after.rows["main"], f"{now.rows} instead of {stage.after.rows}"
        assert set(now.users.values()) <= {1}, now.users
        return
    for p in ("a", "b"):
        found = [row for row in now.rows["main"] if row[0] == p]
        known = [[row for row in one.rows["main"] if row[0] == p] for one in (stage.before, stage.after)]
        assert found in known, f"never were there: {found}"
