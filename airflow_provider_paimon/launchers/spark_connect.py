"""Jobs whose tasks run on a Spark Connect server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.launchers.own_process import Subprocess

_TOKEN: Final = "token="  # noqa: S105 - the name of a parameter
_TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105


def connect_launcher(connection: Any, spark_conf: Mapping[str, str]) -> Subprocess:
    """A launcher for the server that a connection of type `spark_connect` names, with settings of the session.

    Its token is passed by the environment, because all users of a machine can see the arguments of processes.
    Raises: AirflowFailException for a connection that names no server.
    """
    # It loads requests and more, which only a task on a cluster needs.
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    if not connection.host:
        raise AirflowFailException(
            f"The connection {connection.conn_id} names no host; put the address of the Spark Connect server there"
        )
    try:
        url = SparkConnectHook(connection.conn_id).get_connection_url()
    except ValueError as error:
        raise AirflowFailException(f"The connection {connection.conn_id}: host {connection.host}: {error}") from error
    address, *parameters = url.split(";")
    environment = {}
    for item in [item for item in parameters if item.startswith(_TOKEN)]:
        environment[_TOKEN_VARIABLE] = unquote(item.removeprefix(_TOKEN))
    kept = [item for item in parameters if not item.startswith(_TOKEN)]
    return Subprocess(";".join([address, *kept]), environment=environment, spark_conf=spark_conf)
