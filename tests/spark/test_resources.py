"""What a job may take reaches the threads, the embedded session and the session on a server, or is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.jobs import Resources, open_executor

pytestmark = pytest.mark.spark

MIB = 1 << 20


LOOK = """
import json
from paimon_engine.jobs import open_executor
from paimon_engine.resources import Resources

settings = {"spark.sql.shuffle.partitions": "3", "spark.driver.extraJavaOptions": "-Dpaimon.test=yes"}
with open_executor("local[1]", Resources(memory=600 << 20, spark_conf=settings)) as executor:
    java = executor.session.sparkContext._jvm.java.lang
    print(
        json.dumps(
            {
                "partitions": executor.session.conf.get("spark.sql.shuffle.partitions"),
                "parallelism": executor.session.sparkContext.defaultParallelism,
                "memory": java.Runtime.getRuntime().maxMemory(),
                "property": java.System.getProperty("paimon.test"),
                "tmpdir": java.System.getProperty("java.io.tmpdir"),
            }
        )
    )
"""


def test_an_embedded_session_takes_memory_settings_and_options_of_the_jvm():
    """In a separate process: where a JVM runs already, it keeps its memory and its options."""
    ended = subprocess.run([sys.executable, "-c", LOOK], check=True, capture_output=True, text=True)

    found = json.loads(ended.stdout.splitlines()[-1])
    assert (found["partitions"], found["parallelism"], found["property"]) == ("3", 1, "yes")
    assert 500 * MIB < found["memory"] <= 600 * MIB
    # Ours are still there.
    assert "paimon-spark-" in found["tmpdir"]


def test_a_session_on_a_server_takes_settings_of_a_session(connect_url: str):
    with open_executor(connect_url, Resources(spark_conf={"spark.sql.shuffle.partitions": "3"})) as executor:
        assert executor.session.conf.get("spark.sql.shuffle.partitions") == "3"  # type: ignore[attr-defined]


def test_a_setting_that_the_server_refuses_is_an_error(connect_url: str):
    with (
        pytest.raises(InvalidArgumentError, match=r"spark_conf: .*spark\.executor\.memory"),
        open_executor(connect_url, Resources(spark_conf={"spark.executor.memory": "2g"})),
    ):
        pass


@pytest.mark.parametrize(
    ("spark", "resources", "message"),
    [
        (None, {"spark_conf": {"spark.a": "b"}}, "runs without"),
        ("local[2]", {"local_cores": 3}, r"give local\[N\]"),
        ("sc://127.0.0.1:1", {"local_cores": 3}, "local_cores"),
    ],
)
def test_options_that_the_launcher_does_not_use_are_refused(spark: str | None, resources: dict, message: str):
    with pytest.raises(InvalidArgumentError, match=message), open_executor(spark, Resources(**resources)):
        pass
