"""Tidying and analyzing a table's metadata, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import flag
from paimon_engine import InvalidArgumentError


class PaimonCompactManifestsOperator(PaimonJobOperator):
    """Rewrites the lists of a table's files to few large ones; no data file is touched.

    Args:
        dry_run: say what would be done, and do nothing.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "dry_run")

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="compact_manifests", **kwargs)
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"dry_run": flag("dry_run", self.dry_run)}


class PaimonAnalyzeOperator(PaimonJobOperator):
    """Counts a table's rows and gathers statistics of its columns for query planners, on Spark.

    Args:
        columns: names of columns; all that are not nested by default, none for `[]`.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "columns")

    def __init__(self, *, columns: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(action="analyze", **kwargs)
        self.columns = columns

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action.

        Raises: InvalidArgumentError.
        """
        if isinstance(self.columns, str):
            raise InvalidArgumentError(f"columns is a list of names, such as [{self.columns!r}]")
        return {"columns": None if self.columns is None else list(self.columns)}
