"""The facade as people type it, on memory storage."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from paimon_engine import (
    Catalog,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    Table,
    UnsupportedError,
    open_table,
)
from paimon_engine.env import EnvConfig
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table

SCHEMA = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("flight", pa.int64(), nullable=False),
        pa.field("delay", pa.float64()),
    ]
)
FIRST, SECOND = date(2013, 1, 1), date(2013, 1, 2)


def rows(day: date, *delays: float | None) -> pa.Table:
    """Flights 0, 1, … of a day."""
    return pa.table({"day": [day] * len(delays), "flight": list(range(len(delays))), "delay": list(delays)}, SCHEMA)


def delays(table: Table, **how: Any) -> dict[tuple[date, int], float | None]:
    return {(row["day"], row["flight"]): row["delay"] for row in table.to_arrow(**how).to_pylist()}


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(f"memory://{uuid.uuid4()}/lake")


@pytest.fixture
def departures(catalog: Catalog):
    table = catalog.create_table(
        "flights.departures", schema=SCHEMA, primary_keys=["day", "flight"], options={"bucket": 2}
    )
    yield table
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []


@pytest.fixture
def by_day(catalog: Catalog):
    table = catalog.create_table(
        "flights.by_day", schema=SCHEMA, primary_keys=["day", "flight"], partition_keys=["day"], options={"bucket": 1}
    )
    yield table
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []


# ── catalog ─────────────────────────────────────────────────────────────────────────────────────


def test_a_new_warehouse_is_empty(catalog: Catalog):
    assert catalog.list_databases() == []

    with pytest.raises(NotFoundError, match="no database 'flights'"):
        catalog.list_tables("flights")


def test_created_tables_are_listed(catalog: Catalog):
    catalog.create_table("b.t", schema=SCHEMA)
    catalog.create_table("a.second", schema=SCHEMA)
    catalog.create_table("a.first", schema=SCHEMA)

    assert catalog.list_databases() == ["a", "b"]
    assert catalog.list_tables("a") == ["first", "second"]


def test_creating_a_table_twice_needs_saying_so(catalog: Catalog):
    catalog.create_table("db.t", schema=SCHEMA)

    with pytest.raises(ConflictError, match="if_not_exists=True"):
        catalog.create_table("db.t", schema=SCHEMA)
    assert catalog.create_table("db.t", schema=SCHEMA, if_not_exists=True).latest_snapshot_id() is None


def test_a_dropped_table_does_not_exist(catalog: Catalog):
    catalog.create_table("db.other", schema=SCHEMA)
    catalog.create_table("db.t", schema=SCHEMA).write(rows(FIRST, 1.0))

    catalog.drop_table("db.t")

    assert catalog.list_tables("db") == ["other"]
    with pytest.raises(NotFoundError):
        catalog.drop_table("db.t")
    catalog.drop_table("db.t", if_exists=True)


@pytest.mark.parametrize(
    "name", ["t", "a.b.c", ".t", "db.", "db.x/y", "../db.t", "db.t$", "db.$files", "db.t$a$b", "db.t$branch_"]
)
def test_a_table_name_is_database_dot_table(catalog: Catalog, name: str):
    with pytest.raises(InvalidArgumentError):
        catalog.table(name)


def test_a_table_opens_by_its_path(departures: Table):
    departures.write(rows(FIRST, 1.0))

    assert open_table(departures.path + "/").to_arrow().num_rows == 1
    assert repr(departures).startswith("Table('memory://")


def test_an_option_that_the_engine_lacks_is_refused_at_creation(catalog: Catalog):
    options = {"bucket": 1, "metadata.iceberg-compatible": "true"}
    with pytest.raises(UnsupportedError, match=r"metadata\.iceberg-compatible"):
        catalog.create_table("db.t", schema=SCHEMA, primary_keys=["day", "flight"], options=options)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_table_reads_as_no_rows(departures: Table):
    assert departures.to_arrow().schema == departures.arrow_schema
    assert departures.to_arrow().num_rows == 0
    assert departures.latest_snapshot_id() is None


def test_the_newest_row_of_a_key_counts(departures: Table):
    result = departures.write(rows(FIRST, 1.0, 2.0))
    departures.write(rows(FIRST, 9.0))

    assert (result.status, result.snapshot_id, result.rows) == ("committed", 1, 2)
    assert delays(departures) == {(FIRST, 0): 9.0, (FIRST, 1): 2.0}


def test_row_kinds_delete_and_update(departures: Table):
    departures.write(rows(FIRST, 1.0, 2.0, 3.0))
    departures.write(rows(FIRST, 1.0, 5.0), row_kinds=["-D", "+U"])

    assert delays(departures) == {(FIRST, 1): 5.0, (FIRST, 2): 3.0}


def test_row_kinds_may_be_a_column(departures: Table):
    departures.write(rows(FIRST, 1.0, 2.0))
    kinds = rows(FIRST, 1.0, 2.0).append_column("kind", pa.array(["-D", "+I"]))

    departures.write(kinds, row_kinds="kind")

    assert delays(departures) == {(FIRST, 1): 2.0}


@pytest.mark.parametrize("kinds", [["+I"], ["+I"] * 3, ["+I", "x"]])
def test_row_kinds_must_fit_the_rows(departures: Table, kinds: list[str]):
    with pytest.raises(InvalidArgumentError):
        departures.write(rows(FIRST, 1.0, 2.0), row_kinds=kinds)

    assert departures.latest_snapshot_id() is None


class OfAnotherLibrary:
    """Rows in one of the two forms in which libraries hand Arrow data to each other."""

    def __init__(self, rows: Any, method: str) -> None:
        setattr(type(self), method, lambda _, requested_schema=None: getattr(rows, method)(requested_schema))


class Stream(OfAnotherLibrary):
    pass


class Array(OfAnotherLibrary):
    pass


@pytest.mark.parametrize(
    "form",
    [
        lambda t: t,
        lambda t: t.to_batches()[0],
        lambda t: t.to_reader(),
        lambda t: t.to_pandas(),
        lambda t: Stream(t, "__arrow_c_stream__"),
        lambda t: Array(t.to_batches()[0], "__arrow_c_array__"),
        lambda t: t.to_struct_array(),
    ],
    ids=["table", "batch", "reader", "pandas", "stream", "array", "structs"],
)
def test_rows_come_in_any_arrow_form(departures: Table, form: Callable[[pa.Table], Any]):
    departures.write(form(rows(FIRST, 1.0)))

    assert delays(departures) == {(FIRST, 0): 1.0}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ([{"day": FIRST}], "cannot write a list.*from_pylist"),
        ({"day": [FIRST]}, r"cannot write a dict.*pa.table\(columns\)"),
        ((batch for batch in []), "cannot write a generator.*from_batches"),
        ("rows.parquet", "cannot write a str"),
        (None, "cannot write a NoneType"),
        (pa.array([1]), "cannot write this Int64Array"),
        (pa.chunked_array([[1]]), "cannot write this ChunkedArray"),
        (pd.DataFrame({"day": [1, "x"]}), "cannot write this DataFrame"),
    ],
)
def test_rows_in_no_arrow_form_are_refused(departures: Table, data: Any, reason: str):
    with pytest.raises(InvalidArgumentError, match=reason):
        departures.write(data)


def test_writing_nothing_makes_no_snapshot(departures: Table):
    assert departures.write(rows(FIRST)).status == "noop"
    assert departures.latest_snapshot_id() is None


def test_a_named_write_commits_once(departures: Table):
    first = departures.write(rows(FIRST, 1.0), commit_user="dag-run-1")
    departures.write(rows(FIRST, 2.0), commit_user="dag-run-2")
    again = departures.write(rows(FIRST, 1.0), commit_user="dag-run-1")

    assert (again.status, again.snapshot_id) == ("already_done", first.snapshot_id)
    assert delays(departures) == {(FIRST, 0): 2.0}
    assert departures.latest_snapshot_id() == 2


def test_overwrite_replaces_the_partitions_that_rows_come_for(by_day: Table):
    by_day.write(pa.concat_tables([rows(FIRST, 1.0, 2.0), rows(SECOND, 3.0)]))

    by_day.write(rows(FIRST, 7.0), overwrite={})

    assert delays(by_day) == {(FIRST, 0): 7.0, (SECOND, 0): 3.0}


def test_overwrite_replaces_the_partition_that_is_named(by_day: Table):
    by_day.write(pa.concat_tables([rows(FIRST, 1.0, 2.0), rows(SECOND, 3.0)]))

    by_day.write(rows(SECOND), overwrite={"day": "2013-01-02"})

    assert delays(by_day) == {(FIRST, 0): 1.0, (FIRST, 1): 2.0}


def test_overwrite_of_a_table_without_partitions_replaces_all(departures: Table):
    departures.write(rows(FIRST, 1.0, 2.0))

    departures.write(rows(SECOND, 3.0), overwrite={})

    assert delays(departures) == {(SECOND, 0): 3.0}


@pytest.mark.parametrize(
    ("overwrite", "message"),
    [
        ({"flight": 1}, "cannot overwrite by flight"),
        ({"day": "no day"}, "no day"),
        ({"day": SECOND}, "outside the partition to be overwritten, {'day': '2013-01-02'}"),
    ],
)
def test_an_overwrite_that_cannot_be_meant_leaves_no_file(by_day: Table, overwrite: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        by_day.write(rows(FIRST, 1.0), overwrite=overwrite)

    storage = EnvConfig(by_day.path).build().storage
    assert [info.path for info in storage.walk(by_day.path) if info.path.endswith(".parquet")] == []


def test_columns_and_condition_choose_what_is_read(departures: Table):
    departures.write(rows(FIRST, 1.0, 20.0, None))

    found = departures.to_arrow(columns=["delay", "flight"], where="delay > 15 AND day = '2013-01-01'")

    assert found.to_pylist() == [{"delay": 20.0, "flight": 1}]


def test_a_stream_gives_the_same_rows(departures: Table):
    departures.write(rows(FIRST, 1.0, 2.0))

    assert departures.to_batches(["delay"]).read_all().equals(departures.to_arrow(["delay"]))


@pytest.mark.parametrize(
    "words", [{"time_retained": timedelta(days=2)}, {"time_retained": "2 d"}, {"time_retained": 172_800_000}]
)
def test_a_tag_is_kept_for_a_time_however_that_is_said(departures: Table, words: dict[str, Any]) -> None:
    departures.write(rows(FIRST, 1.0))
    departures.create_tag("kept", **words)

    assert departures.tags("kept")["time_retained"].to_pylist() == ["PT48H"]


@pytest.mark.parametrize(
    "words",
    [{"time_retained": "soon"}, {"time_retained": timedelta(0)}, {"time_retained": 0}],
)
def test_a_time_that_cannot_be_kept_is_refused(departures: Table, words: dict[str, Any]) -> None:
    departures.write(rows(FIRST, 1.0))

    with pytest.raises(InvalidArgumentError):
        departures.create_tag("kept", **words)


def test_time_travel_by_snapshot_tag_and_time(departures: Table):
    departures.write(rows(FIRST, 1.0))
    departures.create_tag("first")
    departures.write(rows(FIRST, 2.0))
    committed = departures.snapshots()["commit_time"][0].as_py().replace(tzinfo=UTC)

    for how in ({"snapshot": 1}, {"tag": "first"}, {"timestamp": committed}):
        assert delays(departures, **how) == {(FIRST, 0): 1.0}
    assert delays(departures) == {(FIRST, 0): 2.0}
    with pytest.raises(NotFoundError):
        departures.to_arrow(timestamp=datetime(2000, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidArgumentError):
        departures.to_arrow(snapshot=1, tag="first")


def test_a_limit_stops_reading(catalog: Catalog):
    log = catalog.create_table("db.log", schema=SCHEMA)
    for day in (FIRST, SECOND):
        log.write(rows(day, 1.0, 2.0))
    storage = EnvConfig(log.path).build().storage
    storage.delete([log.files()["file_path"][1].as_py()])

    assert log.to_arrow(limit=1)["day"].to_pylist() == [FIRST]
    assert log.to_batches(limit=2).read_all().num_rows == 2
    assert log.to_arrow(limit=0).num_rows == 0
    with pytest.raises(NotFoundError):
        log.to_arrow(limit=3)
    with pytest.raises(InvalidArgumentError, match="limit=-1"):
        log.to_arrow(limit=-1)


# ── maintenance ─────────────────────────────────────────────────────────────────────────────────


def test_full_compaction_keeps_the_rows_and_says_what_it_did(departures: Table):
    for delay in range(3):
        departures.write(rows(FIRST, *[float(delay)] * 50))
    before = delays(departures)

    result = departures.compact(full=True)

    assert (result.status, result.snapshot_id) == ("committed", 4)
    assert (result.files_before, result.files_after) == (6, 2)
    assert (result.rows_before, result.rows_after) == (150, 50)
    assert result.bytes_before > result.bytes_after == sum(bucket.bytes_after or 0 for bucket in result.buckets)
    assert delays(departures) == before
    again = departures.compact(full=True)
    assert again.status == "noop"
    assert all(bucket.skipped for bucket in again.buckets)


def test_a_dry_run_plans_and_writes_nothing(departures: Table):
    departures.write(rows(FIRST, 1.0))
    departures.write(rows(FIRST, 2.0))

    result = departures.compact(full=True, dry_run=True)

    assert (result.status, result.snapshot_id) == ("dry_run", None)
    assert any(bucket.rewritten_bytes and bucket.memory_bytes and bucket.reason for bucket in result.buckets)
    assert departures.latest_snapshot_id() == 2


def test_compaction_of_chosen_partitions_leaves_the_others(by_day: Table):
    for delay in (1.0, 2.0):
        by_day.write(pa.concat_tables([rows(FIRST, delay), rows(SECOND, delay)]))

    result = by_day.compact(full=True, where="day = '2013-01-02'")

    assert [bucket.partition for bucket in result.buckets] == [{"day": "2013-01-02"}]
    assert by_day.files().num_rows == 3
    with pytest.raises(InvalidArgumentError, match="partition columns only"):
        by_day.compact(where="delay > 1")


def test_a_named_compaction_commits_once(departures: Table):
    departures.write(rows(FIRST, 1.0))
    departures.write(rows(FIRST, 2.0))
    first = departures.compact(full=True, commit_user="night")
    departures.write(rows(FIRST, 3.0))

    again = departures.compact(full=True, commit_user="night")

    assert (again.status, again.snapshot_id) == ("already_done", first.snapshot_id)


def test_tags_keep_what_expiry_would_delete(departures: Table):
    departures.write(rows(FIRST, 1.0))
    departures.create_tag("kept")
    for delay in (2.0, 3.0):
        departures.write(rows(FIRST, delay))
        departures.compact(full=True)

    planned = departures.expire_snapshots(retain_max=1, retain_min=1, dry_run=True)
    result = departures.expire_snapshots(retain_max=1, retain_min=1)

    assert planned.expired_snapshots == result.expired_snapshots == (1, 2, 3, 4)
    assert planned.bytes_deleted == result.bytes_deleted > 0
    assert departures.snapshots()["snapshot_id"].to_pylist() == [5]
    assert delays(departures, tag="kept") == {(FIRST, 0): 1.0}
    assert delays(departures) == {(FIRST, 0): 3.0}
    departures.delete_tag("kept")
    assert departures.tags().num_rows == 0


def test_rollback_makes_an_earlier_snapshot_the_latest(departures: Table):
    departures.write(rows(FIRST, 1.0))
    departures.write(rows(FIRST, 2.0))

    assert departures.rollback(snapshot=1).snapshot_id == 1

    assert departures.latest_snapshot_id() == 1
    assert delays(departures) == {(FIRST, 0): 1.0}
    assert departures.write(rows(FIRST, 3.0)).snapshot_id == 2


def test_system_tables_show_snapshots_files_and_tags(departures: Table):
    departures.write(rows(FIRST, 1.0, 2.0), commit_user="me")
    departures.create_tag("t")

    [snapshot] = departures.snapshots().to_pylist()
    assert (snapshot["snapshot_id"], snapshot["commit_user"], snapshot["total_record_count"]) == (1, "me", 2)
    assert sum(departures.files()["record_count"].to_pylist()) == 2
    assert departures.files(tag="t").num_rows == departures.files().num_rows
    [tag] = departures.tags().to_pylist()
    assert (tag["tag_name"], tag["snapshot_id"], tag["record_count"]) == ("t", 1, 2)


def test_options_may_be_laid_over_the_stored_ones(catalog: Catalog, departures: Table):
    table = catalog.table("flights.departures", {"write-buffer-size": "1 mb"})

    assert table.schema.options["write-buffer-size"] == "1 mb"
    assert "write-buffer-size" not in departures.schema.options


def test_an_append_table_keeps_every_row(catalog: Catalog):
    table = catalog.create_table("db.log", schema=pa.schema([("amount", pa.decimal128(10, 2))]))
    for _ in range(2):
        table.write(pa.table({"amount": [Decimal("1.50")]}))

    assert table.to_arrow().to_pylist() == [{"amount": Decimal("1.50")}] * 2
    assert check_table(load_table(table.path, EnvConfig(table.path))) == []
