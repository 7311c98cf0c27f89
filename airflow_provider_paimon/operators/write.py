"""Writing files into a table, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonJobOperator
from airflow_provider_paimon.rendered import number, text
from paimon_engine import InvalidArgumentError
from paimon_engine.jobs import CreateTable


class PaimonWriteOperator(PaimonJobOperator):
    """Writes the rows of files into a table and commits them once, on Spark; a table with a primary key upserts.

    Args:
        source: path or glob of the files, or a list of them.
        format: their format, `parquet`, `csv`, ….
        overwrite: `{}` replaces the partitions that rows come for (all rows of an unpartitioned table),
            `{"column": value}` those partitions; None adds the rows.
        row_kind_column: column that says `+I -U +U -D` of each row.
        watermark: epoch milliseconds that the snapshot is at, unless it is at a later time already.
        properties: names and texts that the snapshot keeps.
        create: create the table if it is not there, with the columns of the first file; takes `primary_keys`,
            `partition_keys`, `options` and `comment`.
    """

    template_fields: Sequence[str] = (
        *PaimonJobOperator.template_fields,
        "source",
        "format",
        "overwrite",
        "row_kind_column",
        "watermark",
        "properties",
        "create",
    )
    template_fields_renderers: Mapping[str, str] = {
        **PaimonJobOperator.template_fields_renderers,
        "overwrite": "json",
        "properties": "json",
        "create": "json",
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
        **kwargs: Any,
    ) -> None:
        super().__init__(action="write", **kwargs)
        self.source = source
        self.format = format
        self.overwrite = overwrite
        self.row_kind_column = row_kind_column
        self.watermark = watermark
        self.properties = properties
        self.create = create

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "source": self.source if isinstance(self.source, str) else list(self.source),
            "format": self.format,
            "overwrite": self.overwrite,
            "row_kind_column": text(self.row_kind_column),
            "watermark": number("watermark", self.watermark),
            "properties": self.properties,
        }

    def create_table(self) -> CreateTable | None:
        """How to create the table if it is not there."""
        if self.create is None:
            return None
        wrong = self.create.keys() - {"primary_keys", "partition_keys", "options", "comment"}
        if wrong:
            raise InvalidArgumentError(
                f"create={{{', '.join(sorted(wrong))}: …}}: it takes primary_keys, partition_keys, options and comment"
            )
        return CreateTable(
            primary_keys=_names("primary_keys", self.create.get("primary_keys")),
            partition_keys=_names("partition_keys", self.create.get("partition_keys")),
            options={name: str(value) for name, value in (self.create.get("options") or {}).items()},
            comment=self.create.get("comment"),
        )


def _names(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise InvalidArgumentError(f"create: {name} is a list of columns, such as [{value!r}]")
    return tuple(value or ())
