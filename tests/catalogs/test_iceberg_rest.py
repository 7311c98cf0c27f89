"""Tables in Iceberg's own REST catalog: what pyiceberg reads there, beside others and after failures."""

from __future__ import annotations

import itertools
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import CallbackError, Catalog, InvalidArgumentError, Table, UnsupportedError, open_table
from paimon_engine.errors import StorageError
from paimon_engine.servers import iceberg_rest
from paimon_engine.servers.iceberg_rest import _Server
from tests.support import iceberg
from tests.support.iceberg_rest import TOKEN, start_rest_catalog

pytestmark = [pytest.mark.java, pytest.mark.slow]

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string()), pa.field("p", pa.string())])
URI, SECRET = "metadata.iceberg.rest.uri", {"metadata.iceberg.rest.token": TOKEN}
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from start_rest_catalog(tmp_path_factory.mktemp("rest"))


@pytest.fixture
def db() -> str:
    return f"db{next(_NUMBERS)}"


def rows(begin: int, end: int) -> pa.Table:
    numbers = range(begin, end)
    return pa.table([list(numbers), [f"v{n}" for n in numbers], [f"p{n % 2}" for n in numbers]], schema=SCHEMA)


def made(folder: Path, db: str, server: str, *, by: str | None = "p", **options: str) -> Table:
    wanted = {"metadata.iceberg.storage": "rest-catalog", URI: server, "bucket": "-1", **options}
    partitions = [by] if by else []
    table = Catalog(str(folder)).create_table(f"{db}.t", schema=SCHEMA, partition_keys=partitions, options=wanted)
    return opened(table)


def opened(table: Table, **options: str) -> Table:
    return open_table(table.path, options={**SECRET, **options})


def there(server: str) -> Any:
    from pyiceberg.catalog.rest import RestCatalog

    return RestCatalog("there", uri=server, token=TOKEN)


def rows_seen(server: str, name: str) -> list[dict[str, Any]]:
    return iceberg.in_order(there(server).load_table(name).scan().to_arrow().to_pylist())


def check(server: str, name: str, table: Table) -> None:
    assert rows_seen(server, name) == iceberg.in_order(table.to_arrow().to_pylist())
    assert there(server).load_table(name).metadata.current_snapshot_id == table.latest_snapshot_id()


@pytest.mark.parametrize("by", [None, "p", "id"])
def test_icebergs_catalog_shows_the_table_after_each_action(by: str | None, server: str, db: str, tmp_path: Path):
    table = made(tmp_path, db, server, by=by)
    for step in range(3):
        table.write(rows(step * 3, step * 3 + 5))
        check(server, f"{db}.t", table)
    found = there(server).load_table(f"{db}.t")
    assert [one.snapshot_id for one in found.metadata.snapshots] == [1, 2, 3]
    assert [(one.field_id, one.name) for one in found.schema().fields] == [(0, "id"), (1, "v"), (2, "p")]
    assert [one.name for one in found.spec().fields] == ([by] if by else [])
    if by:
        assert found.scan(row_filter=f"{by} = {'1' if by == 'id' else repr('p1')}").to_arrow().num_rows > 0

    table.alter([{"change": "add_column", "name": "w", "type": "INT"}])
    table = opened(table)
    table.write(rows(20, 22).append_column("w", pa.array([1, 2], pa.int32())))
    check(server, f"{db}.t", table)
    table.create_tag("now")
    assert there(server).load_table(f"{db}.t").metadata.refs["now"].snapshot_id == 4
    table.delete_tag("now")
    assert set(there(server).load_table(f"{db}.t").metadata.refs) == {"main"}
    table.expire_snapshots(retain_max=1, retain_min=1)
    check(server, f"{db}.t", table)
    assert len(there(server).load_table(f"{db}.t").metadata.snapshots) == 1


def test_a_rollback_shows(server: str, db: str, tmp_path: Path):
    table = made(tmp_path, db, server)
    for step in range(3):
        table.write(rows(step, step + 1))
    table.rollback(snapshot=2)
    check(server, f"{db}.t", table)
    for step in (7, 8):
        table.write(rows(step, step + 1))
        check(server, f"{db}.t", table)


def test_other_names(server: str, db: str, tmp_path: Path):
    table = made(tmp_path, db, server, **{"metadata.iceberg.database": f"{db}x", "metadata.iceberg.table": "other"})
    table.write(rows(0, 4))
    check(server, f"{db}x.other", table)


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_table_of_somebody_else_stays(is_empty: bool, server: str, db: str, tmp_path: Path):
    table, catalog = made(tmp_path / "one", db, server), there(server)
    if is_empty:
        catalog.create_namespace(db)
        catalog.create_table(f"{db}.t", SCHEMA)
    else:
        made(tmp_path / "other", db, server).write(rows(7, 9))
    before = catalog.load_table(f"{db}.t").metadata
    with pytest.raises(CallbackError, match=r"ConflictError: .*it stays as it is"):
        table.write(rows(0, 2))
    assert catalog.load_table(f"{db}.t").metadata == before
    assert table.to_arrow().num_rows == 2

    catalog.drop_table(f"{db}.t")
    table.write(rows(2, 3))
    check(server, f"{db}.t", table)


