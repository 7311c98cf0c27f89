"""Compaction as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import flag, text


class PaimonCompactOperator(PaimonJobOperator):
    """Merges the small files and sorted runs of a table, on Spark.

    The result tells files, bytes and rows before and after, per bucket, and why buckets were left alone.

    Args:
        full: take everything to the highest level, instead of what the table's options call for.
        where: SQL condition on partition columns; all partitions without one.
        dry_run: say what would be done, and do nothing.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "full", "where", "dry_run")

    def __init__(
        self, *, full: bool | str = False, where: str | None = None, dry_run: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(action="compact", **kwargs)
        self.full = full
        self.where = where
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "full": flag("full", self.full),
            "where": text(self.where),
            "dry_run": flag("dry_run", self.dry_run),
        }
