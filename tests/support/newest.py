"""The newest release of Java Paimon, in a separate process: `newest.read(path)`, `newest.write(path, rows_of=…)`.

Its jar is fetched by Maven; the Hadoop classes that it needs come with pyspark.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.canonical import Row
from tests.support.java_jars import QUICK_START, classpath, compiled, require_compiler

VERSION = "1.4.2"
FOLDER = Path(__file__).parent / "java"
SOURCES = (FOLDER / "NewestPaimon.java", FOLDER / "PaimonValues.java")


class NewestPaimonError(RuntimeError):
    """Java answered with an exception."""


class NewestPaimon:
    """Java Paimon of the newest release, reading and writing tables in local directories."""

    def __init__(self, classes: str, log: Path) -> None:
        """Java's standard error is written to `log`."""
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                ["java", *QUICK_START, "-Xmx1g", "-Duser.timezone=UTC", "-cp", classes, "NewestPaimon"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
            )

    def read(
        self,
        path: str | Path,
        *,
        tag: str | None = None,
        equal: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        system: str | None = None,
    ) -> list[Row]:
        """Rows in the canonical form; `equal` are values that columns must have."""
        chosen = {**(options or {}), **({} if tag is None else {"scan.tag-name": tag})}
        more: dict[str, Any] = {} if equal is None else {"equal": dict(equal)}
        if system is not None:
            more["system"] = system
        return self._call("read", path, options=chosen, **more)

    def columns(self, path: str | Path, *, system: str) -> list[Row]:
        """Name and type of each column of a system table."""
        return self._call("columns", path, system=system)

    def create(
        self,
        path: str | Path,
        *,
        like: str | Path,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """A new, empty table with the columns of another one."""
        self._call(
            "create",
            path,
            like=str(like),
            primary_keys=list(primary_keys),
            partition_keys=list(partition_keys),
            options=dict(options or {}),
        )

    def write(
        self,
        path: str | Path,
        *,
        rows_of: str | Path,
        kind: str = "+I",
        compact: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """All rows of another table in one commit, each of that kind; `compact` their buckets fully with it."""
        source = str(rows_of)
        self._call("write", path, **{"from": source}, kind=kind, compact=compact, options=dict(options or {}))

    def clean_orphans(self, path: str | Path, older_ms: int, meanwhile: Mapping[str, Any] | None = None) -> list[Any]:
        """Deletes orphan files; how many, then what others were answered who acted `meanwhile`."""
        return self._call("clean_orphans", path, older_ms=older_ms, meanwhile=dict(meanwhile or {}))

    def expire(
        self, path: str | Path, *, retain_max: int, retain_min: int = 1, meanwhile: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Expires snapshots, however young; how many, then what others were answered who acted `meanwhile`."""
        return self._call("expire", path, retain_max=retain_max, retain_min=retain_min, meanwhile=dict(meanwhile or {}))

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=60)

    def _call(self, op: str, path: str | Path, **fields: Any) -> list[Row]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, "table": str(path), **fields}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the process ended"}')
        if "error" in answer:
            log = self._log.read_text(encoding="utf-8", errors="replace")
            raise NewestPaimonError(f"{answer['error']}\n{log[-3000:]}")
        rows: list[Row] = answer["rows"]
        return rows


def start_newest(log: Path) -> Iterator[NewestPaimon]:
    """The library, ready for requests; skips where a JDK, Maven or the jars are missing."""
    require_compiler()
    jars = classpath(f"org.apache.paimon:paimon-bundle:{VERSION}")
    paimon = NewestPaimon(f"{compiled(SOURCES, jars)}:{jars}", log)
    yield paimon
    paimon.close()
