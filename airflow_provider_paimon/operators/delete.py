"""Deleting rows, as an operator."""

from __future__ import annotations

from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator
from paimon_engine.actions.delete_rows import DeleteRows


class PaimonDeleteRowsOperator(PaimonActionOperator):
    """Deletes the rows of which a condition holds, in append tables with deletion vectors, on Spark.

    Args:
        where: SQL condition over the columns, such as `day = '{{ ds }}'`.
    """

    spec = DeleteRows

    def __init__(self, *, where: str, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
