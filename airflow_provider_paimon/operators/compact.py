"""Compaction as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import decimal_number, flag, number, numbers, size_bytes, text


class PaimonCompactOperator(PaimonJobOperator):
    """Merges the small files and sorted runs of a table, on Spark.

    The result tells files, bytes and rows before and after, per bucket, and why buckets were left alone.

    Args:
        full: take everything to the highest level, instead of what the table's options call for.
        where: SQL condition on partition columns; all partitions without one.
        dry_run: say what would be done, and do nothing.
        buckets: numbers of the buckets to compact; all without them.
        partition_idle_time: only partitions to which nothing was written for so long, such as `1 d`.
        max_bytes: rewrite no more files than these together, such as `50 gb`: those that cost readers most first.
        max_buckets: compact no more buckets.
        max_seconds: begin no round after that time.
        round_bytes: commit each time that about so much was rewritten.
        task_bytes: split larger buckets into tasks of about that size, where their keys allow.
        task_memory: memory that a task may take, by estimate; buckets that need more are skipped.
    """

    template_fields: Sequence[str] = (
        *PaimonJobOperator.template_fields,
        *("full", "where", "dry_run", "buckets", "partition_idle_time", "max_bytes", "max_buckets", "max_seconds"),
        *("round_bytes", "task_bytes", "task_memory"),
    )

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
        task_memory: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="compact", **kwargs)
        self.full = full
        self.where = where
        self.dry_run = dry_run
        self.buckets = buckets
        self.partition_idle_time = partition_idle_time
        self.max_bytes = max_bytes
        self.max_buckets = max_buckets
        self.max_seconds = max_seconds
        self.round_bytes = round_bytes
        self.task_bytes = task_bytes
        self.task_memory = task_memory

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "full": flag("full", self.full),
            "where": text(self.where),
            "dry_run": flag("dry_run", self.dry_run),
            "buckets": numbers("buckets", self.buckets),
            "partition_idle_time": text(self.partition_idle_time),
            "max_bytes": size_bytes("max_bytes", self.max_bytes),
            "max_buckets": number("max_buckets", self.max_buckets),
            "max_seconds": decimal_number("max_seconds", self.max_seconds),
            "round_bytes": size_bytes("round_bytes", self.round_bytes),
            "task_bytes": size_bytes("task_bytes", self.task_bytes),
            "task_memory_bytes": size_bytes("task_memory", self.task_memory),
        }
