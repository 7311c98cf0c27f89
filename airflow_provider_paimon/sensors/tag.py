"""Waiting for a tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.rendered import text
from airflow_provider_paimon.tag_schedule import tag_of
from airflow_provider_paimon.triggers.tag import PaimonTagTrigger
from paimon_engine.errors import InvalidArgumentError, PaimonError, UnsupportedError


class PaimonTagSensor(BaseSensorOperator):
    """Waits until a table has a tag; gives `{"tag", "snapshot_id"}`. It also waits for a table that does not exist yet.

    Args:
        table: `database.table`, or the path of a table's directory.
        tag: its name; without one, the day of the DAG run, see `tag_schedule`.
        paimon_conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, which override those of the connection.
        deferrable: wait in the triggerer.
    """

    template_fields: Sequence[str] = ("table", "tag", "paimon_conn_id", "warehouse", "storage_options")
    ui_color = "#d6ecff"

    def __init__(
        self,
        *,
        table: str,
        tag: str | None = None,
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.tag = tag
        self.paimon_conn_id = paimon_conn_id
        self.warehouse = warehouse
        self.storage_options = storage_options
        self.deferrable = deferrable

    def execute(self, context: Any) -> Any:
        """Waits here, or checks once and then waits in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        found = self.poke(context)
        if found.is_done:
            return found.xcom_value
        if self._hook().has_given_secrets():
            raise AirflowFailException(
                "Airflow stores the arguments of a deferred task, so they must hold no secret: move the secrets "
                "among storage_options into a connection, or use deferrable=False"
            )
        trigger = PaimonTagTrigger(
            table=self.table,
            tag=self._tag(context),
            paimon_conn_id=self.paimon_conn_id,
            warehouse=self.warehouse,
            storage_options=self.storage_options,
            poke_interval=self.poke_interval,
        )
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))
        return None

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Continues after the trigger has fired."""
        if event["status"] != "success":
            raise AirflowException(event["message"])
        return {"tag": event["tag"], "snapshot_id": event["snapshot_id"]}

    def poke(self, context: Any) -> PokeReturnValue:
        """Checks once."""
        tag = self._tag(context)
        try:
            snapshot_id = self._hook().snapshot_of_tag(self.table, tag)
        except (InvalidArgumentError, UnsupportedError) as error:
            raise AirflowFailException(str(error)) from error
        except PaimonError as error:
            raise AirflowException(str(error)) from error
        if snapshot_id is None:
            self.log.info("%s has no tag %s yet", self.table, tag)
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value={"tag": tag, "snapshot_id": snapshot_id})

    def _hook(self) -> PaimonHook:
        return PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options)

    def _tag(self, context: Mapping[str, Any]) -> str:
        try:
            return text(self.tag) or tag_of(context)
        except InvalidArgumentError as error:
            raise AirflowFailException(str(error)) from error
