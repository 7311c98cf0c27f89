"""The verbs of `Table` that clean up and repair: orphans, purge, lost files, and undoing a deletion.

Each verb is one call of an action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from paimon_engine import actions
from paimon_engine.verbs import MomentLike, Verbs

if TYPE_CHECKING:
    from paimon_engine.table.removal.file_removal import DisposalWords


class CleanUpVerbs(Verbs):
    """What removes, repairs and restores."""

    def remove_orphan_files(
        self,
        older_than: MomentLike | None = None,
        *,
        dry_run: bool = False,
        confirm_latest_snapshot: int | None = None,
        **how: Unpack[DisposalWords],
    ) -> actions.remove_orphan_files.RemoveOrphanFilesResult:
        """Deletes old files that no snapshot, tag, branch or changelog names; left by jobs that died.

        `older_than` is epoch milliseconds, a datetime, or an age such as `7 d`; a day by default. It must be longer ago
        than any job runs. With `quarantine` files are moved, and `restore` restores them. Nothing is deleted where
        anything cannot be read, or where versions of the table seem to be missing; `stopped` says so.
        `confirm_latest_snapshot` confirms that none is: the number of the latest snapshot, 0 if there is none.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        return self._act(
            actions.remove_orphan_files.remove_orphan_files, actions.remove_orphan_files.RemoveOrphanFiles, locals()
        )

    def restore(
        self,
        quarantine: str,
        *,
        as_tags: bool = False,
        dry_run: bool = False,
        files_per_second: float | None = None,
        parallelism: int | None = None,
    ) -> actions.restore.RestoreResult:
        """Undoes a deletion that quarantined its files (`quarantine=True`); `quarantine` is the name in its result.

        Files, tags, branches and snapshots are restored to where they were. Where something else has taken their path
        nothing is moved, and the error names the conflict; `as_tags` then restores versions under new names.
        Of a quarantine in the state `without_list` only files are restored.

        Raises: InvalidArgumentError, CorruptTableError if its list is damaged, ConflictError, StorageError.
        """
        return self._act(actions.restore.restore, actions.restore.Restore, locals())

    def quarantines(self) -> list[Mapping[str, Any]]:
        """What was quarantined and can be restored, oldest first, also what runs that died have left of it.

        Each with `quarantine` (its name), `action`, `time_ms`, `files`, `bytes`, `roots`, `files_there`, `problem` and
        `state`: `complete`, `unfinished` (files of it are still, or again, at their old paths), `incomplete` (files
        of it are missing), `without_list` or `unreadable_list`.

        Raises: StorageError; NotFoundError, ConflictError if others have dropped the table since it was opened.
        """
        return actions.restore.list_quarantines(self._handle)

    def empty_quarantine(
        self, quarantine: str | None = None, *, older_than: MomentLike | None = None, dry_run: bool = False
    ) -> actions.restore.EmptyQuarantineResult:
        """Deletes permanently what was quarantined: one quarantine, or all that are older (30 days by default).

        Run it again to finish what was interrupted. `stopped` of the result says what was left.

        Raises: InvalidArgumentError, StorageError.
        """
        return self._act(actions.restore.empty_quarantine, actions.restore.EmptyQuarantine, locals())

    def purge_files(
        self,
        *,
        keep_tags: bool = False,
        keep_branches: bool = False,
        older_than: MomentLike | None = None,
        dry_run: bool = False,
        commit_user: str | None = None,
        **how: Unpack[DisposalWords],
    ) -> actions.purge_files.PurgeFilesResult:
        """Empties the table, and deletes older snapshots, tags, branches, consumers and all files that they reached.

        Schema and options stay, and with `keep_tags` or `keep_branches` those. Files that nothing names go if they are
        older than `older_than`, a day by default. With `quarantine` all of it can be restored.

        Raises: InvalidArgumentError, ConflictError, UnsupportedError, StorageError.
        """
        return self._act(actions.purge_files.purge_files, actions.purge_files.PurgeFiles, locals())

    def remove_unexisting_files(
        self, *, dry_run: bool = False, parallelism: int | None = None, commit_user: str | None = None
    ) -> actions.remove_unexisting_files.RemoveUnexistingFilesResult:
        """Removes data files that the store no longer has from the manifests: their rows are lost, the rest reads.

        Raises: NotFoundError, ConflictError, UnsupportedError, StorageError.
        """
        return self._act(
            actions.remove_unexisting_files.remove_unexisting_files,
            actions.remove_unexisting_files.RemoveUnexistingFiles,
            locals(),
        )

    def remove_unexisting_manifests(
        self, *, dry_run: bool = False, commit_user: str | None = None
    ) -> actions.remove_unexisting_manifests.RemoveUnexistingManifestsResult:
        """Removes manifests that the store no longer has from the lists: what only they named is lost.

        Run `remove_unexisting_files` after it.

        Raises: CorruptTableError, ConflictError, UnsupportedError, StorageError.
        """
        return self._act(
            actions.remove_unexisting_manifests.remove_unexisting_manifests,
            actions.remove_unexisting_manifests.RemoveUnexistingManifests,
            locals(),
        )

    def repair_earliest_snapshot(
        self, snapshot: int | None = None, *, dry_run: bool = False, **how: Unpack[DisposalWords]
    ) -> actions.repair_earliest_snapshot.RepairEarliestSnapshotResult:
        """Lets the table begin with the first snapshot of the unbroken, readable row that ends at the latest one.

        Snapshots before it, which a gap or a damaged one cuts off, go with the files that only they reach. Where any
        is given up so, `snapshot` has to name the first one to keep, as a lost one and one that is not visible look
        the same: a run without changes nothing, is `stopped` and says the number, and so does a dry run.

        Raises: NotFoundError, CorruptTableError, InvalidArgumentError, UnsupportedError.
        """
        return self._act(
            actions.repair_earliest_snapshot.repair_earliest_snapshot,
            actions.repair_earliest_snapshot.RepairEarliestSnapshot,
            locals(),
        )
