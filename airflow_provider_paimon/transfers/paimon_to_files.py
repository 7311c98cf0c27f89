"""From a table to files for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Asset

from airflow_provider_paimon.assets import is_from_mapped
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.job import PaimonActionOperator
from airflow_provider_paimon.rendered import text


class PaimonToFilesOperator(PaimonActionOperator):
    """Writes the rows of a table to files, in the task itself; they are there completely or not at all.

    All rows are of one snapshot. With `if_exists="replace"` a retry or a cleared task writes the same files again. A
    `paimon_table` is an inlet, unless `inlets` say otherwise.

    Args:
        target: path or address of the file; with `partition_by` of the directory.
        format: `parquet`, `orc`, `avro`, `csv`, or `json` with one object a line.
        columns: columns to write; all without it.
        where: SQL condition over the columns.
        tag: rows at this tag instead of the latest ones.
        snapshot: rows at this snapshot instead of the latest ones.
        partition_by: columns whose values name directories, `day=2024-02-29`, as Hive and Spark read them; `[]` makes
            a directory without these. The last file of a directory is `_SUCCESS`.
        if_exists: `error`, `ignore`, or `replace`, which replaces a file, or a directory that an export has made.
        limit: at most so many rows.
        target_conn_id: connection of type `paimon` whose credentials and options lead to the target's store; by default
            those of the table.
    """

    action_name = "export_files"
    more_templates = ("target_conn_id",)

    def __init__(
        self,
        *,
        target: str,
        format: str = "parquet",  # noqa: A002 - what users of files call it
        columns: Sequence[str] | str | None = None,
        where: str | None = None,
        tag: str | None = None,
        snapshot: int | str | None = None,
        partition_by: Sequence[str] | str | None = None,
        if_exists: str = "error",
        limit: int | str | None = None,
        target_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        fields: dict[str, Any] = {**locals()}
        if isinstance(kwargs.get("table"), Asset) and not is_from_mapped(self):
            kwargs.setdefault("inlets", [kwargs["table"]])
        super().__init__(fields=fields, **kwargs)
        self.target_conn_id = target_conn_id

    def target_hook(self) -> PaimonHook | None:
        """The connection to the target's store, if it is another one."""
        conn_id = text(self.target_conn_id)
        return None if conn_id is None else PaimonHook(conn_id)

    def _lineage(self) -> Any:
        from airflow_provider_paimon.openlineage import read_lineage

        return read_lineage(self.hook(), self.table, targets=[self.target], result=self._result)
