"""The Hive catalog on a real metastore, together with Java Paimon's own: entries, names and the commit lock are shared."""

from __future__ import annotations

import itertools
import json
import socket
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import (
    CallbackError,
    Catalog,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.meta.type_text import to_data_type
from paimon_engine.metastores import CatalogConfig
from paimon_engine.metastores.hive import HiveTableEntry
from paimon_engine.metastores.hive_lock import HiveLock, HiveLockSettings
from paimon_engine.servers.hive_client import HiveServers
from paimon_engine.servers.hive_values import hive_type
from tests.support.hive import HiveServer, JavaHiveCatalog

pytestmark = [pytest.mark.java, pytest.mark.slow]

SCHEMA = {"id": "BIGINT NOT NULL", "v": "STRING"}
DAYS = {"dt": "STRING NOT NULL", **SCHEMA}
KEYED = {"primary_keys": ["id"], "options": {"bucket": "1"}}
PER_DAY = {
    "primary_keys": ["dt", "id"],
    "partition_keys": ["dt"],
    "options": {"bucket": "1", "metastore.partitioned-table": "true"},
}
_NUMBERS = itertools.count()
_RUN = uuid.uuid4().hex[:6]


@pytest.fixture(scope="module")
def server(metastore: HiveServer) -> HiveServer:
    return metastore


@pytest.fixture(scope="module")
def lake() -> Iterator[str]:
    # Java makes %20 of a space in a path, which the folder of the tests may have.
    with tempfile.TemporaryDirectory(prefix="paimon-lake-") as folder:
        yield folder


@pytest.fixture(scope="module")
def options(server: HiveServer, lake: str) -> dict[str, str]:
    return {**server.options, "warehouse": lake}


@pytest.fixture(scope="module")
def java(options: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaHiveCatalog]:
    catalog = JavaHiveCatalog(options, tmp_path_factory.mktemp("java") / "java.log")
    yield catalog
    catalog.close()


@pytest.fixture
def catalog(options: dict[str, str]) -> Catalog:
    return Catalog(options=options)


@pytest.fixture
def db(catalog: Catalog) -> str:
    """A new database."""
    name = f"db{_RUN}{next(_NUMBERS)}"
    catalog.create_database(name)
    return name


def rows(*pairs: tuple[int, str]) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    return pa.table({"id": [key for key, _ in pairs], "v": [text for _, text in pairs]}, schema)


def days(*triples: tuple[str, int, str]) -> pa.Table:
    names = ["dt", "id", "v"]
    return pa.table({name: [triple[at] for triple in triples] for at, name in enumerate(names)})


def entry_of(options: dict[str, str], name: str):
    database, _, table = name.partition(".")
    with HiveServers.of(CatalogConfig.of(None, options).values()).session() as session:
        return session.read("get_table", database, table)


def change_entry(options: dict[str, str], name: str, change) -> None:
    """What somebody does to an entry by Hive's own means."""
    database, _, table = name.partition(".")
    with HiveServers.of(CatalogConfig.of(None, options).values()).session() as session:
        entry = session.read("get_table", database, table)
        change(entry)
        context = session.types.EnvironmentContext(properties={})
        session.change("alter_table_with_environment_context", database, table, entry, context)


# ── with Java ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", [(), ("partitioned=true", "metastore.partitioned-table=true"), ("partitioned=true",)])
def test_an_entry_is_the_one_that_java_writes(catalog: Catalog, db: str, java: JavaHiveCatalog, words):
    given = dict(word.split("=") for word in words if not word.startswith("partitioned"))
    per_day = "partitioned=true" in words
    assert java("create", f"{db}.theirs", "bucket=2", "hive.a=b", *words) == "done"
    ours = catalog.create_table(
        f"{db}.ours",
        schema=DAYS if per_day else SCHEMA,
        primary_keys=["dt", "id"] if per_day else ["id"],
        partition_keys=["dt"] if per_day else [],
        options={"bucket": "2", "hive.a": "b", **given},
        comment="of java",
    )
    ours.alter([{"change": "update_column_comment", "name": "id", "comment": "the key"}])

    theirs = java("entry", f"{db}.theirs")
    assert "id bigint the key" in theirs
    assert java("entry", f"{db}.ours") == theirs.replace("theirs", "ours")


def test_java_and_we_keep_the_same_tables(catalog: Catalog, db: str, java: JavaHiveCatalog):
    assert java("create", f"{db}.t", "bucket=1") == "done"
    table = catalog.table(f"{db}.t")
    table.write(rows((1, "a")))
    assert java("write", f"{db}.t", "2/b") == "done"
    assert java("read", f"{db}.t") == "1/a,2/b"
    assert table.to_arrow().num_rows == 2

    assert java("create-database", f"{db}j") == "done"
    assert catalog.database_properties(f"{db}j")["owner"] == "java"
    catalog.create_table(f"{db}j.a", schema=SCHEMA, **KEYED).write(rows((7, "x")))
    catalog.create_table(f"{db}j.b", schema=SCHEMA, **KEYED)
    assert java("tables", f"{db}j") == "[a, b]"
    catalog.rename_table(f"{db}j.a", f"{db}j.c")
    catalog.drop_table(f"{db}j.b")
    assert java("tables", f"{db}j") == "[c]"
    assert java("read", f"{db}j.c") == "7/x"
    assert java("rename", f"{db}j.c", f"{db}j.d") == "done"
    assert catalog.list_tables(f"{db}j") == ["d"]
    assert catalog.table(f"{db}j.d").to_arrow().num_rows == 1
    assert java("drop", f"{db}j.d") == "done"
    with pytest.raises(NotFoundError, match="no table"):
        catalog.table(f"{db}j.d")


def test_java_and_we_alter_the_same_table(catalog: Catalog, db: str, java: JavaHiveCatalog, options):
    table = catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    table.alter([{"change": "add_column", "name": "ours", "type": "DECIMAL(5, 2)"}])
    assert java("add-column", f"{db}.t", "theirs") == "done"
    table = catalog.table(f"{db}.t")
    table.alter([{"change": "set_option", "key": "snapshot.num-retained.min", "value": "3"}])
    assert [(item.name, item.type) for item in entry_of(options, f"{db}.t").sd.cols] == [
        ("id", "bigint"),
        ("v", "string"),
        ("ours", "decimal(5,2)"),
        ("theirs", "int"),
    ]
    assert entry_of(options, f"{db}.t").parameters["snapshot.num-retained.min"] == "3"
    table.alter([{"change": "remove_option", "key": "snapshot.num-retained.min"}])
    assert "snapshot.num-retained.min" not in entry_of(options, f"{db}.t").parameters
    assert java("read", f"{db}.t") == ""


def test_java_and_we_list_the_same_partitions(catalog: Catalog, db: str, java: JavaHiveCatalog):
    table = catalog.create_table(f"{db}.t", schema=DAYS, **PER_DAY)
    assert java("create", f"{db}.u", "bucket=1", "partitioned=true", "metastore.partitioned-table=true") == "done"
    assert java("write", f"{db}.u", "d1/1/a,d2/2/b") == "done"
    table.write(days(("d1", 1, "a"), ("d2", 2, "b")))
    listed = java("partitions", f"{db}.t")
    assert listed == java("partitions", f"{db}.u").replace("/u/", "/t/")
    assert "[d1] " in listed
    assert "/dt=d2" in listed

    table.write(days(("d2", 3, "c"), ("d3", 4, "d")))
    assert java("partitions", f"{db}.t").count("[d") == 3
    # The catalog has one list for all branches.
    table.create_branch("b")
    branch = catalog.table(f"{db}.t$branch_b")
    branch.write(days(("d2", 3, "c"), ("d5", 4, "d")))
    branch.drop_partition({"dt": "d2"}, {"dt": "d5"})
    assert java("partitions", f"{db}.t").count("[d") == 3
    table.drop_partition({"dt": "d2"})
    assert java("partitions", f"{db}.t").count("[d") == 2
    catalog.rename_table(f"{db}.t", f"{db}.renamed")
    assert java("partitions", f"{db}.renamed").count(f"/{db}.db/renamed/dt=d") == 2
    assert java("read", f"{db}.renamed") == "d1/1/a,d3/4/d"


def test_java_and_we_respect_each_others_lock(catalog: Catalog, db: str, java: JavaHiveCatalog, options):
    servers = HiveServers.of(CatalogConfig.of(None, options).values())
    impatient = HiveLock(servers, db, "t", HiveLockSettings(50, 300))
    java.send("lock", db, "t")
    assert java.line() == "held"
    with pytest.raises(ConflictError, match="could not be acquired within 300 ms"):
        impatient.acquire()
    java.send("go on")
    assert (java.line(), java.line()) == ("go on", "released")

    impatient.acquire()
    assert java("try", db, "t") == "refused"
    assert impatient.release()
    assert java("try", db, "t") == "taken"


# ── the lock ────────────────────────────────────────────────────────────────────────────────────


def test_commits_take_the_lock_where_it_is_enabled(db: str, options):
    locked = Catalog(options={**options, "lock.enabled": "true", "lock-acquire-timeout": "300 ms"})
    table = locked.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    other = HiveLock(HiveServers.of(CatalogConfig.of(None, options).values()), db, "t", HiveLockSettings())
    other.acquire()
    with pytest.raises(ConflictError, match="commit lock"):
        table.write(rows((1, "a")))
    Catalog(options=options).table(f"{db}.t").write(rows((2, "b")))
    assert other.release()
    table.write(rows((3, "c")))
    assert sorted(locked.table(f"{db}.t").to_arrow()["id"].to_pylist()) == [2, 3]


def test_writers_that_race_under_the_lock_lose_nothing(db: str, options):
    locked = Catalog(options={**options, "lock.enabled": "true", "lock-check-max-sleep": "100 ms"})
    locked.create_table(f"{db}.t", schema=SCHEMA, **KEYED)

    def write(begin: int) -> None:
        for number in range(begin, begin + 4):
            Catalog(options=dict(locked._config.options), warehouse=locked.warehouse).table(f"{db}.t").write(
                rows((number, "x"))
            )

    threads = [threading.Thread(target=write, args=(begin,)) for begin in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = locked.table(f"{db}.t").to_arrow()["id"].to_pylist()
    assert sorted(found) == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]


def test_a_lock_that_was_taken_away_is_noticed(db: str, options):
    servers = HiveServers.of(CatalogConfig.of(None, options).values())
    lock = HiveLock(servers, db, "t", HiveLockSettings())
    lock.acquire()
    with servers.session() as session:
        session.change("unlock", session.types.UnlockRequest(lockid=lock._id))
    assert lock.release() is False


# ── where metastore and files contradict each other ─────────────────────────────────────────────


def test_an_entry_without_files_is_named_and_can_be_dropped(catalog: Catalog, db: str, options, tmp_path: Path):
    table = catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    location = Path(table.path)
    location.rename(tmp_path / "moved")
    (location.parent / "t").mkdir()
    (location.parent / "t" / "keep").write_text("of somebody else")
    assert catalog.list_tables(db) == ["t"]
    with pytest.raises(NotFoundError, match="there is no schema file: the table was moved"):
        catalog.table(f"{db}.t")
    with pytest.raises(ConflictError, match="already exists"):
        catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    catalog.drop_table(f"{db}.t")
    assert catalog.list_tables(db) == []
    assert (location / "keep").exists()


def test_files_without_an_entry_are_entered_when_asked(catalog: Catalog, db: str, options):
    table = catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    table.write(rows((1, "a")))
    table.alter([{"change": "add_column", "name": "w", "type": "INT"}])
    with HiveServers.of(CatalogConfig.of(None, options).values()).session() as session:
        session.change("drop_table", db, "t", False)
    with pytest.raises(NotFoundError, match="no table"):
        catalog.table(f"{db}.t")
    with pytest.raises(ConflictError, match="contains a table that the Hive metastore at .* does not know"):
        catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    again = catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED, if_not_exists=True)
    assert again.to_arrow().num_rows == 1
    assert [item.name for item in entry_of(options, f"{db}.t").sd.cols] == ["id", "v", "w"]


