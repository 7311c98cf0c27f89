"""Changing a table's schema, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator


class PaimonAlterTableOperator(PaimonActionOperator):
    """Changes columns, options and comments: all changes, or none. No data file is rewritten.

    Args:
        changes: as in `{"change": "add_column", "name": "city", "type": "STRING"}`, in order.
    """

    action_name = "alter_table"
    template_fields_renderers: Mapping[str, str] = {**PaimonActionOperator.template_fields_renderers, "changes": "json"}

    def __init__(self, *, changes: Sequence[Mapping[str, Any]] = (), **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
