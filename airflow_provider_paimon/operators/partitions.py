"""Dropping, expiring and marking partitions, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import duration_ms, flag, number, text


class PaimonDropPartitionOperator(PaimonJobOperator):
    """Drops the rows of partitions; older snapshots still have them until they expire.

    Args:
        partitions: values by column, all of the columns or some: `[{"day": "{{ ds }}"}]`.
        dry_run: say what would be dropped, and drop nothing.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "partitions", "dry_run")

    def __init__(self, *, partitions: Sequence[Mapping[str, Any]], dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="drop_partition", **kwargs)
        self.partitions = partitions
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"partitions": self.partitions, "dry_run": flag("dry_run", self.dry_run)}


class PaimonExpirePartitionsOperator(PaimonJobOperator):
    """Drops the partitions that are too old; what is not given comes from the table's options.

    Args:
        expiration_time: how old: a timedelta, or a text such as `30 d`.
        strategy: `values-time`, or `update-time` for the time of the newest file.
        timestamp_pattern: time of a partition, such as `$day $hour:00:00`; else its first column.
        timestamp_formatter: how that reads, such as `yyyyMMdd HH:mm:ss`.
        max_num: drop at most so many at once.
        dry_run: say what would be dropped, and drop nothing.
    """

    template_fields: Sequence[str] = (
        *PaimonJobOperator.template_fields,
        "expiration_time",
        "strategy",
        "timestamp_pattern",
        "timestamp_formatter",
        "max_num",
        "dry_run",
    )

    def __init__(
        self,
        *,
        expiration_time: timedelta | str | None = None,
        strategy: str | None = None,
        timestamp_pattern: str | None = None,
        timestamp_formatter: str | None = None,
        max_num: int | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="expire_partitions", **kwargs)
        self.expiration_time = expiration_time
        self.strategy = strategy
        self.timestamp_pattern = timestamp_pattern
        self.timestamp_formatter = timestamp_formatter
        self.max_num = max_num
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        age_ms = duration_ms("expiration_time", self.expiration_time)
        return {
            "expiration_time": None if age_ms is None else f"{age_ms} ms",
            "strategy": text(self.strategy),
            "timestamp_pattern": text(self.timestamp_pattern),
            "timestamp_formatter": text(self.timestamp_formatter),
            "max_num": number("max_num", self.max_num),
            "dry_run": flag("dry_run", self.dry_run),
        }


class PaimonMarkPartitionDoneOperator(PaimonJobOperator):
    """Tells those who wait that no more rows will come to partitions: writes `_SUCCESS` files, or reports by HTTP.

    The table's option `partition.mark-done-action` says how.

    Args:
        partitions: a value for every partition column: `[{"day": "{{ ds }}"}]`.
        dry_run: say how they would be told, and tell nobody.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "partitions", "dry_run")

    def __init__(self, *, partitions: Sequence[Mapping[str, Any]], dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="mark_partition_done", **kwargs)
        self.partitions = partitions
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"partitions": self.partitions, "dry_run": flag("dry_run", self.dry_run)}
