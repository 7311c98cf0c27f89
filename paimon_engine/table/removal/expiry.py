"""Expiring snapshots, and changelogs that outlive them: what expires, which files go with it, in which order.

1. `plan_expiration` says which snapshots and changelogs expire; `plan_expired_files` says which files only they reach
   (`table.removal.deletion_plan`). A dry run ends here.
2. The oldest changelogs are removed; then snapshots, oldest first, each as soon as its changelog is written, if that
   is kept longer. At any moment the ids of changelogs and snapshots form one range without gaps, and every snapshot in
   it can be read completely.
3. The planned files are deleted: first the lists that changelogs name and do not need (`unneeded_lists`).

Example: snapshots 1 to 5, `snapshot.num-retained.max` = 2, `changelog.num-retained.max` = 4. Snapshots 1 to 3 expire.
2 and 3 become `changelog-2` and `changelog-3` (`kept_as_changelogs`). The changelog of 1 would expire at once, so it
is never written (`never_changelogs`).

Source: `ExpireSnapshotsImpl`, `SnapshotDeletion`, `ExpireChangelogImpl`, `ChangelogDeletion` of the Java library, whose
rules decide which of the files that both a snapshot and a changelog need goes with which of them: a data file goes with
the changelog of the commit that removed it.

Many snapshots expire in rounds. Each round is a complete expiry with bounded memory. Snapshots that expire
in a later round of the same run are not checked for the files that they need: checking all of them in every round
would take time with the square of their number. It is enough to check the first snapshot that stays after the round:
a file that is not live there can become live in a later one only through an OVERWRITE commit, and those are checked
too. Everything that stays after the whole run is checked in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeVar

from paimon_engine.errors import ConflictError, PaimonError
from paimon_engine.executor import Executor
from paimon_engine.meta.snapshot import CommitKind, Snapshot, snapshot_to_json
from paimon_engine.table.commit.records import settle_records
from paimon_engine.table.reach.reachability import Root, RootIdentity, Roots, all_roots, changelog_root, lost_roots
from paimon_engine.table.removal.candidates import Candidates
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
from paimon_engine.table.state.hints import hint_of, repair_latest_hint, settle_hints, write_earliest_hint, write_hint
from paimon_engine.table.state.manifests import changelog_manifests, read_manifest_list
from paimon_engine.table.state.presence import create_again
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import snapshot_ids

ROUND_SNAPSHOTS: Final = 1000
ROUND_FILES: Final = 100_000
"""Approximate limit of the files that one round deletes; a round has at least one snapshot, however many it deletes."""
_LISTS_AT_A_TIME: Final = 64


@dataclass(frozen=True)
class BranchHistory:
    """Snapshots and changelogs of one branch, each by id, ascending; and every root of the table."""

    snapshots: tuple[Root, ...]
    changelogs: tuple[Root, ...]
    roots: Roots


def history_of(table: TableHandle, roots: Roots) -> BranchHistory:
    """The table's branch, of all roots."""
    ours = sorted((root for root in roots if root.branch == table.paths.branch), key=lambda root: root.snapshot.id)
    return BranchHistory(
        tuple(root for root in ours if root.is_snapshot),
        tuple(root for root in ours if root.is_changelog),
        roots,
    )


def observed_again(table: TableHandle, history: BranchHistory) -> BranchHistory:
    """The branch as it is now; roots of `history` that no listing shows any more are looked up by their names."""
    return history_of(table, all_roots(table, [root.identity for root in history.roots]))


@dataclass(frozen=True)
class ExpirationPlan:
    """Which snapshots and changelogs expire in one round.

    `snapshots`: the oldest snapshots of the branch, ascending. Where changelogs are kept longer than snapshots, some
    of these are in `kept_as_changelogs`: the changelog file is written before the snapshot file is deleted. Others are
    in `never_changelogs`: their changelog would expire in the same round, so it is not written at all.
    `changelogs`: changelogs that exist and expire.
    `unreadable` and `unreadable_changelogs`: ids, in the expired range, of files that cannot be parsed.
    `later`: snapshots that expire in a later round. `has_more`: whether snapshots or changelogs are left for one.
    """

    snapshots: tuple[Root, ...] = ()
    changelogs: tuple[Root, ...] = ()
    kept_as_changelogs: tuple[Root, ...] = ()
    never_changelogs: tuple[Root, ...] = ()
    unreadable: tuple[int, ...] = ()
    unreadable_changelogs: tuple[int, ...] = ()
    later: tuple[Root, ...] = ()
    has_more: bool = False

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """Ids of all snapshots that expire, ascending."""
        return tuple(sorted((*(root.snapshot.id for root in self.snapshots), *self.unreadable)))

    @property
    def is_empty(self) -> bool:
        """Whether nothing expires."""
        return not self.snapshots and not self.changelogs and not self.unreadable_changelogs

    @property
    def first_id(self) -> int | None:
        """Id of the first snapshot that expires."""
        return self.snapshots[0].snapshot.id if self.snapshots else None

    @property
    def changelog_ids(self) -> tuple[int, ...]:
        """Ids of all changelogs that expire, also of those that are never written; ascending."""
        return tuple(sorted((*(root.snapshot.id for root in self.never_changelogs), *self.stored_changelog_ids)))

    @property
    def stored_changelog_ids(self) -> tuple[int, ...]:
        """Ids of the changelog files that exist and expire, ascending."""
        return tuple(sorted((*(root.snapshot.id for root in self.changelogs), *self.unreadable_changelogs)))


