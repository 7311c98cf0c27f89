"""Consumers of streaming reads, as operators: moved, or deleted so that they keep no snapshots any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonResetConsumerOperator(PaimonActionOperator):
    """Lets a consumer continue from a snapshot, or deletes it.

    Args:
        consumer: its name.
        next_snapshot: id of the snapshot to continue from; without one the consumer is deleted.
        quarantine: move a deleted one to a quarantine; `PaimonRestoreOperator` can restore it.
    """

    action_name = "reset_consumer"

    def __init__(
        self, *, consumer: str, next_snapshot: int | str | None = None, quarantine: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonClearConsumersOperator(PaimonActionOperator):
    """Deletes consumers by their names.

    Args:
        including: regular expression for complete names of consumers to delete; all of them by default.
        excluding: regular expression for those that stay.
        dry_run: say which would be deleted, and delete none.
        quarantine: move them to a quarantine; `PaimonRestoreOperator` can restore them.
    """

    action_name = "clear_consumers"

    def __init__(
        self,
        *,
        including: str = ".*",
        excluding: str | None = None,
        dry_run: bool | str = False,
        quarantine: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonExpireConsumersOperator(PaimonActionOperator):
    """Deletes consumers that have not moved for long.

    Args:
        older_than: not moved since: a datetime, an ISO time, an age (timedelta, or a text such as `7 d`); without it,
            for the table's `consumer.expiration-time`.
        dry_run: say which would be deleted, and delete none.
        quarantine: move them to a quarantine; `PaimonRestoreOperator` can restore them.
    """

    action_name = "expire_consumers"

    def __init__(
        self,
        *,
        older_than: datetime | timedelta | str | None = None,
        dry_run: bool | str = False,
        quarantine: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
