"""Forgetting snapshots, and changelogs that outlive them: what goes with them, and in which order.

1. Files that what goes reaches, and nothing else, are planned for deletion (`table.removal.deletion_plan`); a dry run
   ends here.
2. The oldest changelogs are removed; then snapshots, oldest first, each as soon as its changelog is written, where that
   lives on. At any moment changelogs and snapshots make one unbroken row, and what is in it is whole.
3. The planned files are deleted.

Source: `ExpireSnapshotsImpl`, `SnapshotDeletion`, `ExpireChangelogImpl`, `ChangelogDeletion` of the Java library, whose
rules decide which of the files that both kinds need goes with which: what a writer made goes with the changelog of the
commit that removed it.

Many snapshots go in rounds, each of which is an expiry of its own: whole, and bounded in memory. Snapshots that go in
a later round of the same run are not asked which files they need, or the work would grow with the square of their
number. It is enough to ask the first one that stays: what is not live there comes back into a later one only with an
OVERWRITE commit, which is asked, too. All that stays for good is asked in every round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from paimon_engine.errors import ConflictError, PaimonError
from paimon_engine.executor import Executor
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.commit.records import settle_records
from paimon_engine.table.reach.reachability import Root, RootIdentity, Roots, changelog_root, lost_roots
from paimon_engine.table.removal.candidates import Candidates, check_places
from paimon_engine.table.removal.deletion_plan import (
    Deletion,
    DeletionPlan,
    carry_out,
    finish_interrupted,
    plan_deletion,
    prepare,
)
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.state.changelogs import (
    forget_oldest,
    hint_kept,
    keep_changelog,
    keeps_delta,
)
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import changelog_manifests, read_manifest_list
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import hint_of, mend_latest_hint, write_hint

ROUND_SNAPSHOTS: Final = 1000
ROUND_FILES: Final = 100_000
"""About so many files a round deletes at most, if it is more than one snapshot."""
_LISTS_AT_A_TIME: Final = 64


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
    ids of snapshots and changelogs among them that nobody understands. `later` are snapshots that go in later
    rounds, and `has_more` says whether there are such, or changelogs.
    """

    snapshots: tuple[Root, ...] = ()
    changelogs: tuple[Root, ...] = ()
    kept: tuple[Root, ...] = ()
    passing: tuple[Root, ...] = ()
    unread: tuple[int, ...] = ()
    unread_changelogs: tuple[int, ...] = ()
    later: tuple[Root, ...] = ()
    has_more: bool = False

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


def without(line: Line, gone: Going) -> Line:
    """What there is of the branch once that has gone, for a dry run."""
    forgotten = {root.identity for root in (*gone.snapshots, *gone.changelogs)}
    unread = {*gone.unread, *gone.unread_changelogs}
    staying = [*(root for root in line.roots if root.identity not in forgotten), *gone.kept]
    doubts = [doubt for doubt in line.roots.doubts if doubt.path is None or doubt.snapshot_id not in unread]
    return Line(
        line.snapshots[len(gone.snapshots) :],
        tuple(sorted((*(root for root in line.changelogs if root.identity not in forgotten), *gone.kept), key=_number)),
        Roots(staying, doubts, line.roots.earlier),
    )


def _number(root: Root) -> int:
    return root.snapshot.id


def would_be_changelogs(table: TableHandle, line: Line, doomed: Sequence[Root]) -> dict[int, Root]:
    """The changelogs that there are once these snapshots have become some, by id."""
    found = {root.snapshot.id: root for root in line.changelogs}
    return found | {root.snapshot.id: changelog_root(table, root.snapshot) for root in doomed}


def round_of(table: TableHandle, doomed: Sequence[Root]) -> int:
    """How many of the snapshots go in one round, the oldest first: at least one, if there is any."""
    files, count = 0, 0
    rest = iter(doomed[:ROUND_SNAPSHOTS])
    while roots := list(islice(rest, _LISTS_AT_A_TIME)):
        for number in in_threads(table, _files_removed, roots):
            files += number
            if count and files > ROUND_FILES:
                return count
            count += 1
    return count


