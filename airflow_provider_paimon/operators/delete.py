"""Deleting rows, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator


class PaimonDeleteRowsOperator(PaimonJobOperator):
    """Deletes the rows of which a condition holds, in append tables with deletion vectors, on Spark.

    Args:
        where: SQL condition over the columns, such as `day = '{{ ds }}'`.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "where")

    def __init__(self, *, where: str, **kwargs: Any) -> None:
        super().__init__(action="delete_rows", **kwargs)
        self.where = where

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"where": self.where}
