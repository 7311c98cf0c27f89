"""The JDBC catalog in SQLite and in a real PostgreSQL, together with pypaimon's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy

from paimon_engine import (
    Catalog,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.metastores import jdbc as jdbc_metastore
from paimon_engine.metastores.jdbc_lock import JdbcLock, LockSettings, make_lock_table
from paimon_engine.metastores.jdbc_tables import engine_for, transaction
from paimon_engine.metastores.jdbc_url import parse_uri
from paimon_engine.storage.local import LocalStorage
from paimon_engine.table.check.table_check import check_table
from tests.support.pypaimon import InCatalog, PyPaimon

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
JAVA_TABLES = """
CREATE TABLE paimon_tables(catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,
  table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name));
CREATE TABLE paimon_database_properties(catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,
  property_key VARCHAR(255),property_value VARCHAR(1000),PRIMARY KEY (catalog_key, database_name, property_key));
CREATE TABLE paimon_table_properties(catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,
  table_name VARCHAR(255) NOT NULL,property_key VARCHAR(255) NOT NULL,property_value VARCHAR(1000),
  PRIMARY KEY (catalog_key, database_name, table_name, property_key));
CREATE TABLE paimon_distributed_locks(lock_id VARCHAR(255) NOT NULL,
  acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,expire_time_seconds BIGINT DEFAULT 0 NOT NULL,
  PRIMARY KEY (lock_id));
"""
"""Columns as `JdbcUtils` and `AbstractDistributedLockDialect` give them."""


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"v{number}" for number in ids]}, SCHEMA)


def url(options: Mapping[str, str]) -> sqlalchemy.URL:
    given = {key.removeprefix("jdbc."): value for key, value in options.items() if key.startswith("jdbc.")}
    return parse_uri(options["uri"], given)


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def catalog(warehouse: str, jdbc: dict[str, str]) -> Catalog:
    return Catalog(warehouse, options=jdbc)


def test_a_table_survives_creation_writing_renaming_and_dropping(catalog: Catalog, warehouse: str):
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
    table.write(rows(1, 2))

    assert table.path == f"{warehouse}/db.db/t"
    assert catalog.list_tables("db") == ["t"]

    catalog.rename_table("db.t", "db.u")

    assert catalog.list_tables("db") == ["u"]
    assert catalog.table("db.u").to_arrow().num_rows == 2
    assert check_table(catalog.table("db.u")._handle) == []
    with pytest.raises(NotFoundError, match=r"no table db.t in the JDBC catalog .*; its tables: u"):
        catalog.table("db.t")

    catalog.drop_table("db.u")
    assert catalog.list_tables("db") == []
    assert not Path(warehouse, "db.db", "u").exists()


def test_a_database_keeps_its_properties(catalog: Catalog, warehouse: str):
    catalog.create_database("db", {"owner": "me"})

    assert catalog.list_databases() == ["db"]
    assert catalog.database_properties("db") == {"owner": "me", "location": f"{warehouse}/db.db"}


@pytest.mark.parametrize("value", [None, ["a"], "\udcff"], ids=["none", "list", "bytes"])
def test_a_property_is_a_text(catalog: Catalog, value: Any):
    """Java opens no database with a null among its properties."""
    with pytest.raises(InvalidArgumentError):
        catalog.create_database("db", {"k": value})
    assert catalog.list_databases() == []
    catalog.create_database("db", {"k": 5, "on": True, "ü": "ü"})  # type: ignore[dict-item]
    assert {"k": "5", "on": "true", "ü": "ü"}.items() <= catalog.database_properties("db").items()


def test_a_database_is_made_once(catalog: Catalog):
    catalog.create_database("db")

    with pytest.raises(ConflictError, match="database 'db' already exists"):
        catalog.create_database("db")
    catalog.create_database("db", if_not_exists=True)


def test_a_database_with_tables_is_dropped_only_with_them(catalog: Catalog, warehouse: str):
    catalog.create_database("db")
    catalog.create_table("db.t", schema=SCHEMA)

    with pytest.raises(ConflictError, match="'db' is not empty: t; drop them first"):
        catalog.drop_database("db")
    catalog.drop_database("db", cascade=True)

    assert catalog.list_databases() == []
    assert not Path(warehouse, "db.db").exists()
    with pytest.raises(NotFoundError, match="no database 'db'"):
        catalog.drop_database("db")
    catalog.drop_database("db", if_exists=True)


def meanwhile(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Acts once, when the next change of the catalog begins, after what it has looked at first."""

    def begun(engine: sqlalchemy.Engine) -> AbstractContextManager[sqlalchemy.Connection]:
        monkeypatch.setattr(jdbc_metastore, "transaction", transaction)
        act()
        return transaction(engine)

    monkeypatch.setattr(jdbc_metastore, "transaction", begun)