def test_a_server_that_is_down_is_made_up_for(server: str, db: str, tmp_path: Path):
    table = made(tmp_path, db, server)
    table.write(rows(0, 2))
    down = opened(table, **{URI: "http://127.0.0.1:1"})
    for step in (2, 3):
        with pytest.raises(CallbackError, match="the Iceberg REST catalog at"):
            down.write(rows(step, step + 1))
    # What the catalog shows meanwhile can be read.
    assert [row["id"] for row in rows_seen(server, f"{db}.t")] == [0, 1]
    table = opened(table)
    table.write(rows(4, 5))
    check(server, f"{db}.t", table)
    assert len(there(server).load_table(f"{db}.t").metadata.snapshots) == 4
    metadata = tmp_path / "iceberg" / db / "t" / "metadata"
    assert {path.name for path in metadata.iterdir()} == iceberg.names(metadata)


def test_dropped_and_renamed_tables_leave_theirs(server: str, db: str, tmp_path: Path):
    catalog = Catalog(str(tmp_path))
    made(tmp_path, db, server).write(rows(0, 3))
    catalog.rename_table(f"{db}.t", f"{db}.u")
    table = opened(catalog.table(f"{db}.u"))
    table.write(rows(3, 5))
    check(server, f"{db}.u", table)
    assert there(server).load_table(f"{db}.t").metadata.current_snapshot_id == 1

    # A new table of the old name takes that of the catalog.
    table = made(tmp_path, db, server)
    table.write(rows(7, 9))
    check(server, f"{db}.t", table)
    catalog.drop_table(f"{db}.t")
    assert there(server).table_exists(f"{db}.t")


def test_a_table_without_our_mark_is_known_by_its_files(server: str, db: str, tmp_path: Path):
    table = made(tmp_path, db, server)
    table.write(rows(0, 2))
    with there(server).load_table(f"{db}.t").transaction() as change:
        change.remove_properties("paimon.path")
    table.write(rows(2, 4))
    check(server, f"{db}.t", table)
    assert there(server).load_table(f"{db}.t").properties["paimon.path"] == table.path


def test_without_the_client_nothing_is_written(db: str, tmp_path: Path, monkeypatch):
    iceberg_rest._library.cache_clear()
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.rest", None)
    table = made(tmp_path, db, "http://127.0.0.1:1")
    with pytest.raises(UnsupportedError, match=r"airflow-provider-paimon\[iceberg\]"):
        table.write(rows(0, 2))
    assert table.latest_snapshot_id() is None


@pytest.mark.parametrize("call", ["create", "commit", "drop"])
def test_a_lost_answer_is_looked_for(call: str, server: str, db: str, tmp_path: Path, monkeypatch):
    before, lost = getattr(_Server, call), []

    def call_and_lose(self: Any, *arguments: Any) -> Any:
        found = before(self, *arguments)
        if not lost:
            lost.append(call)
            raise StorageError("the answer was lost")
        return found

    monkeypatch.setattr(_Server, call, call_and_lose)
    table = made(tmp_path, db, server)
    failed = 0
    for step in range(3):
        try:
            table.write(rows(step, step + 1))
            if step == 1:
                table.rollback(snapshot=1)
        except CallbackError:
            failed += 1
    assert failed == len(lost) == 1
    table.write(rows(9, 10))
    check(server, f"{db}.t", table)


def test_two_writers(server: str, db: str, tmp_path: Path):
    table, failed = made(tmp_path, db, server), []

    def write(number: int) -> None:
        for step in range(4):
            try:
                opened(table).write(rows(number * 10 + step, number * 10 + step + 1))
            except CallbackError as error:
                failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        opened(table).write(rows(90, 91))
    check(server, f"{db}.t", opened(table))


def test_the_token_is_nowhere(server: str, db: str, tmp_path: Path, caplog):
    table = made(tmp_path, db, server)
    table.write(rows(0, 2))
    wrong = "another-token-that-is-wrong"
    with pytest.raises(CallbackError) as caught:
        opened(table, **{"metadata.iceberg.rest.token": wrong}).write(rows(2, 3))
    assert "".join(traceback.format_exception(caught.value)).count(wrong) == 0
    assert TOKEN not in caplog.text
    assert wrong not in caplog.text
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes(), path
    assert TOKEN not in there(server).load_table(f"{db}.t").metadata.model_dump_json()


@pytest.mark.parametrize("name", ["token", "credential", "auth.basic.password"])
def test_a_secret_is_not_stored(name: str, server: str, db: str, tmp_path: Path):
    option = f"metadata.iceberg.rest.{name}"
    with pytest.raises(InvalidArgumentError, match="would be stored"):
        made(tmp_path, db, server, **{option: "hush"})
    table = made(tmp_path, db, server)
    with pytest.raises(InvalidArgumentError, match="would be stored"):
        table.alter([{"change": "set_option", "key": option, "value": "hush"}])
