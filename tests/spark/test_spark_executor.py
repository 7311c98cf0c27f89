"""SparkExecutor on an embedded session and on a real Spark Connect server: the same contract, the same code."""

from __future__ import annotations

import os
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

import paimon_engine
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import InvalidArgumentError, NotFoundError, SparkError, UnsupportedError
from paimon_engine.executor import ByGroup, Done, Failed, LocalExecutor, values
from paimon_engine.spark import SparkExecutor, arrow_schema, is_dataframe, read_files, ship_engine, to_dataframe

CONFIG = EnvConfig("/")

# Real tasks are functions of the engine, which workers can import. Those of this file travel as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def write_file(env: Env, task: str) -> tuple[str, int]:
    if task.endswith("2"):
        raise NotFoundError(f"no {task}")
    env.storage.create(task, task.encode())
    return task, pa.cpu_count()


def where_the_engine_is(env: Env, task: int) -> str:
    return paimon_engine.__file__


def unpicklable(env: Env, task: int):
    return threading.Lock() if task else "plain"


def dies(env: Env, task: int) -> int:
    if task == 1:
        os._exit(3)
    return task


def group_of(batch: pa.RecordBatch) -> pa.Array:
    return batch.column("g")


def refuse(batch: pa.RecordBatch) -> pa.Array:
    raise InvalidArgumentError("the key k is null")


def count_odd_groups(env: Env, part: int, batches):
    count = 0
    for batch in batches:
        odd = pc.equal(pc.bit_wise_and(batch["g"], pa.scalar(1, pa.int32())), 1)
        count += pc.sum(odd).as_py() or 0
        yield from ByGroup(group_of)(env, part, iter([batch.filter(pc.invert(odd))]))
    yield Done((part, count))


def values_of(env: Env, group: int, batches) -> tuple[int, list[int]]:
    return group, [value for batch in batches for value in batch["v"].to_pylist()]


def sizes_of(env: Env, group: int, batches) -> list[int]:
    return [len(text) for batch in batches for text in batch["s"].to_pylist()]


def rows_of(env: Env, group: int, batches) -> tuple[list[str], list[int]]:
    if group == 3:
        next(batches)
        raise ValueError("group three")
    if group == 4:
        return next(batches).schema.names, []
    parts = list(batches)
    return parts[0].schema.names, [value for batch in parts for value in batch.column("v").to_pylist()]


def read_range(env: Env, task: tuple[int, int]):
    start, end = task
    yield pa.record_batch({"k": pa.array(range(start, end), pa.int64())})
    yield pa.record_batch({"k": pa.array([None], pa.int64())})


@pytest.fixture
def executor(session: Any) -> SparkExecutor:
    return SparkExecutor(session)


def _table(rows: int) -> pa.Table:
    groups = np.random.default_rng(7).integers(0, 6, rows).astype(np.int32)
    return pa.table({"g": groups, "v": np.arange(rows), "s": [f"text {row}" for row in range(rows)]})


def test_outcomes_are_in_task_order_and_a_failure_stops_no_other(executor, tmp_path):
    tasks = [f"{tmp_path}/part-{number}" for number in range(5)]
    heard: list[int] = []

    outcomes = executor.map(write_file, tasks, config=CONFIG, on_done=heard.append)

    assert [outcomes[number] for number in (0, 1, 3, 4)] == [Done((tasks[number], 1)) for number in (0, 1, 3, 4)]
    assert isinstance(outcomes[2].error(), NotFoundError)
    assert "write_file" in outcomes[2].trace
    assert sorted(os.listdir(tmp_path)) == ["part-0", "part-1", "part-3", "part-4"]
    assert heard == [5]


def test_a_result_that_does_not_pickle_fails_only_its_task(executor):
    outcomes = executor.map(unpicklable, [0, 1], config=CONFIG)

    assert outcomes[0] == Done("plain")
    assert isinstance(outcomes[1], Failed)


def test_no_tasks_no_outcomes(executor):
    assert executor.map(write_file, [], config=CONFIG) == []


def test_more_tasks_than_cores(executor, tmp_path):
    tasks = [f"{tmp_path}/a{number}x" for number in range(25)]

    assert [value[0] for value in values(executor.map(write_file, tasks, config=CONFIG))] == tasks


def test_parallelism_is_what_the_session_has(executor):
    assert executor.parallelism == 2


