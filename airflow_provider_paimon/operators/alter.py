"""Changing a table's schema, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator


class PaimonAlterTableOperator(PaimonJobOperator):
    """Changes columns, options and comments: all changes, or none. No data file is rewritten.

    Args:
        changes: as in `{"change": "add_column", "name": "city", "type": "STRING"}`, in order.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "changes")
    template_fields_renderers: Mapping[str, str] = {**PaimonJobOperator.template_fields_renderers, "changes": "json"}

    def __init__(self, *, changes: Sequence[Mapping[str, Any]] = (), **kwargs: Any) -> None:
        super().__init__(action="alter_table", **kwargs)
        self.changes = changes

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"changes": list(self.changes)}
