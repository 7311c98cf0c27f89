"""The Java library in a separate process: `oracle.read(path)`, `oracle.problems(path)`, `oracle.call(op, …)`.

The reference's own `README.md` lists the commands. What it downloads and compiles is written to `.cache/oracle`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest

from tests.support.canonical import Row
from tests.support.java_jars import QUICK_START
from tests.support.reference import CACHE, reference_folder

TABLE = "@table"
"""Placeholder of the table's directory in recorded commands."""

ONE_MANIFEST_AT_A_TIME = {"scan.manifest.parallelism": "1"}
"""Java 0.9 keeps converted filters in a plain HashMap (`AppendOnlyFileStoreScan.dataFilterMapping`) that all threads
of a plan share: now and then a read of indexes in manifests ends with a ConcurrentModificationException."""


class JavaPaimon:
    """A release of Java Paimon, reading, checking and writing tables in local directories."""

    def __init__(self, start: Callable[[IO[bytes]], Any], log: Path, jars: Sequence[str], release: str = "0.9") -> None:
        """`start` begins a process that answers commands; Java's standard error is written to `log`."""
        self.release = release
        self.jars = jars
        self._start = start
        self._log = log
        self._process: Any = None

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """One command, and its answer.

        Raises: the driver's `OracleError`, with Java's message.
        """
        return self.send({"op": op, **fields})

    def send(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """One command given as an object; starts Java at the first one, and again after it died."""
        if self._process is None or self._process._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = self._start(log)
        answer: dict[str, Any] = self._process.send(dict(command))
        return answer

    def run(self, path: str | Path, commands: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Commands in order, all on the table in that directory."""
        return [self.send({**command, "table": str(path)}) for command in commands]

    def read(self, path: str | Path, **at: Any) -> list[Row]:
        """Rows in the canonical form: of the table as it is now, or `snapshot=`, `tag=`, `filter=`, `system=` …"""
        given = {name: value for name, value in at.items() if value is not None}
        if self.release == "0.9" and "filter" in given:
            given["options"] = {**ONE_MANIFEST_AT_A_TIME, **given.get("options", {})}
        return list(self.call("read", table=str(path), **given)["rows"])

    def problems(self, path: str | Path) -> list[Any]:
        """What Java finds wrong with the table's metadata and files, over all snapshots and tags."""
        return list(self.call("check", table=str(path))["problems"])

    def assert_sound(self, path: str | Path) -> None:
        """Fails if Java finds a problem."""
        assert self.problems(path) == []

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.close()
            self._process._process.stdout.close()


def start_oracle(log: Path) -> Iterator[JavaPaimon]:
    """The driver, ready for requests; skips where the reference, a JDK or its jars are missing."""
    folder = reference_folder("oracle")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("javac" if home is None else f"{home}/bin/javac") is None:
        pytest.skip("no javac: the Java reference is compiled on first use, so it needs a JDK, not only a JRE")
    os.environ.setdefault("PAIMON_ORACLE_CACHE", str(CACHE / "oracle"))
    module = _driver(folder / "paimon_oracle.py")
    try:
        _without_defaults(module)
        _start_quickly(module)
        module.command()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the jars of the Java reference could not be fetched or compiled: {error}")
    jars = [module.paimon_jar(), *module.hadoop_jars()]
    oracle = JavaPaimon(lambda errors: module.Oracle(stderr=errors), log, jars)
    yield oracle
    oracle.close()


def _start_quickly(module: ModuleType) -> None:
    """Lets the reference start Java with options for short work."""
    command = module.command

    def quick(*args: Any, **options: Any) -> list[str]:
        java, *rest = command(*args, **options)
        return [java, *QUICK_START, *rest]

    module.command = quick  # type: ignore[attr-defined]


def _without_defaults(module: ModuleType) -> None:
    """Lets the reference find `without_defaults` ahead of Hadoop's classes."""
    nothing = str(without_defaults())
    jars = [jar for jar in module.hadoop_jars() if jar != nothing]
    os.environ["PAIMON_HADOOP_CLASSPATH"] = os.pathsep.join([nothing, *jars])


def without_defaults() -> Path:
    """A configuration of nothing to put in front of Hadoop's own, which its classes read again for every data file."""
    # Those of MapReduce and YARN are loaded as soon as a Parquet class needs them.
    for name in ("core", "mapred", "yarn", "hdfs"):
        nothing = CACHE / "hadoop" / f"{name}-default.xml"
        if not nothing.exists():
            nothing.parent.mkdir(parents=True, exist_ok=True)
            whole = nothing.with_suffix(f".{os.getpid()}")
            whole.write_text("<configuration/>\n", encoding="utf-8")
            whole.replace(nothing)
    return CACHE / "hadoop"


def _driver(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("paimon_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    writes = sys.dont_write_bytecode
    # The reference may be in a folder that must not be changed.
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module