def test_a_database_that_gets_a_table_meanwhile_stays(
    catalog: Catalog, warehouse: str, jdbc: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    catalog.create_database("db", {"owner": "me"})
    other = Catalog(warehouse, options=jdbc)

    meanwhile(lambda: other.create_table("db.t", schema=SCHEMA).write(rows(1)), monkeypatch)
    with pytest.raises(ConflictError, match="'db' is not empty: t"):
        catalog.drop_database("db", cascade=True)

    assert catalog.table("db.t").to_arrow().num_rows == 1
    assert catalog.database_properties("db")["owner"] == "me"


@pytest.mark.parametrize("way", ["drop", "rename"])
def test_a_table_that_others_rename_meanwhile_stays(
    catalog: Catalog, warehouse: str, jdbc: dict[str, str], way: str, monkeypatch: pytest.MonkeyPatch
):
    catalog.create_database("db")
    catalog.create_table("db.t", schema=SCHEMA).write(rows(1))
    other = Catalog(warehouse, options=jdbc)

    meanwhile(lambda: other.rename_table("db.t", "db.u"), monkeypatch)
    with pytest.raises(NotFoundError, match=r"no table db\.t in .* any more: others dropped or renamed it"):
        catalog.drop_table("db.t") if way == "drop" else catalog.rename_table("db.t", "db.v")

    assert catalog.list_tables("db") == ["u"]
    assert catalog.table("db.u").to_arrow().num_rows == 1
    assert not Path(warehouse, "db.db", "v").exists()


def test_a_row_without_files_is_named_and_can_be_dropped(catalog: Catalog, warehouse: str):
    catalog.create_database("db")
    shutil.rmtree(catalog.create_table("db.t", schema=SCHEMA).path)

    for act in (
        lambda: catalog.table("db.t"),
        lambda: catalog.create_table("db.t", schema=SCHEMA, if_not_exists=True),
        lambda: catalog.rename_table("db.t", "db.u"),
    ):
        with pytest.raises(NotFoundError, match=r"has a table db\.t at .*, but there is no schema file"):
            act()
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == []


def test_files_that_cannot_be_deleted_are_named(catalog: Catalog, warehouse: str, monkeypatch: pytest.MonkeyPatch):
    def denied(_: LocalStorage, path: str) -> None:
        raise StorageError(f"{path}: Permission denied")

    catalog.create_database("db")
    catalog.create_table("db.t", schema=SCHEMA).write(rows(1))
    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "delete_tree", denied)
        with pytest.raises(
            StorageError, match=r"Permission denied\. The catalog has no table db\.t any more, but files"
        ):
            catalog.drop_table("db.t")

    assert catalog.list_tables("db") == []
    catalog.create_table("db.t", schema=SCHEMA, if_not_exists=True)
    catalog.drop_table("db.t")
    assert list(Path(warehouse, "db.db").iterdir()) == []


def test_a_table_needs_its_database(catalog: Catalog):
    with pytest.raises(NotFoundError, match="no database 'db' .*create it with create_database"):
        catalog.create_table("db.t", schema=SCHEMA)


def test_a_taken_name_is_refused_for_new_and_for_renamed_tables(catalog: Catalog):
    catalog.create_database("db")
    catalog.create_table("db.t", schema=SCHEMA)
    catalog.create_table("db.u", schema=SCHEMA)

    with pytest.raises(ConflictError, match="table db.t already exists in the JDBC catalog"):
        catalog.create_table("db.t", schema=SCHEMA)
    with pytest.raises(ConflictError, match="table db.t already exists in the JDBC catalog"):
        catalog.rename_table("db.u", "db.t")
    assert catalog.create_table("db.t", schema=SCHEMA, if_not_exists=True).schema.row_type.names == ("id", "v")
    assert catalog.list_tables("db") == ["t", "u"]


