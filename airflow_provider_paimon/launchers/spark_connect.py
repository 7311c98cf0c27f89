"""Jobs whose tasks run on a Spark Connect server."""

from __future__ import annotations

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon.launchers.own_process import Subprocess


def connect_launcher(conn_id: str) -> Subprocess:
    """A launcher for a Spark Connect server; its token goes by environment, because all users can see arguments."""
    connection = BaseHook.get_connection(conn_id)
    if connection.conn_type != "spark_connect":
        raise AirflowException(
            f"The connection {conn_id} is of type {connection.conn_type}; only spark_connect is supported yet. "
            "Start a Spark Connect server on that cluster, or leave spark_conn_id away to run an embedded Spark"
        )
    if not connection.host:
        raise AirflowFailException(f"The connection {conn_id} names no host")
    host = connection.host.removeprefix("sc://").rstrip("/")
    parameters = [f"user_id={connection.login}"] if connection.login else []
    if str(connection.extra_dejson.get("use_ssl", "")).lower() == "true":
        parameters.append("use_ssl=true")
    url = f"sc://{host}:{connection.port or 15002}/" + "".join(f";{item}" for item in parameters)
    token = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": connection.password} if connection.password else {}
    return Subprocess(url, environment=token)