def without(history: BranchHistory, expiration: ExpirationPlan) -> BranchHistory:
    """The branch as it will be after this expiration; a dry run plans its next round on it."""
    forgotten = {root.identity for root in (*expiration.snapshots, *expiration.changelogs)}
    unread = {*expiration.unreadable, *expiration.unreadable_changelogs}
    staying = [*(root for root in history.roots if root.identity not in forgotten), *expiration.kept_as_changelogs]
    doubts = [doubt for doubt in history.roots.doubts if doubt.path is None or doubt.snapshot_id not in unread]
    return BranchHistory(
        history.snapshots[len(expiration.snapshots) :],
        tuple(
            sorted(
                (
                    *(root for root in history.changelogs if root.identity not in forgotten),
                    *expiration.kept_as_changelogs,
                ),
                key=_number,
            )
        ),
        Roots(staying, doubts, history.roots.earlier),
    )


def _number(root: Root) -> int:
    return root.snapshot.id


def with_new_changelogs(table: TableHandle, history: BranchHistory, expired: Sequence[Root]) -> dict[int, Root]:
    """By id: the changelogs of the branch, and those that these snapshots could become."""
    found = {root.snapshot.id: root for root in history.changelogs}
    return found | {root.snapshot.id: changelog_root(table, root.snapshot) for root in expired}


def snapshots_in_round(table: TableHandle, expired: Sequence[Root]) -> int:
    """How many of the expired snapshots, oldest first, one round takes: at least one, if there is any."""
    files, count = 0, 0
    rest = iter(expired[:ROUND_SNAPSHOTS])
    while roots := list(islice(rest, _LISTS_AT_A_TIME)):
        for number in in_threads(table, _files_removed, roots):
            files += number
            if count and files > ROUND_FILES:
                return count
            count += 1
    return count