def test_files_of_an_interrupted_creation_are_adopted_only_on_request(catalog: Catalog, warehouse: str):
    catalog.create_database("db")
    Catalog(warehouse).create_table("db.t", schema=SCHEMA)

    with pytest.raises(ConflictError, match="there is a table in .*/db.db/t already"):
        catalog.create_table("db.t", schema=SCHEMA)
    assert catalog.list_tables("db") == []
    catalog.create_table("db.t", schema=SCHEMA, if_not_exists=True)
    assert catalog.list_tables("db") == ["t"]


def test_catalog_keys_are_apart(warehouse: str, jdbc: dict[str, str]):
    one, other = (Catalog(warehouse, options={**jdbc, "catalog-key": f"{jdbc['uri'][-9:]}-{n}"}) for n in "12")
    one.create_database("db")

    assert other.list_databases() == []


def test_defaults_and_synced_properties_reach_a_new_table(warehouse: str, jdbc: dict[str, str]):
    options = {**jdbc, "table-default.bucket": "3", "table-default.file.format": "orc", "sync-all-properties": "true"}
    catalog = Catalog(warehouse, options=options)
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"file.format": "parquet"})

    assert table.schema.options == {"bucket": "3", "file.format": "parquet"}
    with engine_for(url(jdbc)).connect() as connection:
        kept = connection.exec_driver_sql("SELECT property_key, property_value FROM paimon_table_properties").all()
    assert {("bucket", "3"), ("primary-key", "id")} <= set(map(tuple, kept))


@pytest.mark.parametrize("text", ["x" * 1001, "a\0b"], ids=["long", "NUL"])
def test_an_option_that_the_database_cannot_keep_leaves_no_files(postgres, tmp_path: Path, text: str):
    options = {"metastore": "jdbc", "catalog-key": tmp_path.name, **postgres.options, "sync-all-properties": "true"}
    catalog = Catalog(str(tmp_path), options=options)
    catalog.create_database("db")

    with pytest.raises(InvalidArgumentError, match=r"keep 'my\.note': .* up to 1000"):
        catalog.create_table("db.t", schema=SCHEMA, options={"my.note": text})
    with pytest.raises(InvalidArgumentError, match="keep 'note': .* up to 1000"):
        catalog.create_database("other", {"note": text})

    assert (catalog.list_databases(), list(tmp_path.rglob("schema-*"))) == (["db"], [])
    catalog.create_table("db.t", schema=SCHEMA, options={"my.note": "x" * 1000})


