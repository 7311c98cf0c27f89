"""The REST catalog's client against a real server process, and pypaimon's client against the same server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from paimon_engine import (
    AlreadyExistsError,
    Catalog,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.table.check.table_check import check_table
from tests.support.cloud_stores import CloudServer
from tests.support.pypaimon import InCatalog, PyPaimon
from tests.support.rest import RestServer, rest_server

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
TOKEN = "geheimes-wort"
COMMIT = r"/commit$"


def rows(*ids: int, v: str = "v") -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"{v}{number}" for number in ids]}, SCHEMA)


def ids(table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "lake", page_size=2) as started:
        yield started


@pytest.fixture
def catalog(server: RestServer) -> Catalog:
    catalog = Catalog(options=server.options)
    catalog.create_database("db", {"owner": "me"})
    return catalog


@pytest.fixture
def table(catalog: Catalog):
    table = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1, "commit.min-retry-wait": "1 ms"}
    )
    yield table
    assert check_table(table._handle) == []


# ── names ───────────────────────────────────────────────────────────────────────────────────────


def test_databases_have_properties_and_are_made_once(catalog: Catalog, server: RestServer):
    assert catalog.list_databases() == ["db"]
    assert catalog.database_properties("db") == {"owner": "me", "location": f"{server.root}/db.db"}
    with pytest.raises(AlreadyExistsError, match=r"409 \(DATABASE db\): Database db exists"):
        catalog.create_database("db")
    catalog.create_database("db", if_not_exists=True)


def test_lists_of_many_pages_are_complete(catalog: Catalog):
    for number in range(5):
        catalog.create_table(f"db.t{number}", schema=SCHEMA)

    assert catalog.list_tables("db") == ["t0", "t1", "t2", "t3", "t4"]


def test_a_name_that_two_pages_have_is_listed_once(catalog: Catalog, server: RestServer):
    """As it happens if others create a table between the pages."""
    for address, key in ((r"/tables$", "tables"), (r"/databases$", "databases")):
        server.lie("GET", address, f'{{"{key}": ["a", "b"], "nextPageToken": "b"}}')
        server.lie("GET", address, f'{{"{key}": ["b", "c"]}}')

    assert catalog.list_tables("db") == ["a", "b", "c"]
    assert catalog.list_databases() == ["a", "b", "c"]


def test_a_table_survives_creation_writing_renaming_and_dropping(catalog: Catalog, table):
    table.write(rows(1, 2))
    catalog.rename_table("db.t", "db.u")

    renamed = catalog.table("db.u")
    renamed.write(rows(3))
    assert ids(renamed) == [1, 2, 3]
    assert renamed.path == table.path
    with pytest.raises(NotFoundError, match=r"404 \(TABLE t\)"):
        catalog.table("db.t")
    with pytest.raises(ConflictError, match="'db' is not empty: u"):
        catalog.drop_database("db")

    catalog.rename_table("db.u", "db.t")
    with pytest.raises(AlreadyExistsError, match=r"409 \(TABLE t\)"):
        catalog.create_table("db.t", schema=SCHEMA)
    assert ids(catalog.create_table("db.t", schema=SCHEMA, if_not_exists=True)) == [1, 2, 3]


def test_a_dropped_table_does_not_exist_with_its_files(catalog: Catalog):
    path = catalog.create_table("db.u", schema=SCHEMA).path
    catalog.drop_table("db.u")

    assert not Path(path).exists()
    with pytest.raises(NotFoundError, match=r"404 \(TABLE u\)"):
        catalog.drop_table("db.u")
    catalog.drop_table("db.u", if_exists=True)
    catalog.drop_database("db")
    assert catalog.list_databases() == []


def test_options_of_the_server_are_the_outer_ones(tmp_path: Path):
    defaults = {"table-default.file.format": "orc", "table-default.bucket": "7"}
    with rest_server(tmp_path, defaults=defaults, overrides={"table-default.write-only": "true"}) as server:
        catalog = Catalog(options={**server.options, "table-default.bucket": "2"})
        catalog.create_database("db")
        table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"])

    assert table.schema.options == {"file.format": "orc", "bucket": "2", "write-only": "true"}


def test_nested_columns_and_comments_reach_the_server_and_are_read_back(catalog: Catalog):
    nested = pa.struct([pa.field("a", pa.list_(pa.int32())), pa.field("b", pa.map_(pa.string(), pa.date32()))])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", nested)])
    created = catalog.create_table("db.n", schema=schema, comment="nested")

    assert created.schema.comment == "nested"
    assert created.arrow_schema.types == schema.types
    assert created.schema.highest_field_id == 3


# ── snapshots ───────────────────────────────────────────────────────────────────────────────────


def test_rows_are_written_compacted_tagged_and_read(table):
    table.write(rows(1, 2))
    table.create_tag("one")
    table.write(rows(2, 3, v="w"))
    table.compact(full=True)

    assert table.to_arrow().sort_by("id")["v"].to_pylist() == ["v1", "w2", "w3"]
    assert table.to_arrow(tag="one").num_rows == table.to_arrow(snapshot=1).num_rows == 2
    assert table.snapshots()["commit_kind"].to_pylist() == ["APPEND", "APPEND", "COMPACT"]


def test_the_server_makes_the_snapshot_files(table, server: RestServer):
    table.write(rows(1))

    files = sorted(item.name for item in Path(table.path, "snapshot").iterdir())
    assert files == ["snapshot-1"]
    assert "POST /v1/lake/databases/db/tables/t/commit" in server.requests


@pytest.mark.parametrize("name", ["snapshot/snapshot-2", "schema/schema-1", "branch/branch-b/snapshot/snapshot-1"])
def test_files_of_the_server_are_made_by_it_alone(table, name: str):
    table.write(rows(1))

    with pytest.raises(UnsupportedError, match="the REST catalog creates this file"):
        table._handle.env.storage.create(f"{table.path}/{name}", b"{}")


def test_the_latest_of_the_server_overrides_files(table):
    table.write(rows(1))
    stray = Path(table.path, "snapshot", "snapshot-2")
    stray.write_bytes(Path(table.path, "snapshot", "snapshot-1").read_bytes().replace(b'"id": 1,', b'"id": 2,'))

    assert table.latest_snapshot_id() == 1
    assert table.snapshots()["snapshot_id"].to_pylist() == [1]
    stray.unlink()
    table.write(rows(2))
    assert ids(table) == [1, 2]


def test_a_snapshot_whose_file_is_missing_comes_from_the_server(table):
    table.write(rows(1))
    file = Path(table.path, "snapshot", "snapshot-1")
    kept = file.read_bytes()
    file.unlink()

    assert ids(table) == [1]
    assert table.snapshots()["snapshot_id"].to_pylist() == [1]
    file.write_bytes(kept)


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request", 500, 503])
def test_a_commit_with_a_lost_or_doubtful_answer_happens_once(table, server: RestServer, fault: str | int):
    table.write(rows(1))
    server.fail("POST", COMMIT, fault)

    result = table.write(rows(2))

    assert result.snapshot_id == table.latest_snapshot_id() == 2
    assert ids(table) == [1, 2]
    assert len(server.commits) == 2


def test_a_repeated_job_finds_its_commit_though_the_answer_was_lost(table, server: RestServer):
    table.write(rows(1), commit_user="job")
    table.write(rows(2), commit_user="other")

    again = table.write(rows(1), commit_user="job")

    assert again.snapshot_id == 1
    assert len(server.commits) == 2


def test_a_commit_that_is_never_answered_says_so(table, server: RestServer):
    options = {"commit.max-retries": "2"}
    impatient = Catalog(options=server.options).table("db.t", options)
    server.fail("POST", COMMIT, "lose_request", times=9)

    with pytest.raises(OutcomeUnknownError, match="never confirmed .*snapshot-1"):
        impatient.write(rows(1))
    assert table.latest_snapshot_id() is None


def test_questions_are_repeated_until_they_are_answered(table, server: RestServer):
    table.write(rows(1))
    server.fail("GET", r"/snapshot$", 503, times=2)
    server.fail("GET", r"/snapshot$", "lose_reply", times=1)

    assert ids(table) == [1]


def test_changes_wait_while_the_server_has_too_many_requests(catalog: Catalog, table, server: RestServer):
    server.fail("POST", COMMIT, 429, times=2)
    server.fail("POST", r"/rename$", 429)
    server.fail("DELETE", r"/tables/gone$", 429)
    catalog.create_table("db.t2", schema=SCHEMA)

    table.write(rows(1))
    catalog.rename_table("db.t2", "db.gone")
    catalog.drop_table("db.gone")

    assert ids(table) == [1]
    assert len(server.commits) == 1
    assert catalog.list_tables("db") == ["t"]


def test_creating_a_table_is_never_sent_twice(catalog: Catalog, server: RestServer):
    server.fail("POST", r"/tables$", "lose_reply")

    with pytest.raises(OutcomeUnknownError, match="may or may not have been done"):
        catalog.create_table("db.once", schema=SCHEMA)
    assert server.requests.count("POST /v1/lake/databases/db/tables") == 1
    assert catalog.list_tables("db") == ["once"]


WRITER = """
import sys, pyarrow as pa
from paimon_engine import Catalog
table = Catalog(options=eval(sys.argv[1])).table("db.t")
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 4):
    table.write(pa.table({"id": [number], "v": ["x"]}, schema))
