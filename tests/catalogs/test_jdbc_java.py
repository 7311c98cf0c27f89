"""The JDBC catalog together with Java Paimon's own: names, tables and the commit lock are shared.

Java 0.9 knows no lock in PostgreSQL, later releases do; so the lock is shared in SQLite here.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, NotFoundError
from paimon_engine.metastores.jdbc_lock import JdbcLock, LockSettings
from paimon_engine.metastores.jdbc_url import url_of
from tests.support.oracle import JavaPaimon

DRIVERS = {
    "sqlite": (Path("/usr/share/java/sqlite-jdbc.jar"), "libxerial-sqlite-jdbc-java"),
    "postgresql": (Path("/usr/share/java/postgresql.jar"), "libpostgresql-jdbc-java"),
}
"""Where Debian's packages put them."""

PROGRAM = Path(__file__).parents[1] / "support" / "java" / "JdbcCatalogUser.java"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
Java = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def options(jdbc: dict[str, str]) -> Iterator[dict[str, str]]:
    lock = {"lock.enabled": "true"} if "sqlite" in jdbc["uri"] else {}
    # Java 0.9 makes %20 of a space in the warehouse's path, which the folder of the tests may have.
    with tempfile.TemporaryDirectory(prefix="paimon-lake-") as warehouse:
        yield {**jdbc, "warehouse": warehouse, "cache-enabled": "false", **lock}


@pytest.fixture
def java(oracle: JavaPaimon, options: Mapping[str, str], tmp_path: Path) -> Java:
    """Starts Java with a command for its catalog."""
    driver, package = DRIVERS[options["uri"].split(":")[1]]
    if not driver.exists():
        pytest.skip(f"no JDBC driver of the database: apt-get install {package}")
    jars = [*oracle.jars, str(driver)]
    given = ";".join(f"{key}={value}" for key, value in options.items())

    def start(*command: str) -> subprocess.Popen[str]:
        with (tmp_path / "java.log").open("ab") as log:
            line = ["java", "-cp", ":".join(jars), str(PROGRAM), given, *command]
            return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    return start


def answers(process: subprocess.Popen[str], log: Path) -> list[str]:
    out, _ = process.communicate()
    lines = out.splitlines()
    assert lines[-1:] == ["done"], log.read_text()[-3000:]
    return lines[:-1]


def test_java_and_we_keep_the_same_names(options, java: Java, oracle: JavaPaimon, tmp_path: Path):
    log = tmp_path / "java.log"
    assert answers(java("create", "theirs", "t"), log) == []
    catalog = Catalog(options=options)

    assert catalog.list_databases() == ["theirs"]
    assert catalog.database_properties("theirs")["owner"] == "java"
    table = catalog.table("theirs.t")
    table.write(pa.table({"id": [1], "v": ["a"]}, SCHEMA))
    assert len(oracle.read(table.path)) == 1

    catalog.create_database("ours", {"owner": "me"})
    catalog.create_table("ours.a", schema=SCHEMA)
    catalog.create_table("ours.b", schema=SCHEMA)
    catalog.rename_table("theirs.t", "theirs.u")
    catalog.drop_table("ours.b")
    assert answers(java("list"), log) == ["ours [a]", "theirs [u]"]

    assert answers(java("rename", "theirs", "u", "v"), log) == []
    assert answers(java("drop", "ours", "a"), log) == []
    assert catalog.table("theirs.v").to_arrow().num_rows == 1
    assert catalog.list_tables("ours") == []
    with pytest.raises(NotFoundError):
        catalog.table("theirs.u")


def test_java_and_we_respect_each_others_lock(options, java: Java, tmp_path: Path):
    if "lock.enabled" not in options:
        pytest.skip("Java 0.9 knows no lock in PostgreSQL")
    log = tmp_path / "java.log"
    patient, impatient = (
        JdbcLock(url_of(options), "jdbc.db.t", LockSettings(check_max_sleep_ms=50, acquire_timeout_ms=timeout_ms))
        for timeout_ms in (60_000, 300)
    )
    # Java first: it keeps a result open for each table that it finds, which keeps others from writing to SQLite.
    holding = java("lock", "db", "t")
    assert holding.stdout is not None
    assert holding.stdout.readline() == "held\n", log.read_text()[-3000:]

    with pytest.raises(ConflictError, match="could not be acquired within 300 ms"):
        impatient.acquire()
    holding.communicate("\n")
    patient.acquire()

    assert answers(java("try", "db", "t"), log) == ["refused"]
    assert patient.release()
    assert answers(java("try", "db", "t"), log) == ["taken"]
