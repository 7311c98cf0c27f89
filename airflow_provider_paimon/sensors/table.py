"""What the sensors of tables have in common: how they look, and how they wait in a worker or in the triggerer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

from airflow.sdk import Asset, BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import StartTriggerArgs

from airflow_provider_paimon.assets import place_of
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.rendered import rendered_whole, renderers
from airflow_provider_paimon.triggers.table import NEVER_COMES, PaimonTableTrigger, read_wait
from paimon_engine.errors import PaimonError


class PaimonTableSensor(BaseSensorOperator):
    """Waits for something on a table, and gives by XCom what it found. A table that is not there yet is waited for.

    What can never come fails at once, is not retried, and says why. With `mode="reschedule"` it frees its worker
    between two looks, with `deferrable=True` it looks once and then waits in the triggerer.

    Args:
        table: `database.table`, the path of a table's directory, or a `paimon_table`.
        paimon_conn_id: connection to the warehouse; `paimon_default` if neither this nor `warehouse` is given.
        warehouse: address of the warehouse, instead of the connection's.
        storage_options: options of the file system, over those of the connection.
        deferrable: wait in the triggerer.
        start_from_trigger: with `deferrable`, start in the triggerer, so that no worker is needed before there is
            something to report.
    """

    kind: ClassVar[str]
    """The kind of wait, as `paimon_engine.read_wait` calls it."""
    wait_fields: ClassVar[Sequence[str]] = ()
    """The sensor's arguments that are fields of the wait; all are templates."""
    template_fields: Sequence[str] = ("table", "paimon_conn_id", "warehouse", "storage_options")
    template_fields_renderers: Mapping[str, str] = renderers(template_fields)
    ui_color = "#d6ecff"
    start_from_trigger = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.template_fields = (*PaimonTableSensor.template_fields, *cls.wait_fields)
        cls.template_fields_renderers = renderers(cls.template_fields)

    def __init__(
        self,
        *,
        table: str | Asset,
        fields: Mapping[str, Any],
        paimon_conn_id: str | None = None,
        warehouse: str | None = None,
        storage_options: Mapping[str, Any] | str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        start_from_trigger: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        place = place_of(table, paimon_conn_id, warehouse, storage_options)
        self.table, self.paimon_conn_id, self.warehouse, self.storage_options = place
        self.deferrable = deferrable
        for name in self.wait_fields:
            setattr(self, name, fields[name])
        self._given = frozenset(name for name in self.wait_fields if fields[name] is not None)
        self.start_from_trigger = deferrable and start_from_trigger
        if self.start_from_trigger:
            self.start_trigger_args = StartTriggerArgs(
                trigger_cls=f"{PaimonTableTrigger.__module__}.{PaimonTableTrigger.__name__}",
                trigger_kwargs=self._trigger_arguments({name: getattr(self, name) for name in self.wait_fields}),
                next_method="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )

    # ── for subclasses ──────────────────────────────────────────────────────────────────────────

    def fields(self, context: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - for subclasses
        """Fields of the wait, after templates were rendered. Raises: InvalidArgumentError."""
        return {name: getattr(self, name) for name in self.wait_fields}

    # ── Airflow ─────────────────────────────────────────────────────────────────────────────────

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Takes over from the trigger."""
        if event["status"] != "success":
            failed = AirflowFailException if event.get("is_hopeless") else AirflowException
            raise failed(f"{self.task_id}: {event['message']}")
        found: dict[str, Any] = event["found"]
        return found

    def render_template(
        self, content: Any, context: Any, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """As in Airflow, which calls it for each text. Raises: AirflowFailException."""
        return rendered_whole(self, partial(super().render_template, seen_oids=seen_oids), content, context, jinja_env)

    def poke(self, context: Any) -> PokeReturnValue:
        """Looks once, and then waits in the triggerer if it is deferrable.

        Airflow's own loop calls it, which applies `soft_fail` and the like.
        """
        try:
            wait = read_wait(self.kind, self.fields(context), self._given)
            found = self._hook().look(self.table, wait)
        except NEVER_COMES as error:
            raise AirflowFailException(f"{self.task_id}: {error}") from error
        except PaimonError as error:
            raise AirflowException(f"{self.task_id}: {error}") from error
        if found is not None:
            return PokeReturnValue(is_done=True, xcom_value=found)
        self.log.info("%s: not there yet: %s", self.table, wait)
        if self.deferrable:
            self._defer(context)
        return PokeReturnValue(is_done=False)

    def _defer(self, context: Any) -> None:
        """Leaves the waiting to the triggerer. Raises: TaskDeferred; AirflowFailException."""
        if self._hook().has_given_secrets():
            raise AirflowFailException(
                "Airflow stores the arguments of a deferred task, so they must contain no secret: move the secrets "
                "among storage_options into a connection, or use deferrable=False"
            )
        # Airflow ends a deferred task by `timeout` only, after which there is no retry.
        limit = self.execution_timeout
        end_at = None if limit is None else time.time() + limit.total_seconds()
        trigger = PaimonTableTrigger(**self._trigger_arguments(self.fields(context)), end_at=end_at)
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def _hook(self) -> PaimonHook:
        return PaimonHook(self.paimon_conn_id, self.warehouse, self.storage_options)

    def _trigger_arguments(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """What the trigger needs, as values that Airflow stores; templates that it renders may be among them."""
        options = self.storage_options
        return {
            "table": self.table,
            "kind": self.kind,
            "paimon_conn_id": self.paimon_conn_id,
            "warehouse": self.warehouse,
            "storage_options": options if isinstance(options, str) else dict(options or {}),
            "poke_interval": self.poke_interval,
            **{name: _stored(value) for name, value in fields.items()},
        }


def _stored(value: Any) -> Any:
    """A value that reads the same from JSON: times as ISO texts, time spans in milliseconds, which Airflow keeps."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{round(value.total_seconds() * 1_000)} ms"
    return value
