"""One trial: a scenario's action, in which one call of the store fails in one way; and what must be true afterwards.

1. The action succeeds, or raises a PaimonError.
2. The table is valid, nothing that a snapshot, tag or branch needs is deleted, and its rows are those before or after.
3. After a failure that is certain, actions that promise it leave no file behind.
4. The action repeated under the same name comes to the state of a run without faults: nothing is lost or done twice.
5. After a removal of orphans no file is left that nothing needs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.actions.restore import list_quarantines
from paimon_engine.errors import OutcomeUnknownError, PaimonError
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.reach.clean_up_plan import FENCE_USER
from tests.support.faulty_storage import DOWN, WAYS, FaultyStorage
from tests.support.naive_reach import unreached
from tests.support.scenarios import HOUR_MS, Scenario, World

_FRESH_ID = re.compile(r"[0-9a-f]{8}-0000-4000-8000-000000000000")
_CLEAN_UP = ("delete", "delete_dir", "delete_tree")
"""If these fail, files may be left that should have been deleted."""


@dataclass(frozen=True)
class State:
    """All that a user sees of a table, without names and times that differ from run to run."""

    rows: dict[str, tuple[Any, ...]]
    snapshots: dict[str, tuple[str, ...]]
    users: dict[tuple[str, str, int], int]
    tags: dict[str, dict[str, int]]
    consumers: tuple[Any, ...]
    schema: str
    marks: tuple[str, ...]


def look(world: World) -> State:
    """The state, read without faults."""
    table, branches = world.table(), ["main"]
    branches += sorted(table.branches()["branch_name"].to_pylist())
    rows, snapshots, tags = {}, {}, {}
    users: Counter[tuple[str, str, int]] = Counter()
    for branch in branches:
        line = world.table(branch)
        found = line.snapshots().to_pylist()
        # A clean-up that is repeated blocks commits once more.
        found = [item for item in found if not item["commit_user"].startswith(FENCE_USER)]
        snapshots[branch] = tuple(f"{item['snapshot_id']} {item['commit_kind']}" for item in found)
        if branch == "main":
            users.update((item["commit_user"], item["commit_kind"], item["commit_identifier"]) for item in found)
        rows[branch] = _rows(line)
        names = {item["tag_name"]: item["snapshot_id"] for item in line.tags().to_pylist()}
        tags[branch] = {_FRESH_ID.sub("<id>", name): number for name, number in names.items()}
        rows |= {f"{branch} {_FRESH_ID.sub('<id>', name)}": _rows(line, tag=name) for name in names}
    consumers = tuple(sorted(map(str, table.consumers().to_pylist())))
    marks = tuple(sorted(i.path for i in world.inner.walk(world.root) if i.path.endswith(("_SUCCESS", "UNFINISHED"))))
    schema = json.dumps([table.schema.row_type.names, dict(table.schema.options)])
    by_job = {name: count for name, count in users.items() if name[0] == "job"}
    return State(rows, snapshots, by_job, tags, consumers, schema, marks)


def _rows(table: Any, **kwargs: Any) -> tuple[Any, ...]:
    found = table.to_arrow(columns=["p", "k", "v"], **kwargs).to_pylist()
    return tuple(sorted(tuple(row.values()) for row in found))


@dataclass
class Stage:
    """A scenario made ready: the world before its action, and what the action does without faults."""

    scenario: Scenario
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        self.scenario.prepare(self.world)
        self.world.now_ms += HOUR_MS
        self._files, self._now_ms = self.world.inner.dump(), self.world.now_ms
        self.faulty = FaultyStorage(self.world.inner)
        self.before = look(self.world)
        ids = self.world.table().snapshots()["snapshot_id"].to_pylist()
        self.versions = [_rows(self.world.table(), snapshot=number) for number in ids]
        self.debris_before = unreached(self.world.inner, self.world.root)
        self.act()
        self.calls = tuple(self.faulty.calls)
        self.after = look(self.world)

    def reset(self) -> None:
        self.world.inner.load(self._files)
        self.world.now_ms = self._now_ms

    def act(self, fail_at: int | None = None, way: str = "") -> Any:
        """The action's result, through the faulty store."""
        self.faulty.arm(fail_at, way)
        self.world.through(self.faulty)
        try:
            return self.scenario.act(self.world)
        finally:
            self.faulty.fail_at = None
            self.world.through(self.world.inner)

    def trials(self) -> Iterator[tuple[int, str]]:
        """Every call, with every way in which it can fail."""
        for number, (verb, _path) in enumerate(self.calls):
            for way in (*WAYS[verb], DOWN):
                yield number, way


