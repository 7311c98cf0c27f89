"""From a table to files for other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.rendered import structure, text
from airflow_provider_paimon.transfers.paimon_to_sql import wanted_rows
from airflow_provider_paimon.transfers.table_transfer import PaimonTableTransfer


class PaimonToFilesOperator(PaimonTableTransfer):
    """Writes the rows of a table to files, in the task itself; they are there completely or not at all.

    All rows are of one snapshot. With `if_exists="replace"` a retry or a cleared task writes the same files again.

    Args:
        target: path or address of the file; with `partition_by` of the directory.
        format: `parquet`, `orc`, `avro`, `csv`, or `json` with one object a line.
        partition_by: columns whose values name directories, `day=2024-02-29`, as Hive and Spark read them; `[]` makes
            a directory without these. The last file of a directory is `_SUCCESS`.
        columns: columns to write; all without it.
        where: SQL condition over the columns.
        tag: rows at this tag instead of the latest ones.
        snapshot: rows at this snapshot instead of the latest ones.
        if_exists: `error`, `ignore`, or `replace`, which replaces a file, or a directory that an export has made.
        target_conn_id: connection of type `paimon` whose credentials and options lead to the target's store; by default
            those of the table.
    """

    template_fields: Sequence[str] = (
        *PaimonTableTransfer.template_fields,
        *("target", "format", "partition_by", "columns", "where", "tag", "snapshot", "if_exists", "target_conn_id"),
    )
    template_fields_renderers: Mapping[str, str] = {"where": "sql"}

    def __init__(
        self,
        *,
        target: str,
        format: str = "parquet",  # noqa: A002 - what users of files call it
        partition_by: Sequence[str] | str | None = None,
        columns: Sequence[str] | str | None = None,
        where: str | None = None,
        tag: str | None = None,
        snapshot: int | str | None = None,
        if_exists: str = "error",
        target_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.format = format
        self.partition_by = partition_by
        self.columns = columns
        self.where = where
        self.tag = tag
        self.snapshot = snapshot
        self.if_exists = if_exists
        self.target_conn_id = target_conn_id

    def transfer(self, hook: PaimonHook, context: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Reads and writes batch by batch."""
        conn_id = text(self.target_conn_id)
        done = hook.table(self.table).export(
            self.target,
            self.format,
            **wanted_rows(self),
            partition_by=structure("partition_by", self.partition_by, list),
            if_exists=self.if_exists,
            storage_options=None if conn_id is None else PaimonHook(conn_id).storage_options,
        )
        return {"table": self.table, **done.to_dict()}

    def lineage_targets(self) -> Sequence[str]:
        """Addresses of what is written."""
        return [self.target]
