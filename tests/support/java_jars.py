"""The jars with which tests start releases of Java Paimon: from Maven Central, and Hadoop's from pyspark.

What Maven fetches is kept below `.cache/java`; a test is skipped where Maven, a JDK or pyspark is missing.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.reference import CACHE

HOME = CACHE / "java"
FETCH_TIMEOUT_S = 600
HADOOP = ("hadoop-client-*.jar", "snappy-java-*.jar", "commons-logging-*.jar", "slf4j-api-*.jar")


def require_compiler() -> None:
    """Skips if there is no JDK."""
    if shutil.which("javac") is None:
        pytest.skip("no javac: the programs that drive Java Paimon are compiled when they start")


def classpath(artifact: str) -> str:
    """The jar of an artifact, `group:name:version`, with the classes of Hadoop that it needs."""
    return ":".join([str(jar(artifact)), *map(str, _hadoop())])


def jar(artifact: str) -> Path:
    """The jar of an artifact, `group:name:version`, fetched at the first call."""
    _, name, version = artifact.split(":")
    found = HOME / f"{name}-{version}.jar"
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        # Two test runs may want it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            _fetch(artifact, found)
    return found


def compiled(sources: tuple[Path, ...], with_classes: str) -> Path:
    """A folder with the classes of programs; compiled again when a program has changed."""
    newest = max(source.stat().st_mtime_ns for source in sources)
    folder = HOME / f"classes-{sources[0].stem}-{newest}"
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = HOME / f"part-{os.getpid()}"
            command = ["javac", "-nowarn", "-d", str(part), "-cp", with_classes, *map(str, sources)]
            subprocess.run(command, check=True, capture_output=True, timeout=FETCH_TIMEOUT_S)
            part.rename(folder)
    return folder


def _hadoop() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        pytest.skip("no pyspark: the Hadoop classes that Java Paimon needs come with it")
    folder = Path(spec.origin).parent / "jars"
    return [one for pattern in HADOOP for one in sorted(folder.glob(pattern))]


def _fetch(artifact: str, wanted: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"no Maven to fetch {wanted.name} with; or put that file into {HOME}")
    part = HOME / f"part-{os.getpid()}"
    try:
        subprocess.run(
            [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={part}"],
            check=True,
            capture_output=True,
            timeout=FETCH_TIMEOUT_S,
        )
        (part / wanted.name).rename(wanted)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"{artifact} could not be fetched: {error}")
    finally:
        shutil.rmtree(part, ignore_errors=True)
