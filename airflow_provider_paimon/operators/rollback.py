"""Rolling a table back, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_provider_paimon.operators.job import PaimonDeletingOperator, PaimonJobOperator
from airflow_provider_paimon.rendered import flag, moment_ms, number, text

_TARGET = ("snapshot", "tag", "timestamp", "watermark")


class PaimonRollbackOperator(PaimonDeletingOperator):
    """Makes an earlier snapshot or tag the latest; newer snapshots and tags go; for good unless with `quarantine`.

    Args:
        snapshot: id of the snapshot; give this or one of the following.
        tag: name of the tag.
        timestamp: to the newest snapshot not younger: a datetime or an ISO time.
        watermark: to the newest snapshot whose watermark is not beyond, in epoch milliseconds.
        dry_run: say what would go, and change nothing.
    """

    template_fields: Sequence[str] = (*PaimonDeletingOperator.template_fields, *_TARGET, "dry_run")

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
        super().__init__(action="rollback", **kwargs)
        self.snapshot = snapshot
        self.tag = tag
        self.timestamp = timestamp
        self.watermark = watermark
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        target = _target(self.snapshot, self.tag, self.timestamp, self.watermark)
        return {**target, "dry_run": flag("dry_run", self.dry_run), **self.disposal_arguments()}


class PaimonRollbackToAsLatestOperator(PaimonJobOperator):
    """Makes a new snapshot that holds what an earlier one held; nothing is lost.

    Args:
        snapshot: id of the snapshot; give this or one of the following.
        tag: name of the tag.
        timestamp: the newest snapshot not younger: a datetime or an ISO time.
        watermark: the newest snapshot whose watermark is not beyond, in epoch milliseconds.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, *_TARGET)

    def __init__(
        self,
        *,
        snapshot: int | str | None = None,
        tag: str | None = None,
        timestamp: datetime | str | None = None,
        watermark: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="rollback_to_as_latest", **kwargs)
        self.snapshot = snapshot
        self.tag = tag
        self.timestamp = timestamp
        self.watermark = watermark

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return _target(self.snapshot, self.tag, self.timestamp, self.watermark)


def _target(snapshot: Any, tag: Any, timestamp: Any, watermark: Any) -> Mapping[str, Any]:
    return {
        "snapshot": number("snapshot", snapshot),
        "tag": text(tag),
        "timestamp_ms": moment_ms("timestamp", timestamp),
        "watermark": number("watermark", watermark),
    }
