"""Sessions: what is checked before the start, and what is left after the stop."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyspark
import pytest

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.spark import connect_session, local_session
from paimon_engine.spark import session as session_module

ROOT = Path(session_module.__file__).parents[2]

FIT = {"pyspark module": "4.2.0", "pyspark": "4.2.1", "pyspark-client": "4.2.0", "spark-core jar": "4.2.1"}


def test_versions_of_one_minor_fit():
    session_module._check_versions(FIT)


def test_versions_that_do_not_fit_are_named_with_a_remedy():
    with pytest.raises(UnsupportedError, match=r'spark-core jar 4\.3\.0.*pip install .*"pyspark==4\.3\.\*"'):
        session_module._check_versions({**FIT, "pyspark": "4.3.0", "spark-core jar": "4.3.0"})


def test_the_client_alone_cannot_run_spark_here():
    with pytest.raises(UnsupportedError, match="Only the Spark Connect client"):
        session_module._check_versions({"pyspark module": "4.2.0", "pyspark-client": "4.2.0"})


def test_missing_java_is_named_with_a_remedy():
    with pytest.raises(UnsupportedError, match="JAVA_HOME"):
        session_module._check_java(None)


@pytest.mark.parametrize("answer", ['openjdk version "11.0.2"', 'java version "1.8.0_392"', "nonsense"])
def test_java_that_is_too_old_is_named(tmp_path, answer):
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)

    with pytest.raises(UnsupportedError, match=f"Java 17 or newer, but {java}"):
        session_module._check_java(str(java))


@pytest.mark.parametrize("url", ["spark://host:7077", "sc://", "sc://host:port/;token=secret"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(InvalidArgumentError, match="looks like sc://host:15002") as refused:
        connect_session(url)

    assert "secret" not in str(refused.value)


def test_a_second_session_in_one_process_is_refused(spark):
    with pytest.raises(InvalidArgumentError, match="already runs"), local_session():
        pass


def test_a_program_may_start_one_session_after_another_and_nothing_stays(java, tmp_path):
    work, temporary = tmp_path / "work", tmp_path / "a temporary folder"
    work.mkdir()
    temporary.mkdir()
    program = """
        import os
        from paimon_engine.env import EnvConfig
        from paimon_engine.executor import Done
        from paimon_engine.spark import SparkExecutor, local_session

        def add(env, task):
            return task + 1

        before = dict(os.environ)
        with local_session(cores=1, quick_start=True, config={"spark.sql.shuffle.partitions": "3"}) as session:
            assert session.conf.get("spark.sql.shuffle.partitions") == "3"
            session.range(3).write.saveAsTable("kept_in_the_temporary_directory")
        with local_session(cores=1, quick_start=True) as session:
            assert SparkExecutor(session).map(add, [1, 2], config=EnvConfig("/")) == [Done(2), Done(3)]
        assert dict(os.environ) == before
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), "SPARK_REMOTE": "sc://nowhere"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "incubator" not in line] == []
    assert os.listdir(work) == []
    assert os.listdir(temporary) == []


def test_a_jvm_that_dies_is_an_error_of_ours_and_the_next_session_starts(java, tmp_path):
    program = """
        import os, signal
        import pyarrow as pa
        from pyspark.core.context import SparkContext
        from paimon_engine import Catalog, SparkError
        from paimon_engine.env import EnvConfig
        from paimon_engine.executor import values
        from paimon_engine.spark import SparkExecutor, local_session, ship_engine

        def add(env, task):
            return task + 1

        def expect(call):
            try:
                call()
            except SparkError as error:
                print(type(error).__name__)

        with local_session(cores=1, quick_start=True) as session:
            executor = SparkExecutor(session)
            table = Catalog(sys.argv[1], executor=executor).create_table("db.t", schema=pa.schema([("k", pa.int64())]))
            table.write(pa.table({"k": [1]}))
            frame = session.range(3)
            jvm = SparkContext._gateway.proc
            os.kill(jvm.pid, signal.SIGKILL)
            jvm.wait()
            expect(lambda: executor.parallelism)
            expect(lambda: values(executor.map(add, [1], config=EnvConfig("/"))))
            expect(lambda: table.write(frame))
            expect(lambda: table.to_spark())
            expect(lambda: ship_engine(session))
        with local_session(cores=1, quick_start=True) as session:
            print(session.range(3).count())
        expect(lambda: local_session(memory="no size").__enter__())
    """

    done = _python(textwrap.dedent(program), str(tmp_path))

    assert done.stdout.splitlines() == ["SparkError"] * 5 + ["3", "SparkError"]


@pytest.mark.long
def test_a_session_starts_from_the_archive_that_a_warm_up_made(java, tmp_path):
    folder = tmp_path / "a folder"
    code = (
        "from pathlib import Path; from paimon_engine.spark.session import warm_up; print(warm_up(Path(sys.argv[1])))"
    )
    made = _python(code, str(folder), PAIMON_ENGINE_CACHE=None)
    archive = Path(made.stdout.splitlines()[-1])

    assert archive.parent == folder
    assert list(folder.iterdir()) == [archive]
    # The JVM says so only where it really uses it.
    options_of_java = {"JDK_JAVA_OPTIONS": "-Xlog:class+load:file=classes-%p.log"}
    count = "from paimon_engine.spark.session import local_session\nwith local_session() as spark: print(spark.range(3).count())"
    assert (
        _python(count, PAIMON_ENGINE_CACHE=str(folder), cwd=tmp_path, **options_of_java).stdout.splitlines()[-1] == "3"
    )
    if " " in pyspark.__file__:
        pytest.skip("Java archives no classes of jars in a folder whose path holds a space")
    loaded = [line for log in tmp_path.glob("classes-*.log") for line in log.read_text().splitlines()]
    assert any("org.apache.spark.SparkContext " in line and "shared objects file (top)" in line for line in loaded)


def test_an_archive_that_does_not_fit_is_not_used(java, tmp_path):
    (tmp_path / f"spark-{pyspark.__version__}.jsa").write_bytes(b"no archive")
    count = "from paimon_engine.spark.session import local_session\nwith local_session() as spark: print(spark.range(3).count())"

    assert _python(count, PAIMON_ENGINE_CACHE=str(tmp_path)).stdout == "3\n"


def _python(
    code: str, *arguments: str, cwd: Path | None = None, **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """A program of its own, because a process has one JVM only."""
    values = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        **{name: value for name, value in environment.items() if value is not None},
    }
    for name in [name for name, value in environment.items() if value is None]:
        values.pop(name, None)
    command = [sys.executable, "-c", "import sys\n" + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=True, env=values, cwd=cwd)