def test_a_table_of_hive_is_never_touched(catalog: Catalog, db: str, options):
    with HiveServers.of(CatalogConfig.of(None, options).values()).session() as session:
        types = session.types
        part = types.StorageDescriptor(
            cols=[types.FieldSchema("a", "int", None)],
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serdeInfo=types.SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
        )
        session.change("create_table", types.Table(tableName="h", dbName=db, sd=part, parameters={}, partitionKeys=[]))
    assert catalog.list_tables(db) == []
    for act in (
        lambda: catalog.table(f"{db}.h"),
        lambda: catalog.drop_table(f"{db}.h"),
        lambda: catalog.rename_table(f"{db}.h", f"{db}.i"),
    ):
        with pytest.raises(NotFoundError, match="is a table of Hive .*not a Paimon table"):
            act()
    with pytest.raises(ConflictError, match="is a table of Hive"):
        catalog.create_table(f"{db}.h", schema=SCHEMA, **KEYED, if_not_exists=True)
    catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    with pytest.raises(ConflictError, match="not Paimon's: h"):
        catalog.drop_database(db, cascade=True)
    assert catalog.list_tables(db) == ["t"]


def test_an_entry_with_old_columns_is_repaired_by_the_next_change(catalog: Catalog, db: str, options):
    table = catalog.create_table(f"{db}.t", schema={**SCHEMA, "w": "INT"}, **KEYED)

    def forget(entry) -> None:
        entry.sd.cols = entry.sd.cols[:1]

    change_entry(options, f"{db}.t", forget)
    assert table.to_arrow().column_names == ["id", "v", "w"]
    table.alter([{"change": "set_option", "key": "bucket", "value": "1"}])
    assert [item.name for item in entry_of(options, f"{db}.t").sd.cols] == ["id", "v", "w"]


