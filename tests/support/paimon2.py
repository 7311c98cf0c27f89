"""Java Paimon 2, driven as the reference of 0.9 is: `paimon2.read(path)`, `paimon2.problems(path)`, `paimon2.call(op, …)`.

`java/Paimon2.java` lists the commands. The jar comes from Maven, Hadoop's classes from pyspark.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tests.support.java_jars import QUICK_START, classpath, compiled, require_compiler
from tests.support.oracle import JavaPaimon, without_defaults

VERSION = "2.0.0"
ARTIFACT = f"org.apache.paimon:paimon-flink-2.0:{VERSION}"
FOLDER = Path(__file__).parent / "java"
SOURCES = (FOLDER / "Paimon2.java", FOLDER / "PaimonValues.java")


class OracleError(RuntimeError):
    """Java answered with an exception."""


class Process:
    """One Java process; it answers a command at a time."""

    def __init__(self, classes: str, log: IO[bytes]) -> None:
        """Java's standard error is written to `log`."""
        heap = os.environ.get("PAIMON_ORACLE_HEAP", "1g")
        self._process = subprocess.Popen(
            ["java", *QUICK_START, f"-Xmx{heap}", "-Duser.timezone=UTC", "-cp", classes, "Paimon2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        )

    def send(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a command. Raises: OracleError with Java's message."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command, ensure_ascii=False) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "the process ended"}')
        if "error" in answer:
            raise OracleError(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(60)


def start_paimon2(log: Path) -> Iterator[JavaPaimon]:
    """The library, ready for requests; skips where a JDK, Maven or the jars are missing."""
    require_compiler()
    jars = f"{without_defaults()}:{classpath(ARTIFACT)}"
    classes = f"{compiled(SOURCES, jars)}:{jars}"
    paimon = JavaPaimon(lambda errors: Process(classes, errors), log, jars.split(":"), VERSION)
    yield paimon
    paimon.close()
