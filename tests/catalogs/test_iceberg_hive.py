"""Tables that a real Hive metastore shows to Iceberg: what pyiceberg's Hive catalog reads, beside others and after failures."""

from __future__ import annotations

import itertools
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import CallbackError, Catalog, InvalidArgumentError, Table, UnsupportedError, open_table
from paimon_engine.errors import OutcomeUnknownError
from paimon_engine.servers import iceberg_hive
from paimon_engine.servers.hive_client import HiveServers, HiveSession
from tests.support import iceberg
from tests.support.hive import HiveServer, JavaHiveCatalog

pytestmark = [pytest.mark.java, pytest.mark.slow]

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string()), pa.field("p", pa.string())])
STORAGE = "metadata.iceberg.storage"
URI = "metadata.iceberg.uri"
_NUMBERS = itertools.count()
_RUN = uuid.uuid4().hex[:6]


@pytest.fixture(scope="module")
def server(metastore: HiveServer) -> HiveServer:
    return metastore


@pytest.fixture
def lake() -> Iterator[str]:
    # Java makes %20 of a space in a path, which the folder of the tests may have.
    with tempfile.TemporaryDirectory(prefix="paimon-lake-") as folder:
        yield folder


@pytest.fixture
def db() -> str:
    return f"ice{_RUN}{next(_NUMBERS)}"


def rows(begin: int, end: int) -> pa.Table:
    numbers = range(begin, end)
    return pa.table([list(numbers), [f"v{n}" for n in numbers], [f"p{n % 2}" for n in numbers]], schema=SCHEMA)


def made(lake: str, db: str, server: HiveServer, name: str = "t", **options: str) -> Table:
    wanted = {STORAGE: "hive-catalog", URI: server.options["uri"], "bucket": "-1", **options}
    return Catalog(lake).create_table(f"{db}.{name}", schema=SCHEMA, partition_keys=["p"], options=wanted)


def seen(server: HiveServer, name: str) -> Any:
    from pyiceberg.catalog.hive import HiveCatalog

    return HiveCatalog("there", uri=server.options["uri"]).load_table(name)


def rows_seen(server: HiveServer, name: str) -> list[dict[str, Any]]:
    return iceberg.in_order(seen(server, name).scan().to_arrow().to_pylist())


def check(server: HiveServer, name: str, table: Table) -> None:
    assert rows_seen(server, name) == iceberg.in_order(table.to_arrow().to_pylist())


def with_metastore(server: HiveServer, call: Any) -> Any:
    with HiveServers.of(server.options).session() as session:
        return call(session)


def entry_of(server: HiveServer, name: str) -> Any:
    return with_metastore(server, lambda session: session.read("get_table", *name.split(".")))


def state(entry: Any) -> Any:
    return (
        dict(entry.parameters),
        entry.sd.location,
        [(item.name, item.type) for item in entry.sd.cols],
        entry.tableType,
    )


def test_icebergs_hive_catalog_reads_the_table_after_each_action(server: HiveServer, lake: str, db: str):
    table = made(lake, db, server)
    for step in range(3):
        table.write(rows(step * 3, step * 3 + 5))
        check(server, f"{db}.t", table)
    found = entry_of(server, f"{db}.t")
    metadata = f"{lake}/iceberg/{db}/t/metadata"
    assert found.parameters["metadata_location"] == f"{metadata}/v3.metadata.json"
    assert found.parameters["previous_metadata_location"] == f"{metadata}/v2.metadata.json"
    assert (found.parameters["table_type"], found.parameters["EXTERNAL"]) == ("ICEBERG", "TRUE")
    assert state(found)[1:] == (
        f"file:{lake}/iceberg/{db}/t",
        [("id", "bigint"), ("v", "string"), ("p", "string")],
        "EXTERNAL_TABLE",
    )

    table.alter([{"change": "add_column", "name": "w", "type": "INT"}])
    table.drop_partition({"p": "p1"})
    check(server, f"{db}.t", open_table(table.path))
    assert [item.name for item in entry_of(server, f"{db}.t").sd.cols] == ["id", "v", "p", "w"]
    table.expire_snapshots(retain_max=1, retain_min=1)
    check(server, f"{db}.t", open_table(table.path))


def test_a_rollback_and_a_tag_show(server: HiveServer, lake: str, db: str):
    table = made(lake, db, server)
    for step in range(3):
        table.write(rows(step, step + 1))
    table.create_tag("first", snapshot=1)
    assert "first" in seen(server, f"{db}.t").metadata.refs
    table.rollback(snapshot=2)
    check(server, f"{db}.t", table)
    table.write(rows(7, 9))
    check(server, f"{db}.t", table)


def test_other_names_and_several_databases(server: HiveServer, lake: str, db: str):
    names = {"metadata.iceberg.database": f"{db}a; {db}b", "metadata.iceberg.table": "other"}
    table = made(lake, db, server, **names, **{"metadata.iceberg.storage-location": "table-location"})
    table.write(rows(0, 4))
    for database in (f"{db}a", f"{db}b"):
        check(server, f"{database}.other", table)
    assert db not in with_metastore(server, lambda session: session.read("get_all_databases"))


