"""Indexing of data files as an operator."""

from __future__ import annotations

from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonRewriteFileIndexOperator(PaimonActionOperator):
    """Writes the indexes that a table's options require now for its data files, on Spark; no data is rewritten.

    The result says how many files were indexed, lost their indexes, or had what they should have.

    Args:
        where: SQL condition on partition columns; all partitions without one.
        rebuild: also files that have these indexes, after options of an index changed.
        dry_run: say what would be done, and do nothing.
    """

    action_name = "rewrite_file_index"

    def __init__(
        self, *, where: str | None = None, rebuild: bool | str = False, dry_run: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
