"""From a table into a SQL database."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from airflow_provider_paimon import engine
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.rendered import count, renderers, structure, text
from airflow_provider_paimon.transfers.table_transfer import PaimonTableTransfer, sql_hook
from paimon_engine.errors import InvalidArgumentError, UnsupportedError

_READS_OTHERWISE: Final = ("scan.", "log.scan", "incremental-", "chain-table.")
"""Beginnings of options of tables by which a read gives another state than the latest one, or rows of branches too."""
_PLAIN_NAME: Final = re.compile("[a-z_][a-z0-9_]*")


class PaimonToSqlOperator(PaimonTableTransfer):
    """Inserts the rows of a table into one of a SQL database, in batches and in one transaction, in the task itself.

    All rows are of one snapshot. A retry after a worker was lost inserts them again, as a database cannot tell
    the outcome of a transaction: let `before` delete what an earlier attempt has inserted.

    Args:
        target: table in the database, whose columns are called as those of this table.
        sql_conn_id: connection of any type that has a `DbApiHook`.
        columns: columns to insert; all without it.
        where: SQL condition over the columns.
        tag: rows at this tag instead of the latest ones.
        snapshot: rows at this snapshot instead of the latest ones.
        before: statement that runs first, in the same transaction, such as `DELETE FROM target WHERE …`; a file
            `.sql` is a template.
        batch_rows: rows of one insert.

    It gives `{"table", "target", "rows", "snapshot_id"}`.
    """

    template_fields: Sequence[str] = (
        *PaimonTableTransfer.template_fields,
        *("target", "sql_conn_id", "columns", "where", "tag", "snapshot", "before", "batch_rows"),
    )
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: Mapping[str, str] = renderers(template_fields)

    def __init__(
        self,
        *,
        target: str,
        sql_conn_id: str,
        columns: Sequence[str] | str | None = None,
        where: str | None = None,
        tag: str | None = None,
        snapshot: int | str | None = None,
        before: str | None = None,
        batch_rows: int | str = 10_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.sql_conn_id = sql_conn_id
        self.columns = columns
        self.where = where
        self.tag = tag
        self.snapshot = snapshot
        self.before = before
        self.batch_rows = batch_rows

    def transfer(self, hook: PaimonHook, context: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Reads and inserts batch by batch."""
        batch_rows = count("batch_rows", self.batch_rows)
        rows, snapshot = self._read(hook)
        database = sql_hook(self.sql_conn_id)
        names = rows.schema.names
        total = 0
        with closing(database.get_conn()) as connection:
            if database.supports_autocommit:
                database.set_autocommit(connection, autocommit=False)
            cursor = connection.cursor()
            before = text(self.before)
            if before is not None:
                cursor.execute(before)
            statement = _insert(database, cursor, self.target, names)
            for batch in rows:
                for start in range(0, batch.num_rows, batch_rows):
                    part = batch.slice(start, batch_rows)
                    values = zip(*(column.to_pylist() for column in part.columns), strict=True)
                    cursor.executemany(statement, [_adapted(database, row) for row in values])
                    total += part.num_rows
            connection.commit()
        return {"table": self.table, "target": self.target, "rows": total, "snapshot_id": snapshot}

    def _read(self, hook: PaimonHook) -> tuple[Any, int | None]:
        """The rows as a stream, and their snapshot; None for that of a system table, or of a table without any."""
        table, wanted = hook.table(self.table), wanted_rows(self)
        tag, snapshot = wanted["tag"], wanted["snapshot"]
        with contextlib.suppress(UnsupportedError):
            if tag is None and snapshot is None and _is_read_at_latest(table):
                snapshot = wanted["snapshot"] = table.latest_snapshot_id()
            elif tag is not None:
                snapshot = hook.tags(self.table).get(tag)
        return table.to_batches(**wanted), snapshot

    def _lineage(self) -> Any:
        from airflow_provider_paimon.openlineage import with_sql_target

        result = None if self._done is None else self._as_result(self._done)
        return with_sql_target(super()._lineage(), self.sql_conn_id, self.target, result)


def _is_read_at_latest(table: engine.Table) -> bool:
    """Whether a read gives the latest snapshot of the table, and no more: options may say otherwise."""
    return not any(name.startswith(_READS_OTHERWISE) for name in table.schema.options)


def _insert(database: Any, cursor: Any, target: str, names: Sequence[str]) -> str:
    """The statement that inserts values of these columns.

    Airflow quotes the words that its dialect knows. Other names are quoted where the target has a column of exactly
    that name; else the database reads them as it always does, in upper case as in lower case.
    """
    known: Collection[str] = ()
    if database.conn_type == "sqlite":
        known = names  # Airflow knows none of its words.
    elif not all(_PLAIN_NAME.fullmatch(name) for name in names):
        cursor.execute(f"SELECT * FROM {target} WHERE 1 = 0")  # noqa: S608 - as the INSERT names it
        known = {column[0] for column in cursor.description} - {name for name in names if _PLAIN_NAME.fullmatch(name)}
    form, mark = database.escape_word_format, database.placeholder
    quoted = (
        form.format(name.replace(form[-1], 2 * form[-1])) if name in known else database.dialect.escape_word(name)
        for name in names
    )
    columns = ", ".join(quoted)
    if mark == "%s":
        columns = columns.replace("%", "%%")
    return str(database.dialect.insert_statement_format.format(target, f"({columns})", ",".join([mark] * len(names))))


def wanted_rows(operator: Any) -> dict[str, Any]:
    """Arguments of a read: `columns`, `where`, and `tag` or `snapshot`, as templates have left them."""
    snapshot = text(operator.snapshot)
    return {
        "columns": structure("columns", operator.columns, list),
        "where": text(operator.where),
        "tag": text(operator.tag),
        "snapshot": None if snapshot is None else _number(snapshot),
    }


def _number(snapshot: str) -> int:
    try:
        return int(snapshot)
    except ValueError as error:
        raise InvalidArgumentError(f"snapshot={snapshot!r} is not allowed; give a number") from error


def _adapted(database: Any, row: Sequence[Any]) -> tuple[Any, ...]:
    """A row as the driver takes it; SQLite has no decimals, dates and times, and takes their texts."""
    if database.conn_type != "sqlite":
        return tuple(row)
    return tuple(value if isinstance(value, int | float | str | bytes | None) else str(value) for value in row)
