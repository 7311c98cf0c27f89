"""Clustering as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonClusterOperator(PaimonActionOperator):
    """Brings rows of an append table that are near each other in some columns into the same files.

    Filters on these columns then read few files. Rows that others insert meanwhile are not changed.

    Args:
        columns: columns to cluster by, as a list or as `a, b`; those of the option `clustering.columns` by default.
        order: `order` (one column after another), `zorder` or `hilbert`; by default as the table's options say.
        where: SQL condition on partition columns; all partitions without one.
        dry_run: say what would be done, and do nothing.
        partition_idle_time: only partitions to which nothing was written for so long, such as `1 d`.
        max_bytes: rewrite no more files than these together, such as `50 gb`.
        round_bytes: commit each time that about so much was rewritten.
        target_file_bytes: size of new files.
        task_bytes: what a task writes.
        task_memory_bytes: what a task sorts in; more is spilled to its disk.
    """

    action_name = "cluster"

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
        target_file_bytes: int | str | None = None,
        task_bytes: int | str | None = None,
        task_memory_bytes: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
