"""Changing a table's schema, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator
from airflow_provider_paimon.rendered import list_in


class PaimonAlterTableOperator(PaimonActionOperator):
    """Changes columns, options and comments: all changes, or none. No data file is rewritten.

    Args:
        changes: as in `{"change": "add_column", "name": "city", "type": "STRING"}`, in order; or the name of a
            `.yaml` or `.json` file that lists them.
    """

    action_name = "alter_table"
    template_ext: Sequence[str] = (".yaml", ".yml", ".json")

    def __init__(self, *, changes: Sequence[Mapping[str, Any]] | str, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields of the action; the changes as a file has them, too."""
        given = super().action_arguments(context)
        return {**given, "changes": list_in(given["changes"])}
