"""A real Hive metastore on the loopback interface, and Java Paimon's own Hive catalog beside it.

The metastore comes from Maven with its database, Derby; Hadoop's classes, and the Hive client of Java's catalog, come
with pyspark. Tests are skipped where Maven or a JDK is missing.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support import paimon2
from tests.support.java_jars import (
    HADOOP,
    QUICK_START,
    compiled,
    jar,
    jars_of,
    java_server,
    pyspark_jars,
    require_compiler,
)

METASTORE = "org.apache.hive:hive-standalone-metastore:3.1.3"
# Hadoop's classes come with pyspark; the rest is missing in Maven's repositories, or not used by the metastore.
WITHOUT = ("org.apache.hadoop", "jdk.tools", "org.pentaho", "sqlline", "jline", "javax.servlet*", "org.mortbay.jetty")
COLLECTIONS = "commons-collections:commons-collections:3.2.2"
SOURCES = Path(__file__).parent / "java"


class HiveServer:
    """`options` are those of a catalog on it, but for the warehouse."""

    def __init__(self, port: int) -> None:
        self.options = {"metastore": "hive", "uri": f"thrift://127.0.0.1:{port}"}


def start_metastore(folder: Path, conf: Mapping[str, str] | None = None) -> Iterator[HiveServer]:
    """A metastore whose own directories are in that folder; skips where it cannot be had."""
    require_compiler()
    jars = f"{pyspark_jars(*HADOOP)}:{jars_of(METASTORE, WITHOUT)}:{jar(COLLECTIONS)}"
    classes = compiled((SOURCES / "HiveMetastore.java",), jars)
    given = [f"{key}={value}" for key, value in (conf or {}).items()]
    command = ["java", *QUICK_START, "-Xmx512m", "-cp", f"{classes}:{jars}", "HiveMetastore", str(folder / "default")]
    with java_server(command, folder, given) as port:
        yield HiveServer(port)


class JavaHiveCatalog:
    """Java's catalog in a process of its own: `java("tables", "db")` asks it, and returns a line."""

    def __init__(self, options: Mapping[str, str], log: Path) -> None:
        self._log = log
        jars = f"{jar(paimon2.ARTIFACT)}:{pyspark_jars('*.jar')}"
        classes = compiled((SOURCES / "HiveCatalogUser.java",), jars)
        given = ";".join(f"{key}={value}" for key, value in {**options, "cache-enabled": "false"}.items())
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [
                    "java",
                    *QUICK_START,
                    "-Xmx512m",
                    "-Duser.timezone=UTC",
                    "-cp",
                    f"{classes}:{jars}",
                    "HiveCatalogUser",
                    given,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __call__(self, *words: str) -> str:
        self.send(*words)
        return self.line()

    def send(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self._log.read_text()[-3000:]
        return line.rstrip("\n")

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