def test_the_entry_of_the_paimon_table_becomes_icebergs_too(server: HiveServer, lake: str, db: str):
    catalog = Catalog(lake, options=server.options)
    catalog.create_database(db)
    wanted = {STORAGE: "hive-catalog", URI: server.options["uri"], "bucket": "-1"}
    table = catalog.create_table(f"{db}.t", schema=SCHEMA, partition_keys=["p"], options=wanted)
    table.write(rows(0, 4))
    check(server, f"{db}.t", table)
    table.alter([{"change": "add_column", "name": "w", "type": "INT"}])
    table.write(rows(4, 6).append_column("w", pa.array([1, 2], pa.int32())))
    table = catalog.table(f"{db}.t")
    check(server, f"{db}.t", table)
    assert table.to_arrow().num_rows == 6
    catalog.drop_table(f"{db}.t")


@pytest.mark.parametrize("kind", ["hive", "iceberg", "paimon"])
def test_an_entry_of_something_else_stays(kind: str, server: HiveServer, lake: str, db: str):
    table = made(lake, db, server)

    def create(session: HiveSession) -> None:
        types = session.types
        session.change("create_database", types.Database(name=db, locationUri=f"file:{lake}/{db}"))
        session.change(
            "create_table",
            types.Table(
                tableName="t",
                dbName=db,
                partitionKeys=[],
                tableType="EXTERNAL_TABLE",
                parameters={
                    "EXTERNAL": "TRUE",
                    **(
                        {"table_type": "ICEBERG", "metadata_location": f"{lake}/x/v1.json"} if kind == "iceberg" else {}
                    ),
                },
                sd=types.StorageDescriptor(
                    location=f"file:{lake}/elsewhere",
                    cols=[types.FieldSchema("a", "int", None)],
                    inputFormat=iceberg_hive._INPUT_FORMAT if kind != "paimon" else PAIMON[0],
                    outputFormat=iceberg_hive._OUTPUT_FORMAT if kind != "paimon" else PAIMON[1],
                    serdeInfo=types.SerDeInfo(serializationLib=iceberg_hive._SERDE),
                ),
            ),
        )

    with_metastore(server, create)
    before = state(entry_of(server, f"{db}.t"))
    with pytest.raises(CallbackError, match=r"ConflictError: .*it stays as it is"):
        table.write(rows(0, 2))
    assert state(entry_of(server, f"{db}.t")) == before
    assert table.to_arrow().num_rows == 2

    with_metastore(server, lambda session: session.change("drop_table", db, "t", False))
    table.write(rows(2, 3))
    check(server, f"{db}.t", table)


PAIMON = [f"org.apache.paimon.hive.mapred.Paimon{one}Format" for one in ("Input", "Output")]


def test_a_metastore_that_is_down_is_made_up_for(server: HiveServer, lake: str, db: str, monkeypatch):
    table = made(lake, db, server)
    table.write(rows(0, 2))
    down = open_table(table.path, options={URI: "thrift://127.0.0.1:1"})
    for step in (2, 3):
        with pytest.raises(CallbackError, match="no Hive metastore answers"):
            down.write(rows(step, step + 1))
    with pytest.raises(CallbackError):
        down.compact(full=True)
    # What the metastore shows meanwhile can be read.
    assert [row["id"] for row in rows_seen(server, f"{db}.t")] == [0, 1]

    table = open_table(table.path)
    table.write(rows(4, 5))
    check(server, f"{db}.t", table)
    metadata = Path(lake) / "iceberg" / db / "t" / "metadata"
    assert {path.name for path in metadata.iterdir()} == iceberg.names(metadata)


def test_dropped_and_renamed_tables_leave_their_entries(server: HiveServer, lake: str, db: str):
    catalog = Catalog(lake)
    made(lake, db, server).write(rows(0, 3))
    catalog.rename_table(f"{db}.t", f"{db}.u")
    table = catalog.table(f"{db}.u")
    table.write(rows(3, 5))
    check(server, f"{db}.u", table)
    assert entry_of(server, f"{db}.t").parameters["metadata_location"].endswith("/t/metadata/v1.metadata.json")

    # A new table of the old name gets the old entry.
    table = made(lake, db, server)
    table.write(rows(7, 9))
    check(server, f"{db}.t", table)
    catalog.drop_table(f"{db}.t")
    entry_of(server, f"{db}.t")


@pytest.mark.parametrize("method", ["create_database", "create_table", "alter_table_with_environment_context"])
def test_a_lost_answer_is_looked_for(method: str, server: HiveServer, lake: str, db: str, monkeypatch):
    change = HiveSession.change
    lost = []

    def change_and_lose(session: HiveSession, name: str, *arguments: Any) -> Any:
        found = change(session, name, *arguments)
        if name == method and not lost:
            lost.append(name)
            raise OutcomeUnknownError("the answer was lost")
        return found

    monkeypatch.setattr(HiveSession, "change", change_and_lose)
    table = made(lake, db, server)
    for step in range(2):
        table.write(rows(step, step + 1))
        check(server, f"{db}.t", table)
    assert lost == [method]