"""


def test_two_processes_commit_at_once(table, server: RestServer):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, repr(server.options), str(first)], cwd=Path.cwd())
        for first in (0, 100)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]

    assert ids(table) == [0, 1, 2, 3, 100, 101, 102, 103]
    assert table.latest_snapshot_id() == len(server.commits) == 8


def test_a_rollback_is_the_servers(table, server: RestServer):
    table.write(rows(1))
    table.create_tag("one")
    table.write(rows(2))
    table.write(rows(3))

    assert table.rollback(snapshot=2).snapshot_id == 2
    assert ids(table) == [1, 2]
    assert table.rollback(tag="one").removed_snapshots == (2,)
    assert ids(table) == [1]
    table.write(rows(4))
    assert ids(table) == [1, 4]


def test_a_rollback_that_the_server_refuses_changes_nothing(table, server: RestServer):
    table.write(rows(1))
    table.write(rows(2))
    server.fail("POST", r"/rollback$", 500)

    with pytest.raises(ConflictError, match="did not roll back to snapshot 1; its latest is 2"):
        table.rollback(snapshot=1)
    assert ids(table) == [1, 2]


def test_finished_partitions_are_reported_to_the_server(catalog: Catalog, server: RestServer):
    schema = pa.schema([pa.field("day", pa.date32()), *SCHEMA])
    options = {"partition.mark-done-action": "mark-event"}
    table = catalog.create_table("db.days", schema=schema, partition_keys=["day"], options=options)

    assert table.mark_partition_done({"day": "2024-01-31"}).reported == ("day=19753",)
    assert server.commits[-1] == {"marked": [{"day": "19753"}]}


def test_the_server_gets_a_partition_that_says_done(catalog: Catalog, server: RestServer):
    schema = pa.schema([pa.field("day", pa.date32()), pa.field("hour", pa.int32()), *SCHEMA])
    options = {"partition.mark-done-action": "done-partition,success-file"}
    table = catalog.create_table("db.days", schema=schema, partition_keys=["day", "hour"], options=options)

    done = table.mark_partition_done({"day": "2024-01-31", "hour": 7})

    assert done.reported == ("day=19753/hour=7",)
    assert len(done.files) == 1
    assert server.commits[-1] == {"added": [{"day": "19753", "hour": "7.done"}], "may be there": True}


def test_what_a_server_deletes_cannot_be_moved_aside(table):
    table.write(rows(1))
    table.write(rows(2))

    with pytest.raises(UnsupportedError, match="the server that manages"):
        table.rollback(snapshot=1, quarantine=True)
    assert ids(table) == [1, 2]


def test_the_server_learns_what_a_commit_changes_in_each_partition(catalog: Catalog, server: RestServer):
    schema = pa.schema([pa.field("day", pa.date32()), *SCHEMA])
    table = catalog.create_table("db.p", schema=schema, partition_keys=["day"])
    days = [date(2013, 1, 1), date(2013, 1, 1), None]
    table.write(pa.table({"day": days, "id": [1, 2, 3], "v": ["a", "b", "c"]}, schema))
    table.write(pa.table({"day": days[:1], "id": [9], "v": ["z"]}, schema), overwrite={})

    first, second = (commit["statistics"] for commit in server.commits)
    counts = {item["spec"]["day"]: (item["recordCount"], item["fileCount"]) for item in first}
    # The day's number, since `partition.legacy-name` is on.
    assert counts == {"15706": (2, 1), "__DEFAULT_PARTITION__": (1, 1)}
    assert [(item["recordCount"], item["fileCount"]) for item in second] == [(-1, 0)]


def test_a_branch_has_snapshots_of_its_own(catalog: Catalog, table, server: RestServer):
    table.write(rows(1))
    path = f"{server.options['uri']}/v1/lake/databases/db/tables/t/branches"
    httpx.post(path, json={"branch": "b"}, trust_env=False).raise_for_status()

    branch = catalog.table("db.t$branch_b")
    branch.write(rows(7))
    branch.write(rows(8))

    assert ids(branch) == sorted(table.to_arrow(branch="b")["id"].to_pylist()) == [7, 8]
    assert ids(table) == [1]
    assert branch.latest_snapshot_id() == 2
    assert "POST /v1/lake/databases/db/tables/t$branch_b/commit" in server.requests


def test_an_external_table_is_committed_by_its_files(catalog: Catalog, server: RestServer, tmp_path: Path):
    path = str(tmp_path / "outside" / "t")
    table = catalog.create_table("db.e", schema=SCHEMA, options={"path": path})
    table.write(rows(1))

    assert table.path == path
    assert ids(catalog.table("db.e")) == [1]
    assert server.commits == []


# ── authentication ──────────────────────────────────────────────────────────────────────────────


def test_a_token_authenticates_and_is_seen_nowhere(tmp_path: Path):
    with rest_server(tmp_path, token=TOKEN) as server:
        options = {**server.options, "token.provider": "bear", "token": TOKEN}
        catalog = Catalog(options=options)
        catalog.create_database("db")
        table = catalog.create_table("db.t", schema=SCHEMA)
        table.write(rows(1))
        with pytest.raises(NotFoundError) as absent:
            catalog.table("db.u")

        with pytest.raises(StorageError, match="401: Who are you") as raised:
            Catalog(options={**options, "token": "falsch-und-geheim"})

    shown = repr(
        (catalog, table, table._handle, catalog._metastore, table._handle.snapshot_service, raised.value, absent.value)
    )
    assert "geheim" not in shown


def test_a_token_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKE_TOKEN", TOKEN)
    with rest_server(tmp_path, token=TOKEN) as server:
        catalog = Catalog(options={**server.options, "token.provider": "bear"}, secrets={"token": "LAKE_TOKEN"})

        assert catalog.list_databases() == []


def test_missing_or_unknown_proofs_are_named(server: RestServer):
    for more, error, message in [
        ({"token": "t"}, InvalidArgumentError, "needs 'token.provider' = 'bear'"),
        ({"token.provider": "bear"}, InvalidArgumentError, "needs the option 'token'"),
        ({"token.provider": "oauth"}, UnsupportedError, "'token.provider' = 'oauth' is not supported"),
        ({"token.provider": "dlf"}, InvalidArgumentError, "needs 'dlf.access-key-id'"),
        (
            {"token.provider": "dlf", "dlf.access-key-id": "k", "dlf.access-key-secret": "s"},
            InvalidArgumentError,
            "needs the option 'dlf.region'",
        ),
        (
            {"token.provider": "dlf", "dlf.region": "cn-x", "dlf.signing-algorithm": "openapi-v4"},
            UnsupportedError,
            "'openapi-v4' is not supported",
        ),
        ({"token.provider": "dlf", "dlf.region": "cn-x"}, InvalidArgumentError, "needs 'dlf.access-key-id'"),
        ({"dlf.token-loader": "ecs"}, UnsupportedError, "'dlf.token-loader' is not supported"),
    ]:
        with pytest.raises(error, match=message):
            Catalog(options={**server.options, **more})


def test_a_server_that_is_not_there_is_named(server: RestServer):
    with pytest.raises(StorageError, match=r"127.0.0.1:1/v1/config: no connection"):
        Catalog(options={**server.options, "uri": "127.0.0.1:1"})


def test_what_a_server_does_not_offer_is_refused(catalog: Catalog):
    with pytest.raises(UnsupportedError, match="'type' = 'object-table'"):
        catalog.create_table("db.o", schema=SCHEMA, options={"type": "object-table"})


# ── pypaimon ────────────────────────────────────────────────────────────────────────────────────


def test_pypaimon_and_we_share_the_tables_of_a_server(pypaimon: PyPaimon, tmp_path: Path):
    with rest_server(tmp_path, token=TOKEN, page_size=2) as server:
        options = {**server.options, "token.provider": "bear", "token": TOKEN}
        theirs = InCatalog(options, "db.theirs")
        pypaimon.create(theirs, SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        pypaimon.append(theirs, rows(1, 2), rows(2, 3, v="w"))
        catalog = Catalog(options=options)
        table = catalog.table("db.theirs")

        assert table.to_arrow().sort_by("id")["v"].to_pylist() == ["v1", "w2", "w3"]
        table.write(rows(9))
        table.compact(full=True)
        pypaimon.append(theirs, rows(10))
        assert pypaimon.read(theirs).sort_by("id") == table.to_arrow().sort_by("id")
        assert ids(table) == [1, 2, 3, 9, 10]

        ours = catalog.create_table("db.ours", schema=SCHEMA, primary_keys=["id"], options={"bucket": 2})
        ours.write(rows(1, 2, 3))
        pypaimon.append(InCatalog(options, "db.ours"), rows(4))
        ours.write(rows(5))
        assert pypaimon.read(InCatalog(options, "db.ours")).sort_by("id") == ours.to_arrow().sort_by("id")
        assert pypaimon.ask(options, "list_tables", "db") == catalog.list_tables("db") == ["ours", "theirs"]
        assert [check_table(item._handle) for item in (table, ours)] == [[], []]


# ── lent credentials ────────────────────────────────────────────────────────────────────────────


@pytest.mark.s3
def test_data_is_reached_with_what_the_server_lends(tmp_path: Path, lent_store: dict[str, str]):
    overrides = {"data-token.enabled": "true"}
    with rest_server(tmp_path, overrides=overrides, lend=lent_store, store="s3://lent/rest") as server:
        catalog = Catalog(options=server.options)
        catalog.create_database("db")
        table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
        table.write(rows(1, 2))
        table.write(rows(2, 3))
        table.compact(full=True)

        assert table.path.startswith("s3://lent/rest/db.db/t")
        assert ids(catalog.table("db.t")) == [1, 2, 3]
        assert server.requests.count("GET /v1/lake/databases/db/tables/t/token") == 1
        assert "lent-secret" not in repr(table._handle.config)
        assert check_table(table._handle) == []


def test_data_in_oss_is_reached_with_what_the_server_lends(tmp_path: Path, cloud_server: CloudServer):
    """As DLF lends it; names that are not known yet are left out."""
    lent = {**cloud_server.options["oss"], "fs.oss.securityToken": "lent-token", "fs.oss.newer": "x"}
    overrides, store = {"data-token.enabled": "true"}, f"oss://lake/{tmp_path.name}"
    with rest_server(tmp_path, overrides=overrides, lend=lent, store=store, proxy=cloud_server.proxy) as server:
        catalog = Catalog(options=server.options)
        catalog.create_database("db")
        table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
        table.write(rows(1, 2))
        table.write(rows(2, 3))
        table.compact(full=True)

        assert table.path.startswith(f"{store}/db.db/t")
        assert ids(catalog.table("db.t")) == [1, 2, 3]
        assert "oss-secret" not in repr(table._handle.config)
        assert check_table(table._handle) == []
