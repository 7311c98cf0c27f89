"""Rescaling buckets, as an operator."""

from __future__ import annotations

from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonRescaleOperator(PaimonActionOperator):
    """Changes the number of buckets of partitions to the current value of the option `bucket`, on Spark.

    Args:
        where: SQL condition over partition columns; all partitions by default.
        dry_run: say what would be done, and do nothing.
    """

    action_name = "rescale"

    def __init__(self, *, where: str | None = None, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
