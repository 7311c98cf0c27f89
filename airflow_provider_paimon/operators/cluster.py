"""Clustering as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import flag, size_bytes, text


class PaimonClusterOperator(PaimonJobOperator):
    """Brings rows of an append table that are near each other in some columns into the same files, on Spark.

    Filters on these columns then read few files. What others insert meanwhile stays as it is.

    Args:
        columns: columns to cluster by, as a list or as `a, b`; those of the option `clustering.columns` by default.
        order: `order` (one column after another), `zorder` or `hilbert`; by default as the table's options say.
        where: SQL condition on partition columns; all partitions without one.
        dry_run: say what would be done, and do nothing.
        partition_idle_time: only partitions to which nothing was written for so long, such as `1 d`.
        max_bytes: rewrite no more files than these together, such as `50 gb`.
        round_bytes: commit each time that about so much was rewritten.
        target_file: size of new files.
        task_bytes: what a task writes.
        task_memory: what a task sorts in; more is spilled to its disk.
    """

    template_fields: Sequence[str] = (
        *PaimonJobOperator.template_fields,
        *("columns", "order", "where", "dry_run", "partition_idle_time", "max_bytes", "round_bytes", "target_file"),
        *("task_bytes", "task_memory"),
    )

    def __init__(
        self,
        *,
        columns: Sequence[str] | str = (),
        order: str | None = None,
        where: str | None = None,
        dry_run: bool | str = False,
        partition_idle_time: str | None = None,
        max_bytes: int | str | None = None,
        round_bytes: int | str | None = None,
        target_file: int | str | None = None,
        task_bytes: int | str | None = None,
        task_memory: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="cluster", **kwargs)
        self.columns = columns
        self.order = order
        self.where = where
        self.dry_run = dry_run
        self.partition_idle_time = partition_idle_time
        self.max_bytes = max_bytes
        self.round_bytes = round_bytes
        self.target_file = target_file
        self.task_bytes = task_bytes
        self.task_memory = task_memory

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        given = self.columns.split(",") if isinstance(self.columns, str) else self.columns
        return {
            "columns": [name for name in (text(name.strip()) for name in given) if name is not None],
            "order": text(self.order),
            "where": text(self.where),
            "dry_run": flag("dry_run", self.dry_run),
            "partition_idle_time": text(self.partition_idle_time),
            "max_bytes": size_bytes("max_bytes", self.max_bytes),
            "round_bytes": size_bytes("round_bytes", self.round_bytes),
            "target_file_bytes": size_bytes("target_file", self.target_file),
            "task_bytes": size_bytes("task_bytes", self.task_bytes),
            "task_memory_bytes": size_bytes("task_memory", self.task_memory),
        }
