"""One trial: an action, or a read, over a store that lies; afterwards the store is honest, and nothing may be damaged.

1. The action ends, or raises a PaimonError.
2. No file was deleted that something needed and that a run with an honest store keeps.
3. The table is valid, unless it was not before; its rows are those before or after. Rows that were acknowledged are
   there.
4. The action repeated under the same name comes to the rows of a run without lies, in one commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_engine.errors import PaimonError, UnsupportedError
from paimon_engine.storage.absence import AbsenceProbe
from tests.support.lying_storage import LyingStorage
from tests.support.world import HOUR_MS, ROOT, World
from tests.support.world.check import assert_sound, commits_of, rows
from tests.support.world.rehearsal import Rehearsal

DAY_MS: Final = 24 * HOUR_MS
_HINT: Final = re.compile(r"/(?:EARLIEST|LATEST)$")
"""Hints are only hints."""


@dataclass(frozen=True, slots=True)
class Lie:
    """What a `LyingStorage` lies about."""

    name: str
    options: Mapping[str, Any]

    def over(self, storage: Any) -> LyingStorage:
        return LyingStorage(storage, **self.options)


_LISTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "not there": {"lists": "empty"},
    "not there once": {"lists": "empty", "lies_left": 1},
    "without the newest": {"lists": "stale", "hidden": 1},
    "without the newest 5": {"lists": "stale", "hidden": 5},
    "in part": {"lists": "partial", "seed": 1},
    "in other parts": {"lists": "partial", "seed": 2},
}
_OTHERS: Final = (
    Lie("times of a year ago", {"time_offset_ms": -365 * DAY_MS}),
    Lie("times of a day ago", {"time_offset_ms": -DAY_MS}),
    Lie("times to come", {"time_offset_ms": 365 * DAY_MS}),
    Lie("creations are denied: taken", {"denies": "taken"}),
    Lie("creations are denied: unknown", {"denies": "unknown"}),
    Lie("creations are denied: error", {"denies": "error"}),
    Lie("a creation is denied: unknown", {"denies": "unknown", "lies_left": 1}),
    Lie("a snapshot is denied: unknown", {"denies": "unknown", "denied": "/snapshot/", "lies_left": 1}),
    Lie("a snapshot is denied: error", {"denies": "error", "denied": "/snapshot/", "lies_left": 1}),
    Lie("snapshots are denied: taken", {"denies": "taken", "denied": "/snapshot/"}),
    Lie("changes are denied", {"denies_changes": True}),
    Lie("a change is denied", {"denies_changes": True, "lies_left": 1}),
    Lie("changes of files are denied", {"denies_changes": True, "denied": "/(bucket-[^/]*|manifest|index)/"}),
)


def lies_for(directories: Iterator[str]) -> Iterator[Lie]:
    """Every lie about everything; and those about listings about each of the directories alone."""
    for name, options in _LISTS.items():
        yield Lie(f"all lists: {name}", options)
    for directory in sorted(set(directories)):
        for name, options in _LISTS.items():
            yield Lie(
                f"{directory or '.'}: {name}", {**options, "where": f"{ROOT}{'/' if directory else ''}{directory}$"}
            )
    yield from _OTHERS


class Stage(Rehearsal):
    """A scenario made ready, and what its action does over an honest store."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._gone = self._missing()
        listed = {path for verb, path in self.calls if verb in ("list", "walk")}
        self.directories = {path.rstrip("/").removeprefix(ROOT).strip("/") for path in listed if path.startswith(ROOT)}

    def lies(self) -> list[Lie]:
        """Those that can be noticed.

        A tag that is not listed, and all of whose files other versions need, leaves no trace. Who removes these
        versions cannot know (docs/incomplete-tables.md).
        """
        forgets = self.scenario.name.startswith(
            ("expire snapshots", "expire changelogs", "roll back to a tag", "purge", "repair")
        )
        return [lie for lie in lies_for(iter(self.directories)) if not (forgets and lie.name.startswith("tag:"))]

    def check(self, outcome: str, result: Any) -> None:
        """Raises AssertionError for harm that was done."""
        lost = self._missing() - self._gone - self.debris
        assert not lost, f"{result!r:.300}: lost {sorted(lost)}"
        if self.is_sound:
            assert_sound(self.world.handle, may_lack_snapshots=self.scenario.passes_through and outcome != "succeeded")
            found, known = rows(self.world.table()), self.known_rows()
            if outcome == "succeeded" and self.scenario.takes_back:
                known = [self.after.rows["main"]]
            assert found in known, f"{result!r:.300}: {found} instead of {known}"
        # A process that finds a snapshot of its name has committed.
        commits = commits_of(self.world.table())
        assert set(commits.values()) <= {1}, commits

    def assert_done(self, result: Any) -> None:
        """The action has succeeded, once."""
        self.check("succeeded", result)
        assert rows(self.world.table()) == self.after.rows["main"], f"{result!r:.300}: other rows"

    def is_repaired(self) -> bool:
        """Whether all rows are there that can be."""
        try:
            return rows(self.world.table()) == self.after.rows["main"]
        except PaimonError:
            return False

    def has_lost_anything(self) -> bool:
        """Whether files of before were deleted, also those that the action removes."""
        return self._missing() != set()

    def _missing(self) -> set[str]:
        """Earlier files that are neither at their original path nor in a quarantine."""
        inside = {path.removeprefix(f"{ROOT}/") for path in self.world.inner.dump()}
        inside |= {_origin(path) for path in inside}
        before = {path.removeprefix(f"{ROOT}/") for path in self.files}
        return {path for path in before if _origin(path) not in inside and not _HINT.search(path)}