def test_a_change_that_the_metastore_refuses_changes_nothing(catalog: Catalog, db: str, options):
    table = catalog.create_table(f"{db}.t", schema={**SCHEMA, "w": "INT", "x": "STRING"}, **KEYED)
    with pytest.raises(InvalidArgumentError, match="incompatible"):
        table.alter([{"change": "drop_column", "name": "v"}])
    assert catalog.table(f"{db}.t").to_arrow().column_names == ["id", "v", "w", "x"]
    assert [item.name for item in entry_of(options, f"{db}.t").sd.cols] == ["id", "v", "w", "x"]


def test_a_table_that_the_metastore_refuses_leaves_no_files(catalog: Catalog, db: str, lake: str):
    with pytest.raises(InvalidArgumentError):
        catalog.create_table(f"{db}.t-t", schema=SCHEMA, **KEYED)
    assert not list(Path(lake, f"{db}.db").glob("t-t/schema/*"))


# ── locations and options ───────────────────────────────────────────────────────────────────────


def test_an_external_table_keeps_its_files(catalog: Catalog, db: str, options, tmp_path: Path):
    path = str(tmp_path / "elsewhere")
    table = catalog.create_table(f"{db}.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1", "path": path})
    assert table.path == path
    table.write(rows((1, "a")))
    catalog.rename_table(f"{db}.t", f"{db}.u")
    assert catalog.table(f"{db}.u").path == path
    catalog.drop_table(f"{db}.u")
    with pytest.raises(ConflictError, match="other columns or keys"):
        catalog.create_table(f"{db}.t", schema={"a": "INT"}, options={"path": path})
    again = catalog.create_table(f"{db}.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1", "path": path})
    assert again.to_arrow().num_rows == 1


