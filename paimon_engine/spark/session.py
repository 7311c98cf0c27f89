"""Spark sessions: an embedded local one, or a connection to a Spark Connect server.

An embedded session keeps everything temporary in one directory that is deleted when the session stops: no
`metastore_db`, `spark-warehouse` or `derby.log` appears where the program was started.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from paimon_engine.arrow_memory import SETTINGS
from paimon_engine.errors import InvalidArgumentError, SparkError, UnsupportedError
from paimon_engine.packing import engine_archive
from paimon_engine.spark.class_archive import make_archive, options_to_use_it
from paimon_engine.spark.failures import spark_calls

_JAVA_MIN = 17
_JAVA_OPTIONS = (
    # Measured on 2 cores against the default collector: rows pass the JVM 1.3 to 1.9 times as fast.
    "-XX:+UseSerialGC",
    # Without this the JVM leaves a file in /tmp/hsperfdata_<user>.
    "-XX:-UsePerfData",
)
_JAVA_OPTIONS_SETTING = "spark.driver.extraJavaOptions"
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""Only the simple compiler: start and first job take 7 s of processor time instead of 12, and a second less on the
clock; but rows that pass the JVM (DataFrames, shuffles) take twice as long."""

_START: Mapping[str, str | None] = {
    # Without this workers run the `python3` that is on the PATH, which may lack the packages.
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    # For the short-lived JVM that prints the command of the other one.
    "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData -XX:TieredStopAtLevel=1",
}
"""Read by Spark only while it starts."""

_NO_CONNECTION: Mapping[str, str | None] = {"SPARK_REMOTE": None, "SPARK_CONNECT_MODE_ENABLED": None}
"""If one of these is set, even by an earlier connection, pyspark treats every session as a connection."""

_REDACTED = "(?i)secret|password|token|access[.]?key"
"""What Spark redacts by default."""

