"""Rolling a table back, as operators."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator, PaimonDeletingOperator


class PaimonRollbackOperator(PaimonDeletingOperator):
    """Makes an earlier snapshot or tag the latest; newer snapshots and tags are deleted, or moved to a quarantine.

    Args:
        snapshot: id of the snapshot; give this or one of the following.
        tag: name of the tag.
        timestamp: to the newest snapshot not younger: a datetime or an ISO time.
        watermark: to the newest snapshot whose watermark is not greater, in epoch milliseconds.
        dry_run: say what would be deleted, and change nothing.
    """

    action_name = "rollback"

    def __init__(
        self,
        *,
        snapshot: int | str | None = None,
        tag: str | None = None,
        timestamp: datetime | str | None = None,
        watermark: int | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonRollbackToAsLatestOperator(PaimonActionOperator):
    """Makes a new snapshot with the content of an earlier one; nothing is lost.

    Args:
        snapshot: id of the snapshot; give this or one of the following.
        tag: name of the tag.
        timestamp: the newest snapshot not younger: a datetime or an ISO time.
        watermark: the newest snapshot whose watermark is not greater, in epoch milliseconds.
    """

    action_name = "rollback_to_as_latest"

    def __init__(
        self,
        *,
        snapshot: int | str | None = None,
        tag: str | None = None,
        timestamp: datetime | str | None = None,
        watermark: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