def _files_removed(table: TableHandle, root: Root) -> int:
    """About the number of files that go with a snapshot: those that its commit removed, and its changelog."""
    snapshot = root.snapshot
    try:
        delta = read_manifest_list(table, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        return sum(item.deleted_count for item in (*delta, *changelog_manifests(table, snapshot)))
    except PaimonError:
        # What cannot be read is said where it is planned.
        return 0


def going(
    table: TableHandle,
    line: Line,
    doomed: Sequence[Root],
    changelogs: dict[int, Root],
    expired: Collection[int],
    *,
    later: Sequence[Root] = (),
    has_more: bool = False,
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
        tuple(later),
        bool(later) or has_more,
    )


def plan_expiry(table: TableHandle, line: Line, gone: Going, executor: Executor) -> DeletionPlan:
    """The files that go."""
    if gone.is_empty:
        check_places(table)
        return DeletionPlan({}, {})
    candidates = Candidates(table, line.snapshots[: len(gone.snapshots) + 1])
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
    unasked = _unasked(line, gone)
    asked = [root for root in staying if root.identity not in unasked]
    lost = lost_roots(table, line.roots, but_earlier=True)
    plan = plan_deletion(table, candidates, [*asked, *gone.kept], executor, lost=lost)
    named = {path for root in unasked.values() for path in _named(table, root.snapshot)}
    metadata = {path: item for path, item in plan.metadata.items() if path not in named}
    return replace(plan, metadata=metadata, roots=plan.roots | unasked.keys(), unasked=frozenset(unasked))


def _unasked(line: Line, gone: Going) -> dict[RootIdentity, Root]:
    """Snapshots that go later, and reach no file that goes now without another one that is asked; see above."""
    first = {root.identity for root in line.snapshots[len(gone.snapshots) :][:1]}
    return {
        root.identity: root
        for root in gone.later
        if root.identity not in first and root.snapshot.commit_kind is not CommitKind.OVERWRITE
    }


def _named(table: TableHandle, snapshot: Snapshot) -> Iterator[str]:
    """Paths of the metadata files that a snapshot itself names."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    yield from (table.paths.manifest(name) for name in (*lists, snapshot.index_manifest) if name is not None)
    if snapshot.statistics is not None:
        yield table.paths.statistics(snapshot.statistics)


def changelogs_left(line: Line, gone: Going) -> list[int]:
    """Ids of the changelogs that there are afterwards, ascending."""
    ids = {root.snapshot.id for root in line.changelogs} - {root.snapshot.id for root in gone.changelogs}
    return sorted(ids | {root.snapshot.id for root in gone.kept})


def _check_latest_is_there(table: TableHandle, line: Line) -> None:
    """Somebody may roll back meanwhile: then what was to go is the newest there is."""
    latest = line.snapshots[-1].snapshot
    if table.snapshot_service is None and not table.env.storage.exists(table.paths.snapshot(latest.id)):
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
    settle_records(table, [root.snapshot for root in gone.snapshots])
    kept = {root.snapshot.id: root.snapshot for root in gone.kept}
    left = changelogs_left(line, gone)
    if gone.dropped:
        forget_oldest(table, list(gone.dropped), left[0] if left else None)
    if hint_of(table, paths.latest_hint) in gone.snapshot_ids and table.snapshot_service is None:
        write_hint(table, paths.latest_hint, line.snapshots[-1].snapshot.id)
    for number in gone.snapshot_ids:
        _check_latest_is_there(table, line)
        if number in kept:
            keep_changelog(table, kept[number])
        storage.delete([paths.snapshot(number)])
    if gone.snapshots or (line.snapshots and not storage.exists(paths.earliest_hint)):
        write_hint(table, paths.earliest_hint, line.snapshots[len(gone.snapshots)].snapshot.id)
    if gone.snapshots and table.snapshot_service is None:
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
