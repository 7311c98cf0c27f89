"""Remove orphan files: delete files that nothing names, left by writers that died or commits that failed.

1. Old files are listed, then the names that all snapshots, tags, branches and long-lived changelogs use are read, then
   those that are new since (`table.removal.orphans`). Old files that nothing names are orphans. A dry run ends here.
2. A fence makes commits of files that are about to be deleted fail (`table.removal.fence`); what was named before it
stays.
3. The others are deleted, or moved into `quarantine/<id>` of the table, from where `restore` restores them.
   Files that an interrupted run was moving to a quarantine are moved there in any case. A file of which a
   quarantine holds a copy stays, since a restore may be about to restore it; `notes` say so.

If a look is not complete nothing is deleted, and `stopped` says why; nor where versions of the table may be missing
from the listings (`table.removal.orphan_doubts`), unless the caller confirms that none is. A file that a running job
has written and not yet committed is protected by its age: with an `older_than` younger than the longest job, that job
is refused its commit and has to be run again. Jobs of other engines are not: they would commit files that no longer
exist.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Final

from paimon_engine.action import Context, Result, action
from paimon_engine.executor import Executor
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.specs import DryRun, Moment
from paimon_engine.table.commit import records as commit_records
from paimon_engine.table.reach.deletion_records import forget_old_records
from paimon_engine.table.reach.quarantine import forget_restored
from paimon_engine.table.reach.reachability import with_branch_paths
from paimon_engine.table.removal.deletion_plan import DeletedFile, clean_directories
from paimon_engine.table.removal.fence import forget_finished_plans
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.removal.orphan_removal import as_deleted, remove_behind_a_fence
from paimon_engine.table.removal.orphans import Orphans, find_orphans
from paimon_engine.table.removal.quarantine_state import also_in_quarantine
from paimon_engine.table.removal.retention import check_older_than
from paimon_engine.table.removal.store_clock import old_by_the_store
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.hints import settle_hints
from paimon_engine.table.state.snapshots import branches, snapshot_ids, tag_names
from paimon_engine.units import DAY_MS

logger = logging.getLogger(__name__)

_TRIES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class RemoveOrphanFiles(Disposal):
    """Delete orphans last changed before `older_than` (epoch milliseconds; a day ago by default).

    `confirm_latest_snapshot` confirms that main's latest snapshot is the one of that number (0: that the table
    has none), and that no other version is missing: then files that seem to belong to versions that are not
    visible are removed too. Hints that contradict it are repaired.
    """

    older_than: Annotated[
        Moment | None, "only files that are older: a time, or an age such as 3 d; a day by default"
    ] = None
    dry_run: DryRun = False
    confirm_latest_snapshot: Annotated[
        int | None, "confirm that this is the latest snapshot (0: there is none) and that everything is visible"
    ] = None


@dataclass(frozen=True, slots=True)
class RemoveOrphanFilesResult(Result):
    """What it did; `status` is `deleted`, `quarantined`, `noop`, `dry_run` or `stopped`.

    `stopped`: it is not certain what is an orphan, or a file could not be deleted; the texts say why. `deleted` names
    every deleted file (in a dry run: that would be deleted). `files_checked` counts the old files that were checked.
    `quarantine` is the name of the directory with the files. `notes` count the files that stay although nothing names
    them: a quarantine has copies of them, since a restore or a deletion was interrupted; or they are old by this
    machine's clock, but not by that of the store, which is behind (a dry run does not ask it).
    """

    status: str
    files_checked: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


@action
def remove_orphan_files(context: Context, spec: RemoveOrphanFiles) -> RemoveOrphanFilesResult:
    """Removes orphans of all branches. Safe to repeat and to run concurrently with other work.

    Raises: InvalidArgumentError for a time in the future; StorageError.
    """
    table, executor = context.table, context.executor
    check_older_than(table, spec)
    older_than_ms = table.env.clock() - DAY_MS if spec.older_than is None else spec.older_than
    found = _found(table, older_than_ms, executor, spec.confirm_latest_snapshot)
    if found.stopped:
        stopped = tuple(f"nothing is deleted: {doubt}" for doubt in found.stopped)
        return RemoveOrphanFilesResult("stopped", found.checked, stopped=stopped)
    quarantined = also_in_quarantine(table, [info.path for info in found.files])
    found = replace(found, files=tuple(info for info in found.files if info.path not in quarantined))
    notes = [_quarantined_text(name, number) for name, number in sorted(Counter(quarantined.values()).items())]
    if not spec.dry_run:
        files, note = old_by_the_store(table, found.files, older_than_ms)
        found = replace(found, files=files)
        notes += [] if note is None else [note]
    orphans = as_deleted(found.files, found.dead)
    done, quarantine, status = orphans, None, "dry_run"
    problems: list[str] = []
    if spec.confirm_latest_snapshot is not None and not spec.dry_run:
        settle_hints(table, table.paths.snapshot_dir)
    if orphans and not spec.dry_run:
        status = "quarantined" if spec.quarantine else "deleted"
        done, quarantine, problems = remove_behind_a_fence(table, found, spec, executor)
        if table.options.clean_empty_directories:
            clean_directories(table, {path for file in done if "/bucket-" in (path := _directory(file.path))})
    if not spec.dry_run and not problems:
        forget_old_records(table, older_than_ms)
        forget_restored(table, table.env.clock() - table.options.commit_record_retained_ms)
        for branch in (MAIN_BRANCH, *branches(table)):
            commit_records.forget_old_records(with_branch_paths(table, branch))
        forget_finished_plans(table, found.look.names)
    return RemoveOrphanFilesResult(
        status="noop" if not orphans else "stopped" if problems else status,
        files_checked=found.checked,
        files_deleted=len(done),
        bytes_deleted=sum(file.size_bytes for file in done),
        deleted=tuple(done),
        quarantine=quarantine,
        stopped=tuple(problems),
        notes=tuple(notes),
    )


def _quarantined_text(quarantine: str, number: int) -> str:
    files = "1 file stays" if number == 1 else f"{number} files stay"
    return f"{files}, since quarantine {quarantine} holds {'it' if number == 1 else 'them'} too: restore it or empty it"


def _found(table: TableHandle, older_than_ms: int, executor: Executor, confirmed: int | None) -> Orphans:
    """As `find_orphans`, again if there were doubts while others committed or expired versions: these may pass."""
    for _ in range(_TRIES_MAX - 1):
        before = _versions(table)
        found = find_orphans(table, older_than_ms, executor, confirmed=confirmed)
        if not found.stopped or _versions(table) == before:
            return found
        logger.info("%s has changed while it was searched for orphans; searching again", table.paths.root)
    return find_orphans(table, older_than_ms, executor, confirmed=confirmed)


def _versions(table: TableHandle) -> list[tuple[str, list[int], list[str]]]:
    """By branch, the ids of the snapshots and the names of the tags."""
    handles = [with_branch_paths(table, branch) for branch in (MAIN_BRANCH, *branches(table))]
    return [(on_branch.paths.branch, snapshot_ids(on_branch), tag_names(on_branch)) for on_branch in handles]


def _directory(path: str) -> str:
    return path.rpartition("/")[0]
