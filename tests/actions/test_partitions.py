"""Partitions: dropped by name, expired by time, marked as done; held against Java where it is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import (
    Catalog,
    InvalidArgumentError,
    PaimonError,
    SetOption,
    Table,
    UnsupportedError,
    open_table,
)
from paimon_engine.action import Context
from paimon_engine.actions.drop_partition import DropPartition, ExpirePartitions, expire_partitions
from paimon_engine.arrow_types import from_arrow
from paimon_engine.executor import LocalExecutor
from paimon_engine.format.binary_row import internal_values
from paimon_engine.jobs import Job, TableRef, run
from paimon_engine.meta.partition_time import partition_time
from paimon_engine.storage import Storage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import DataField, RowType
from paimon_engine.units import DAY_MS
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.string()), ("hour", pa.int32())])


def make(tmp_path: Path, schema: pa.Schema = SCHEMA, **options: str) -> Table:
    keys = [name for name in schema.names if name != "k"]
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return Catalog(str(tmp_path / "lake")).create_table(
        "db.t", schema=schema, partition_keys=keys, options={"bucket": "-1", **named}
    )


def rows(*found: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in found], schema)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make(tmp_path)
    made.write(rows((1, "2024-01-01", 1), (2, "2024-01-01", 2), (3, "2024-01-02", 1), (4, None, 1)))
    return made


def at(*numbers: int) -> datetime:
    return datetime(*numbers, tzinfo=UTC)  # type: ignore[misc, arg-type]


def left(table: Table) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


# ── drop ────────────────────────────────────────────────────────────────────────────────────────


def test_named_partitions_are_dropped_wholly_or_by_some_of_their_columns(table: Table) -> None:
    planned = table.drop_partition({"day": "2024-01-01", "hour": 2}, dry_run=True)
    assert (planned.status, left(table)) == ("dry_run", [1, 2, 3, 4])

    one = table.drop_partition({"day": "2024-01-01", "hour": "2"})

    assert (one.status, one.snapshot_id, one.rows, one.files) == ("committed", 2, 1, 1)
    assert one.partitions == planned.partitions == ({"day": "2024-01-01", "hour": "2"},)
    assert left(table) == [1, 3, 4]
    assert table.snapshots()["commit_kind"].to_pylist()[-1] == "OVERWRITE"
    table.drop_partition({"day": "__DEFAULT_PARTITION__"}, {"day": "2024-01-02"})
    assert left(table) == [1]
    assert table.drop_partition({"day": "2024-01-02"}).status == "noop"
    assert table.verify("rows").status == "sound"


def test_a_repeated_job_drops_once(table: Table) -> None:
    job = Job(TableRef(path=table.path), DropPartition([{"day": "2024-01-02"}]), "me")
    first = run(job)
    table.write(rows((5, "2024-01-02", 1)))

    again = run(Job.from_json(job.to_json()))

    assert (first.status, again.status) == ("committed", "already_done")
    assert again.snapshot_id == first.snapshot_id
    assert left(table) == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "name the partitions"),
        ([{}], "not by nothing"),
        ([{"k": 1}], "not by 'k'"),
        ([{"hour": "soon"}], "not a value of partition column 'hour'"),
    ],
)
def test_what_names_no_partition_is_refused(table: Table, given: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        table.drop_partition(*given)
    assert left(table) == [1, 2, 3, 4]


def test_java_reads_what_is_left_and_drops_the_same(table: Table, oracle: JavaPaimon) -> None:
    table.create_tag("before")
    table.drop_partition({"day": "2024-01-01"})
    ours = sorted(row[0] for row in oracle.call("read", table=table.path)["rows"])
    table.rollback(tag="before")

    oracle.call("drop_partition", table=table.path, partitions=[{"day": "2024-01-01"}])

    assert ours == left(table) == [3, 4]


# ── expire ──────────────────────────────────────────────────────────────────────────────────────


def test_partitions_expire_by_their_values_and_what_is_not_a_time_is_reported(tmp_path: Path) -> None:
    table = make(tmp_path, partition__expiration_time="2 d", partition__timestamp_pattern="$day $hour:00:00")
    now = datetime.now(UTC)
    recent = f"{now - timedelta(days=1):%Y-%m-%d}"
    table.write(rows((1, "2024-01-01", 1), (2, recent, 3), (3, "yesterday", 1), (4, None, 1), (5, "2023-5-1", 7)))

    planned = table.expire_partitions(dry_run=True)
    one = table.expire_partitions(max_num=1)
    rest = table.expire_partitions()

    assert [item["day"] for item in planned.partitions] == ["2023-5-1", "2024-01-01"]
    assert [item["day"] for item in one.partitions] == ["2023-5-1"]
    assert "limit of 1 partitions" in one.stopped[-1]
    assert one.remaining > 0
    assert [item["day"] for item in rest.partitions] == ["2024-01-01"]
    assert len(rest.stopped) == 2
    assert "yesterday" in "".join(rest.stopped)
    assert rest.stopped[0].endswith("mean no time, pattern '$day $hour:00:00'")
    assert planned.why[1].startswith("2024-01-01 01:00:00 is before ")
    assert left(table) == [2, 3, 4]
    assert table.expire_partitions().status == "noop"


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms")])
def test_dates_and_timestamps_are_taken_as_they_are(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([("k", pa.int64()), ("day", kind)])
    table = make(tmp_path, schema, partition__expiration_time="2 d")
    old, new = date(2024, 1, 1), datetime.now(UTC).date() + timedelta(days=1)
    table.write(pa.table({"k": [1, 2], "day": pa.array([old, new]).cast(kind)}, schema))

    assert table.expire_partitions().rows == 1
    assert left(table) == [2]


def test_partitions_expire_by_their_newest_file(table: Table) -> None:
    assert table.expire_partitions("1 d", strategy="update-time").status == "noop"

    done = table.expire_partitions(timedelta(0), strategy="update-time")

    assert (done.status, done.rows) == ("committed", 4)
    assert left(table) == []


class Overtaken:
    """A store in which somebody acts just before snapshot 2 is made."""

    def __init__(self, inner: Storage, act: Callable[[], Any]) -> None:
        self._inner, self._act = inner, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create(self, path: str, data: bytes) -> bool:
        if path.endswith("/snapshot-2") and not self._inner.exists(path):
            self._act()
        return self._inner.create(path, data)


def a_day_later(table: Table, act: Callable[[Table], Any]) -> TableHandle:
    """The table by a clock that is a day ahead; somebody acts just before the next snapshot is made."""
    handle = table._handle
    tomorrow = replace(handle.env, clock=lambda: handle.env.clock() + DAY_MS)
    other = Table(replace(handle, env=tomorrow), LocalExecutor(1, env=tomorrow))
    store = Overtaken(tomorrow.storage, lambda: act(other))
    return replace(handle, env=replace(tomorrow, storage=store))


def test_a_partition_that_gets_rows_while_it_expires_by_its_newest_file_stays(table: Table) -> None:
    late = a_day_later(table, lambda other: other.write(rows((9, "2024-01-01", 1))))

    done = expire_partitions(Context(late), ExpirePartitions("12 h", "update-time"))

    assert (done.status, done.snapshot_id, done.rows) == ("committed", 3, 3)
    assert left(table) == [1, 9]
    assert table.verify("rows").status == "sound"


def test_a_partition_that_expires_by_its_values_takes_along_what_comes_in_meanwhile(table: Table) -> None:
    late = a_day_later(table, lambda other: other.write(rows((9, "2024-01-01", 1))))

    done = expire_partitions(Context(late), ExpirePartitions("12 h"))

    assert (done.status, done.snapshot_id) == ("committed", 3)
    assert left(table) == [4]


def test_the_limit_of_a_run_may_be_an_option(tmp_path: Path) -> None:
    table = make(tmp_path, partition__expiration_time="2 d", partition__expiration_max_num="1")
    table.write(rows((1, "2024-01-02", 1), (2, "2024-01-01", 1)))

    assert [item["day"] for item in table.expire_partitions().partitions] == ["2024-01-01"]
    other = make(tmp_path / "other", partition__expiration_time="2 d")
    for number, problem in (("few", "is not an integer"), ("0", "must be at least 1"), ("-1", "must be at least 1")):
        with pytest.raises(InvalidArgumentError, match=rf"'partition\.expiration-max-num' = '{number}'.* {problem}"):
            open_table(other.path, options={"partition.expiration-max-num": number}).expire_partitions()


FORMATTERS = [
    ("yyyy-MM-dd[ HH]", "'\\[' has a meaning in Java that is not supported"),
    ("{yyyy}-MM-dd", "'{' has a meaning in Java"),
    ("yyyy#MM", "'#' has a meaning in Java"),
    ("yyyy-MM-dd'", "has a quote that does not end"),
    ("EEE yyyy", "'EEE' is not supported"),
]


@pytest.mark.parametrize(("formatter", "problem"), FORMATTERS)
def test_a_formatter_that_cannot_be_used_is_refused(tmp_path: Path, formatter: str, problem: str) -> None:
    with pytest.raises(PaimonError, match=f"'partition.timestamp-formatter'.* {problem}"):
        make(tmp_path / "other", partition__timestamp_formatter=formatter)
    table = make(tmp_path)
    table.write(rows((1, "2024-01-02", 1)))

    with pytest.raises(PaimonError, match=problem):
        table.alter([SetOption("partition.timestamp-formatter", formatter)])
    stored = open_table(table.path, options={"partition.timestamp-formatter": formatter})
    assert stored.to_arrow().num_rows == 1
    with pytest.raises(PaimonError, match=problem):
        stored.expire_partitions("1 d")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition__expiration_time": "zz"}, "option 'partition.expiration-time': 'zz' is not a duration"),
        ({"partition__expiration_strategy": "foo"}, "'partition.expiration-strategy' = 'foo' is not supported"),
        ({"partition__expiration_max_num": "-1"}, "'partition.expiration-max-num' = '-1': it must be at least 1"),
    ],
)
def test_options_of_expiration_are_checked_when_the_table_is_created(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PaimonError, match=message):
        make(tmp_path, **options)


def test_expiry_without_an_age_partitions_or_a_known_strategy_is_refused(table: Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"partition\.expiration-time"):
        table.expire_partitions()
    with pytest.raises(UnsupportedError, match="custom"):
        table.expire_partitions("1 d", strategy="custom")
    with pytest.raises(UnsupportedError, match="'EEE'"):
        table.expire_partitions("1 d", timestamp_formatter="EEE yyyy")
    plain = make(tmp_path / "plain", pa.schema([("k", pa.int64())]))
    with pytest.raises(InvalidArgumentError, match="no partition columns"):
        plain.expire_partitions("1 d")


@pytest.mark.parametrize(
    ("text", "formatter", "expected"),
    [
        ("2024-01-31", None, at(2024, 1, 31)),
        ("2024-1-1 7:5:3", None, at(2024, 1, 1, 7, 5, 3)),
        ("2024-01-01 07:05:03.25", None, at(2024, 1, 1, 7, 5, 3, 250_000)),
        ("2024-13-01", None, at(2025, 1, 1)),
        ("2024-02-31", None, at(2024, 3, 2)),
        ("2024-01-01 25:00:00", None, at(2024, 1, 2, 1)),
        ("2024-01-01 07", None, None),
        ("20240131", None, None),
        ("20240131", "yyyyMMdd", at(2024, 1, 31)),
        ("20240231", "yyyyMMdd", at(2024, 2, 29)),
        ("20241301", "yyyyMMdd", None),
        ("240131", "yyMMdd", at(2024, 1, 31)),
        ("2024/1/2 03", "yyyy/M/d HH", at(2024, 1, 2, 3)),
        ("2024-01-02T03:04", "yyyy-MM-dd'T'HH:mm", at(2024, 1, 2, 3, 4)),
        ("202401", "yyyyMM", None),
    ],
)
def test_texts_are_read_as_times_as_in_java(text: str, formatter: str | None, expected: datetime | None) -> None:
    columns = RowType((DataField(0, "p", from_arrow(pa.string())),))

    assert partition_time(columns, [text], pattern=None, formatter=formatter) == expected


def test_a_pattern_names_columns_by_their_complete_names() -> None:
    columns = RowType(
        (
            DataField(0, "d", from_arrow(pa.string())),
            DataField(1, "dh", from_arrow(pa.int32())),
            DataField(2, "t", from_arrow(pa.date32())),
        )
    )
    values = ["20240102", 3, internal_values(pa.array([date(2020, 5, 6)]), from_arrow(pa.date32()))[0]]

    def time_of(pattern: str, formatter: str | None) -> datetime | None:
        return partition_time(columns, values, pattern=pattern, formatter=formatter)

    assert time_of("$d $dh", "yyyyMMdd H") == at(2024, 1, 2, 3)
    assert time_of("$t $dh:00:00", None) == at(2020, 5, 6, 3)
    assert time_of("$nothing", None) is None


# ── done ────────────────────────────────────────────────────────────────────────────────────────


def test_partitions_are_marked_as_done_and_the_first_time_is_kept(table: Table) -> None:
    begun = datetime.now(UTC).timestamp() * 1000 - 1

    (path,) = table.mark_partition_done({"hour": 1, "day": "2024-01-01"}).files
    first = json.loads(Path(path).read_text())
    table.mark_partition_done({"hour": 1, "day": "2024-01-01"})
    second = json.loads(Path(path).read_text())

    assert path == f"{table.path}/day=2024-01-01/hour=1/_SUCCESS"
    assert begun <= first["creationTime"] == first["modificationTime"]
    assert second["creationTime"] == first["creationTime"] <= second["modificationTime"]
    assert left(table) == [1, 2, 3, 4]
    assert table.remove_orphan_files(older_than=datetime.now(UTC)).deleted == ()
    assert Path(path).exists()


def test_the_name_of_the_default_partition_is_the_text_where_only_that_is_there(tmp_path: Path) -> None:
    table = make(tmp_path)
    name = "__DEFAULT_PARTITION__"
    schema = table.arrow_schema
    rows = [{"day": name, "hour": 1, "k": 1}, {"day": None, "hour": 1, "k": 2}, {"day": "x", "hour": 1, "k": 3}]
    table.write(pa.Table.from_pylist(rows, schema))

    with pytest.raises(InvalidArgumentError, match=r"two partitions.*None"):
        table.drop_partition({"day": name})
    assert left(table) == [1, 2, 3]
    table.drop_partition({"day": None})
    assert left(table) == [1, 3]
    dropped = table.drop_partition({"day": name}, dry_run=True).partitions
    table.drop_partition({"day": name, "hour": 1})

    assert dropped == ({"day": name, "hour": "1"},)
    assert left(table) == [3]
    assert table.drop_partition({"day": name}).status == "noop"


@pytest.mark.parametrize(
    ("ways", "why"),
    [
        ("done-partition", "Hive metastore"),
        ("custom", "Java class"),
        ("mark-event", "REST catalog"),
        ("success-file,shout", "'shout' is not a known action"),
    ],
)
def test_ways_that_need_java_or_a_server_are_refused_by_name(tmp_path: Path, ways: str, why: str) -> None:
    table = make(tmp_path, partition__mark_done_action=ways)

    with pytest.raises(UnsupportedError, match=why):
        table.mark_partition_done({"day": "2024-01-01", "hour": 1})
    assert not list(Path(table.path).rglob("_SUCCESS"))


def test_a_mark_needs_the_complete_partition_and_a_way_that_is_known(table: Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="needs a value for hour"):
        table.mark_partition_done({"day": "2024-01-01"})
    other = make(tmp_path / "other", partition__mark_done_action="success-file,done-partition")
    with pytest.raises(UnsupportedError, match="done-partition"):
        other.mark_partition_done({"day": "2024-01-01", "hour": 1})


def test_an_overwrite_takes_the_name_of_the_default_partition_as_null_as_a_drop_does(table: Table) -> None:
    name = "__DEFAULT_PARTITION__"

    table.write(rows((5, None, 1)), overwrite={"day": name})
    assert left(table) == [1, 2, 3, 5]

    table.write(rows((6, name, 1)))
    with pytest.raises(InvalidArgumentError, match=r"two partitions"):
        table.write(rows((7, name, 1)), overwrite={"day": name})
    table.drop_partition({"day": None})
    table.write(rows((7, name, 1)), overwrite={"day": name})
    assert left(table) == [1, 2, 3, 7]
