"""Consumers of streaming reads, as operators: moved, or forgotten so that they hold no snapshots any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import flag, moment_ms, number, text


class PaimonResetConsumerOperator(PaimonJobOperator):
    """Lets a consumer go on from a snapshot, or forgets it.

    Args:
        consumer: its name.
        next_snapshot: id of the snapshot to go on from; without one the consumer is forgotten.
        quarantine: move a forgotten one aside, from where `PaimonRestoreOperator` brings it back.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "consumer", "next_snapshot", "quarantine")

    def __init__(
        self, *, consumer: str, next_snapshot: int | str | None = None, quarantine: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(action="reset_consumer", **kwargs)
        self.consumer = consumer
        self.next_snapshot = next_snapshot
        self.quarantine = quarantine

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "consumer": self.consumer,
            "next_snapshot": number("next_snapshot", self.next_snapshot),
            "quarantine": flag("quarantine", self.quarantine),
        }


class PaimonClearConsumersOperator(PaimonJobOperator):
    """Forgets consumers by their names.

    Args:
        including: regular expression for whole names of consumers to forget; all of them by default.
        excluding: regular expression for those that stay.
        dry_run: say which would be forgotten, and forget none.
        quarantine: move them aside, from where `PaimonRestoreOperator` brings them back.
    """

    template_fields: Sequence[str] = (
        *PaimonJobOperator.template_fields,
        *("including", "excluding", "dry_run", "quarantine"),
    )

    def __init__(
        self,
        *,
        including: str = ".*",
        excluding: str | None = None,
        dry_run: bool | str = False,
        quarantine: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="clear_consumers", **kwargs)
        self.including = including
        self.excluding = excluding
        self.dry_run = dry_run
        self.quarantine = quarantine

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "including": self.including,
            "excluding": text(self.excluding),
            "dry_run": flag("dry_run", self.dry_run),
            "quarantine": flag("quarantine", self.quarantine),
        }


class PaimonExpireConsumersOperator(PaimonJobOperator):
    """Forgets consumers that have not moved for long.

    Args:
        older_than: not moved since: a datetime, an ISO time, an age (timedelta, or a text such as `7 d`); without it,
            for the table's `consumer.expiration-time`.
        dry_run: say which would be forgotten, and forget none.
        quarantine: move them aside, from where `PaimonRestoreOperator` brings them back.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "older_than", "dry_run", "quarantine")

    def __init__(
        self,
        *,
        older_than: datetime | timedelta | str | None = None,
        dry_run: bool | str = False,
        quarantine: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="expire_consumers", **kwargs)
        self.older_than = older_than
        self.dry_run = dry_run
        self.quarantine = quarantine

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "older_than_ms": moment_ms("older_than", self.older_than),
            "dry_run": flag("dry_run", self.dry_run),
            "quarantine": flag("quarantine", self.quarantine),
        }
