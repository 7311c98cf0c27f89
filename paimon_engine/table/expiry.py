"""Forgetting snapshots, and changelogs that outlive them: what goes with them, and in which order.

1. Files that what goes reaches, and nothing else, are planned for deletion (`table.deletion`); a dry run ends here.
2. The oldest changelogs are removed; then snapshots, oldest first, each as soon as its changelog is written, where that
   lives on. At any moment changelogs and snapshots make one unbroken row, and what is in it is whole.
3. The planned files are deleted.

Source: `ExpireSnapshotsImpl`, `SnapshotDeletion`, `ExpireChangelogImpl`, `ChangelogDeletion` of the Java library, whose
rules decide which of the files that both kinds need goes with which: what a writer made goes with the changelog of the
commit that removed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_engine.errors import ConflictError
from paimon_engine.executor import Executor
from paimon_engine.table.changelogs import (
    forget_oldest,
    hint_kept,
    keep_changelog,
    keeps_delta,
)
from paimon_engine.table.deletion import (
    Candidates,
    Deletion,
    DeletionPlan,
    carry_out,
    finish_interrupted,
    plan_deletion,
    prepare,
)
from paimon_engine.table.disposal import Disposal
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.reachability import Root, Roots, changelog_root, lost_roots
from paimon_engine.table.snapshots import hint_of, mend_latest_hint, write_hint


@dataclass(frozen=True)
class Line:
    """Snapshots and changelogs of one branch, each by id, ascending; and every root of the table."""

    snapshots: tuple[Root, ...]
    changelogs: tuple[Root, ...]
    roots: Roots


def line_of(table: TableHandle, roots: Roots) -> Line:
    """The table's branch, of all roots."""
    ours = sorted((root for root in roots if root.branch == table.paths.branch), key=lambda root: root.snapshot.id)
    return Line(
        tuple(root for root in ours if root.is_snapshot),
        tuple(root for root in ours if root.is_changelog),
        roots,
    )