def _files_removed(table: TableHandle, root: Root) -> int:
    """About how many files expire with a snapshot: those that its commit removed, and its changelog files."""
    snapshot = root.snapshot
    try:
        delta = read_manifest_list(table, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        return sum(item.deleted_count for item in (*delta, *changelog_manifests(table, snapshot)))
    except PaimonError:
        # This is an estimate only: `plan_expired_files` reports what cannot be read.
        return 0


def plan_expiration(
    table: TableHandle,
    history: BranchHistory,
    snapshots: Sequence[Root],
    changelogs: dict[int, Root],
    expired_changelogs: Collection[int],
    *,
    later: Sequence[Root] = (),
    has_more: bool = False,
) -> ExpirationPlan:
    """The plan by which these snapshots, the oldest of the branch, and the changelogs of these ids expire.

    `changelogs` as `with_new_changelogs` gives them; empty where changelogs expire together with their snapshots.
    """
    ids = {root.snapshot.id for root in snapshots}
    newest = max(ids, default=0)
    unreadable = history.roots.unread(table.paths.branch, table.paths.snapshot)
    unreadable_changelogs = history.roots.unread(table.paths.branch, table.paths.changelog)
    return ExpirationPlan(
        snapshots=tuple(snapshots),
        changelogs=tuple(root for root in history.changelogs if root.snapshot.id in expired_changelogs),
        kept_as_changelogs=tuple(
            root for number, root in changelogs.items() if number in ids and number not in expired_changelogs
        ),
        never_changelogs=tuple(
            root for number, root in changelogs.items() if number in ids and number in expired_changelogs
        ),
        unreadable=tuple(number for number in unreadable if number < newest),
        unreadable_changelogs=tuple(
            number for number in unreadable_changelogs if number <= max(expired_changelogs, default=-1)
        ),
        later=tuple(later),
        has_more=bool(later) or has_more,
    )


def plan_expired_files(
    table: TableHandle, history: BranchHistory, expiration: ExpirationPlan, executor: Executor
) -> DeletionPlan:
    """The files that only expired snapshots and changelogs reach, and that no other root of the table needs."""
    if expiration.is_empty:
        return DeletionPlan({}, {})
    candidates = Candidates(table, history.snapshots[: len(expiration.snapshots) + 1])
    never_changelogs = {root.snapshot.id for root in expiration.never_changelogs}
    # The oldest first: the commit that adds a file comes before the one that removes it.
    for root in (
        *expiration.changelogs,
        *(root for root in expiration.never_changelogs if root.snapshot.id == expiration.first_id),
    ):
        candidates.add_removed(root, f"removed by {root.label}")
    if expiration.snapshots:
        decoupled = bool(expiration.kept_as_changelogs or expiration.never_changelogs)
        # What was live in an expired snapshot but is not in the first one that stays was removed in between.
        for root in (*expiration.snapshots[1:], history.snapshots[len(expiration.snapshots)]):
            but_changes = decoupled and root.snapshot.id not in never_changelogs and keeps_delta(table, root.snapshot)
            candidates.add_removed(root, f"removed by {root.label}", but_changes=but_changes)
    kept = {root.snapshot.id for root in expiration.kept_as_changelogs}
    for root in (*expiration.changelogs, *(root for root in expiration.snapshots if root.snapshot.id not in kept)):
        candidates.add_changelog(root)
    if expiration.changelogs and not table.options.changelog_outlives_snapshots:
        # Changelogs were kept longer before, and are not any more (the option was removed). A file is deleted with the
        # changelog of the commit that removed it; that commit will have none now, so delete what these added here.
        for root in expiration.changelogs:
            candidates.add_named(root)
        if history.snapshots and not remaining_changelog_ids(history, expiration):
            candidates.add_named(changelog_root(table, history.snapshots[0].snapshot))
    candidates.add_metadata([*expiration.snapshots, *expiration.changelogs])
    forgotten = {
        root.identity for root in (*expiration.snapshots, *expiration.changelogs, *expiration.kept_as_changelogs)
    }
    staying = [root for root in history.roots if root.identity not in forgotten]
    unchecked = _unchecked(history, expiration)
    asked = [root for root in staying if root.identity not in unchecked]
    lost = lost_roots(table, history.roots, but_earlier=True)
    plan = plan_deletion(table, candidates, [*asked, *expiration.kept_as_changelogs], executor, lost=lost)
    named = {path for root in unchecked.values() for path in _named(table, root.snapshot)}
    metadata = {path: item for path, item in plan.metadata.items() if path not in named}
    return replace(plan, metadata=metadata, roots=plan.roots | unchecked.keys(), unchecked=frozenset(unchecked))


def _unchecked(history: BranchHistory, expiration: ExpirationPlan) -> dict[RootIdentity, Root]:
    """Snapshots of later rounds that need not be checked for the files of this one; see the head of the module."""
    first = {root.identity for root in history.snapshots[len(expiration.snapshots) :][:1]}
    return {
        root.identity: root
        for root in expiration.later
        if root.identity not in first and root.snapshot.commit_kind is not CommitKind.OVERWRITE
    }


def _named(table: TableHandle, snapshot: Snapshot) -> Iterator[str]:
    """Paths of the metadata files that a snapshot itself names."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    yield from (table.paths.manifest(name) for name in (*lists, snapshot.index_manifest) if name is not None)
    if snapshot.statistics is not None:
        yield table.paths.statistics(snapshot.statistics)


def remaining_changelog_ids(history: BranchHistory, expiration: ExpirationPlan) -> list[int]:
    """Ids of the changelogs that exist after the expiration, ascending."""
    ids = {root.snapshot.id for root in history.changelogs} - {root.snapshot.id for root in expiration.changelogs}
    return sorted(ids | {root.snapshot.id for root in expiration.kept_as_changelogs})


def _check_latest_is_there(table: TableHandle, history: BranchHistory, removed: Snapshot | None = None) -> None:
    """Raises ConflictError if a rollback took the newest snapshot away: what was to expire may now be the latest.

    If there are newer ones, another expiry took it, and the older ones with it. `removed` is the snapshot that was just
    removed. It is put back if none is left: the rollback may be one to it, and have looked for it before.
    """
    latest = history.snapshots[-1].snapshot
    if table.snapshot_service is None and not table.env.storage.exists(table.paths.snapshot(latest.id)):
        ids = snapshot_ids(table)
        if ids and ids[-1] > latest.id:
            return
        if removed is not None and not ids:
            create_again(table, removed.id, snapshot_to_json(removed).encode())
        # `remove_expired` may have written its id into the LATEST hint a moment ago.
        repair_latest_hint(table)
        raise ConflictError(
            f"snapshot {latest.id} of {table.paths.root} vanished while older ones were to expire: a rollback runs "
            "at the same time; run the expiry again when it is done"
        )


def remove_expired(table: TableHandle, history: BranchHistory, expiration: ExpirationPlan) -> None:
    """Deletes the files of expired snapshots and changelogs, so that no new reader starts on them. Safe to repeat.

    Raises: ConflictError if a rollback runs at the same time.
    """
    storage, paths = table.env.storage, table.paths
    settle_records(table, [root.snapshot for root in expiration.snapshots])
    kept = {root.snapshot.id: root.snapshot for root in expiration.kept_as_changelogs}
    left = remaining_changelog_ids(history, expiration)
    if expiration.stored_changelog_ids:
        forget_oldest(table, list(expiration.stored_changelog_ids), left[0] if left else None)
    if hint_of(table, paths.latest_hint) in expiration.snapshot_ids and table.snapshot_service is None:
        write_hint(table, paths.latest_hint, history.snapshots[-1].snapshot.id)
    readable = {root.snapshot.id: root.snapshot for root in expiration.snapshots}
    if readable:
        _check_latest_is_there(table, history)
    for number in expiration.snapshot_ids:
        if number in kept and not keep_changelog(table, kept[number]):
            del kept[number]
            left.remove(number)
        storage.delete([paths.snapshot(number)])
        _check_latest_is_there(table, history, readable.get(number))
    if expiration.snapshots or (history.snapshots and not storage.exists(paths.earliest_hint)):
        write_earliest_hint(table, table.paths.snapshot_dir, history.snapshots[len(expiration.snapshots)].snapshot.id)
    if expiration.snapshots and table.snapshot_service is None:
        # A committer that was paused for long may have written the hint late, with the id of an expired snapshot.
        repair_latest_hint(table)
    if kept:
        hint_kept(table, max(kept))
    if left and hint_of(table, paths.earliest_changelog_hint) is None:
        write_hint(table, paths.earliest_changelog_hint, left[0])
    if kept or (left and expiration.stored_changelog_ids):
        settle_hints(table, paths.changelog_dir)


def carry_out_expiry(
    table: TableHandle,
    history: BranchHistory,
    expiration: ExpirationPlan,
    plan: DeletionPlan,
    executor: Executor,
    *,
    how: Disposal,
    what: str,
) -> Deletion:
    """Carries out the plan: deletes the files, or moves them to a quarantine. `what` is the action's name.

    Raises: ConflictError if a rollback runs at the same time.
    """
    if expiration.is_empty:
        remove_expired(table, history, expiration)
        left_over = finish_interrupted(table, executor, how)
        return replace(left_over, stopped=(*plan.stopped, *left_over.stopped))
    paths = table.paths
    roots = [paths.snapshot(number) for number in expiration.snapshot_ids]
    roots += [paths.changelog(number) for number in expiration.stored_changelog_ids]
    after = history.snapshots[len(expiration.snapshots) :][:1]
    neighbours = [paths.snapshot(root.snapshot.id) for root in after]
    prepared = prepare(table, plan, how, what, roots=roots, neighbours=neighbours)
    remove_expired(table, history, expiration)
    return carry_out(table, plan, executor, prepared)


R = TypeVar("R", bound="ExpiryRound")


@dataclass(frozen=True)
class ExpiryRound:
    """What a round did, or would do; `before` is the branch as it was when it began."""

    expiration: ExpirationPlan
    plan: DeletionPlan
    done: Deletion
    before: BranchHistory


def expiry_round(
    table: TableHandle,
    history: BranchHistory,
    expiration: ExpirationPlan,
    plan: DeletionPlan,
    executor: Executor,
    *,
    how: Disposal,
    what: str,
    dry_run: bool,
) -> ExpiryRound:
    """One complete expiry; nothing is deleted if the plan has a doubt that a later run may resolve."""
    if plan.unknown:
        expiration, plan = ExpirationPlan(), replace(plan, data={}, metadata={})
    done = Deletion(plan.files, plan.stopped)
    if not dry_run:
        done = carry_out_expiry(table, history, expiration, plan, executor, how=how, what=what)
    return ExpiryRound(expiration, plan, done, history)


def run_rounds(
    table: TableHandle,
    history: BranchHistory,
    run: Callable[[BranchHistory, Sequence[R]], R],
    *,
    should_continue: Callable[[Sequence[R]], bool],
    dry_run: bool,
) -> tuple[list[R], tuple[str, ...]]:
    """Rounds, one at least, while `should_continue`; and the error that ended them early.

    Before each later round the branch is observed again. A dry run computes it.

    Raises: what the first round raises.
    """
    rounds: list[R] = []
    while not rounds or should_continue(rounds):
        try:
            if rounds:
                history = without(history, rounds[-1].expiration)
                history = history if dry_run else observed_again(table, history)
            rounds.append(run(history, rounds))
        except PaimonError as error:
            if not rounds:
                raise
            return rounds, (f"the run ended early, what it did before is done: {error}",)
    return rounds, ()