def _origin(path: str) -> str:
    """Where a file comes from that may be in a quarantine."""
    return path.split("/", 2)[-1] if path.startswith("quarantine/") else path


def run_trial(stage: Stage, lie: Lie) -> str:
    """How the action ended. Raises AssertionError for what is not allowed."""
    stage.reset()
    outcome, result = stage.attempt(lie.over(stage.world.inner))
    stage.check(outcome, result)
    if not stage.is_sound and outcome == "succeeded" and stage.is_repaired():
        return outcome
    repeated, result = stage.attempt()
    assert repeated in ("succeeded", "partial", "stopped"), f"{outcome}, and then {result!r:.500}"
    stage.assert_done(result)
    return outcome


def run_again(stage: Stage, lie: Lie) -> str:
    """The action over an honest store, and once more over one that lies: it is done once nevertheless."""
    stage.reset()
    stage.attempt()
    outcome, result = stage.attempt(lie.over(stage.world.inner))
    stage.assert_done(result)
    return outcome


class Careless(LyingStorage):
    """A store that ignores create-if-absent, asked by the engine whether it does as the object stores' door asks."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner, ignores_absence=True)
        self._probe = AbsenceProbe(super().create, self.read)

    def create(self, path: str, data: bytes) -> bool:
        self._probe.check(path, lambda one: self.delete([one]))
        return super().create(path, data)


def run_careless(stage: Stage) -> str:
    """The action on a store that ignores create-if-absent: refused with nothing changed, or it needs no such promise."""
    stage.reset()
    store = Careless(stage.world.inner)
    outcome, result = stage.attempt(store)
    stage.check(outcome, result)
    if isinstance(result, UnsupportedError) or outcome == "stopped":
        assert "ignores create-if-absent" in str(result)
        if not stage.scenario.passes_through:
            assert not stage.has_lost_anything(), "something was deleted before it was refused"
    else:
        # What the probe sees is counted, too.
        assert store.lie_count == 0, f"{result!r:.300}"
    return outcome


# ── reads ───────────────────────────────────────────────────────────────────────────────────────

READS: Final[Mapping[str, Callable[[World], Any]]] = {
    "the latest": lambda w: _sorted(w.table().to_arrow()),
    "a snapshot": lambda w: _sorted(w.table().to_arrow(snapshot=4)),
    "a time": lambda w: _sorted(w.table().to_arrow(timestamp=w.now_ms)),
    "a tag": lambda w: _sorted(w.table().to_arrow(tag="middle")),
    "the newest compacted": lambda w: _sorted(w.table(**{"scan.mode": "compacted-full"}).to_arrow()),
    "changes": lambda w: _sorted(w.table().to_arrow(incremental=(2, 4))),
    "a branch": lambda w: _sorted(w.table("b").to_arrow()),
    "files": lambda w: sorted(w.table().files()["file_path"].to_pylist()),
    "the newest number": lambda w: w.table().latest_snapshot_id(),
}
"""Reads of a state: each has one right answer, and an error is better than any other."""


def _sorted(rows: Any) -> list[Any]:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)
