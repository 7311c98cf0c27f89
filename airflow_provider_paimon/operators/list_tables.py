"""The tables of a database by a pattern, for tasks that are mapped over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.launchers import HOPELESS
from airflow_provider_paimon.rendered import WholeTemplates, flag, renderers, structure
from paimon_engine.errors import InvalidArgumentError, PaimonError


class PaimonListTablesOperator(WholeTemplates):
    """Gives the names of a database's tables, `database.table`, sorted; other operators are mapped over them.

        tables = PaimonListTablesOperator(task_id="tables", database="shop", tables="orders_*")
        PaimonCompactOperator.partial(task_id="compact").expand(table=tables.output)

    Mapped tasks, not one task for all: each table has its own log, retries, result and launcher, one that fails
    stops no other and still fails the run, and a pool or `max_active_tis_per_dag` limits how many run at a time.

    Args:
        database: name of the database.
        tables: pattern of table names, such as `orders_*`, or a list of patterns.
        exclude: pattern or patterns of tables to leave out.
        allow_none: whether no table at all is fine; else the task fails, since a pattern may be mistyped.
        paimon_conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, over those of the connection.
    """

    template_fields: Sequence[str] = (
        *("database", "tables", "exclude", "allow_none"),
        *("paimon_conn_id", "warehouse", "storage_options"),
    )
    template_fields_renderers: Mapping[str, str] = renderers(template_fields)
    ui_color = "#d6ecff"

    def __init__(
        self,
        *,
        database: str,
        tables: str | Sequence[str] = "*",
        exclude: str | Sequence[str] = (),
        allow_none: bool | str = False,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, Any] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.database = database
        self.tables = tables
        self.exclude = exclude
        self.allow_none = allow_none
        self.paimon_conn_id = paimon_conn_id
        self.warehouse = warehouse
        self.storage_options = storage_options

    def execute(self, context: Any) -> list[str]:  # noqa: ARG002 - as Airflow calls it
        """Looks into the catalog."""
        try:
            return self._found()
        except HOPELESS as error:
            raise AirflowFailException(f"{self.task_id}: {error}") from error
        except PaimonError as error:
            raise AirflowException(f"{self.task_id}: {error}") from error

    def _found(self) -> list[str]:
        wanted, unwanted = _patterns("tables", self.tables), _patterns("exclude", self.exclude)
        catalog = PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options).catalog()
        names = catalog.list_tables(self.database)
        found = [name for name in names if _matches(name, wanted) and not _matches(name, unwanted)]
        if not found and not flag("allow_none", self.allow_none):
            raise InvalidArgumentError(
                f"no table of {self.database} matches {', '.join(wanted)}; it has {', '.join(names) or 'none'}; "
                "allow_none=True accepts that"
            )
        return [f"{self.database}.{name}" for name in found]


def _patterns(name: str, given: str | Sequence[str]) -> list[str]:
    """The patterns; one alone is a text, and a template may leave a list as its text."""
    if isinstance(given, str) and not given.lstrip().startswith("["):
        return [given] if given.strip() else []
    return [str(item) for item in structure(name, given, list) or []]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