def test_parallelism_without_a_telling_master(spark):
    """A Connect session has no context that could say it, so that a range shows it; here a classic one cuts it."""
    connect_session = type("SparkSession", (SimpleNamespace,), {"__module__": "pyspark.sql.connect.session"})
    elsewhere = connect_session(conf={"spark.master": "yarn"}, range=spark.range)

    assert SparkExecutor(elsewhere).parallelism == 2


def test_groups_arrive_complete_and_in_source_order(executor):
    table = _table(30_000)
    source = executor.session.createDataFrame(table)

    outcomes = executor.shuffle(source, split=ByGroup(group_of), run=rows_of, config=CONFIG)

    local = LocalExecutor().shuffle(table, split=ByGroup(group_of), run=rows_of, config=CONFIG)
    assert [outcomes[group] for group in (0, 1, 2, 4, 5)] == [local[group] for group in (0, 1, 2, 4, 5)]
    assert outcomes[0].value[0] == ["g", "v", "s"]
    assert outcomes[3].kind == "ValueError"


def test_an_empty_source_has_no_groups(executor):
    assert executor.shuffle(_table(0), split=ByGroup(group_of), run=rows_of, config=CONFIG) == []


def test_an_error_of_ours_while_splitting_is_the_first_outcome(executor):
    outcomes = executor.shuffle(_table(10), split=ByGroup(refuse), run=rows_of, config=CONFIG)

    with pytest.raises(InvalidArgumentError, match=r"^the key k is null$"):
        values(outcomes)


def test_what_parts_have_done_comes_before_groups(executor):
    source = executor.session.createDataFrame(_table(1_000)).repartition(3)

    outcomes = values(executor.shuffle(source, split=count_odd_groups, run=values_of, config=CONFIG))

    parts, groups = outcomes[:3], outcomes[3:]
    assert [number for number, _ in parts] == [0, 1, 2]
    assert sum(count for _, count in parts) + sum(len(found) for _, found in groups) == 1_000
    assert [number for number, _ in groups] == [0, 2, 4]


def test_packs_of_the_shuffle_are_small_but_for_single_rows(executor):
    texts = ["x" * 3_000_000 for _ in range(8)] + ["y" * 9_000_000]
    source = executor.session.createDataFrame(pa.table({"g": np.zeros(9, np.int32), "v": np.arange(9), "s": texts}))

    outcomes = values(executor.shuffle(source.coalesce(1), split=ByGroup(group_of), run=sizes_of, config=CONFIG))

    assert outcomes == [[3_000_000] * 8 + [9_000_000]]


def test_workers_of_a_server_use_the_engine_that_was_shipped(connect, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    ship_engine(connect)

    (location,) = values(SparkExecutor(connect).map(where_the_engine_is, [0], config=CONFIG))

    assert ".zip/paimon_engine" in location


def test_memory_storage_is_refused(spark):
    with pytest.raises(UnsupportedError, match="LocalExecutor"):
        SparkExecutor(spark).map(write_file, ["a"], config=EnvConfig("memory://tests"))


def test_a_worker_that_dies_fails_the_tasks_and_not_the_caller(executor):
    outcomes = executor.map(dies, [0, 1], config=CONFIG)

    assert all(isinstance(outcome, Failed) for outcome in outcomes)
    assert type(outcomes[1].error()) is SparkError
    assert "worker exited unexpectedly" in outcomes[1].message
    assert len(outcomes[1].message) < 1000
    assert values(executor.map(dies, [0, 2], config=CONFIG)) == [0, 2]


def test_tasks_become_a_dataframe(executor):
    schema = pa.schema([("k", pa.int64())])

    frame = to_dataframe(executor.session, read_range, [(0, 3), (10, 12)], schema=schema, config=CONFIG)
    empty = to_dataframe(executor.session, read_range, [], schema=schema, config=CONFIG)

    assert [row.k for row in frame.orderBy("k").collect()] == [None, None, 0, 1, 2, 10, 11]
    assert empty.count() == 0
    assert is_dataframe(frame)
    assert not is_dataframe(schema)


def test_files_become_a_dataframe_with_an_arrow_schema(executor, tmp_path):
    (tmp_path / "a.csv").write_text("k,price\n1,2.50\n")

    frame = read_files(
        executor.session,
        [str(tmp_path / "a.csv")],
        file_format="csv",
        options={"header": "true", "inferSchema": "true"},
    )

    assert arrow_schema(frame) == pa.schema([("k", pa.int32()), ("price", pa.float64())])
    assert [tuple(row) for row in frame.collect()] == [(1, 2.5)]
