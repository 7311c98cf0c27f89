"""From a SQL database into a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from airflow_provider_paimon import engine
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.rendered import count, list_or_map, renderers
from airflow_provider_paimon.transfers.table_transfer import PaimonRowsTransfer, sql_hook
from paimon_engine.errors import InvalidArgumentError, shown

_CURSOR: Final = "paimon_transfer"


class SqlToPaimonOperator(PaimonRowsTransfer):
    """Writes the rows of a query into a table, in batches and in one commit, in the task itself.

    The columns of the query are those of the table, by name: `SELECT id, total AS amount FROM …`. PostgreSQL is read by
    a cursor on its server; other drivers may load the complete result, unless their connection says otherwise.

    Args:
        sql: the query; a file `.sql` is a template.
        sql_conn_id: connection of any type that has a `DbApiHook`.
        parameters: values for the query's placeholders.
        batch_rows: rows in memory at a time.
    """

    template_fields: Sequence[str] = (
        *PaimonRowsTransfer.template_fields,
        *("sql", "sql_conn_id", "parameters", "batch_rows"),
    )
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: Mapping[str, str] = renderers(template_fields)

    def __init__(
        self,
        *,
        sql: str,
        sql_conn_id: str,
        parameters: Sequence[Any] | Mapping[str, Any] | str | None = None,
        batch_rows: int | str = 50_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.sql_conn_id = sql_conn_id
        self.parameters = parameters
        self.batch_rows = batch_rows

    def work(self) -> Mapping[str, Any]:
        """The query, and what it replaces."""
        names = ("sql", "parameters", "sql_conn_id", "overwrite")
        return {name: getattr(self, name) for name in names}

    def transfer(self, hook: PaimonHook, context: Mapping[str, Any]) -> dict[str, Any]:
        """Reads and writes batch by batch."""
        batch_rows = count("batch_rows", self.batch_rows)
        parameters = list_or_map("parameters", self.parameters)
        if not isinstance(self.sql, str):
            raise InvalidArgumentError(f"sql={shown(self.sql)} is not allowed; give one query as a text")
        table = self.opened(hook)
        attempt = self.attempt(context)
        with (
            closing(sql_hook(self.sql_conn_id).get_conn()) as connection,
            closing(_open_cursor(connection)) as cursor,
        ):
            cursor.execute(self.sql, parameters) if parameters else cursor.execute(self.sql)
            first = cursor.fetchmany(batch_rows)
            if cursor.description is None:
                raise InvalidArgumentError("sql gives no rows; give a query")
            names = [column[0] for column in cursor.description]
            return self.written(table, self._reader(table, names, first, lambda: cursor.fetchmany(batch_rows)), attempt)

    def _lineage(self) -> Any:
        from airflow_provider_paimon.openlineage import with_query

        return with_query(super()._lineage(), self.sql_conn_id, self.sql)

    def _reader(self, table: engine.Table, names: Sequence[str], first: Sequence[Any], more: Callable[[], Any]) -> Any:
        """The rows as an Arrow stream of the table's columns: the first ones, and more until there are none."""
        import pyarrow as pa

        known = table.arrow_schema
        unknown = [name for name in names if name not in known.names]
        if unknown or len(set(names)) < len(names):
            raise InvalidArgumentError(
                f"the query gives the columns {', '.join(names)}, the table has {', '.join(known.names)}; "
                "name each of them once, as in SELECT total AS amount"
            )
        schema = pa.schema([known.field(name).with_nullable(True) for name in names])

        def batches() -> Iterator[Any]:
            rows = first
            while rows:
                columns = zip(*rows, strict=True)
                arrays = [_column(values, field) for values, field in zip(columns, schema, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                rows = more()

        return pa.RecordBatchReader.from_batches(schema, batches())


def _open_cursor(connection: Any) -> Any:
    """A cursor that does not load the complete result, if the driver has a kind of cursor for that."""
    if type(connection).__module__.partition(".")[0] in ("psycopg", "psycopg2"):
        return connection.cursor(name=_CURSOR)
    return connection.cursor()


def _column(values: Sequence[Any], field: Any) -> Any:
    """Values of a driver as a column of the table: first as they are, then as what Arrow takes them for, cast.

    Raises: InvalidArgumentError naming the column.
    """
    import pyarrow as pa

    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    try:
        return pa.array(values).cast(field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"column {field.name!r} of the query does not fit the table's {field.type}: {error}"
        ) from error
