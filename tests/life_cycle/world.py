"""One table in memory, actors that do things to it, and what must be true after each step.

1. Every snapshot, tag, branch and long-lived changelog has all the files that it needs (`reach`), at any moment, also
   while actors are stopped in the middle of what they do.
2. A new snapshot holds the rows that the change which made it should give (`kinds`); where two changes met, those
   rows that none of them touched.
3. Files that no version needs are deleted, as long as no actor was killed or interrupted by another one.
4. At the end, after clean-up: exactly what is needed is there, the table verifies, and each version reads as it did
   when it was made.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from paimon_engine import Table
from paimon_engine.errors import (
    ConflictError,
    CorruptTableError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    UnsupportedError,
)
from paimon_engine.table.reach.completeness import find_missing_versions
from paimon_engine.table.reach.reachability import observe_branches
from paimon_engine.units import DAY_MS
from tests.life_cycle.stage import Actor, Stage, StagedStorage
from tests.support.world import MAIN, Place
from tests.support.world.kinds import Kind
from tests.support.world.model import Change, Commit, Row, Rows
from tests.support.world.reach import Reach, Version
from tests.support.world.verbs import Verb

ROOT = "memory://life/db.db/t"
START_MS = 1_704_500_000_000
"""6 January 2024."""
HISTORY = Counter[str]()
"""How often each action ended how, over all histories of this process."""


def line_name(table: Table) -> str:
    """The branch on which it was opened."""
    return table._handle.paths.branch


@dataclass
class Call:
    """An action that was begun: `work` is all of it."""

    name: str
    branch: str
    work: Callable[[], Any]
    writes: bool = False
    exclusive: bool = False
    may: tuple[type[Exception], ...] = ()
    begun_ms: int = 0
    is_raced: bool = False
    actor: Actor | None = None


@dataclass
class Prepared:
    """Rows that are written and not committed; `change` is what their commit does, seen from when they were written."""

    branch: str
    messages: Sequence[Any]
    change: Change


class World(Place):
    """The table, its clock, and what is known of its commits: `states` by the model, `seen` as they were read."""

    def __init__(self, kind: Kind, now_ms: int = START_MS, *, has_directories: bool = True) -> None:
        super().__init__(now_ms=now_ms, root=ROOT)
        self.kind, self.has_directories = kind, has_directories
        self.states: dict[Commit, Rows | None] = {}
        self.seen: dict[Commit, pa.Table] = {}
        self.changes: dict[str, Change] = {}
        # Which rows two writers may have given the same sequence number: which of them is newer is nowhere said.
        self.tied: list[Callable[[Row], bool]] = []
        self.paused: list[Call] = []
        self.prepared: list[Prepared] = []
        self.is_littered = self.has_failed = False
        self.learning: dict[str, Any] = {}
        """The snapshot whose rows are being worked out."""
        self.steps = 0
        self.stage = Stage()
        self.through(StagedStorage(self.inner, self.stage, has_directories=has_directories))
        self.reach = Reach(self.inner, ROOT)
        self._latest: dict[str, Commit] = {}
        self._late: set[str] = set()
        self._handles: dict[tuple[str, int], Table] = {}
        kind.make(self)

    def copy(self) -> World:
        """A copy of the world, to continue from here in another way; no actor may be at work."""
        other = World(self.kind, self.now_ms, has_directories=self.has_directories)
        other.states, other.seen = dict(self.states), dict(self.seen)
        other.changes, other.tied = dict(self.changes), list(self.tied)
        other.inner.load(self.inner.dump())
        other.numbers = itertools.count(next(self.numbers))
        other._latest = dict(self._latest)
        other.reach.take_over(self.reach)
        return other

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def branches(self) -> list[str]:
        """Main and the branches that are complete."""
        found = {
            path.split("/")[1][len("branch-") :]
            for path in self.reach.stored()
            if path.startswith("branch/") and "/schema/" in path
        }
        return [MAIN, *sorted(found)]

    def versions(self, branch: str, kind: str) -> list[Version]:
        """Snapshots or tags of a branch, in order."""
        stored = None if branch == MAIN else branch
        return [one for one in self.reach.versions() if one.branch == stored and one.kind == kind]

    def opened(self, branch: str, who: int) -> Table:
        """The branch as that actor knows it: 0 opens it again, the others continue with what they opened earlier."""
        known = self._handles.get((branch, who))
        if who == 0 or known is None:
            known = self._handles[branch, who] = self.table(branch)
        return known

    def forget(self, branch: str) -> None:
        """No actor continues with what it opened of that branch."""
        self._handles = {key: table for key, table in self._handles.items() if key[0] != branch}

    def read(self, version: Version) -> pa.Table:
        table = self.table(version.branch or MAIN)
        if version.kind == "tag":
            return table.to_arrow(tag=version.name)
        return table.to_arrow(snapshot=int(version.name))

    def latest(self, branch: str) -> Commit | None:
        """The newest commit of a branch."""
        found = self.versions(branch, "snapshot")
        return found[-1].commit if found else None

    def user(self, branch: str, change: Change) -> str:
        """A new name, under which somebody is about to change the rows of a branch."""
        user = f"user-{self.new_id()}"
        change.base = self.latest(branch)
        self.changes[user] = change
        return user

    def do(self, verb: Verb, table: Table) -> Any:
        """Does it to the table, and to the model once the commit is seen; the result."""
        assert verb.change is not None
        return verb.on(table, self.user(line_name(table), verb.change))

    # ── acting ──────────────────────────────────────────────────────────────────────────────────

    def may_begin(self, call: Call) -> bool:
        """Some actions require that nothing is written meanwhile."""
        others = self.paused
        if call.exclusive:
            return not any(other.writes or other.exclusive for other in others)
        return not (call.writes and any(other.exclusive for other in others))

    def begin(self, call: Call, stop: int | None) -> None:
        """Does it, or its part up to that call of the store."""
        call.begun_ms = self.now_ms
        call.is_raced = bool(self.paused)
        call.actor = self.stage.actor(call.work)
        self._go(call, stop)

    def resume(self, number: int, stop: int | None) -> None:
        """Lets one that was stopped continue."""
        if self.paused:
            call = self.paused.pop(number % len(self.paused))
            call.is_raced = True
            self._go(call, stop)

    def kill(self, number: int) -> Call | None:
        """Ends one that was stopped as `kill -9` would; what must be finished then is begun again."""
        if not self.paused:
            return None
        call = self.paused.pop(number % len(self.paused))
        assert call.actor is not None
        call.actor.dismiss()
        self.is_littered = True
        HISTORY[f"{call.name}: killed"] += 1
        if call.exclusive:
            self.begin(call, None)
        self.observe()
        return call

    def _go(self, call: Call, stop: int | None) -> None:
        self.has_failed = True
        self._let_go(call, stop)
        self.has_failed = False

    def _let_go(self, call: Call, stop: int | None) -> None:
        assert call.actor is not None
        self.steps += 1
        # Files that a branch may share with snapshots of main that are not visible are left.
        self.is_littered |= not self.versions(MAIN, "snapshot") and len(self.branches()) > 1
        was_exact = not self.is_littered and not self.paused and not call.is_raced
        call.actor.go(stop)
        if not call.actor.is_done:
            for other in self.paused:
                other.is_raced = True
            self.paused.append(call)
            self.is_littered = True
            self.observe()
            return
        self._judge(call)
        for other in self.paused:
            other.is_raced = True
        self.observe()
        if was_exact and not self.is_littered:
            self.assert_exact(call.name)

    def _judge(self, call: Call) -> None:
        assert call.actor is not None
        error = call.actor.error
        if error is None:
            status = getattr(call.actor.result, "status", "done" if call.actor.result is not None else "nothing")
            HISTORY[f"{call.name}: {status}"] += 1
            if status == "committed" and call.branch in self.branches():
                beside = [int(version.name) for version in self.late(call.branch)]
                assert call.actor.result.snapshot_id not in beside, f"{call.name} says that it committed, and did not"
            return
        raced = " raced" if call.is_raced else ""
        HISTORY[f"{call.name}: {type(error).__name__}{raced}: {str(error)[:60]}"] += 1
        fine: tuple[type[Exception], ...] = (InvalidArgumentError, ConflictError, *call.may)
        is_gone = isinstance(error, NotFoundError) and (call.is_raced or "is missing" not in str(error))
        # It may be done, and its record deleted by others: this is unknown, and it says so.
        is_unknown = isinstance(error, OutcomeUnknownError) and call.is_raced
        is_refused = isinstance(error, UnsupportedError) and any(f"'{key}'" in str(error) for key in self.kind.options)
        # A branch that is being made looks like one that is being copied.
        is_early = call.is_raced and isinstance(error, CorruptTableError) and "has no schema" in str(error)
        if not (is_gone or is_unknown or is_refused or is_early or isinstance(error, fine)):
            raise error

    @property
    def oldest_work_ms(self) -> int:
        """Since when the oldest running job works: what clean-up must keep."""
        return min([self.now_ms, *(call.begun_ms for call in self.paused)])

    # ── checking ────────────────────────────────────────────────────────────────────────────────

    def observe(self) -> None:
        """Every version has its files, and new commits hold the rows that they should."""
        stored = self.reach.stored()
        branches = self.branches()
        self._late = {late.path for branch in branches for late in self.late(branch)}
        for version in self.reach.versions():
            if version.path in self._late:
                continue
            missing = self.reach.needed(version) - stored
            assert not missing, f"{version.kind} {version.name} of {version.branch or MAIN} lacks {sorted(missing)}"
        for branch in branches:
            self._observe_branch(branch)
        for version in self.reach.versions():
            if version.kind == "tag" and version.commit not in self.seen:
                # It was made and deleted within one step, e.g. by a purge, and is restored as a tag.
                self.seen[version.commit], self.states[version.commit] = self.read(version), None
        self._latest = {branch: commit for branch, commit in self._latest.items() if branch in branches}

    def late(self, branch: str) -> list[Version]:
        """Snapshots that came when their number had expired: a committer that is stopped just then, or was killed."""
        snapshots = self.versions(branch, "snapshot")
        found: list[Version] = []
        for one, following in pairwise(snapshots):
            if self.reach.is_late(one, following):
                found = snapshots[: snapshots.index(one) + 1]
        assert not found or self.is_littered, (
            f"{branch} has snapshots outside of its branch: {[one.name for one in found]}"
        )
        return found

    def _observe_branch(self, branch: str) -> None:
        snapshots = [one for one in self.versions(branch, "snapshot") if one.path not in self._late]
        if not any(call.exclusive for call in self.paused):
            ids = [int(version.name) for version in snapshots]
            assert ids == list(range(ids[0], ids[0] + len(ids))) if ids else True, f"{branch} has a gap: {ids}"
        previous: Commit | None = None
        for version in snapshots:
            if version.commit not in self.seen:
                known = previous or self._latest.get(branch)
                self._learn(version, known)
            previous = version.commit
        if previous is not None:
            self._latest[branch] = previous
        elif branch in self._latest:
            del self._latest[branch]

    def _learn(self, version: Version, previous: Commit | None) -> None:
        before = Rows(self.kind) if previous is None else self.states[previous]
        if previous is not None and previous[0] != int(version.name) - 1:
            before = None  # what was in between was made and deleted within one step
        change = self.changes.get(version.json["commitUser"])
        found = self.seen[version.commit] = self.read(version)
        self.learning = version.json
        after = before if change is None else None if before is None else change.apply(before)
        what = f"snapshot {version.name} of {version.branch or MAIN} by {version.json['commitUser']}"
        is_raced = change is not None and change.base != previous
        if change is not None and is_raced and change.keeps_order:
            self.tied.append(change.touches)
        visible = Rows(self.kind, found.to_pylist())
        if self.kind.hides and not (change is not None and change.shows_all and not is_raced):
            self.states[version.commit] = None if is_raced and change is not None and change.keeps_order else after
            return
        names = found.column_names
        # Of rows with one sequence number another may win as soon as anything is written, as in Java.
        is_open = change is not None and change.keeps_order
        unsure = self.tied if is_open else []
        if after is not None and not (is_raced and is_open):
            expected, got = (_without(rows, unsure).counted(names) for rows in (after, visible))
            assert got == expected, f"{what}: lacks {expected - got}, and has {got - expected}"
        elif change is not None and before is not None:
            expected, got = (_without(rows, [*unsure, change.touches]).counted(names) for rows in (before, visible))
            assert got == expected, f"{what}: lacks {expected - got}, and has {got - expected} that no actor touched"
        self.states[version.commit] = visible if after is None or is_raced or unsure else after

    def assert_exact(self, what: str) -> None:
        """Nothing is there that no version needs."""
        left = self.reach.collected() - self.reach.all_needed()
        if left:
            left -= self.reach.named_by_changelogs() if what == "clean-up" else self.reach.removed_by_changelogs()
        assert not left, f"{what} has left {sorted(left)}"

    def _remove_orphans(self) -> None:
        # Of what was killed at work only its owner knows that all versions are visible.
        table = self.table(MAIN)
        result = table.remove_orphan_files(self.now_ms, confirm_latest_snapshot=table.latest_snapshot_id() or 0)
        assert result.stopped == ()
        self.observe()

    def _assert_hints(self) -> None:
        """Java reads no snapshot that is older than the hint says."""
        for branch in self.branches():
            paths = self.table(branch)._handle.paths
            snapshots = self.versions(branch, "snapshot")
            if snapshots and self.inner.exists(paths.earliest_hint):
                earliest = int(self.inner.read(paths.earliest_hint))
                assert earliest <= int(snapshots[0].name), f"EARLIEST of {branch} is {earliest}: {snapshots[0].path}"

    def finish(self, *, reads_all: bool = True) -> None:
        """All actors end, clean-up runs, and the table is as the model says.

        Without `reads_all` it is believed that files that are there, and never change, read as they did before.
        """
        while self.paused:
            self.resume(0, None)
        self.now_ms += 2 * DAY_MS
        for branch in self.branches():
            if late := self.late(branch):
                # What a killed committer has left; it expires as anything does.
                table = self.table(branch)
                table.clear_consumers()
                table.expire_snapshots(retain_max=len(self.versions(branch, "snapshot")) - len(late))
                assert self.late(branch) == []
        observed = observe_branches(self.table(MAIN)._handle)
        doubts = [doubt.reason for one in observed for doubt in find_missing_versions(one)]
        assert not doubts, f"clean-ups believe that versions are missing: {doubts}"
        self._remove_orphans()
        if self.reach.collected() - self.reach.all_needed():
            # A file of which a quarantine has a copy, too, stays until that is emptied.
            for path in self.reach.stored():
                if path.startswith("quarantine/") and path.endswith("/moved.json"):
                    self.table(MAIN).empty_quarantine(path.split("/")[1])
            self._remove_orphans()
        self._assert_hints()
        self.assert_exact("clean-up")
        problems = self.table(MAIN).verify("rows" if reads_all else "files").problems
        assert problems == (), problems
        for version in self.reach.versions():
            if reads_all and version.kind != "changelog":
                found, made = self.read(version), self.seen[version.commit]
                names = made.column_names
                assert Rows(self.kind, found.to_pylist()).counted(names) == Rows(self.kind, made.to_pylist()).counted(
                    names
                )

    def is_certain(self, row: dict[str, Any]) -> bool:
        """Whether every reader must see the row so."""
        return not any(touches(row) for touches in self.tied)

    def dismiss(self) -> None:
        """Ends all actors."""
        for call in self.paused:
            assert call.actor is not None
            call.actor.dismiss()
        self.paused = []


def _without(rows: Rows, those: Sequence[Callable[[Row], bool]]) -> Rows:
    return rows.without(lambda row: any(is_one(row) for is_one in those))
