"""Which launcher a job gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from airflow_provider_paimon import engine
from airflow_provider_paimon.launchers.base import Launcher
from airflow_provider_paimon.launchers.in_process import InProcess
from airflow_provider_paimon.launchers.own_process import EMBEDDED, Subprocess
from airflow_provider_paimon.launchers.spark_connect import connect_launcher
from airflow_provider_paimon.launchers.spark_submit import SparkSubmit, SubmitSettings
from airflow_provider_paimon.placement import CLUSTERS, Placement


def choose_launcher(
    placement: Placement,
    resources: engine.Resources | None = None,
    spark_conn_id: str | None = None,
    submit: SubmitSettings | None = None,
) -> Launcher:
    """The launcher for the placement of a job, with the resources that it may use there.

    Raises: AirflowFailException for a connection that is missing or of another type.
    """
    cores, memory, settings = None, None, {}
    if resources is not None:
        cores, memory, settings = resources.local_cores, resources.memory, dict(resources.spark_conf or {})
    submit = submit or SubmitSettings()
    if placement.where == "in_process":
        return InProcess(cores)
    if placement.where == "subprocess":
        spark = EMBEDDED if cores is None else f"local[{cores}]"
        return Subprocess(spark, memory_bytes=memory, spark_conf=settings, python=submit.python)
    connection = _connection(spark_conn_id, placement.where)
    if connection.conn_type == "spark":
        driver = {} if memory is None else {"spark.driver.memory": f"{memory >> 20}m"}
        return SparkSubmit(connection.conn_id, replace(submit, conf={**settings, **driver}))
    return replace(connect_launcher(connection, settings), python=submit.python)


def _connection(conn_id: str | None, where: str) -> Any:
    """The connection of a cluster, of the type that `where` requires; of any supported type for `cluster`.

    Raises: AirflowFailException.
    """
    types = dict([CLUSTERS[where]] if where in CLUSTERS else CLUSTERS.values())
    allowed = " or ".join(f"{name} ({what})" for name, what in types.items())
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
