"""Rescaling buckets, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import flag, text


class PaimonRescaleOperator(PaimonJobOperator):
    """Gives partitions as many buckets as the option `bucket` says by now, on Spark.

    Args:
        where: SQL condition over partition columns; all partitions by default.
        dry_run: say what would be done, and do nothing.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "where", "dry_run")

    def __init__(self, *, where: str | None = None, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="rescale", **kwargs)
        self.where = where
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"where": text(self.where), "dry_run": flag("dry_run", self.dry_run)}
