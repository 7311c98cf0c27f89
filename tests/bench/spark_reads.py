"""How fast a DataFrame of a table answers queries, by Spark's own reader and by the engine in tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from paimon_engine import open_table
from paimon_engine.spark.executor import SparkExecutor

ROUNDS = 5
QUERIES: Mapping[str, tuple[Callable[[Any], Any], str, str]] = {
    "all columns": (lambda frame: frame.write.format("noop").mode("overwrite").save(), "1.39 s", "1.79 s"),
    "sum(k)": (lambda frame: frame.selectExpr("sum(k)").collect(), "0.26 s", "1.82 s"),
    "count and max(text) of k < 1 M": (
        lambda frame: frame.where("k < 1000000").selectExpr("count(*)", "max(t)").collect(),
        "0.34 s",
        "1.69 s",
    ),
    "sum and max by a text of 200 values": (
        lambda frame: frame.groupBy("s").agg({"n0": "sum", "d0": "max"}).collect(),
        "0.62 s",
        "2.02 s",
    ),
}
"""Query → what it does, and the figures to hold: by Spark's own reader, and with rows from Python."""


def reads(session: SparkSession, path: str) -> Iterator[tuple[str, str, str]]:
    """Seconds of each query on a compacted table, the least of some rounds in which both ways take turns."""
    ways = {
        "by Spark": open_table(path, executor=SparkExecutor(session)).to_spark(),
        "in tasks": open_table(path, executor=SparkExecutor(session, native_schemes=())).to_spark(),
    }
    assert ways["by Spark"].inputFiles()
    assert not ways["in tasks"].inputFiles()
    for name, (query, *figures) in QUERIES.items():
        seconds: dict[str, float] = {}
        for _ in range(ROUNDS):
            for way, frame in ways.items():
                begun = time.perf_counter()
                query(frame)
                seconds[way] = min(seconds.get(way, float("inf")), time.perf_counter() - begun)
        for way, held in zip(ways, figures, strict=True):
            yield f"{name}, read {way}", f"{seconds[way]:.2f} s", held