@dataclass(frozen=True)
class Going:
    """What is to go: the oldest `snapshots`, of which those in `kept` live on as changelogs, and `changelogs`.

    `passing` are snapshots whose changelogs are to go too; they are never written. `unread` and `unread_changelogs` are
    ids of snapshots and changelogs among them that nobody understands.
    """

    snapshots: tuple[Root, ...] = ()
    changelogs: tuple[Root, ...] = ()
    kept: tuple[Root, ...] = ()
    passing: tuple[Root, ...] = ()
    unread: tuple[int, ...] = ()
    unread_changelogs: tuple[int, ...] = ()

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """Ids of all snapshots that go, ascending."""
        return tuple(sorted((*(root.snapshot.id for root in self.snapshots), *self.unread)))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to go."""
        return not self.snapshots and not self.changelogs and not self.unread_changelogs

    @property
    def first_id(self) -> int | None:
        """Id of the first snapshot that goes."""
        return self.snapshots[0].snapshot.id if self.snapshots else None

    @property
    def changelog_ids(self) -> tuple[int, ...]:
        """Ids of all changelogs that go."""
        return tuple(sorted((*(root.snapshot.id for root in self.passing), *self.dropped)))

    @property
    def dropped(self) -> tuple[int, ...]:
        """Ids of the changelogs that there are and that go, ascending."""
        return tuple(sorted((*(root.snapshot.id for root in self.changelogs), *self.unread_changelogs)))


def would_be_changelogs(table: TableHandle, line: Line, doomed: Sequence[Root]) -> dict[int, Root]:
    """The changelogs that there are once these snapshots have become some, by id."""
    found = {root.snapshot.id: root for root in line.changelogs}
    return found | {root.snapshot.id: changelog_root(table, root.snapshot) for root in doomed}


def going(
    table: TableHandle, line: Line, doomed: Sequence[Root], changelogs: dict[int, Root], expired: Sequence[int]
) -> Going:
    """What goes when these snapshots and the changelogs of these ids do; `changelogs` as `would_be_changelogs`."""
    ids = {root.snapshot.id for root in doomed}
    newest = max(ids, default=0)
    unread = line.roots.unread(table.paths.branch, table.paths.snapshot)
    unread_changelogs = line.roots.unread(table.paths.branch, table.paths.changelog)
    return Going(
        tuple(doomed),
        tuple(root for root in line.changelogs if root.snapshot.id in expired),
        tuple(root for number, root in changelogs.items() if number in ids and number not in expired),
        tuple(root for number, root in changelogs.items() if number in ids and number in expired),
        tuple(number for number in unread if number < newest),
        tuple(number for number in unread_changelogs if number <= max(expired, default=-1)),
    )


def plan_expiry(table: TableHandle, line: Line, gone: Going, executor: Executor) -> DeletionPlan:
    """The files that go."""
    candidates = Candidates(table)
    if gone.is_empty:
        return DeletionPlan({}, {})
    passing = {root.snapshot.id: root for root in gone.passing}
    # The oldest first: a file is added before it is removed.
    for root in (*gone.changelogs, *(root for root in gone.passing if root.snapshot.id == gone.first_id)):
        candidates.add_removed(root, f"removed by {root.label}")
    if gone.snapshots:
        decoupled = bool(gone.kept or gone.passing)
        # What was live in an expired snapshot but is not in the first one that stays was removed in between.
        for root in (*gone.snapshots[1:], line.snapshots[len(gone.snapshots)]):
            but_changes = decoupled and root.snapshot.id not in passing and keeps_delta(table, root.snapshot)
            candidates.add_removed(root, f"removed by {root.label}", but_changes=but_changes)
    kept = {root.snapshot.id for root in gone.kept}
    for root in (*gone.changelogs, *(root for root in gone.snapshots if root.snapshot.id not in kept)):
        candidates.add_changelog(root)
    if gone.changelogs and not table.options.changelog_outlives_snapshots:
        # The commits that removed what these added may leave no changelog any more with which it would go.
        for root in gone.changelogs:
            candidates.add_named(root)
        if line.snapshots and not changelogs_left(line, gone):
            candidates.add_named(changelog_root(table, line.snapshots[0].snapshot))
    candidates.add_metadata([*gone.snapshots, *gone.changelogs])
    forgotten = {root.identity for root in (*gone.snapshots, *gone.changelogs, *gone.kept)}
    staying = [root for root in line.roots if root.identity not in forgotten]
    return plan_deletion(table, candidates, [*staying, *gone.kept], executor, lost=lost_roots(table, line.roots))


def changelogs_left(line: Line, gone: Going) -> list[int]:
    """Ids of the changelogs that there are afterwards, ascending."""
    ids = {root.snapshot.id for root in line.changelogs} - {root.snapshot.id for root in gone.changelogs}
    return sorted(ids | {root.snapshot.id for root in gone.kept})


def _check_latest_is_there(table: TableHandle, line: Line) -> None:
    """Somebody may roll back meanwhile: then what was to go is the newest there is."""
    latest = line.snapshots[-1].snapshot
    if table.door is None and not table.env.storage.exists(table.paths.snapshot(latest.id)):
        # We may have let the hint name it a moment ago.
        mend_latest_hint(table)
        raise ConflictError(
            f"snapshot {latest.id} of {table.paths.root} vanished while older ones were to expire: others roll back; "
            "run it again when they have done"
        )


def hide(table: TableHandle, line: Line, gone: Going) -> None:
    """Removes what goes from the row of what can be read. Safe to repeat.

    Raises: ConflictError if others roll back meanwhile.
    """
    storage, paths = table.env.storage, table.paths
    kept = {root.snapshot.id: root.snapshot for root in gone.kept}
    left = changelogs_left(line, gone)
    if gone.dropped:
        forget_oldest(table, list(gone.dropped), left[0] if left else None)
    if hint_of(table, paths.latest_hint) in gone.snapshot_ids and table.door is None:
        write_hint(table, paths.latest_hint, line.snapshots[-1].snapshot.id)
    for number in gone.snapshot_ids:
        _check_latest_is_there(table, line)
        if number in kept:
            keep_changelog(table, kept[number])
        storage.delete([paths.snapshot(number)])
    if gone.snapshots or (line.snapshots and not storage.exists(paths.earliest_hint)):
        write_hint(table, paths.earliest_hint, line.snapshots[len(gone.snapshots)].snapshot.id)
    if gone.snapshots and table.door is None:
        # That of a process which was stopped for long may name one that went.
        mend_latest_hint(table)
    if kept:
        hint_kept(table, left[-1])
    if left and hint_of(table, paths.earliest_changelog_hint) is None:
        write_hint(table, paths.earliest_changelog_hint, left[0])


def carry_out_expiry(
    table: TableHandle, line: Line, gone: Going, plan: DeletionPlan, executor: Executor, *, how: Disposal, what: str
) -> Deletion:
    """Hides what goes and deletes its files, or moves all of it aside; `what` names the action.

    Raises: ConflictError if others roll back meanwhile.
    """
    if gone.is_empty:
        hide(table, line, gone)
        left_over = finish_interrupted(table, executor, how)
        return replace(left_over, stopped=(*plan.stopped, *left_over.stopped))
    paths = table.paths
    roots = [paths.snapshot(number) for number in gone.snapshot_ids]
    roots += [paths.changelog(number) for number in gone.dropped]
    after = line.snapshots[len(gone.snapshots) :][:1]
    neighbours = [paths.snapshot(root.snapshot.id) for root in after]
    prepared = prepare(table, plan, how, what, roots=roots, neighbours=neighbours)
    hide(table, line, gone)
    return carry_out(table, plan, executor, prepared)
