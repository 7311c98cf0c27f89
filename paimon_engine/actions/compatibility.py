"""Compatibility: which engines read the table right, which wrongly, which not at all, why, and what to change.

The facts are those of `table.check.reader_facts`. Nothing is written, and no data file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_engine.action import Context, Result, action
from paimon_engine.meta.file_set import by_bucket
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.specs import Spec
from paimon_engine.table.check.reader_facts import ENGINES, FACTS, FAILS, RIGHT, WRONG, Fact, Used
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries, live_index_files
from paimon_engine.table.state.snapshots import read_at_latest


@dataclass(frozen=True, slots=True)
class Compatibility(Spec):
    """Say which engines read the table, as it is now, right, wrongly, or not at all."""


@dataclass(frozen=True, slots=True)
class Reason:
    """What the table uses that the engine does not read right, and what to change for it."""

    what: str
    change: str


@dataclass(frozen=True, slots=True)
class EngineReport:
    """How an engine reads the table: `right`, `wrong` (other rows, or fewer, without an error), or `fails`."""

    engine: str
    reads: str
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class CompatibilityResult(Result):
    """What is known of each engine; `status` is `compatible` if all read the table right, else `limited`.

    It holds for the latest snapshot, `snapshot_id`, and for the releases that are named. `right` means that nothing
    known speaks against it.
    """

    status: str
    snapshot_id: int | None
    engines: tuple[EngineReport, ...] = ()
    seconds: float = 0.0


@action
def compatibility(context: Context, _: Compatibility) -> CompatibilityResult:
    """Compares what the table uses with what engines are known to read.

    Raises: NotFoundError, CorruptTableError if metadata cannot be read; StorageError.
    """
    return read_at_latest(context.table, lambda snapshot: _report(context.table, snapshot))


def _report(table: TableHandle, snapshot: Snapshot | None) -> CompatibilityResult:
    buckets = by_bucket(live_entries(table, snapshot)).values()
    files = [[entry.file for entry in entries] for entries in buckets]
    used = Used(table, files, live_index_files(table, snapshot))
    facts = [fact for fact in FACTS.values() if fact.holds(used)]
    engines = tuple(_of_engine(engine, facts) for engine in ENGINES)
    status = "compatible" if all(one.reads == RIGHT for one in engines) else "limited"
    return CompatibilityResult(status, None if snapshot is None else snapshot.id, engines)


def _of_engine(engine: str, facts: Sequence[Fact]) -> EngineReport:
    against = [fact for fact in facts if fact.outcomes.get(engine, RIGHT) != RIGHT]
    found = {fact.outcomes[engine] for fact in against}
    # An engine that fails at one thing gives no rows to be wrong.
    reads = FAILS if FAILS in found else WRONG if WRONG in found else RIGHT
    return EngineReport(ENGINES[engine], reads, tuple(Reason(fact.what, fact.change) for fact in against))
