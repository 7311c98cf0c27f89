"""A metastore or database whose answer gets lost in a change: nothing is lost, and repeating it ends well."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, NotFoundError, OutcomeUnknownError, StorageError, Table
from paimon_engine.servers.hive_client import HiveServers
from tests.support.cut_lines import CutLine, cut_line
from tests.support.hive import HiveServer
from tests.support.postgres import PostgresServer

SCHEMA = pa.schema([pa.field("dt", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])
PER_DAY = {
    "primary_keys": ["dt", "id"],
    "partition_keys": ["dt"],
    "options": {"bucket": "1", "metastore.partitioned-table": "true"},
}
RENAME_ENTRY, MOVE_PARTITIONS = "alter_table_with_environment_context", "alter_partitions"
ATTEMPTS = 5
_NUMBERS = itertools.count()
_RUN = uuid.uuid4().hex[:6]


def rows(*ids: int) -> pa.Table:
    return pa.table({"dt": [f"day{number}" for number in ids], "id": list(ids)}, SCHEMA)


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def again(catalog: Catalog, old: str, new: str) -> None:
    """What a user or a retry does after an error: the same call once more, which may find it done, or being done."""
    try:
        catalog.rename_table(old, new)
    except (NotFoundError, ConflictError, OutcomeUnknownError):
        # A server that is late may finish before, between or after the questions that come first.
        assert new.partition(".")[2] in catalog.list_tables(new.partition(".")[0])


# ── Hive ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hive(metastore: HiveServer) -> Iterator[tuple[Catalog, str, CutLine]]:
    """A catalog with a new database, and the line to its server."""
    port = int(metastore.options["uri"].rpartition(":")[2])
    with tempfile.TemporaryDirectory(prefix="paimon-lake-") as lake, cut_line(port) as line:
        options = {**metastore.options, "uri": f"thrift://127.0.0.1:{line.port}", "warehouse": lake}
        catalog, name = Catalog(options=options), f"cut{_RUN}{next(_NUMBERS)}"
        catalog.create_database(name)
        yield catalog, name, line


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("stays_cut", [False, True])
@pytest.mark.parametrize("reaches_server", [False, True])
@pytest.mark.parametrize("request_", [RENAME_ENTRY, MOVE_PARTITIONS])
def test_a_rename_that_hive_does_not_answer_loses_no_table(
    hive: tuple[Catalog, str, CutLine], request_: str, reaches_server: bool, stays_cut: bool
):
    catalog, db, line = hive
    catalog.create_table(f"{db}.t", schema=SCHEMA, **PER_DAY).write(rows(1, 2))
    line.cut(request_, reaches_server=reaches_server, stays_cut=stays_cut)

    is_answered = False
    try:
        catalog.rename_table(f"{db}.t", f"{db}.new")
        is_answered = True
    except OutcomeUnknownError:
        line.repair()
        again(catalog, f"{db}.t", f"{db}.new")

    assert line.cuts == 1
    assert catalog.list_tables(db) == ["new"]
    assert ids(catalog.table(f"{db}.new")) == [1, 2]
    catalog.table(f"{db}.new").write(rows(3))
    assert ids(catalog.table(f"{db}.new")) == [1, 2, 3]
    if is_answered:
        with HiveServers.of(catalog._config.values()).session() as session:
            places = [part.sd.location for part in session.read("get_partitions", db, "new", -1)]
        assert len(places) == 3
        assert all("/new/dt=day" in place for place in places)


@pytest.mark.java
@pytest.mark.slow
def test_a_rename_onto_files_that_hive_does_not_know_is_refused(hive: tuple[Catalog, str, CutLine], tmp_path: Path):
    catalog, db, _ = hive
    catalog.create_table(f"{db}.t", schema=SCHEMA, **PER_DAY).write(rows(1))
    path = Path(catalog.table(f"{db}.t").path)
    Catalog(str(path.parents[1])).create_table(f"{db}.other", schema=SCHEMA, **PER_DAY).write(rows(7))

    with pytest.raises(ConflictError, match="does not know"):
        catalog.rename_table(f"{db}.t", f"{db}.other")

    assert ids(catalog.table(f"{db}.t")) == [1]


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("reaches_server", [False, True])
@pytest.mark.parametrize(
    ("request_", "stays_cut"),
    [("create_table", False), ("create_table", True), ("drop_table", False), ("add_partitions_req", False)],
)
def test_other_changes_that_hive_does_not_answer_may_be_repeated(
    hive: tuple[Catalog, str, CutLine], request_: str, reaches_server: bool, stays_cut: bool
):
    catalog, db, line = hive
    kept = catalog.create_table(f"{db}.kept", schema=SCHEMA, **PER_DAY)
    catalog.create_table(f"{db}.gone", schema=SCHEMA, **PER_DAY).write(rows(9))
    line.cut(request_, reaches_server=reaches_server, stays_cut=stays_cut)

    for attempt in range(ATTEMPTS):
        try:
            catalog.create_table(f"{db}.t", schema=SCHEMA, **PER_DAY, if_not_exists=True)
            kept.write(rows(1, 2))
            with contextlib.suppress(NotFoundError):
                catalog.drop_table(f"{db}.gone")
        except StorageError as error:
            # Hive may still be at work on a request that it did not answer, and refuses the same one meanwhile.
            assert attempt or isinstance(error, OutcomeUnknownError) or request_ == "add_partitions_req"
            line.repair()
        else:
            if attempt:
                break

    assert line.cuts == 1
    assert catalog.list_tables(db) == ["kept", "t"]
    assert ids(catalog.table(f"{db}.kept")) == [1, 2]
    assert ids(catalog.table(f"{db}.t")) == []


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("reaches_server", [False, True])
@pytest.mark.parametrize("request_", ["lock", "check_lock", "unlock"])
def test_a_commit_under_a_lock_that_hive_does_not_answer_is_done_once(
    hive: tuple[Catalog, str, CutLine], request_: str, reaches_server: bool
):
    catalog, db, line = hive
    options = {**dict(catalog._config.options), "lock.enabled": "true", "lock-acquire-timeout": "3 s"}
    table = Catalog(catalog.warehouse, options=options).create_table(f"{db}.t", schema=SCHEMA, **PER_DAY)
    table.write(rows(1))
    line.cut(request_, reaches_server=reaches_server)

    try:
        table.write(rows(2), commit_user="job")
    except (StorageError, ConflictError) as error:
        assert not isinstance(error, OutcomeUnknownError)
        assert ids(table) == [1]
        # A lock whose request was not answered has to expire, which takes minutes.
        with contextlib.suppress(ConflictError):
            table.write(rows(2), commit_user="job")
            assert not reaches_server
    assert line.cuts == 1
    assert ids(table) in ([1], [1, 2])
    assert table.latest_snapshot_id() == len(ids(table))


# ── JDBC ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def database(postgres: PostgresServer, tmp_path: Path) -> Iterator[tuple[Catalog, CutLine]]:
    with cut_line(postgres.port) as line:
        uri = f"jdbc:postgresql://127.0.0.1:{line.port}/{postgres.database}"
        options = {**postgres.options, "metastore": "jdbc", "uri": uri, "catalog-key": tmp_path.name}
        catalog = Catalog(str(tmp_path / "lake"), options=options)
        catalog.create_database("db")
        yield catalog, line


@pytest.mark.parametrize("stays_cut", [False, True])
@pytest.mark.parametrize("reaches_server", [False, True])
def test_a_rename_that_a_database_does_not_confirm_loses_no_table(
    database: tuple[Catalog, CutLine], reaches_server: bool, stays_cut: bool
):
    catalog, line = database
    catalog.create_table("db.t", schema=SCHEMA, **PER_DAY).write(rows(1, 2))
    line.cut("UPDATE paimon_tables", reaches_server=True)
    with pytest.raises(StorageError):
        catalog.rename_table("db.t", "db.new")
    assert ids(catalog.table("db.t")) == [1, 2]

    line.cut("COMMIT", after="UPDATE paimon_tables", reaches_server=reaches_server, stays_cut=stays_cut)
    with pytest.raises(OutcomeUnknownError, match="rename it again"):
        catalog.rename_table("db.t", "db.new")
    line.repair()
    again(catalog, "db.t", "db.new")

    assert catalog.list_tables("db") == ["new"]
    assert ids(catalog.table("db.new")) == [1, 2]


@pytest.mark.parametrize("stays_cut", [False, True])
@pytest.mark.parametrize("reaches_server", [False, True])
@pytest.mark.parametrize("statement", ["INSERT INTO paimon_tables", "DELETE FROM paimon_tables"])
def test_other_changes_that_a_database_does_not_confirm_may_be_repeated(
    database: tuple[Catalog, CutLine], statement: str, reaches_server: bool, stays_cut: bool
):
    catalog, line = database
    catalog.create_table("db.gone", schema=SCHEMA, **PER_DAY).write(rows(9))
    line.cut("COMMIT", after=statement, reaches_server=reaches_server, stays_cut=stays_cut)

    for _ in range(2):
        try:
            catalog.create_table("db.t", schema=SCHEMA, **PER_DAY, if_not_exists=True)
            catalog.drop_table("db.gone")
        except OutcomeUnknownError:
            line.repair()
        except NotFoundError:
            assert reaches_server

    assert line.cuts == 1
    assert catalog.list_tables("db") == ["t"]
    assert ids(catalog.table("db.t")) == []


@pytest.mark.parametrize("reaches_server", [False, True])
@pytest.mark.parametrize("statement", ["INSERT INTO", "DELETE FROM"])
def test_a_commit_under_a_lock_that_a_database_does_not_confirm_is_done_once(
    database: tuple[Catalog, CutLine], statement: str, reaches_server: bool
):
    catalog, line = database
    options = {**catalog._config.values(), "lock.enabled": "true", "lock-acquire-timeout": "1 s"}
    table = Catalog(catalog.warehouse, options=options).create_table("db.t", schema=SCHEMA, **PER_DAY)
    table.write(rows(1))
    after = f"{statement} paimon_distributed_locks"
    line.cut("COMMIT", after=after, reaches_server=reaches_server)

    try:
        table.write(rows(2), commit_user="job")
    except StorageError as error:
        assert not isinstance(error, OutcomeUnknownError)
        line.repair()
        assert ids(table) == [1]
        assert table.remove_orphan_files(older_than="0 s", dry_run=True).deleted == ()
        time.sleep(2.1)  # the lock expires
        table.write(rows(2), commit_user="job")

    assert line.cuts == 1
    assert ids(table) == [1, 2]
    assert table.latest_snapshot_id() == 2
