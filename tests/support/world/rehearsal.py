"""A scenario made ready: its world just before the action, and how the action goes where nobody disturbs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from paimon_engine.errors import PaimonError
from tests.support.faulty_storage import FaultyStorage
from tests.support.world.check import State, assert_sound, look, rows
from tests.support.world.scenarios import REPAIRS, Scenario
from tests.support.world.world import HOUR_MS, World


@dataclass
class Rehearsal:
    """`calls` are those of the action to the store, `faulty` is one that counts and disturbs them.

    `before`, `versions` (rows of each snapshot) and `debris` (files that nothing needed) are of before the action, and
    empty where the table was not sound then; `after` is of after it.
    """

    scenario: Scenario
    world: World = field(default_factory=World)
    before: State | None = None
    versions: list[Any] = field(default_factory=list)
    debris: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.scenario.prepare(self.world)
        self.world.now_ms += HOUR_MS
        self.files, self._now_ms = self.world.inner.dump(), self.world.now_ms
        self.faulty = FaultyStorage(self.world.inner)
        self.is_sound = self.scenario not in REPAIRS
        if self.is_sound:
            table = self.world.table()
            self.before = look(self.world)
            self.versions = [rows(table, snapshot=number) for number in table.snapshots()["snapshot_id"].to_pylist()]
            self.debris = assert_sound(self.world.handle)
        self.act()
        self.calls = tuple(self.faulty.calls)
        self.after = look(self.world)

    def reset(self) -> None:
        """Back to before the action."""
        self.world.inner.load(self.files)
        self.world.now_ms = self._now_ms

    def act(self, fail_at: int | None = None, way: str = "", **disturbed: Any) -> Any:
        """The action's result, through the faulty store, which is told this."""
        self.faulty.arm(fail_at, way, **disturbed)
        try:
            return self.scenario.act(self.world.through(self.faulty))
        finally:
            self.faulty.fail_at = None
            self.world.through(self.world.inner)

    def attempt(self, storage: Any = None, **disturbed: Any) -> tuple[str, Any]:
        """How the action ends, and its result or its error; over another store than the faulty one, if one is given.

        It ends as `succeeded`, `partial`, `stopped`, or as the kind of a PaimonError; all else is raised.
        """
        try:
            result = self.act(**disturbed) if storage is None else self.scenario.act(self.world.through(storage))
        except PaimonError as error:
            return type(error).__name__, error
        finally:
            self.world.through(self.world.inner)
        results = result if isinstance(result, list) else [result]
        if any(getattr(one, "failed", ()) for one in results):
            return "partial", result
        if any(getattr(one, "stopped", ()) or getattr(one, "status", "") == "stopped" for one in results):
            return "stopped", result
        return "succeeded", result

    def known_rows(self) -> list[Any]:
        """Rows of the main branch that may be seen when the action was interrupted."""
        known = [] if self.before is None else [self.before.rows["main"]]
        return [*known, self.after.rows["main"], *(self.versions if self.scenario.passes_through else ())]

    def assert_known_rows(self) -> None:
        """Each partition has the rows that it had at some time.

        Where rows are read from compacted files only, partitions become visible one by one.
        """
        found = rows(self.world.table())
        for p in ("a", "b"):
            part = [row for row in found if row[0] == p]
            known = ([row for row in one if row[0] == p] for one in self.known_rows())
            assert part in known, f"never were there: {part}"