_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n
"""


@contextlib.contextmanager
def local_session(
    *,
    cores: int | None = None,
    memory: str = "1g",
    quick_start: bool = False,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """An embedded Spark for the length of a `with` block, on `cores` cores (all by default).

    `memory` is the heap of the JVM; the Python tasks use additional memory. `quick_start` is for
    work that only maps tasks over files, such as compaction; it makes DataFrames slower. `config` adds to or replaces
    Spark settings. Tasks see the modules that this process can import now, and its environment.
    pyspark itself cannot use an embedded session and a connection to a server in one process.
    Raises: UnsupportedError if Java or Spark is missing or does not fit; InvalidArgumentError if this process already
    runs Spark.
    """
    java_options = [*_JAVA_OPTIONS, *([_QUICK_START] if quick_start else []), *options_to_use_it()]
    with _started(cores=cores, memory=memory, java_options=java_options, config=config) as session:
        yield session


@contextlib.contextmanager
def _started(
    *,
    cores: int | None = None,
    memory: str,
    java_options: Sequence[str],
    config: Mapping[str, str] | None = None,
    stop_timeout_s: float = 10,
) -> Iterator[SparkSession]:
    """A session with its own directories, stopped and cleaned up at the end of the block.

    Raises: InvalidArgumentError if this process runs a session already; SparkError.
    """
    check_spark()
    # Only here and in `_stop`: the Connect client alone has no such module.
    from pyspark.core.context import SparkContext

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - asking in public would start one
        raise InvalidArgumentError(
            "This process already runs a Spark session; give that one to SparkExecutor instead of starting another"
        )
    directory = tempfile.mkdtemp(prefix="paimon-spark-")
    try:
        settings = _with_more(_settings(Path(directory), memory, java_options), config or {})
        with _environment(_NO_CONNECTION):
            with _environment({**_START, "SPARK_LOCAL_DIRS": directory}):
                builder = SparkSession.builder.master(f"local[{cores or '*'}]").config(map=dict(settings))
                with spark_calls("Spark did not start"):
                    session = builder.getOrCreate()
            try:
                yield session
            finally:
                _stop(session, stop_timeout_s)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def connect_session(url: str, *, ship: bool = True, config: Mapping[str, str] | None = None) -> SparkSession:
    """A session on a Spark Connect server (`sc://host:port/;token=…`), to be stopped by the caller.

    `ship` sends this engine's code along; set it to False if the workers have it installed. `config` are settings of
    the session.

    Raises: InvalidArgumentError for another address, a setting that the server refuses, or if it refuses us; SparkError
    within 15 s if nothing answers there.
    """
    # What follows the first semicolon may be a token.
    shown = url.partition(";")[0]
    if not url.startswith("sc://"):
        raise InvalidArgumentError(f"A Spark Connect address looks like sc://host:15002, not {shown}")
    # Only here: an embedded Spark needs no gRPC.
    from paimon_engine.spark.connect_server import check_server, lost_after_a_minute

    try:
        check_server(url)
        session: SparkSession = SparkSession.builder.remote(url).create()
    except ValueError as error:
        raise InvalidArgumentError(f"A Spark Connect address looks like sc://host:15002, not {shown}") from error
    session.client.set_retry_policies([lost_after_a_minute()])
    try:
        with spark_calls("the settings of Spark were refused"):
            for name, value in (config or {}).items():
                session.conf.set(name, value)
        if ship:
            ship_engine(session)
    except SparkError as error:
        session.stop()
        if isinstance(error.__cause__, AnalysisException):
            raise InvalidArgumentError(f"spark_conf: {error.__cause__}") from error
        raise
    return session


def submitted_session(environment: Sequence[str] = (), *, config: Mapping[str, str] | None = None) -> SparkSession:
    """The session of the `spark-submit` that started this process, to be stopped by the caller.

    `environment` names variables of this process that executors need, such as those with secrets. `config` has more
    settings.

    Raises: SparkError.
    """
    variables = {name: os.environ[name] for name in environment if name in os.environ}
    settings = {
        **{f"spark.executorEnv.{name}": value for name, value in {**SETTINGS, **variables}.items()},
        "spark.python.worker.faulthandler.enabled": "true",
        **(config or {}),
    }
    if variables:
        # Spark shows its settings in its pages and logs, but for those whose name or value matches.
        settings["spark.redaction.regex"] = "|".join([_REDACTED, *map(re.escape, variables)])
    with _environment(_NO_CONNECTION), spark_calls("the submitted Spark did not start"):
        session: SparkSession = SparkSession.builder.config(map=settings).getOrCreate()
    return session


def ship_engine(session: SparkSession) -> None:
    """Send the code of `paimon_engine` to the workers of a session, until that session ends; may be repeated.

    Not needed for `local_session`. Compiled packages cannot be sent this way: pyarrow and numpy, and fsspec with the
    file system in use, must be installed where the workers run.

    Raises: SparkError.
    """
    with spark_calls("the engine's code did not reach Spark"), _folder_of_session(session) as folder:
        session.addArtifacts(str(engine_archive(folder)), pyfile=True)


@contextlib.contextmanager
def _folder_of_session(session: SparkSession) -> Iterator[Path]:
    """A folder for an archive to be sent.

    A Connect session sends it at once. A classic one only gives its executors the address: they fetch it when they
    start, whenever that may be, so it stays among the files of the Spark application until that ends.
    """
    if type(session).__module__.startswith("pyspark.sql.connect."):
        with tempfile.TemporaryDirectory(prefix="paimon-ship-") as directory:
            yield Path(directory)
        return
    from pyspark import SparkFiles

    folder = Path(SparkFiles.getRootDirectory(), "paimon-ship")
    folder.mkdir(exist_ok=True)
    yield folder


def check_spark() -> None:
    """Check that Java exists and that the parts of Spark are compatible.

    Raises: UnsupportedError, with what to do.
    """
    _check_versions(_spark_versions())
    _check_java(_java())


def _check_versions(versions: Mapping[str, str]) -> None:
    """All parts must be of one minor version: `pyspark` and `pyspark-client` install over each other's files."""
    if "spark-core jar" not in versions:
        raise UnsupportedError(
            "Only the Spark Connect client is installed, which cannot run Spark here: "
            f'pip install "pyspark=={_minor(versions["pyspark module"])}.*", or connect to a server'
        )
    if len({_minor(version) for version in versions.values()}) > 1:
        found = ", ".join(f"{part} {version}" for part, version in versions.items())
        minor = _minor(versions.get("pyspark", versions["spark-core jar"]))
        raise UnsupportedError(
            f"The parts of Spark do not fit together ({found}): "
            f'pip install --force-reinstall --no-deps "pyspark=={minor}.*" "pyspark-client=={minor}.*"'
        )


