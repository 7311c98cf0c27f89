"""Writing files, or another table, into a table, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import Asset

from airflow_provider_paimon import engine
from airflow_provider_paimon.assets import PaimonTable, as_table
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.operators.job import PaimonActionOperator
from airflow_provider_paimon.rendered import list_in, new_table, text
from paimon_engine.errors import InvalidArgumentError

_TABLE: Final = "paimon"
"""The format of a source that is a table."""


class PaimonWriteOperator(PaimonActionOperator):
    """Writes the rows of files or of another table into a table and commits them once; with a primary key it upserts.

    Args:
        source: path or glob of the files, or a list of them; or another table: a `paimon_table`, or its name or path
            with `format="paimon"`.
        format: their format: `parquet`, `orc`, `avro`, `csv`, `json` with one object a line, or `paimon`.
        overwrite: `{}` replaces the partitions for which there are rows (all rows of an unpartitioned table),
            `{"column": value}` those partitions; None adds the rows, but is refused where a template has left it.
        row_kind_column: column that says `+I -U +U -D` of each row.
        watermark: watermark of the snapshot in epoch milliseconds, unless the table has a later one already.
        properties: names and texts that the snapshot keeps.
        create: create the table if it is not there; takes `primary_keys`, `partition_keys`, `options` and `comment`.
            Its columns are those of the first file, or `columns`, which the formats without types need.
        columns: columns with Paimon's types, `{"id": "BIGINT NOT NULL"}`, of a table that is to be created.
        source_columns: columns of a source table to read; all by default.
        source_where: SQL condition over the columns of a source table.
        source_tag: tag of a source table to read at; by default its latest snapshot, for all tasks the same.
        source_snapshot: snapshot of a source table to read at.
        source_conn_id: connection to the warehouse of a source table, if it is a different one.

    The source and its columns are checked before any Spark starts.
    """

    action_name = "write"
    more_templates = ("create", "columns", "source_conn_id")

    def __init__(
        self,
        *,
        source: str | Sequence[str] | Asset,
        format: str = "parquet",  # noqa: A002 - what users of files call it
        overwrite: Mapping[str, Any] | str | None = None,
        row_kind_column: str | None = None,
        watermark: int | str | None = None,
        properties: Mapping[str, str] | str | None = None,
        create: Mapping[str, Any] | str | None = None,
        columns: Mapping[str, str] | str | None = None,
        source_columns: Sequence[str] | str | None = None,
        source_where: str | None = None,
        source_tag: str | None = None,
        source_snapshot: int | str | None = None,
        source_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        source = as_table(source)
        fields: dict[str, Any] = {**locals()}
        place: PaimonTable | None = None
        if isinstance(source, PaimonTable):
            if format not in ("parquet", _TABLE):
                raise InvalidArgumentError(f"format={format!r} does not go with a paimon_table as source; leave it out")
            source.check_alone(source_conn_id, None)
            fields |= {"source": source.table, "format": _TABLE}
            source_conn_id = source.conn_id
            place = source
            kwargs.setdefault("inlets", [source])
        super().__init__(fields=fields, **kwargs)
        self.create = create
        self.columns = columns
        self.source_conn_id = source_conn_id
        self._source_place = place

    def work(self) -> Mapping[str, Any]:
        """The arguments, with the warehouse of a source table."""
        place = self._source_place
        warehouse = None if place is None else place.warehouse
        return {**super().work(), "source_conn_id": self.source_conn_id, "source_warehouse": warehouse}

    def lineage_sources(self) -> Sequence[str]:
        """Addresses of the files that are written."""
        if self.format == _TABLE:
            return ()
        sources = list_in(self.source)
        return [sources] if isinstance(sources, str) else list(sources)

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields of the action's spec; the source as the list that a template may have left."""
        given = super().action_arguments(context)
        return {**given, "source": list_in(given["source"])}

    def source_hook(self) -> PaimonHook | None:
        """The warehouse of a source table."""
        if self.format != _TABLE:
            return None
        if self._source_place is not None:
            return PaimonHook(self.source_conn_id, self._source_place.warehouse, self._source_place.storage_options)
        conn_id = text(self.source_conn_id)
        return self.hook() if conn_id is None else PaimonHook(conn_id)

    @property
    def source_table(self) -> str | None:
        """The source table, if the source is one."""
        return self.source if self.format == _TABLE and isinstance(self.source, str) else None

    def create_table(self) -> engine.NewTable | None:
        """How to create the table if it is not there."""
        return new_table(self.create, text(self.columns) if isinstance(self.columns, str) else self.columns)
