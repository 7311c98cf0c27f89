"""Purge a table: empty it, and delete everything that it has been.

1. One commit of the kind OVERWRITE removes all rows, another one rewrites the lists of files, so that the new state
   names none of the old ones. Readers find an empty table from here on.
2. All roots of older states are deleted: branches, tags, long-lived changelogs, consumers, older snapshots.
3. Files that only these reached are deleted or quarantined (`table.removal.deletion_plan`); then files that nothing
   named at all, if they are old enough.

Schema, options and the table itself stay. `keep_tags` leaves all tags with the files that they reach, `keep_branches`
all branches; without them the rows are lost permanently, unless the files were quarantined: then `restore`
restores all snapshots before the empty one, and a rollback goes back to them. Rows that others commit meanwhile stay.

A dry run is the same plan, without the commits.

Source: `FileStoreTable.purgeFiles` of the Java library. Differences: it may leave tags and branches; files that nothing
names go only if they are older than a day, as running writers have made some.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import ConflictError, InvalidArgumentError
from paimon_engine.executor import Executor
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.specs import DryRun, Moment
from paimon_engine.table.branches_tags.branching import branch_root_files, refuse_server, remove_branch_files
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier, notifying
from paimon_engine.table.branches_tags.tagging import check_no_branch_from, named_tags, remove_tags, tag_files
from paimon_engine.table.commit.commit import Conflict, OverwriteScope, commit
from paimon_engine.table.commit.job_commit import conflict_error, look_up_commit
from paimon_engine.table.commit.own_commits import find_own_commit
from paimon_engine.table.commit.records import settle_records
from paimon_engine.table.reach.doubts import Doubt
from paimon_engine.table.reach.reachability import Root, Roots, all_roots, lost_roots, with_branch_paths
from paimon_engine.table.removal.candidates import Candidates, DataCandidate
from paimon_engine.table.removal.deletion_plan import (
    DeletedFile,
    DeletionPlan,
    carry_out,
    finish_interrupted,
    plan_deletion,
    prepare,
    with_deletion,
)
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.removal.orphans import find_orphans
from paimon_engine.table.removal.retention import check_older_than
from paimon_engine.table.removal.store_clock import old_by_the_store
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.hints import repair_latest_hint, write_earliest_hint
from paimon_engine.table.state.presence import is_there
from paimon_engine.table.state.snapshots import branches, consumer_files, latest_snapshot, snapshot_ids
from paimon_engine.units import DAY_MS

logger = logging.getLogger(__name__)

_IDENTIFIER: Final = identifier_of(Maker.PURGE_FILES)

_ORPHAN: Final = "no snapshot, tag, branch or changelog names it"


@dataclass(frozen=True, slots=True)
class PurgeFiles(Disposal):
    """Empty the table and delete all files of it, except those that tags or branches reach if these are kept.

    Files that nothing names go if they were last changed before `older_than` (epoch milliseconds; a day ago).
    """

    keep_tags: Annotated[bool, "leave tags and their files"] = False
    keep_branches: Annotated[bool, "leave branches and their files"] = False
    older_than: Annotated[Moment | None, "files that nothing names go if they are older; a day by default"] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class PurgeFilesResult(Result):
    """What went; `status` is `purged`, `noop` (there was nothing), `already_done`, `stopped` or `dry_run`.

    A dry run says what would be deleted. `snapshot_id` is the empty snapshot from which the table continues. `deleted`
    names every file, `quarantine` where they are now, if they were quarantined; `stopped` says which files were left,
    and why.
    """

    status: str
    snapshot_id: int | None = None
    removed_snapshots: tuple[int, ...] = ()
    removed_tags: tuple[str, ...] = ()
    removed_branches: tuple[str, ...] = ()
    removed_consumers: tuple[str, ...] = ()
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0


@action
def purge_files(context: Context, spec: PurgeFiles) -> PurgeFilesResult:
    """Purges the table. Safe to repeat: a run that was interrupted is finished by the next one.

    Raises: InvalidArgumentError for a branch, if a kept branch was made from a tag that would be deleted, or for a time
    in the future; CorruptTableError if a snapshot or tag cannot be parsed; ConflictError; StorageError;
    UnsupportedError, CallbackError as in `table.branches_tags.tag_notifications`, unless tags are kept.
    """
    table, executor, commit_user = context.table, context.executor, context.commit_user
    refuse_server(table)
    if table.paths.branch != MAIN_BRANCH:
        raise InvalidArgumentError("purge a table, not a branch of it; to remove a branch, delete it")
    check_older_than(table, spec)
    older_than_ms = table.env.clock() - DAY_MS if spec.older_than is None else spec.older_than
    emptied = None
    if commit_user is not None:
        emptied = find_own_commit(table, commit_user, CommitKind.COMPACT, _IDENTIFIER).snapshot
    roots = _known(table, spec)
    removed = _roots_to_remove(roots, spec, emptied)
    kept = [root for root in roots if root not in removed]
    check_no_branch_from(kept, [root for root in removed if root.tag is not None])
    orphans, doubts = _orphans(table, older_than_ms, executor, spec)
    plan = _plan(table, roots, removed, orphans, executor)
    result = replace(_summarize(table, removed, plan, spec), stopped=(*doubts, *plan.stopped))
    status = "dry_run" if spec.dry_run else "stopped" if plan.unknown else _nothing_to_do(removed, plan, emptied)
    if status is None:
        with notifying(table, dry_run=spec.keep_tags) as notifier:
            emptied = emptied or _empty(table, commit_user)
            # What others have committed up to then is removed too, and what they committed since is not.
            removed = _roots_to_remove(_known(table, spec), spec, emptied)
            result = _carried_out(table, removed, orphans, spec, executor, emptied=emptied, notifier=notifier)
        result = replace(result, status="purged", stopped=(*doubts, *result.stopped))
        logger.info("purged %s: %d files", table.paths.root, result.files_deleted)
    elif status in ("noop", "already_done"):
        result = with_deletion(PurgeFilesResult(status), finish_interrupted(table, executor, spec))
    snapshot_id = None if emptied is None else emptied.id
    return replace(result, status=status or result.status, snapshot_id=snapshot_id)


def _known(table: TableHandle, spec: PurgeFiles) -> Roots:
    """Every root but those of branches to be deleted that are half deleted already. Raises: CorruptTableError."""

    def is_removed(doubt: Doubt) -> bool:
        return not spec.keep_branches and doubt.branch != MAIN_BRANCH and doubt.may_pass

    return all_roots(table).settled(is_removed).checked()


def _roots_to_remove(roots: Sequence[Root], spec: PurgeFiles, emptied: Snapshot | None) -> list[Root]:
    """The roots that go: those older than the empty state, if it was made already."""
    older = [root for root in roots if emptied is None or root.snapshot.id < emptied.id]
    return [
        root
        for root in older
        if (not spec.keep_branches if root.branch != MAIN_BRANCH else root.tag is None or not spec.keep_tags)
    ]


def _nothing_to_do(removed: Sequence[Root], plan: DeletionPlan, emptied: Snapshot | None) -> str | None:
    """The status where nothing is left to do; None if something is."""
    if emptied is not None and not removed and not plan.files:
        return "already_done"
    return "noop" if len(removed) <= 1 and not plan.data and emptied is None else None


def _orphans(
    table: TableHandle, older_than_ms: int, executor: Executor, spec: PurgeFiles
) -> tuple[dict[str, int], list[str]]:
    """Old files that nothing names, with their sizes; and the reasons, if they cannot be determined."""
    found = find_orphans(table, older_than_ms, executor)
    if found.stopped:
        return {}, [f"files that nothing names are left: {doubt}" for doubt in found.stopped]
    files, note = (found.files, None) if spec.dry_run else old_by_the_store(table, found.files, older_than_ms)
    orphans = {info.path: info.size_bytes for info in files if info.path not in found.dead}
    return orphans, [] if note is None else [note]


def _plan(
    table: TableHandle, roots: Roots, removed: Sequence[Root], orphans: dict[str, int], executor: Executor
) -> DeletionPlan:
    """The files that go with roots, and orphans."""
    candidates = Candidates(table)
    snapshots = sorted((root for root in removed if _is_snapshot(root)), key=lambda root: root.snapshot.id)
    # Every file that was ever live was live in the first snapshot, or after a gap, or was added by one of the others.
    before = None
    for root in snapshots:
        if root.snapshot.id - 1 != before:
            candidates.add_live(root, f"live in {root.label}")
        before = root.snapshot.id
        candidates.add_added(root, f"added by {root.label}")
        candidates.add_changelog(root)
    for root in removed:
        if root.is_changelog:
            # Expiry has deleted the files that were live there, except those that are the changelog.
            candidates.add_named(root)
            candidates.add_changelog(root)
    candidates.add_tagged([root for root in removed if not root.is_changelog], snapshots)
    candidates.add_metadata(removed)
    for path, size_bytes in orphans.items():
        directory, _, name = path.rpartition("/")
        if "/bucket-" in path:
            candidates.data.setdefault(path, DataCandidate(name, size_bytes, _ORPHAN, directory))
        else:
            candidates.metadata.setdefault(path, (size_bytes, _ORPHAN))
    kept = [root for root in roots if root.identity not in {item.identity for item in removed}]
    # What main lacks would be purged, too; what a kept branch lacks may need files that it shares with main.
    branches_kept = {root.branch for root in kept} - {MAIN_BRANCH}
    lost = [doubt for doubt in lost_roots(table, roots, but_below=removed) if doubt.branch in branches_kept]
    return plan_deletion(table, candidates, kept, executor, lost=lost)


def _is_snapshot(root: Root) -> bool:
    return root.branch == MAIN_BRANCH and root.tag is None and not root.is_changelog


def _summarize(table: TableHandle, removed: Sequence[Root], plan: DeletionPlan, spec: PurgeFiles) -> PurgeFilesResult:
    files = plan.files
    main = with_branch_paths(table, MAIN_BRANCH)
    return PurgeFilesResult(
        status="",
        removed_snapshots=tuple(root.snapshot.id for root in removed if _is_snapshot(root)),
        removed_tags=tuple(sorted(root.tag for root in removed if root.tag is not None and root.branch == MAIN_BRANCH)),
        removed_branches=() if spec.keep_branches else _branches_without(table, removed),
        removed_consumers=tuple(name for name, _ in consumer_files(main)) if removed else (),
        files_deleted=len(files),
        bytes_deleted=sum(file.size_bytes for file in files),
        deleted=files,
    )


def _branches_without(table: TableHandle, removed: Sequence[Root]) -> tuple[str, ...]:
    """Branches that are left with nothing when these roots go; also those that never had anything."""
    removed_ids = {root.identity for root in removed}
    lasting = {root.branch for root in all_roots(table) if root.identity not in removed_ids}
    return tuple(name for name in branches(table) if name not in lasting)


def _empty(table: TableHandle, commit_user: str | None) -> Snapshot | None:
    """Removes all rows and then names the files again, which are none; the snapshot that does, None on an empty table.

    Raises: ConflictError.
    """
    if latest_snapshot(table) is None:
        return None
    job = look_up_commit(table, commit_user, CommitKind.OVERWRITE, _IDENTIFIER)
    request = replace(job.request(), overwrite=OverwriteScope())
    if job.done is None:
        outcome = commit(table, request)
        if isinstance(outcome, Conflict):
            raise conflict_error(table, outcome, "others wrote meanwhile, run it again")
    bare = commit(table, replace(request, kind=CommitKind.COMPACT, overwrite=None, compacts_manifests=True))
    assert not isinstance(bare, Conflict), "nothing is added or removed"
    return bare.snapshot


def _carried_out(
    table: TableHandle,
    removed: Sequence[Root],
    orphans: dict[str, int],
    spec: PurgeFiles,
    executor: Executor,
    *,
    emptied: Snapshot | None,
    notifier: TagNotifier,
) -> PurgeFilesResult:
    """Removes the roots, then the files that only they needed, unless others have changed the table meanwhile."""
    main = with_branch_paths(table, MAIN_BRANCH)
    plan = _plan(table, _known(table, spec), removed, orphans, executor)
    # If it was removed, the plan keeps everything that it may have needed, and nothing should be hidden.
    _check_still_empty(main, emptied)
    result = _summarize(table, removed, plan, spec)
    snapshots = [main.paths.snapshot(number) for number in result.removed_snapshots]
    changelogs = [main.paths.changelog(root.snapshot.id) for root in removed if root.is_changelog]
    others = [*changelogs, *(main.paths.consumer(name) for name in result.removed_consumers)]
    hidden = [*snapshots, *tag_files(main, result.removed_tags), *others]
    hidden += [path for name in result.removed_branches for path in branch_root_files(table, name)]
    first_kept = max(result.removed_snapshots, default=0) + 1
    prepared = prepare(table, plan, spec, "purge_files", roots=hidden, neighbours=[main.paths.snapshot(first_kept)])
    for name in result.removed_branches:
        remove_branch_files(table, name)
    remove_tags(main, named_tags(root for root in removed if root.branch == MAIN_BRANCH), notifier)
    table.env.storage.delete(others)
    settle_records(main, [root.snapshot for root in removed if root.branch == MAIN_BRANCH and root.is_snapshot])
    for path in snapshots:
        _check_still_empty(main, emptied)
        table.env.storage.delete([path])
    if snapshots:
        write_earliest_hint(main, main.paths.snapshot_dir, first_kept)
        repair_latest_hint(main)
    deletion = carry_out(table, plan, executor, prepared)
    _check_none_late(main, emptied)
    return with_deletion(result, deletion)


def _check_none_late(main: TableHandle, emptied: Snapshot | None) -> None:
    """A writer that is older than the purge can take the number of a snapshot that was removed.

    Raises: ConflictError.
    """
    late = [number for number in snapshot_ids(main) if emptied is not None and number < emptied.id]
    if late:
        raise ConflictError(
            f"the purge has emptied {main.paths.root}, and meanwhile others committed snapshot {late[-1]} on what was "
            f"purged: no later snapshot has its rows, and it may lack files; write these rows again, and run the purge "
            "again, which removes it, when nobody writes"
        )


def _check_still_empty(main: TableHandle, emptied: Snapshot | None) -> None:
    """Others may roll back or fast-forward meanwhile: then what was to be deleted is the newest version.

    Raises: ConflictError.
    """
    if emptied is not None and not is_there(main, emptied):
        # This process may have written its id into the hint a moment ago.
        repair_latest_hint(main)
        raise ConflictError(
            f"snapshot {emptied.id}, which empties {main.paths.root}, vanished while the purge ran: others roll back "
            "or fast-forward; run it again when they have done, if the table is still to be emptied"
        )
