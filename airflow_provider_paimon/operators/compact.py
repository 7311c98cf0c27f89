"""Compaction as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonCompactOperator(PaimonActionOperator):
    """Merges the small files and sorted runs of a table, on Spark unless they are few bytes.

    The result has files, bytes and rows before and after, per bucket, and why buckets were not compacted.

    Args:
        full: merge everything into the highest level, instead of what the table's options require.
        where: SQL condition on partition columns; all partitions without one.
        dry_run: say what would be done, and do nothing.
        buckets: numbers of the buckets to compact; all without them.
        partition_idle_time: only partitions to which nothing was written for so long, such as `1 d`.
        max_bytes: rewrite no more files than these together, such as `50 gb`: those that cost readers most first.
        max_buckets: compact no more buckets.
        max_seconds: begin no round after that time.
        round_bytes: commit each time that about so much was rewritten.
        task_bytes: split larger buckets into tasks of about that size, where their keys allow.
        task_memory_bytes: memory that a task may take, by estimate; buckets that need more are skipped.
    """

    action_name = "compact"

    def __init__(
        self,
        *,
        full: bool | str = False,
        where: str | None = None,
        dry_run: bool | str = False,
        buckets: Sequence[int | str] | None = None,
        partition_idle_time: str | None = None,
        max_bytes: int | str | None = None,
        max_buckets: int | str | None = None,
        max_seconds: float | str | None = None,
        round_bytes: int | str | None = None,
        task_bytes: int | str | None = None,
        task_memory_bytes: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
