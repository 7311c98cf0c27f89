"""Which launcher a job gets."""

from __future__ import annotations

from typing import Any, Final, Literal

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from airflow_provider_paimon import engine
from airflow_provider_paimon.launchers.base import Launcher
from airflow_provider_paimon.launchers.in_process import InProcess
from airflow_provider_paimon.launchers.own_process import EMBEDDED, Subprocess
from airflow_provider_paimon.launchers.spark_connect import connect_launcher

LauncherName = Literal["auto", "in_process", "subprocess", "spark_connect"]
PLACES: Final = ("auto", "in_process", "subprocess", "spark_connect")
_CLUSTERS: Final = {"spark_connect": "a Spark Connect server"}
"""Launchers on clusters; each takes connections of the type of its name."""


def choose_launcher(action: str, where: str = "auto", spark_conn_id: str | None = None) -> Launcher:
    """The launcher of that name.

    `auto` takes the task's process for work on metadata; for work on rows the Spark of the connection, or an
    embedded one if there is no connection.
    Raises: AirflowFailException if the choice does not fit, or for a connection that is missing or of another type.
    """
    if where not in PLACES:
        raise AirflowFailException(f"launcher={where!r}; choose one of {', '.join(PLACES)}")
    if where == "auto":
        where = _best_place(action, spark_conn_id)
    if where == "in_process":
        return InProcess()
    if where == "subprocess":
        return Subprocess(EMBEDDED)
    return connect_launcher(_connection(spark_conn_id, where))


def _best_place(action: str, spark_conn_id: str | None) -> str:
    if not engine.ACTIONS[action].on_tasks:
        return "in_process"
    return "cluster" if spark_conn_id else "subprocess"


def _connection(conn_id: str | None, where: str) -> Any:
    """The connection of a cluster, of the type that `where` asks for; of any type that there is for `cluster`.

    Raises: AirflowFailException.
    """
    types = [where] if where in _CLUSTERS else list(_CLUSTERS)
    allowed = " or ".join(f"{name} ({_CLUSTERS[name]})" for name in types)
    if not conn_id:
        raise AirflowFailException(f"launcher={where!r} needs spark_conn_id, a connection of type {allowed}")
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise AirflowFailException(
            f"The connection {conn_id} that spark_conn_id names is not defined: define it with type {allowed}, or "
            "leave spark_conn_id away to run an embedded Spark"
        ) from error
    if connection.conn_type not in types:
        raise AirflowFailException(
            f"The connection {conn_id} is of type {connection.conn_type}; allowed is {allowed}. Leave spark_conn_id "
            "away to run an embedded Spark"
        )
    return connection
