"""The filesystem catalog's verbs, and how a catalog is chosen by its options."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import (
    AlreadyExistsError,
    Catalog,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    SetOption,
    StorageError,
    UnsupportedError,
)

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "lake"))


def test_an_empty_database_is_there_once_it_is_made(catalog: Catalog):
    catalog.create_database("db")

    assert catalog.list_databases() == ["db"]
    assert catalog.list_tables("db") == []
    assert catalog.database_properties("db") == {"location": f"{catalog.warehouse}/db.db"}
    with pytest.raises(AlreadyExistsError, match="database 'db' already exists"):
        catalog.create_database("db")
    catalog.create_database("db", if_not_exists=True)


def test_a_directory_keeps_no_properties(catalog: Catalog):
    with pytest.raises(UnsupportedError, match=r"cannot store properties \(owner\)"):
        catalog.create_database("db", {"owner": "me"})
    assert catalog.list_databases() == []


def test_a_database_with_tables_is_dropped_only_with_them(catalog: Catalog):
    catalog.create_table("db.t", schema=SCHEMA)

    with pytest.raises(ConflictError, match="database 'db' is not empty: t; drop them first"):
        catalog.drop_database("db")
    assert catalog.list_tables("db") == ["t"]
    catalog.drop_database("db", cascade=True)

    assert catalog.list_databases() == []
    with pytest.raises(NotFoundError, match="no database 'db'"):
        catalog.drop_database("db")
    catalog.drop_database("db", if_exists=True)


def test_a_database_with_anything_else_is_dropped_only_with_it(catalog: Catalog):
    table = catalog.create_table("db.t", schema=SCHEMA)
    table.write(pa.table({"id": [1, 2]}, schema=SCHEMA))
    database = Path(table.path).parent
    # As while a table is copied, whose schemas come last.
    (database / "t" / "schema").rename(database.parent / "not-copied-yet")
    (database / "csv").mkdir()
    (database / "csv" / "a.csv").write_text("1,2")
    before = sorted(database.rglob("*"))
    assert catalog.list_tables("db") == []

    with pytest.raises(
        ConflictError, match=r"'db' is not empty: .*db\.db has csv, t, which are not tables, or not yet"
    ):
        catalog.drop_database("db")

    assert sorted(database.rglob("*")) == before
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []


@pytest.mark.parametrize("name", ["", "a.b", "../up", "sys", ".hidden", "a$b"])
def test_a_database_has_a_plain_name(catalog: Catalog, name: str):
    with pytest.raises(InvalidArgumentError):
        catalog.create_database(name)


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_table_is_renamed_with_its_rows(kind: str, tmp_path: Path):
    catalog = Catalog(str(tmp_path) if kind == "local" else f"memory://{uuid.uuid4()}/lake")
    catalog.create_table("db.old", schema=SCHEMA).write(pa.table({"id": [1]}, SCHEMA))
    catalog.create_table("db.taken", schema=SCHEMA)

    with pytest.raises(AlreadyExistsError, match=r"table db.taken already exists"):
        catalog.rename_table("db.old", "db.taken")
    catalog.rename_table("db.old", "db.new")

    assert catalog.list_tables("db") == ["new", "taken"]
    assert catalog.table("db.new").to_arrow().num_rows == 1
    with pytest.raises(NotFoundError):
        catalog.rename_table("db.old", "db.newer")
    catalog.rename_table("db.old", "db.newer", if_exists=True)
    with pytest.raises(NotFoundError, match="no database 'other'"):
        catalog.rename_table("db.new", "other.t")


def test_a_name_is_taken_by_files_and_not_by_empty_directories(catalog: Catalog):
    """Which a writer leaves whose table was renamed meanwhile."""
    table = catalog.create_table("db.t", schema=SCHEMA)
    database = Path(table.path).parent
    (database / "junk" / "deep").mkdir(parents=True)
    (database / "junk" / "deep" / "keep").write_text("of somebody else")
    (database / "file").write_text("of somebody else")
    (database / "empty" / "bucket-0").mkdir(parents=True)
    (database / "link").symlink_to(database / "empty", target_is_directory=True)

    for name, found in {"junk": "junk/deep/keep", "file": "file"}.items():
        with pytest.raises(ConflictError, match=f"{name} is taken: there is .*{found}, though no table"):
            catalog.rename_table("db.t", f"db.{name}")
    with pytest.raises(StorageError, match="link: the name is taken"):
        catalog.rename_table("db.t", "db.link")
    assert (database / "empty" / "bucket-0").exists()
    catalog.rename_table("db.t", "db.empty")
    assert catalog.list_tables("db") == ["empty", "link"]

    with pytest.raises(StorageError, match="a part of this path is a file, and not a directory"):
        catalog.create_table("db.file", schema=SCHEMA)


def test_a_table_behind_a_link_is_dropped_with_the_link(catalog: Catalog, tmp_path: Path):
    table = catalog.create_table("db.t", schema=SCHEMA)
    table.write(pa.table({"id": [1]}, SCHEMA))
    here, there = Path(table.path), tmp_path / "another disk"
    there.mkdir()
    (here / "bucket-0").rename(there / "bucket-0")
    (here / "bucket-0").symlink_to(there / "bucket-0", target_is_directory=True)
    here.rename(there / "t")
    here.symlink_to(there / "t", target_is_directory=True)

    catalog.drop_table("db.t")

    assert list(here.parent.iterdir()) == []
    assert [path.name for path in there.iterdir()] == ["bucket-0", "t"]
    assert list((there / "t").iterdir()) == []


@pytest.mark.parametrize("name", ["sys.t", "db.\udcff", None, 5, b"db.t"])
def test_what_is_no_name_is_refused(catalog: Catalog, name: Any):
    catalog.create_table("db.t", schema=SCHEMA)
    if name is not None:
        with pytest.raises(InvalidArgumentError):
            catalog.create_table(name, schema=SCHEMA)
    with pytest.raises(InvalidArgumentError):
        catalog.rename_table("db.t", name)
    if name != "sys.t":
        for act in (catalog.table, catalog.drop_table, catalog.list_tables, catalog.create_database):
            with pytest.raises(InvalidArgumentError):
                act(name)
    assert catalog.list_databases() == ["db"]


def test_two_branches_cannot_be_asked_for(catalog: Catalog):
    catalog.create_table("db.t", schema=SCHEMA).create_branch("b")
    with pytest.raises(InvalidArgumentError, match="names the branch 'b', and the option 'branch' 'c'"):
        catalog.table("db.t$branch_b", {"branch": "c"})
    assert catalog.table("db.t$branch_b", {"branch": "b"}).to_arrow().num_rows == 0


def test_defaults_reach_new_tables_that_do_not_say_otherwise(tmp_path: Path):
    catalog = Catalog(
        str(tmp_path),
        options={"metastore": "filesystem", "table-default.bucket": "4", "table-default.write-only": True},
    )

    created = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 2})

    assert created.schema.options == {"bucket": "2", "write-only": "true"}


def test_the_warehouse_may_be_an_option(tmp_path: Path):
    assert Catalog(options={"warehouse": f"{tmp_path}/"}).warehouse == str(tmp_path)
    with pytest.raises(InvalidArgumentError, match="two warehouses are given"):
        Catalog("/lake", options={"warehouse": "/sea"})
    with pytest.raises(InvalidArgumentError, match="needs 'warehouse'"):
        Catalog()


@pytest.mark.parametrize("kind", ["dlf", "Glue", "glue"])
def test_catalogs_of_unknown_kinds_are_refused_with_a_remedy(kind: str):
    with pytest.raises(UnsupportedError, match=rf"'metastore' = '{kind.lower()}' is not supported.*open_table\(path\)"):
        Catalog("/lake", options={"metastore": kind, "uri": "thrift://h:9083", "hive-conf-dir": "/etc"})


def test_unknown_catalogs_and_options_are_refused():
    with pytest.raises(InvalidArgumentError, match="choose one of filesystem, jdbc, hive, rest"):
        Catalog("/lake", options={"metastore": "nessie"})
    with pytest.raises(
        UnsupportedError, match="'table-override.bucket' is not supported with 'metastore' = 'filesystem'"
    ):
        Catalog("/lake", options={"table-override.bucket": "1"})
    with pytest.raises(UnsupportedError, match="'lock.enabled' = 'true' needs 'metastore' = 'jdbc'"):
        Catalog("/lake", options={"lock.enabled": "true"})
    with pytest.raises(InvalidArgumentError, match="write true or false"):
        Catalog("/lake", options={"lock.enabled": "yes"})
    with pytest.raises(InvalidArgumentError, match="cannot be secrets"):
        Catalog("/lake", secrets={"metastore": "KIND"})
    with pytest.raises(InvalidArgumentError, match="JDBC catalog needs 'uri'"):
        Catalog("/lake", options={"metastore": "jdbc"})
    with pytest.raises(InvalidArgumentError, match="REST catalog needs 'uri'"):
        Catalog("lake", options={"metastore": "rest"})


def test_lower_case_names_cannot_be_required(tmp_path: Path):
    assert Catalog(str(tmp_path), options={"case-sensitive": "true"}).list_databases() == []
    with pytest.raises(UnsupportedError, match="'case-sensitive' = 'false' is not supported"):
        Catalog(str(tmp_path), options={"case-sensitive": "false"})


def test_options_about_speed_change_nothing(tmp_path: Path):
    assert (
        Catalog(str(tmp_path), options={"cache-enabled": "false", "cache.manifest.max-memory": "1 mb"}).list_databases()
        == []
    )


def test_a_secret_that_is_not_set_is_named():
    options = {"metastore": "rest", "uri": "http://127.0.0.1:1", "token.provider": "bear"}
    with pytest.raises(InvalidArgumentError, match="token is taken from the environment variable NO_SUCH_TOKEN"):
        Catalog("lake", options=options, secrets={"token": "NO_SUCH_TOKEN"})


@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
def test_a_place_outside_the_warehouse_is_refused(tmp_path: Path, kind: str):
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path / 'c.db'}"} if kind == "jdbc" else {}
    catalog = Catalog(str(tmp_path / "lake"), options=options)
    catalog.create_database("db", if_not_exists=True)

    with pytest.raises(UnsupportedError, match="option 'path' = '/elsewhere': the table would be created in .*Hive"):
        catalog.create_table("db.t", schema={"k": "INT"}, options={"path": "/elsewhere"})
    assert catalog.list_tables("db") == []
    table = catalog.create_table("db.t", schema={"k": "INT"})
    with pytest.raises(InvalidArgumentError, match="'path' cannot be set"):
        table.alter([SetOption("path", "/elsewhere")])


@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
def test_a_table_that_holds_another_one_is_not_dropped(tmp_path: Path, kind: str):
    options = {} if kind == "filesystem" else {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    catalog = Catalog(str(tmp_path / "lake"), options=options)
    catalog.create_database("db", if_not_exists=True)
    outer = catalog.create_table("db.outer", schema=SCHEMA)
    outer.create_branch("b")
    inner = Catalog(outer.path).create_table("archive.inner", schema=SCHEMA)
    inner.write(pa.table({"id": [1]}, SCHEMA))

    for drop in (lambda: catalog.drop_table("db.outer"), lambda: catalog.drop_database("db", cascade=True)):
        with pytest.raises(ConflictError, match=f"another table inside of it, {inner.path}"):
            drop()

    assert inner.to_arrow().num_rows == 1
    assert catalog.list_tables("db") == ["outer"]
    Path(inner.path).rename(tmp_path / "moved")
    catalog.drop_table("db.outer")
    assert not Path(outer.path).exists()