def _spark_versions() -> dict[str, str]:
    """Versions of the installed parts of Spark, by part; parts that are absent are left out."""
    versions = {"pyspark module": pyspark.__version__}
    for part in ("pyspark", "pyspark-client"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[part] = importlib.metadata.version(part)
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    for jar in Path(home, "jars").glob("spark-core_*.jar"):
        versions["spark-core jar"] = jar.stem.rpartition("-")[2]
    return versions


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _java() -> str | None:
    """The path of the `java` that Spark would start, if there is one."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")


def _check_java(java: str | None) -> None:
    if java is None:
        raise UnsupportedError(f"Spark needs Java {_JAVA_MIN} or newer: install a JDK and set JAVA_HOME to it")
    answer = subprocess.run([java, "-XX:-UsePerfData", "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if version is None or int(version[1]) < _JAVA_MIN:
        raise UnsupportedError(
            f"Spark needs Java {_JAVA_MIN} or newer, but {java} is {version[1] if version else 'broken'}: "
            "set JAVA_HOME to another JDK"
        )


def warm_up(folder: Path) -> Path:
    """Makes the class archive (`class_archive`) in a folder, by a session that runs a small job; gives its path.

    Raises: UnsupportedError if Java or Spark is missing or does not fit.
    """

    def run_session(java_options: list[str]) -> None:
        options = [*_JAVA_OPTIONS, _QUICK_START, *java_options]
        with _started(memory="1g", java_options=options, stop_timeout_s=120) as session:
            session.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()

    return make_archive(folder, run_session)


def _settings(directory: Path, memory: str, java_options: Sequence[str]) -> dict[str, str]:
    """The settings of an embedded session that keeps all its files in `directory`."""
    log4j = directory / "log4j2.properties"
    log4j.write_text(_LOG4J, encoding="utf-8")
    all_options = [
        *java_options,
        f"-Djava.io.tmpdir={directory}",
        f"-Dderby.system.home={directory}",
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
    ]
    return {
        "spark.app.name": "paimon",
        "spark.api.mode": "classic",
        "spark.driver.memory": memory,
        _JAVA_OPTIONS_SETTING: " ".join(map(_quoted, all_options)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory),
        "spark.hadoop.hadoop.tmp.dir": str(directory),
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        **{f"spark.executorEnv.{name}": os.environ.get(name, value) for name, value in SETTINGS.items()},
        # A worker that crashes in compiled code says where.
        "spark.python.worker.faulthandler.enabled": "true",
    }


def _with_more(settings: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Our settings with those of the caller, which win; options of the JVM are added to ours, which keep its files."""
    found = {**settings, **given}
    if _JAVA_OPTIONS_SETTING in given:
        found[_JAVA_OPTIONS_SETTING] = f"{settings[_JAVA_OPTIONS_SETTING]} {given[_JAVA_OPTIONS_SETTING]}"
    return found


def _quoted(option: str) -> str:
    """One option as Spark's own parser reads it back; a path may contain spaces."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@contextlib.contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Environment variables for the length of a `with` block, None to unset; the end sets the old values again."""
    before = {name: os.environ.get(name) for name in changes}
    _set_environment(changes)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _stop(session: SparkSession, timeout_s: float) -> None:
    """Stop the session and its JVM.

    pyspark keeps the JVM for a next session in this process; that one would run with this one's settings, in a
    temporary directory that was deleted.
    """
    from pyspark.core.context import SparkContext

    context = session.sparkContext
    try:
        with spark_calls("the session did not stop"):
            session.stop()
    except SparkError:
        # The JVM has died. The second call only makes pyspark forget it; otherwise pyspark would start no other.
        context.stop()
    # pyspark has no public way to end its JVM.
    gateway = SparkContext._gateway  # noqa: SLF001
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