def test_columns_are_those_of_java(jdbc: dict[str, str], warehouse: str, tmp_path: Path):
    if "postgresql" in jdbc["uri"]:
        pytest.skip("one database is enough to compare columns")
    theirs = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/java.db", poolclass=sqlalchemy.NullPool)
    with theirs.begin() as connection:
        for statement in filter(str.strip, JAVA_TABLES.split(";")):
            connection.exec_driver_sql(statement)
    Catalog(warehouse, options={**jdbc, "lock.enabled": "true"})

    def columns(engine: sqlalchemy.Engine) -> dict[str, list]:
        with engine.connect() as connection:
            names = [row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type='table'")]
            return {
                name: [tuple(row) for row in connection.exec_driver_sql(f"PRAGMA table_info({name})")] for name in names
            }

    assert columns(engine_for(url(jdbc))) == columns(theirs)


def test_tables_that_java_made_are_used(warehouse: str, jdbc: dict[str, str], tmp_path: Path):
    if "postgresql" in jdbc["uri"]:
        pytest.skip("the server's database is shared")
    with engine_for(url(jdbc)).begin() as connection:
        for statement in filter(str.strip, JAVA_TABLES.split(";")):
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("INSERT INTO paimon_tables VALUES ('jdbc', 'db', 't')")
        connection.exec_driver_sql(
            "CREATE TABLE paimon_views(catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,"
            "view_name VARCHAR(255) NOT NULL,view_schema TEXT NOT NULL, PRIMARY KEY (catalog_key, database_name, view_name))"
        )
        connection.exec_driver_sql("INSERT INTO paimon_views VALUES ('jdbc', 'views', 'v', '{}')")
    Catalog(warehouse).create_table("db.t", schema=SCHEMA).write(rows(7))
    catalog = Catalog(warehouse, options=jdbc)

    assert catalog.list_databases() == ["db", "views"]
    assert catalog.table("db.t").to_arrow().num_rows == 1
    with pytest.raises(ConflictError, match="'views' is not empty: v"):
        catalog.drop_database("views")


# ── the lock ────────────────────────────────────────────────────────────────────────────────────

WRITER = """
import sys, pyarrow as pa
from paimon_engine import Catalog
warehouse, options, first = sys.argv[1], eval(sys.argv[2]), int(sys.argv[3])
table = Catalog(warehouse, options=options).table("db.t")
for number in range(first, first + 4):
    table.write(pa.table({"id": [number], "v": ["x"]}, pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])))
"""


def test_two_processes_commit_through_the_lock_to_a_store_that_decides_no_race(tmp_path: Path, jdbc: dict[str, str]):
    """`local://` is fsspec's plain file system, to which the engine does not write without a lock."""
    options = {**jdbc, "lock.enabled": "true", "lock-check-max-sleep": "200 ms"}
    lake = f"local://{tmp_path}/lake"
    with pytest.raises(UnsupportedError, match="offers no atomic create-if-absent here"):
        Catalog(lake).create_table("db.t", schema=SCHEMA)
    catalog = Catalog(lake, options=options)
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema=SCHEMA, options={"commit.min-retry-wait": "1 ms"})

    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, lake, repr(options), str(first)], cwd=Path.cwd())
        for first in (0, 100)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]

    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 100, 101, 102, 103]
    assert table.latest_snapshot_id() == 8
    assert check_table(table._handle) == []
    with engine_for(url(jdbc)).connect() as connection:
        assert connection.exec_driver_sql("SELECT * FROM paimon_distributed_locks").all() == []


@pytest.fixture
def lock_url(jdbc: dict[str, str]) -> sqlalchemy.URL:
    make_lock_table(engine_for(url(jdbc)), LockSettings())
    return url(jdbc)


def test_a_held_lock_is_waited_for_no_longer_than_requested(lock_url: sqlalchemy.URL):
    ours = JdbcLock(lock_url, "k.db.held", LockSettings())
    theirs = JdbcLock(lock_url, "k.db.held", LockSettings(check_max_sleep_ms=10, acquire_timeout_ms=300))
    ours.acquire()

    with pytest.raises(ConflictError, match=r"the commit lock 'k.db.held' could not be acquired within 300 ms"):
        theirs.acquire()
    assert ours.release()
    theirs.acquire()
    assert theirs.release()


def test_an_expired_lock_is_given_to_the_next_and_its_holder_gets_an_error(lock_url: sqlalchemy.URL):
    dead = JdbcLock(lock_url, "k.db.dead", LockSettings())
    dead.acquire()
    move = "UPDATE paimon_distributed_locks SET acquired_at = '{}' WHERE lock_id = 'k.db.dead'"
    with engine_for(lock_url).begin() as connection:
        connection.exec_driver_sql(move.format("2020-01-01 00:00:00"))
    heir = JdbcLock(lock_url, "k.db.dead", LockSettings(check_max_sleep_ms=10, acquire_timeout_ms=10_000))
    heir.acquire()
    with engine_for(lock_url).begin() as connection:
        # In a test both may have taken it within the second that SQLite keeps.
        connection.exec_driver_sql(move.format("2021-01-01 00:00:00"))

    assert not dead.release()
    with engine_for(lock_url).connect() as connection:
        held = connection.exec_driver_sql("SELECT 1 FROM paimon_distributed_locks WHERE lock_id = 'k.db.dead'").all()
    assert len(held) == 1


