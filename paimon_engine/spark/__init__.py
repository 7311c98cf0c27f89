"""Spark: sessions, the executor that runs tasks in them, and DataFrames as sources and results.

The only package that imports pyspark. It uses the DataFrame API alone, so everything here works the same on a classic
session and on Spark Connect; nothing below this package knows that Spark exists.
"""

from __future__ import annotations

from paimon_engine.spark.dataframe import arrow_schema, is_dataframe, read_files, to_dataframe
from paimon_engine.spark.executor import SparkExecutor
from paimon_engine.spark.session import check_spark, connect_session, local_session, ship_engine

__all__ = [
    "SparkExecutor",
    "arrow_schema",
    "check_spark",
    "connect_session",
    "is_dataframe",
    "local_session",
    "read_files",
    "ship_engine",
    "to_dataframe",
]
