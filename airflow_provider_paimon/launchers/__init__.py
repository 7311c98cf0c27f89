"""Where a job runs: launchers run a job and return its result.

    in_process      threads of the task's own process; no Spark, no Java: for work on metadata, and on few rows
    subprocess      a separate process with an embedded Spark: for larger writes and compactions
    spark_submit    a Spark cluster (standalone, YARN, Kubernetes), by `spark-submit`
    spark_connect   the same process, whose tasks run on a Spark Connect server

Which of them a job gets, `placement` decides. Its own process ends with the task, however the task ends; see
`Subprocess`.
"""

from airflow_provider_paimon.launchers.base import HOPELESS, Launcher
from airflow_provider_paimon.launchers.choose import choose_launcher
from airflow_provider_paimon.launchers.in_process import InProcess
from airflow_provider_paimon.launchers.own_process import EMBEDDED, Subprocess
from airflow_provider_paimon.launchers.spark_submit import SparkSubmit, SubmitSettings

__all__ = [
    "EMBEDDED",
    "HOPELESS",
    "InProcess",
    "Launcher",
    "SparkSubmit",
    "SubmitSettings",
    "Subprocess",
    "choose_launcher",
]
