"""Dropping, expiring and marking partitions, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonDropPartitionOperator(PaimonActionOperator):
    """Drops the rows of partitions; older snapshots still have them until they expire.

    Args:
        partitions: values by column, all of the columns or some: `[{"day": "{{ ds }}"}]`.
        dry_run: say what would be dropped, and drop nothing.
    """

    action_name = "drop_partition"

    def __init__(self, *, partitions: Sequence[Mapping[str, Any]], dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonExpirePartitionsOperator(PaimonActionOperator):
    """Drops the partitions that are too old; what is not given comes from the table's options.

    Args:
        expiration_time: how old: a timedelta, or a text such as `30 d`.
        strategy: `values-time`, or `update-time` for the time of the newest file.
        timestamp_pattern: time of a partition, such as `$day $hour:00:00`; else its first column.
        timestamp_formatter: how that reads, such as `yyyyMMdd HH:mm:ss`.
        max_num: drop at most so many at once.
        dry_run: say what would be dropped, and drop nothing.
    """

    action_name = "expire_partitions"

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
        super().__init__(fields=locals(), **kwargs)


class PaimonMarkPartitionDoneOperator(PaimonActionOperator):
    """Notifies waiting programs that partitions get no more rows: writes `_SUCCESS` files, or reports by HTTP.

    The table's option `partition.mark-done-action` says how.

    Args:
        partitions: a value for every partition column: `[{"day": "{{ ds }}"}]`.
        dry_run: say how they would be reported, and report nothing.
    """

    action_name = "mark_partition_done"

    def __init__(self, *, partitions: Sequence[Mapping[str, Any]], dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
