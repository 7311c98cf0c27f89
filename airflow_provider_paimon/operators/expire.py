"""Expiring snapshots and changelogs, as operators."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonDeletingOperator


class PaimonExpireSnapshotsOperator(PaimonDeletingOperator):
    """Deletes old snapshots, and the files that nothing else needs: tags, branches and consumers keep theirs.

    What is not given comes from the table's options. Where these keep changelogs longer than snapshots, changelogs
    whose time has ended are deleted, too.

    Args:
        retain_max: keep at most this many snapshots.
        retain_min: keep at least this many.
        older_than: expire only what is older: a datetime, an ISO time, an age (timedelta, or a text such as `7 d`).
        limit: expire at most this many snapshots; by default all, or as many as the table's option
            `snapshot.expire.limit` says. `remaining` of the result counts those that are left.
        max_seconds: begin no further round of about a thousand snapshots after this time.
        dry_run: say what would be deleted, and delete nothing.
    """

    action_name = "expire_snapshots"

    def __init__(
        self,
        *,
        retain_max: int | str | None = None,
        retain_min: int | str | None = None,
        older_than: datetime | timedelta | int | str | None = None,
        limit: int | str | None = None,
        max_seconds: float | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonExpireChangelogsOperator(PaimonDeletingOperator):
    """Deletes old changelogs of expired snapshots, and the files that nothing else needs.

    What is not given comes from the table's options. Consumers keep what they have not read.

    Args:
        retain_max: keep the changes of at most this many commits, snapshots counted.
        retain_min: keep those of at least this many.
        older_than: expire only what is older: a datetime, an ISO time, an age (timedelta, or a text such as `7 d`).
        limit: delete at most this many.
        delete_all: delete all of them.
        dry_run: say what would be deleted, and delete nothing.
    """

    action_name = "expire_changelogs"

    def __init__(
        self,
        *,
        retain_max: int | str | None = None,
        retain_min: int | str | None = None,
        older_than: datetime | timedelta | int | str | None = None,
        limit: int | str | None = None,
        delete_all: bool | str = False,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
