"""Compacting and analyzing a table's metadata, as operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonCompactManifestsOperator(PaimonActionOperator):
    """Rewrites a table's manifests to few large ones; no data file is touched.

    Args:
        dry_run: say what would be done, and do nothing.
    """

    action_name = "compact_manifests"

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonAnalyzeOperator(PaimonActionOperator):
    """Counts a table's rows and computes statistics of its columns for query planners, on Spark.

    Args:
        columns: names of columns; all that are not nested by default, none for `[]`.
    """

    action_name = "analyze"

    def __init__(self, *, columns: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
