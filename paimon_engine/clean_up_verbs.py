"""The verbs of `Table` that clean up and repair: orphans, purge, lost files, and undoing a deletion.

Each verb is one call of an action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Unpack

from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles, RemoveOrphanFilesResult, remove_orphan_files
from paimon_engine.actions.restore import (
    EmptyQuarantine,
    EmptyQuarantineResult,
    Restore,
    RestoreResult,
    empty_quarantine,
    list_quarantines,
    restore,
)
from paimon_engine.executor import Executor
from paimon_engine.table.disposal import DisposalWords
from paimon_engine.table.handle import TableHandle
from paimon_engine.version_verbs import epoch_ms


class CleanUpVerbs(ABC):
    """What removes, repairs and brings back."""

    _executor: Executor

    @property
    @abstractmethod
    def _handle(self) -> TableHandle:
        """The table itself."""

    def remove_orphan_files(
        self, older_than: int | datetime | None = None, *, dry_run: bool = False, **how: Unpack[DisposalWords]
    ) -> RemoveOrphanFilesResult:
        """Deletes old files that no snapshot, tag, branch or changelog names; what jobs that died have left.

        `older_than` is epoch milliseconds or a datetime, a day ago by default: it must be older than the longest
        running job. With `quarantine` files are moved aside, and `restore` brings them back. Nothing goes where
        anything cannot be read; `stopped` says so.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        limit = None if older_than is None else epoch_ms(older_than)
        return remove_orphan_files(self._handle, RemoveOrphanFiles(limit, dry_run, **how), self._executor)

    def restore(
        self,
        quarantine: str,
        *,
        as_tags: bool = False,
        dry_run: bool = False,
        files_per_second: float | None = None,
        parallelism: int | None = None,
    ) -> RestoreResult:
        """Undoes a deletion that moved its files aside (`quarantine=True`); `quarantine` is the name in its result.

        Files, tags, branches and snapshots come back to where they were. Where something else has taken their place
        nothing is moved, and the error says what is in the way; `as_tags` then brings versions back under new names.

        Raises: InvalidArgumentError, ConflictError, StorageError.
        """
        spec = Restore(
            quarantine=quarantine,
            as_tags=as_tags,
            dry_run=dry_run,
            files_per_second=files_per_second,
            parallelism=parallelism,
        )
        return restore(self._handle, spec, self._executor)

    def quarantines(self) -> list[Mapping[str, Any]]:
        """What was moved aside and can be brought back, oldest first.

        Each with `quarantine` (its name), `action`, `time_ms`, `files`, `bytes` and `roots`.

        Raises: CorruptTableError.
        """
        return list_quarantines(self._handle)

    def empty_quarantine(
        self, quarantine: str | None = None, *, older_than: int | datetime | None = None, dry_run: bool = False
    ) -> EmptyQuarantineResult:
        """Deletes for good what was moved aside: one quarantine, or all that are older (30 days by default).

        Raises: InvalidArgumentError, StorageError.
        """
        limit = None if older_than is None else epoch_ms(older_than)
        return empty_quarantine(self._handle, EmptyQuarantine(quarantine, limit, dry_run))
