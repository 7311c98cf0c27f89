"""Indexing of data files as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import flag, text


class PaimonRewriteFileIndexOperator(PaimonJobOperator):
    """Gives the data files of a table the indexes that its options ask for now, on Spark; no data is rewritten.

    The result tells how many files were indexed, lost their indexes, or had what they should have.

    Args:
        where: SQL condition on partition columns; all partitions without one.
        rebuild: also files that have these indexes, after options of an index changed.
        dry_run: say what would be done, and do nothing.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "where", "rebuild", "dry_run")

    def __init__(
        self, *, where: str | None = None, rebuild: bool | str = False, dry_run: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(action="rewrite_file_index", **kwargs)
        self.where = where
        self.rebuild = rebuild
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "where": text(self.where),
            "rebuild": flag("rebuild", self.rebuild),
            "dry_run": flag("dry_run", self.dry_run),
        }
