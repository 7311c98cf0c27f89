"""Deleting rows, as an operator."""

from __future__ import annotations

from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonDeleteRowsOperator(PaimonActionOperator):
    """Deletes the rows that match a condition, in append tables with deletion vectors, on Spark.

    Args:
        where: SQL condition over the columns, such as `day = '{{ ds }}'`.
    """

    action_name = "delete_rows"

    def __init__(self, *, where: str, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