# ── what users type ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("uri", "properties", "expected"),
    [
        ("jdbc:sqlite:/lake/c.db", {}, "sqlite:////lake/c.db"),
        ("sqlite:////lake/c.db", {}, "sqlite:////lake/c.db"),
        ("jdbc:postgresql://h:5433/lake?user=u&password=p", {}, "postgresql+psycopg://u:p@h:5433/lake"),
        ("postgresql://u@h/lake", {"password": "p"}, "postgresql+psycopg://u:p@h/lake"),
        (
            "jdbc:postgresql://h/lake",
            {"user": "u", "sslmode": "require"},
            "postgresql+psycopg://u@h/lake?sslmode=require",
        ),
        ("jdbc:postgresql://h/l?currentSchema=s", {}, "postgresql+psycopg://h/l?options=-csearch_path%3Ds"),
    ],
)
def test_addresses_are_understood_in_both_spellings(uri: str, properties: dict[str, str], expected: str):
    assert parse_uri(uri, properties).render_as_string(hide_password=False) == expected


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("jdbc:mysql://h/lake?password=geheim", UnsupportedError, "a JDBC catalog in mysql is not supported"),
        ("jdbc:sqlite::memory:", UnsupportedError, "give the path of a SQLite file"),
        ("jdbc:postgresql://h/lake?loginTimeout=3", UnsupportedError, "'loginTimeout' of the JDBC catalog"),
        ("geheim", InvalidArgumentError, "is not a database URL"),
    ],
)
def test_other_addresses_are_refused_without_a_secret(uri: str, error: type, message: str):
    with pytest.raises(error, match=message) as raised:
        parse_uri(uri, {})

    assert "geheim" not in str(raised.value)


def test_a_password_appears_nowhere(postgres, tmp_path: Path):
    wrong = {"metastore": "jdbc", **postgres.options, "jdbc.password": "geheim-und-falsch"}

    with pytest.raises(Exception) as raised:
        Catalog(str(tmp_path), options=wrong)
    assert "password authentication failed" in str(raised.value)
    assert "geheim" not in repr(raised.value) + str(raised.value.__cause__)
    catalog = Catalog(str(tmp_path), options={"metastore": "jdbc", "catalog-key": tmp_path.name, **postgres.options})
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema=SCHEMA)
    assert postgres.options["jdbc.password"] not in repr((catalog, table, table._handle, catalog._metastore))


def test_secrets_come_from_the_environment(postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = {"metastore": "jdbc", "catalog-key": tmp_path.name, **postgres.options}
    monkeypatch.setenv("LAKE_PASSWORD", options.pop("jdbc.password"))

    catalog = Catalog(str(tmp_path), options=options, secrets={"jdbc.password": "LAKE_PASSWORD"})
    catalog.create_database("db")

    assert catalog.list_databases() == ["db"]


# ── pypaimon ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def shared(tmp_path: Path) -> dict[str, str]:
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "warehouse": str(tmp_path / "lake")}


def test_pypaimon_finds_and_reads_what_we_keep(shared: dict[str, str], pypaimon: PyPaimon):
    catalog = Catalog(options=shared)
    catalog.create_database("db", {"owner": "me"})
    catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1}).write(rows(1, 2))
    catalog.create_table("db.old", schema=SCHEMA).write(rows(3))
    catalog.rename_table("db.old", "db.new")

    assert pypaimon.ask(shared, "list_databases") == ["db"]
    assert pypaimon.ask(shared, "list_tables", "db") == ["new", "t"]
    assert pypaimon.read(InCatalog(shared, "db.t")).sort_by("id") == rows(1, 2)
    assert pypaimon.read(InCatalog(shared, "db.new")) == rows(3)


def test_we_find_and_read_what_pypaimon_keeps(shared: dict[str, str], pypaimon: PyPaimon):
    location = InCatalog(shared, "db.t")
    pypaimon.create(location, SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    pypaimon.append(location, rows(1, 2), rows(2, 3))
    catalog = Catalog(options=shared)

    assert catalog.list_databases() == ["db"]
    assert catalog.list_tables("db") == ["t"]
    assert catalog.database_properties("db") == {"location": f"{shared['warehouse']}/db.db"}
    table = catalog.table("db.t")
    table.write(rows(9))
    table.compact(full=True)
    assert pypaimon.read(location).sort_by("id") == table.to_arrow().sort_by("id") == rows(1, 2, 3, 9)
