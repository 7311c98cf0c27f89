"""Which launcher a job gets."""

from __future__ import annotations

from typing import Final, Literal

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon import engine
from airflow_provider_paimon.launchers.base import Launcher
from airflow_provider_paimon.launchers.in_process import InProcess
from airflow_provider_paimon.launchers.own_process import EMBEDDED, Subprocess
from airflow_provider_paimon.launchers.spark_connect import connect_launcher

LauncherName = Literal["auto", "in_process", "subprocess", "spark_connect"]
PLACES: Final = ("auto", "in_process", "subprocess", "spark_connect")


def choose_launcher(action: str, where: str = "auto", spark_conn_id: str | None = None) -> Launcher:
    """The launcher of that name.

    `auto` takes the task's process for work on metadata; for work on rows the Spark of the connection, or an
    embedded one if there is no connection.
    Raises: AirflowFailException if the choice does not fit; AirflowException for connections of other types.
    """
    if where not in PLACES:
        raise AirflowFailException(f"launcher={where!r}; choose one of {', '.join(PLACES)}")
    if where == "auto":
        where = _best_place(action, spark_conn_id)
    if where == "in_process":
        return InProcess()
    if where == "subprocess":
        return Subprocess(EMBEDDED)
    if not spark_conn_id:
        raise AirflowFailException("launcher='spark_connect' needs spark_conn_id, a connection of type spark_connect")
    return connect_launcher(spark_conn_id)


def _best_place(action: str, spark_conn_id: str | None) -> str:
    if not engine.ACTIONS[action].on_tasks:
        return "in_process"
    return "spark_connect" if spark_conn_id else "subprocess"
