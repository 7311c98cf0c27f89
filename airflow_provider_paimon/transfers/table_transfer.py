"""What transfers have in common: a table, a name for the work of an attempt, and no Spark."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import Asset, BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from airflow_provider_paimon import engine
from airflow_provider_paimon.asset_events import describe_outlets
from airflow_provider_paimon.assets import PaimonTable, as_table, is_from_mapped, place_of
from airflow_provider_paimon.attempts import Attempt, begin_attempt, note_success
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.launchers import HOPELESS
from airflow_provider_paimon.launchers.stoppable_work import StoppableWork
from airflow_provider_paimon.rendered import (
    FileTemplates,
    flag,
    new_table,
    no_value,
    partition,
    renderers,
    structure,
    text,
)
from airflow_provider_paimon.summary import log_line
from paimon_engine.errors import InvalidArgumentError, NotFoundError, PaimonError

logger = logging.getLogger(__name__)


class PaimonTableTransfer(FileTemplates):
    """Rows that go through the task's own process, a batch at a time: memory does not grow with their number.

    Args:
        table: `database.table`, the path of a table's directory, or a `paimon_table`, which is then an inlet of what
            reads it, and an outlet of what writes it, unless `inlets` or `outlets` say otherwise.
        paimon_conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, over those of the connection.
    """

    template_fields: Sequence[str] = ("table", "paimon_conn_id", "warehouse", "storage_options")
    template_fields_renderers: Mapping[str, str] = renderers(template_fields)
    action: ClassVar[str | None] = None
    """What it does to the table, as an action is called; None where it only reads it."""
    _is_reported = False
    ui_color = "#d6ecff"

    def __init__(
        self,
        *,
        table: str | Asset,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, Any] | str | None = None,
        **kwargs: Any,
    ) -> None:
        table = as_table(table)
        place = place_of(table, paimon_conn_id, warehouse, storage_options)
        if isinstance(table, PaimonTable) and not is_from_mapped(self):
            kwargs.setdefault("outlets" if self.action is not None else "inlets", [table])
        super().__init__(**kwargs)
        self.table, self.paimon_conn_id, self.warehouse, self.storage_options = place
        self._done: dict[str, Any] | None = None
        self._work = StoppableWork()

    def hook(self) -> PaimonHook:
        """The warehouse, after templates were rendered."""
        return PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options)

    def execute(self, context: Any) -> dict[str, Any]:
        """Carries out the transfer."""
        try:
            with self._work.working():
                done = self._done = self.transfer(self.hook(), context)
        except HOPELESS as error:
            raise AirflowFailException(f"{self.task_id}: {error}") from error
        except PaimonError as error:
            raise AirflowException(f"{self.task_id}: {error}") from error
        if self.action is None:
            self.log.info("%s: %s", self.table, ", ".join(f"{name} {value}" for name, value in done.items()))
            return done
        logger.info("%s", log_line({"action": self.action, **done}))
        described = describe_outlets(self.outlets, context, self._as_result(done), is_reported=self._is_reported)  # type: ignore[has-type]
        self.outlets = described
        return done

    def on_kill(self) -> None:
        """Stops the transfer."""
        self._work.stop()

    def get_openlineage_facets_on_start(self) -> Any:
        """What the task is going to read and write, for OpenLineage."""
        return self._lineage()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - as OpenLineage calls it
        """What the task read and wrote, how much, and which version of the table that was."""
        return self._lineage()

    def _lineage(self) -> Any:
        from airflow_provider_paimon.openlineage import lineage, read_lineage

        result = None if self._done is None else self._as_result(self._done)
        if self.action is None:
            return read_lineage(self.hook(), self.table, result=result)
        is_overwrite = getattr(self, "overwrite", None) is not None
        return lineage(self.hook(), self.table, self.action, is_overwrite=is_overwrite, result=result)

    def _as_result(self, done: Mapping[str, Any]) -> engine.JobResult:
        """What was done in the form in which other operators have it."""
        return engine.JobResult(
            status=done.get("status", "read"),
            action=self.action or "read",
            table=self.table,
            snapshot_id=done.get("snapshot_id"),
            seconds=done.get("seconds", 0.0),
            details=done,
        )

    @abstractmethod
    def transfer(self, hook: PaimonHook, context: Mapping[str, Any]) -> dict[str, Any]:
        """Carries out the transfer; what it did, as plain JSON values."""


class PaimonRowsTransfer(PaimonTableTransfer):
    """A transfer into a table: one commit, once for the attempts of a task, as of the other operators.

    Args:
        overwrite: `{}` replaces the partitions for which there are rows (all rows of an unpartitioned table),
            `{"column": value}` those partitions; None adds the rows, and upserts where there is a primary key, unless a
            template has left it, which is refused.
        columns: columns with Paimon's types of a table that is to be created where it is missing.
        create: `primary_keys`, `partition_keys`, `options` and `comment` of that table, beside its `columns`.
        idempotency_key: as for `PaimonJobOperator`, as are the following.
        on_clear: `rerun` or `once`.
        force_rerun: do the work again whatever was done before.
    """

    template_fields: Sequence[str] = (
        *PaimonTableTransfer.template_fields,
        *("overwrite", "columns", "create", "idempotency_key", "on_clear", "force_rerun"),
    )
    action = "write"
    template_fields_renderers: Mapping[str, str] = renderers(template_fields)

    def __init__(
        self,
        *,
        overwrite: Mapping[str, Any] | str | None = None,
        columns: Mapping[str, str] | str | None = None,
        create: Mapping[str, Any] | str | None = None,
        idempotency_key: str | None = None,
        on_clear: str | None = None,
        force_rerun: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.overwrite = overwrite
        self._is_overwrite = overwrite is not None
        self.columns = columns
        self.create = create
        self.idempotency_key = idempotency_key
        self.on_clear = on_clear
        self.force_rerun = force_rerun
        # Airflow calls it once it knows of the success; a retry comes only after attempts without that.
        self.on_success_callback = [*self.on_success_callback, note_success]  # type: ignore[has-type]

    def attempt(self, context: Mapping[str, Any]) -> Attempt:
        """Under which name this attempt commits."""
        key, again = text(self.idempotency_key), flag("force_rerun", self.force_rerun)
        attempt = begin_attempt(context, key, text(self.on_clear), force_rerun=again, work=self.work())
        self._is_reported = attempt.had_succeeded
        return attempt

    def work(self) -> Mapping[str, Any]:
        """What the task does, by which one of several mapped tasks with an `idempotency_key` is recognised.

        Without arguments it is the map index.
        """
        return {}

    def opened(self, hook: PaimonHook) -> engine.Table:
        """The table, made where it is missing and `columns` say how.

        Raises: NotFoundError if it is missing and nothing says that it is to be made; InvalidArgumentError.
        """
        self._replaced()  # What is wrong with it is said before a table is made.
        wanted = new_table(self.create, structure("columns", self.columns, dict))
        if wanted is not None and wanted.columns is not None:
            return hook.catalog().create_table(
                self.table,
                schema=wanted.columns,
                primary_keys=wanted.primary_keys,
                partition_keys=wanted.partition_keys,
                options=wanted.options,
                comment=wanted.comment,
                if_not_exists=True,
            )
        try:
            return hook.table(self.table)
        except NotFoundError as error:
            if wanted is None:
                raise
            raise InvalidArgumentError(
                f"{self.table} is to be created, and create= does not say with which columns: give their types, as in "
                "columns={'id': 'BIGINT NOT NULL', 'name': 'STRING'}"
            ) from error

    def written(self, table: engine.Table, rows: Any, attempt: Attempt) -> dict[str, Any]:
        """What the write of Arrow data did: `status`, `snapshot_id`, `rows`, `files`, `bytes` and more."""
        done = table.write(
            rows, overwrite=self._replaced(), commit_user=attempt.commit_user, earlier_user=attempt.earlier_user
        )
        return {"table": self.table, **done.to_dict()}

    def _replaced(self) -> dict[str, Any] | None:
        """The partitions to replace; None to add the rows. Raises: InvalidArgumentError."""
        found = partition("overwrite", self.overwrite)
        if self._is_overwrite and found is None:
            raise no_value("write", ["overwrite"])
        return found


def sql_hook(conn_id: str) -> Any:
    """The hook of a database for the connection.

    Raises: AirflowNotFoundException if there is none; InvalidArgumentError if it is none of `common.sql`.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        # Not hopeless: Airflow says so, too, while the place where connections are kept does not answer.
        raise AirflowNotFoundException(
            f"The connection {conn_id} of the database is not defined: define it, or correct its name"
        ) from error
    try:
        hook = connection.get_hook()
    except AirflowException as error:
        raise InvalidArgumentError(
            f"the connection {conn_id} is of type {connection.conn_type}, for which no provider is installed here; "
            "install it, or name a connection to an SQL database"
        ) from error
    if not hasattr(hook, "get_conn") or not hasattr(hook, "placeholder"):
        raise InvalidArgumentError(
            f"the connection {conn_id} is not to an SQL database: its hook {type(hook).__name__} is not a DbApiHook"
        )
    return hook
