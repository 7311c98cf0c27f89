"""Operators that repair tables, empty them, and restore files from quarantines."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator, PaimonDeletingOperator


class PaimonRestoreOperator(PaimonActionOperator):
    """Undoes a deletion that quarantined its files (`quarantine=True`).

    Args:
        quarantine: the name that the result of the deletion gave.
        as_tags: restore versions as tags `restored-…`, even if other versions have their names now.
        dry_run: say what would be restored, and move nothing.
        files_per_second: move at most this many files per second.
        parallelism: move with at most this many workers.
    """

    action_name = "restore"

    def __init__(
        self,
        *,
        quarantine: str,
        as_tags: bool | str = False,
        dry_run: bool | str = False,
        files_per_second: float | str | None = None,
        parallelism: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonEmptyQuarantineOperator(PaimonActionOperator):
    """Deletes permanently what was quarantined.

    Args:
        quarantine: name of one quarantine.
        older_than: instead, all that are older: a datetime, an ISO time, an age (timedelta, or a text such as `7 d`);
            30 days by default.
        dry_run: say what would be deleted, and delete nothing.
    """

    action_name = "empty_quarantine"

    def __init__(
        self,
        *,
        quarantine: str | None = None,
        older_than: datetime | timedelta | int | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonPurgeFilesOperator(PaimonDeletingOperator):
    """Empties a table: rows, older snapshots, tags, branches, consumers and all their files go; the schema stays.

    Args:
        keep_tags: keep tags and the files that they need.
        keep_branches: keep branches and the files that they need.
        older_than: delete files that nothing names only if they are older; a day by default.
        dry_run: say what would be deleted, and change nothing.
    """

    action_name = "purge_files"

    def __init__(
        self,
        *,
        keep_tags: bool | str = False,
        keep_branches: bool | str = False,
        older_than: datetime | timedelta | int | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonRemoveUnexistingFilesOperator(PaimonActionOperator):
    """Removes missing data files from a table's manifests, so that the rest can be read; their rows are lost.

    Args:
        dry_run: say what is missing, and change nothing.
        parallelism: look into no more directories at a time than this.
    """

    action_name = "remove_unexisting_files"

    def __init__(self, *, dry_run: bool | str = False, parallelism: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonRemoveUnexistingManifestsOperator(PaimonActionOperator):
    """Removes missing manifests from a table's lists; files that only they named are lost.

    Args:
        dry_run: say what is missing, and change nothing.
    """

    action_name = "remove_unexisting_manifests"

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonRepairEarliestSnapshotOperator(PaimonDeletingOperator):
    """Lets a table begin after a gap in its snapshots, or after a damaged one; those before it are deleted.

    Args:
        snapshot: id of the first one to keep, before which all are lost; for a single run and not for a schedule. A
            run without says which one that is, and changes nothing where anything would be given up.
        dry_run: say what would be deleted, and change nothing.
    """

    action_name = "repair_earliest_snapshot"

    def __init__(self, *, snapshot: int | str | None = None, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