def test_of_two_writers_the_last_one_shows(server: HiveServer, lake: str, db: str):
    path = made(lake, db, server).path
    failed = []

    def write(number: int) -> None:
        for step in range(4):
            try:
                open_table(path).write(rows(number * 10 + step, number * 10 + step + 1))
            except CallbackError as error:
                failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert open_table(path).to_arrow().num_rows == 8
    if failed:
        open_table(path).write(rows(90, 91))
    check(server, f"{db}.t", open_table(path))


def test_a_late_writer_does_not_leave_an_older_version(server: HiveServer, lake: str, db: str, monkeypatch):
    """It reports its version to the metastore after another one has committed, and reported a newer one."""
    table = made(lake, db, server)
    table.write(rows(0, 1))
    change, met = HiveSession.change, []

    def meanwhile(session: HiveSession, name: str, *arguments: Any) -> Any:
        if name == "alter_table_with_environment_context" and not met:
            met.append(name)
            open_table(table.path).write(rows(5, 6))
        return change(session, name, *arguments)

    monkeypatch.setattr(HiveSession, "change", meanwhile)
    table.write(rows(1, 2))
    check(server, f"{db}.t", open_table(table.path))
    assert open_table(table.path).to_arrow().num_rows == 3


def test_the_address_may_be_in_a_configuration_file(server: HiveServer, lake: str, db: str, tmp_path: Path):
    def site(name: str, **properties: str) -> None:
        items = "".join(
            f"<property><name>{key}</name><value>{text}</value></property>" for key, text in properties.items()
        )
        (tmp_path / name).write_text(f"<configuration>{items}</configuration>")

    conf = {URI: "", "metadata.iceberg.hive-conf-dir": str(tmp_path)}
    for name, key in (("hive-site.xml", "hive-conf-dir"), ("core-site.xml", "hadoop-conf-dir")):
        site(name, **{"hive.metastore.uris": server.options["uri"]})
        table = made(lake, db, server, key[:4], **{URI: "", f"metadata.iceberg.{key}": str(tmp_path)})
        table.write(rows(0, 2))
        check(server, f"{db}.{key[:4]}", table)
    site("hive-site.xml", **{"hive.metastore.uris": "thrift://x:1", "hive.metastore.sasl.enabled": "true"})
    with pytest.raises(UnsupportedError, match="Kerberos"):
        made(lake, db, server, "secure", **conf).write(rows(0, 1))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({URI: ""}, InvalidArgumentError, r"needs 'metadata\.iceberg\.uri'"),
        ({URI: "http://x"}, InvalidArgumentError, "not the address of a metastore"),
        ({"metadata.iceberg.hive-client-class": "com.acme.Client"}, UnsupportedError, "com.acme.Client"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, str], error: type, words: str, server, lake: str, db: str):
    with pytest.raises(error, match=words):
        made(lake, db, server, **options).write(rows(0, 1))


def test_java_continues_our_entry_and_we_continue_javas(server: HiveServer, lake: str, db: str, tmp_path: Path):
    java = JavaHiveCatalog({**server.options, "warehouse": lake}, tmp_path / "java.log")
    options = {
        STORAGE: "hive-catalog",
        URI: server.options["uri"],
        "metadata.iceberg.database": f"{db}i",
        "bucket": "1",
    }
    catalog = Catalog(lake, options=server.options)
    catalog.create_database(db)
    assert java("create", f"{db}.theirs", *(f"{key}={text}" for key, text in options.items())) == "done"
    ours = catalog.create_table(
        f"{db}.ours", schema={"id": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["id"], options=options
    )
    ours.alter([{"change": "update_column_comment", "name": "id", "comment": "the key"}])
    for step in range(2):
        assert java("write", f"{db}.theirs", f"{step}/x") == "done"
        ours.write(pa.table({"id": [step], "v": ["x"]}))
        entry = java("entry", f"{db}i.theirs")
        assert f"v{step + 1}.metadata.json" in entry
        # Paths are as each engine writes them.
        entry = entry.replace("_location=file:", "_location=").replace("theirs", "ours")
        assert java("entry", f"{db}i.ours").replace("_location=file:", "_location=") == entry

    theirs = catalog.table(f"{db}.theirs")
    for name, table in (("theirs", theirs), ("ours", ours)):
        for step in range(4, 8, 2):
            table.compact(full=True)
            check(server, f"{db}i.{name}", table)
            before = rows_seen(server, f"{db}i.{name}")
            assert java("write", f"{db}.{name}", f"{step}/y") == "done"
            version = f"v{table.latest_snapshot_id()}.metadata.json"
            assert version in entry_of(server, f"{db}i.{name}").parameters["metadata_location"]
            assert rows_seen(server, f"{db}i.{name}") == before
        table.write(pa.table({"id": [9], "v": ["z"]}))
        table.compact(full=True)
        check(server, f"{db}i.{name}", table)
    java.close()