def run_trial(stage: Stage, fail_at: int, way: str) -> str:
    """`succeeded`, or the kind of error that the action raised. Raises AssertionError for what must not be."""
    stage.reset()
    outcome = "succeeded"
    error: PaimonError | None = None
    try:
        done = stage.act(fail_at, way)
        results = done if isinstance(done, list) else [done]
        if any(getattr(result, "failed", ()) for result in results):
            outcome = "partial"
        elif any(getattr(result, "stopped", ()) for result in results):
            outcome = "stopped"
    except PaimonError as raised:
        outcome, error = type(raised).__name__, raised
    world = stage.world
    if way == "late" and outcome == "succeeded" and look(world) != stage.after:
        # A listing that comes late does not show the last change; what it hides is left to the next run.
        outcome = "saw an older table"
    left = _check(stage, outcome)
    if stage.scenario.takes_back and _is_certain(stage, error, fail_at, way):
        assert left <= stage.debris_before, f"left after {error!r}: {sorted(left - stage.debris_before)}"
    if outcome != "succeeded":
        stage.act()
        left = _check(stage, "succeeded" if outcome != "partial" else "in parts")
    if left:
        world.now_ms += HOUR_MS
        newest = world.table().latest_snapshot_id() or 0
        world.run(RemoveOrphanFiles(world.now_ms, confirm_latest_snapshot=newest), "clean-up")
        left = unreached(world.inner, world.root)
        if list_quarantines(world.handle()):
            # What a quarantine has a copy of stays until that is emptied or restored, and so does a plan that names it.
            left = {path for path in left if not path.startswith("deletion/orphans/")}
        assert left == set(), left
    return outcome


def _is_certain(stage: Stage, error: PaimonError | None, fail_at: int, way: str) -> bool:
    if isinstance(error, OutcomeUnknownError) or way == DOWN or fail_at >= len(stage.faulty.calls):
        return False
    return stage.calls[fail_at][0] not in _CLEAN_UP


def _difference(now: State, then: State) -> str:
    names = [item.name for item in fields(State) if getattr(now, item.name) != getattr(then, item.name)]
    return "; ".join(f"{name}: {getattr(now, name)} instead of {getattr(then, name)}" for name in names)


def _check(stage: Stage, outcome: str) -> set[str]:
    """Files that nothing needs. Raises AssertionError unless the table is as it must be."""
    world = stage.world
    problems = check_table(world.handle())
    if outcome != "succeeded" and stage.scenario.name == "roll back to a tag that has expired":
        # Where the snapshots between have expired, there is no way from one row to the other without a gap.
        problems = [problem for problem in problems if "those between are missing" not in problem.what]
    assert problems == [], problems
    left = unreached(world.inner, world.root)
    if outcome == "succeeded":
        now = look(world)
        assert now == stage.after, _difference(now, stage.after)
        return left
    if outcome == "in parts":
        now = look(world)
        assert (now.rows, now.tags) == (stage.after.rows, stage.after.tags)
        assert set(now.users.values()) == {1}
        return left
    rows = _rows(world.table())
    known = [stage.before.rows["main"], stage.after.rows["main"]]
    if stage.scenario.passes_through:
        known += stage.versions
    for p in ("a", "b"):
        # Where rows are read from compacted files only, partitions become visible one by one.
        found = [row for row in rows if row[0] == p]
        assert any(found == [row for row in one if row[0] == p] for one in known), f"never were there: {found}"
    return left
