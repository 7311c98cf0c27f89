"""The jars with which tests start releases of Java Paimon: from Maven Central, and Hadoop's from pyspark.

What Maven fetches is kept below `.cache/java`; a test is skipped where Maven, a JDK or pyspark is missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.reference import CACHE

HOME = CACHE / "java"
FETCH_TIMEOUT_S = 600
START_TIMEOUT_S = 240
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of Java for what runs for a minute: compiling well costs it more than it gives."""
HADOOP = ("hadoop-client-*.jar", "snappy-java-*.jar", "commons-logging-*.jar", "slf4j-api-*.jar")


def require_compiler() -> None:
    """Skips if there is no JDK."""
    if shutil.which("javac") is None:
        pytest.skip("no javac: the programs that drive Java Paimon are compiled when they start")


def classpath(artifact: str) -> str:
    """The jar of an artifact, `group:name:version`, with the classes of Hadoop that it needs."""
    return ":".join([str(jar(artifact)), *map(str, _hadoop())])


def jar(artifact: str) -> Path:
    """The jar of an artifact, `group:name:version` or `group:name:version:jar:classifier`, fetched at the first call."""
    _, name, version, *rest = artifact.split(":")
    found = HOME / f"{'-'.join((name, version, *rest[1:]))}.jar"
    with _one_at_a_time():
        if not found.exists():
            _fetch(artifact, found)
    return found


def jars_of(artifact: str, without: tuple[str, ...] = ()) -> str:
    """The class path of an artifact, `group:name:version`, with all that it needs at run time, fetched at the first call.

    `without` are groups of artifacts that are left out; a group's name may end with `*`.
    """
    group, name, version = artifact.split(":")
    folder = HOME / f"{name}-{version}-with-needs"
    with _one_at_a_time():
        if not folder.exists():
            excluded = "".join(
                f"<exclusion><groupId>{one}</groupId><artifactId>*</artifactId></exclusion>" for one in without
            )
            project = (
                '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
                "<groupId>tests</groupId><artifactId>needs</artifactId><version>1</version><dependencies><dependency>"
                f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
                f"<exclusions>{excluded}</exclusions></dependency></dependencies></project>"
            )
            _fetch_with_needs(artifact, project, folder)
    return ":".join(map(str, sorted(folder.glob("*.jar"))))


def pyspark_jars(*patterns: str) -> str:
    """The class path of jars that come with pyspark."""
    return ":".join(map(str, _of_pyspark(patterns)))


def compiled(sources: tuple[Path, ...], with_classes: str) -> Path:
    """A folder with the classes of programs; compiled again when a program has changed."""
    newest = max(source.stat().st_mtime_ns for source in sources)
    folder = HOME / f"classes-{sources[0].stem}-{newest}"
    with _one_at_a_time():
        if not folder.exists():
            part = HOME / f"part-{os.getpid()}"
            command = ["javac", "-nowarn", "-d", str(part), "-cp", with_classes, *map(str, sources)]
            subprocess.run(command, check=True, capture_output=True, timeout=FETCH_TIMEOUT_S)
            part.rename(folder)
    return folder


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Keeps other test runs, and other workers of this one, from making the same file."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def java_server(command: list[str], folder: Path, more: Sequence[str] = ()) -> Iterator[int]:
    """The port of a server that writes it into a file, its first argument after `command`, and ends with its input."""
    port_file, log_file = folder / "port", folder / "server.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*command, str(port_file), *more], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder
        )
    try:
        end = time.monotonic() + START_TIMEOUT_S
        while not port_file.exists():
            assert process.poll() is None, log_file.read_text()[-3000:]
            assert time.monotonic() < end, f"no server in {START_TIMEOUT_S} s: {log_file.read_text()[-3000:]}"
            time.sleep(0.1)
        yield int(port_file.read_text())
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def _hadoop() -> list[Path]:
    return _of_pyspark(HADOOP)


def _of_pyspark(patterns: tuple[str, ...]) -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        pytest.skip("no pyspark: the Hadoop classes that Java Paimon needs come with it")
    folder = Path(spec.origin).parent / "jars"
    return [one for pattern in patterns for one in sorted(folder.glob(pattern))]


def _fetch(artifact: str, wanted: Path) -> None:
    maven = _maven(wanted.name)
    part = HOME / f"part-{os.getpid()}"
    _run(artifact, [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={part}"])
    (part / wanted.name).rename(wanted)
    shutil.rmtree(part, ignore_errors=True)


def _fetch_with_needs(artifact: str, project: str, folder: Path) -> None:
    maven, part = _maven(folder.name), HOME / f"part-{os.getpid()}"
    part.mkdir()
    (part / "pom.xml").write_text(project)
    to = [f"-DoutputDirectory={part}/jars", "-DincludeScope=runtime"]
    _run(artifact, [maven, "-q", "-B", "-f", str(part / "pom.xml"), "dependency:copy-dependencies", *to])
    (part / "jars").rename(folder)
    shutil.rmtree(part, ignore_errors=True)


def _maven(wanted: str) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"no Maven to fetch {wanted} with; or put that into {HOME}")
    return maven


def _run(artifact: str, command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=FETCH_TIMEOUT_S)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(HOME / f"part-{os.getpid()}", ignore_errors=True)
        pytest.skip(f"{artifact} could not be fetched: {error}")
