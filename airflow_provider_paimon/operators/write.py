"""Writing files into a table, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon import engine
from airflow_provider_paimon.operators.create import option_text
from airflow_provider_paimon.operators.job import PaimonActionOperator
from airflow_provider_paimon.rendered import templates


class PaimonWriteOperator(PaimonActionOperator):
    """Writes the rows of files into a table and commits them once; a table with a primary key upserts.

    Args:
        source: path or glob of the files, or a list of them.
        format: their format: `parquet`, `orc`, `avro`, `csv`, or `json` with one object a line.
        overwrite: `{}` replaces the partitions for which there are rows (all rows of an unpartitioned table),
            `{"column": value}` those partitions; None adds the rows.
        row_kind_column: column that says `+I -U +U -D` of each row.
        watermark: watermark of the snapshot in epoch milliseconds, unless the table has a later one already.
        properties: names and texts that the snapshot keeps.
        create: create the table if it is not there; takes `primary_keys`, `partition_keys`, `options` and `comment`.
            Its columns are those of the first file, or `columns`, which the formats without types need.
        columns: columns with Paimon's types, `{"id": "BIGINT NOT NULL"}`, of a table that is to be created.

    The source and its columns are checked before any Spark starts.
    """

    action_name = "write"
    more_templates = ("create", "columns")
    template_fields_renderers: Mapping[str, str] = {
        **PaimonActionOperator.template_fields_renderers,
        "overwrite": "json",
        "properties": "json",
        "create": "json",
        "columns": "json",
    }

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        format: str = "parquet",  # noqa: A002 - what users of files call it
        overwrite: Mapping[str, Any] | None = None,
        row_kind_column: str | None = None,
        watermark: int | str | None = None,
        properties: Mapping[str, str] | None = None,
        create: Mapping[str, Any] | None = None,
        columns: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)
        self.create = create
        self.columns = columns

    def lineage_sources(self) -> Sequence[str]:
        """Addresses of the files that are written."""
        return [self.source] if isinstance(self.source, str) else list(self.source)

    def create_table(self) -> engine.NewTable | None:
        """How to create the table if it is not there."""
        if self.create is None and self.columns is None:
            return None
        given = {**(self.create or {})}
        if self.columns is not None:
            given["columns"] = self.columns
        if isinstance(given.get("options"), Mapping):
            # What Jinja or Python gives as a number is a text in a table's options.
            given["options"] = {name: option_text(value) for name, value in given["options"].items()}
        return engine.decode(engine.NewTable, given, name="create", edge=templates())
