"""Creating a table, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator
from airflow_provider_paimon.rendered import option_text


class PaimonCreateTableOperator(PaimonActionOperator):
    """Creates a table, or checks that the existing one has this definition; the status is `created` or `exists`.

    It runs in the task itself, without Spark. A task that is retried or cleared finds the table and verifies it.

    Args:
        columns: columns with Paimon's types, `{"id": "BIGINT NOT NULL", "name": "VARCHAR(10)"}`.
        primary_keys: columns that identify a row; without any it is an append table.
        partition_keys: columns by whose values rows are stored in directories.
        options: options of the table; numbers and flags are taken as texts.
        comment: what the table is.
        sql: a `CREATE TABLE` statement as for Flink or Spark, instead of columns, keys and comment; a file `.sql` is a
            template.
        if_exists: `verify` that an existing table has this definition (more options may be set), and fail with the
            differences; `ignore` an existing one; or treat it as an `error`.
    """

    action_name = "create_table"
    template_ext: Sequence[str] = (".sql",)

    def __init__(
        self,
        *,
        columns: Mapping[str, str] | str | None = None,
        primary_keys: Sequence[str] | str | None = None,
        partition_keys: Sequence[str] | str | None = None,
        options: Mapping[str, Any] | str | None = None,
        comment: str | None = None,
        sql: str | None = None,
        if_exists: str = "verify",
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields of the action's spec; options as the texts that a table has."""
        fields = dict(super().action_arguments(context))
        if isinstance(fields["options"], Mapping):
            fields["options"] = {name: option_text(value) for name, value in fields["options"].items()}
        return fields