def test_locations_may_be_parameters(options, java: JavaHiveCatalog, lake: str):
    catalog = Catalog(options={**options, "location-in-properties": "true"})
    name = f"db{_RUN}{next(_NUMBERS)}"
    catalog.create_database(name)
    table = catalog.create_table(f"{name}.t", schema=SCHEMA, **KEYED)
    assert table.path == f"{lake}/{name}.db/t"
    assert entry_of(options, f"{name}.t").parameters["paimon_location"] == f"file:{table.path}"
    catalog.rename_table(f"{name}.t", f"{name}.u")
    assert catalog.table(f"{name}.u").path == f"{lake}/{name}.db/u"
    catalog.drop_database(name, cascade=True)
    assert not Path(lake, f"{name}.db").exists()


def test_a_table_is_not_renamed_into_another_store(options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    catalog = Catalog(options={**options, "location-in-properties": "true"})
    here, there = (f"db{_RUN}{next(_NUMBERS)}" for _ in range(2))
    catalog.create_database(here)
    catalog.create_database(there, {"location": "s3://elsewhere/lake"})
    catalog.create_table(f"{here}.t", schema=SCHEMA, **KEYED).write(rows((1, "a")))

    with pytest.raises(UnsupportedError, match=r"another store, s3://elsewhere/lake/t; write its rows"):
        catalog.rename_table(f"{here}.t", f"{there}.t")

    assert catalog.table(f"{here}.t").to_arrow()["id"].to_pylist() == [1]
    assert (catalog.list_tables(there), list(tmp_path.iterdir())) == ([], [])
    catalog.drop_database(here, cascade=True)


def test_a_database_is_dropped_with_its_tables_only(catalog: Catalog, db: str, lake: str):
    catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    with pytest.raises(ConflictError, match="not empty: t"):
        catalog.drop_database(db)
    Path(lake, f"{db}.db", "notes.txt").write_text("of somebody else")
    catalog.drop_database(db, cascade=True)
    assert db not in catalog.list_databases()
    assert [item.name for item in Path(lake, f"{db}.db").iterdir()] == ["notes.txt"]
    with pytest.raises(NotFoundError, match="no database"):
        catalog.drop_database(db)


def test_a_table_that_holds_another_one_is_not_dropped(catalog: Catalog, db: str):
    outer = catalog.create_table(f"{db}.outer", schema=SCHEMA, **KEYED)
    inside = {**KEYED["options"], "path": f"{outer.path}/inner"}
    inner = catalog.create_table(f"{db}.inner", schema=SCHEMA, primary_keys=["id"], options=inside)
    inner.write(rows((1, "a")))
    with pytest.raises(ConflictError, match=f"another table inside of it, {inner.path}"):
        catalog.drop_table(f"{db}.outer")
    assert sorted(catalog.list_tables(db)) == ["inner", "outer"]
    assert catalog.table(f"{db}.inner").to_arrow().num_rows == 1


def test_names_are_in_small_letters(catalog: Catalog, db: str):
    with pytest.raises(InvalidArgumentError, match="small letters: write 'orders'"):
        catalog.create_table(f"{db}.Orders", schema=SCHEMA, **KEYED)
    with pytest.raises(InvalidArgumentError, match="small letters"):
        catalog.table(f"{db.upper()}.orders")


def test_branches_do_not_change_the_entry_but_a_fast_forward_does(catalog: Catalog, db: str, options):
    table = catalog.create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    table.write(rows((1, "a")))
    table.create_tag("start")
    table.create_branch("b", tag="start")
    branch = catalog.table(f"{db}.t$branch_b")
    branch.alter([{"change": "add_column", "name": "w", "type": "INT"}])
    assert [item.name for item in entry_of(options, f"{db}.t").sd.cols] == ["id", "v"]
    catalog.table(f"{db}.t$branch_b").write(pa.table({"id": [2], "v": ["b"], "w": pa.array([3], pa.int32())}))
    table.fast_forward("b")
    assert [item.name for item in entry_of(options, f"{db}.t").sd.cols] == ["id", "v", "w"]


def test_java_and_we_list_the_same_tags(catalog: Catalog, db: str, java: JavaHiveCatalog):
    assert java("create", f"{db}.theirs", "bucket=1", "metastore.tag-to-partition=dt") == "done"
    ours = catalog.create_table(
        f"{db}.ours",
        schema=SCHEMA,
        primary_keys=["id"],
        options={"bucket": "1", "metastore.tag-to-partition": "dt"},
        comment="of java",
    )
    ours.alter([{"change": "update_column_comment", "name": "id", "comment": "the key"}])
    assert java("entry", f"{db}.ours") == java("entry", f"{db}.theirs").replace("theirs", "ours")

    def listed() -> list[str]:
        found = java("partitions", f"{db}.ours")
        assert found == java("partitions", f"{db}.theirs").replace("theirs", "ours")
        return [part.split("]")[0] for part in found.strip("[]").split("[") if part]

    theirs = catalog.table(f"{db}.theirs")
    for table in (ours, theirs):
        assert java("write", f"{db}.{Path(table.path).name}", "1/a") == "done"
    assert java("tag", f"{db}.theirs", "a:b") == "done"
    ours.create_tag("a:b")
    assert listed() == ["a:b"]
    # Each goes on where the other one stopped.
    theirs.create_tag("t2")
    assert java("tag", f"{db}.ours", "t2") == "done"
    assert listed() == ["a:b", "t2"]
    theirs.delete_tag("t2")
    assert java("untag", f"{db}.ours", "t2") == "done"
    assert listed() == ["a:b"]
    for table in (ours, theirs):
        table.create_tag("a:b", if_exists="replace")
        table.rename_tag("a:b", to="c")
    assert listed() == ["c"]
    ours.create_branch("b", tag="c")
    catalog.table(f"{db}.ours$branch_b").create_tag("of-the-branch")
    assert listed() == ["c"]
    assert ours.to_arrow(tag="c").num_rows == 1


def test_tags_that_were_not_listed_are_listed_by_the_next_run(catalog: Catalog, db: str, java, monkeypatch):
    table = catalog.create_table(
        f"{db}.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1", "metastore.tag-to-partition": "dt"}
    )
    table.write(rows((1, "a")))

    def fails(*_: object) -> None:
        raise StorageError("the metastore is not there")

    with monkeypatch.context() as broken:
        broken.setattr(HiveTableEntry, "add_tags", fails)
        with pytest.raises(CallbackError, match="tag 't1' .* exists, but the catalog"):
            table.create_tag("t1")
    assert java("partitions", f"{db}.t") == "[]"
    table.create_tag("t2")
    assert java("partitions", f"{db}.t").count("/t/dt=t") == 2
    with monkeypatch.context() as broken:
        broken.setattr(HiveTableEntry, "drop_tags", fails)
        with pytest.raises(CallbackError, match="the metastore is not there"):
            table.rename_tag("t1", to="t3")
    table.rename_tag("t1", to="t3")
    assert [name for name in ("t1", "t2", "t3") if f"[{name}]" in java("partitions", f"{db}.t")] == ["t2", "t3"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partition_keys": ["dt"], "options": {"metastore.tag-to-partition": "day"}}, "without partition keys"),
        ({"options": {"metastore.tag-to-partition": "dt"}}, "none of the table's columns"),
        ({"options": {"metastore.tag-to-partition": "Day"}}, "in small letters"),
    ],
)
def test_tags_that_cannot_be_partitions_are_refused(catalog: Catalog, db: str, given, message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        catalog.create_table(f"{db}.t", schema=DAYS, **given)
    preview = {"metastore.tag-to-partition": "day", "metastore.tag-to-partition.preview": "process-time"}
    with pytest.raises(UnsupportedError, match=r"'metastore\.tag-to-partition\.preview' = 'process-time'"):
        catalog.create_table(f"{db}.t", schema=DAYS, options=preview)
    assert catalog.list_tables(db) == []


def test_a_connection_of_airflow_names_the_metastore(db: str, options, monkeypatch: pytest.MonkeyPatch):
    from airflow_provider_paimon.hooks.paimon import PaimonHook

    def connect(uri: str) -> PaimonHook:
        extra = {"catalog_options": {"metastore": "hive", "uri": uri}}
        fields = {"conn_type": "paimon", "host": options["warehouse"], "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))
        return PaimonHook("lake")

    hook = connect(options["uri"])
    hook.catalog().create_table(f"{db}.t", schema=SCHEMA, **KEYED)
    good, message = hook.test_connection()
    assert (good, hook.catalog().list_tables(db)) == (True, ["t"]), message
    with socket.create_server(("127.0.0.1", 0)) as other:
        closed = f"thrift://127.0.0.1:{other.getsockname()[1]}"
    good, message = connect(closed).test_connection()
    assert not good
    assert message.startswith(f"The Hive metastore {closed} does not answer: ")


@pytest.mark.parametrize(
    ("given", "error", "expected"),
    [
        ({"uri": "thrift://"}, InvalidArgumentError, "not the address of a metastore"),
        ({"uri": "jdbc:x"}, InvalidArgumentError, "not the address of a metastore"),
        ({"uri": ""}, InvalidArgumentError, "needs 'uri'"),
        ({"lock.type": "zookeeper"}, UnsupportedError, "lock.type"),
        ({"hive-conf-dir": "/etc"}, UnsupportedError, "hive-conf-dir"),
        ({"hive.metastore.sasl.enabled": "true"}, UnsupportedError, "sasl"),
        ({"table.type": "other"}, InvalidArgumentError, "managed or external"),
    ],
)
def test_options_are_checked(given: dict[str, str], error: type[Exception], expected: str):
    with pytest.raises(error, match=expected):
        Catalog(options={"metastore": "hive", "uri": "thrift://localhost:1", "warehouse": "/lake", **given})


def test_a_server_that_is_not_there_is_named():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    catalog = Catalog(options={"metastore": "hive", "uri": f"thrift://127.0.0.1:{port}", "warehouse": "/lake"})
    with pytest.raises(StorageError, match=f"no Hive metastore answers: thrift://127.0.0.1:{port}"):
        catalog.list_databases()


def test_the_next_server_is_asked_where_one_is_not_there(options, server: HiveServer):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    catalog = Catalog(options={**options, "uri": f"thrift://127.0.0.1:{port},{server.options['uri']}"})
    assert "default" in catalog.list_databases()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("CHAR(255)", "char(255)"),
        ("CHAR(256)", "string"),
        ("VARCHAR(65535)", "varchar(65535)"),
        ("STRING", "string"),
        ("DECIMAL(10, 2)", "decimal(10,2)"),
        ("BYTES", "binary"),
        ("TIME(3)", "string"),
        ("TIMESTAMP(6)", "timestamp"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "timestamp with local time zone"),
        ("ARRAY<INT>", "array<int>"),
        ("MAP<STRING, BIGINT>", "map<string,bigint>"),
        ("MULTISET<DATE>", "map<date,int>"),
        ("ROW<a TINYINT, b ROW<c FLOAT>>", "struct<a:tinyint,b:struct<c:float>>"),
    ],
)
def test_types_have_hives_names(ours: str, theirs: str):
    assert hive_type(to_data_type(ours)) == theirs
