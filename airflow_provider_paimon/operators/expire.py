"""Expiring snapshots and changelogs, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonDeletingOperator
from airflow_provider_paimon.rendered import decimal_number, flag, moment_ms, number


class PaimonExpireSnapshotsOperator(PaimonDeletingOperator):
    """Deletes old snapshots, and the files that nothing else reaches: tags, branches and consumers keep theirs.

    What is not given comes from the table's options. Where these let changelogs live longer than snapshots, those whose
    time is over go, too.

    Args:
        retain_max: keep at most this many snapshots.
        retain_min: keep at least this many.
        older_than: expire only what is older: a datetime, an ISO time, an age (timedelta, or a text such as `7 d`).
        limit: expire at most this many snapshots; by default all, or as many as the table's option
            `snapshot.expire.limit` says. `remaining` of the result counts those that are left.
        max_seconds: begin no further round of about a thousand snapshots after this time.
        dry_run: say what would be deleted, and delete nothing.
    """

    template_fields: Sequence[str] = (
        *PaimonDeletingOperator.template_fields,
        *("retain_max", "retain_min", "older_than", "limit", "max_seconds", "dry_run"),
    )

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
        super().__init__(action="expire_snapshots", **kwargs)
        self.retain_max = retain_max
        self.retain_min = retain_min
        self.older_than = older_than
        self.limit = limit
        self.max_seconds = max_seconds
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "retain_max": number("retain_max", self.retain_max),
            "retain_min": number("retain_min", self.retain_min),
            "older_than_ms": moment_ms("older_than", self.older_than),
            "limit": number("limit", self.limit),
            "max_seconds": decimal_number("max_seconds", self.max_seconds),
            "dry_run": flag("dry_run", self.dry_run),
            **self.disposal_arguments(),
        }


class PaimonExpireChangelogsOperator(PaimonDeletingOperator):
    """Deletes old changelogs of expired snapshots, and the files that nothing else reaches.

    What is not given comes from the table's options. Consumers keep what they have not read.

    Args:
        retain_max: keep the changes of at most this many commits, snapshots counted.
        retain_min: keep those of at least this many.
        older_than: expire only what is older: a datetime, an ISO time, an age (timedelta, or a text such as `7 d`).
        limit: delete at most this many.
        delete_all: delete all of them.
        dry_run: say what would be deleted, and delete nothing.
    """

    template_fields: Sequence[str] = (
        *PaimonDeletingOperator.template_fields,
        *("retain_max", "retain_min", "older_than", "limit", "delete_all", "dry_run"),
    )

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
        super().__init__(action="expire_changelogs", **kwargs)
        self.retain_max = retain_max
        self.retain_min = retain_min
        self.older_than = older_than
        self.limit = limit
        self.delete_all = delete_all
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "retain_max": number("retain_max", self.retain_max),
            "retain_min": number("retain_min", self.retain_min),
            "older_than_ms": moment_ms("older_than", self.older_than),
            "limit": number("limit", self.limit),
            "delete_all": flag("delete_all", self.delete_all),
            "dry_run": flag("dry_run", self.dry_run),
            **self.disposal_arguments(),
        }
