"""A classic Spark with a master, a worker and an executor in separate processes, which do not have the engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyspark
import pytest

from paimon_engine.spark import session as session_module

ROOT = Path(session_module.__file__).parents[2]
PACKAGES = Path(pyspark.__file__).parents[1]

BEGIN = """
    import os, sys

    sys.path.insert(0, sys.argv[1])
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    from paimon_engine.env import EnvConfig
    from paimon_engine.executor import values
    from paimon_engine.spark import SparkExecutor, ship_engine

    cloudpickle.register_pickle_by_value(sys.modules[__name__])

    def cluster(workers, memory, failures):
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        settings = {
            "spark.driver.extraJavaOptions": quick,
            "spark.executor.extraJavaOptions": quick,
            "spark.executor.memory": memory,
            "spark.local.dir": os.getcwd(),
            "spark.log.level": "OFF",
            "spark.task.maxFailures": str(failures),
            "spark.ui.enabled": "false",
        }
        master = f"local-cluster[{workers},1,1024]"
        return SparkSession.builder.master(master).config(map=settings).getOrCreate()
"""
"""What both programs begin with."""

PROGRAM = """
    import json

    import paimon_engine

    session = cluster(workers=1, memory="1g", failures=1)

    def where_the_engine_is(env, task):
        return paimon_engine.__file__

    def tell(key, call):
        try:
            found = call()
        except Exception as error:
            found = [type(error).__name__, type(error.__cause__).__name__, str(error).splitlines()[0]]
        print(json.dumps({key: found}), flush=True)

    config = EnvConfig("/")
    tell("engine", lambda: values(SparkExecutor(session).map(where_the_engine_is, [0], config=config)))
    ship_engine(session)
    ship_engine(session)
    tell("shipped", lambda: values(SparkExecutor(session).map(where_the_engine_is, [0], config=config)))
    tell("parallelism", lambda: SparkExecutor(session).parallelism)
    with open("goes.txt", "w") as file:
        file.write("no executor finds this")
    session.addArtifacts("goes.txt", file=True)
    os.remove("goes.txt")
    tell("gone", lambda: values(SparkExecutor(session).map(where_the_engine_is, [0], config=config)))
    session.stop()
"""

LOST = """
    import time

    import pyarrow as pa
    from paimon_engine.executor import Done

    session = cluster(workers=2, memory="600m", failures=4)
    ship_engine(session)
    folder = os.getcwd()

    def is_first(name):
        try:
            with open(os.path.join(folder, name), "x"):
                return True
        except FileExistsError:
            return False

    def split(env, part, batches):
        rows = pa.Table.from_batches(batches)
        if is_first(f"part {part}"):
            for group in (0, 1):
                yield group, rows.combine_chunks().to_batches()[0]
        else:
            yield Done(rows.num_rows)

    def run(env, group, batches):
        count = sum(batch.num_rows for batch in batches)
        if group == 1 and is_first("dead"):
            # Group 0 has its rows by now. This worker's parent forks workers; its parent is the executor.
            time.sleep(5)
            with open(f"/proc/{os.getppid()}/stat") as stat:
                os.kill(int(stat.read().rpartition(")")[2].split()[1]), 9)
        return count

    source = session.range(0, 20, 1, 2)
    try:
        done = SparkExecutor(session, parallelism=2).shuffle(source, split=split, run=run, config=EnvConfig("/"))
        print(sorted(values(done)))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    session.stop()
"""


def test_a_job_ends_where_a_part_is_split_again_and_otherwise(java: None, tmp_path: Path) -> None:
    """An executor dies when one group has had its rows. What is split again may come in another order, and then a part
    may keep rows that it had sent: they would be there twice."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BEGIN + LOST), str(ROOT)],
        cwd=tmp_path,
        env={**environment, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "dead").exists()
    assert "SparkError: Spark gave the job up" in done.stdout
    assert "indeterminate output" in done.stdout


@pytest.fixture(scope="module")
def outcomes(java: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the program says of its cluster; workers run a Python that has packages, and ours is none of them."""
    work = tmp_path_factory.mktemp("cluster")
    python = work / "python"
    # Without `site`, paths to projects in editable installations are not followed.
    python.write_text(f'#!/bin/sh\nexec env PYTHONPATH="$PYTHONPATH:{PACKAGES}" "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    # Another test's connection leaves a variable of Spark's.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("SPARK_")
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BEGIN + PROGRAM), str(ROOT)],
        cwd=work,
        env={**environment, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    return found


def test_executors_of_a_cluster_get_the_engine_that_was_shipped(outcomes):
    kind, _, message = outcomes["engine"]
    assert kind == "SparkError"
    assert "Spark gave the job up because its workers lack the engine" in message
    assert "ship_engine(session)" in message

    (location,) = outcomes["shipped"]
    assert ".zip/paimon_engine" in location
    assert outcomes["parallelism"] >= 1


def test_a_cluster_that_fails_is_an_error_of_ours(outcomes):
    kind, _, message = outcomes["gone"]

    assert kind == "SparkError"
    assert "Spark gave the job up" in message
