"""Reading through the facade: options of a read, branches, system tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, NotFoundError, Table, UnsupportedError, col, open_table
from tests.support.corpus import case

SCHEMA = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("flight", pa.int64(), nullable=False),
        pa.field("delay", pa.float64()),
    ]
)
FIRST = date(2013, 1, 1)


def rows(day: date, *delays: float | None) -> pa.Table:
    """Flights 0, 1, … of a day."""
    return pa.table({"day": [day] * len(delays), "flight": list(range(len(delays))), "delay": list(delays)}, SCHEMA)


def delays(table: Table, **how: Any) -> dict[tuple[date, int], float | None]:
    return {(row["day"], row["flight"]): row["delay"] for row in table.to_arrow(**how).to_pylist()}


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(f"memory://{uuid.uuid4()}/lake")


@pytest.fixture
def departures(catalog: Catalog) -> Table:
    return catalog.create_table(
        "flights.departures", schema=SCHEMA, primary_keys=["day", "flight"], options={"bucket": 2}
    )


# ── options of a read ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def thrice(departures: Table) -> Table:
    """Snapshots 1 (tag `first`), 2 and 3, of which 3 is a compaction; flight 0 is 1.0, then 2.0 late."""
    departures.write(rows(FIRST, 1.0))
    departures.create_tag("first")
    departures.write(rows(FIRST, 2.0))
    departures.compact(full=True)
    return departures


@pytest.mark.parametrize(
    ("options", "delay"),
    [
        ({"scan.snapshot-id": "1"}, 1.0),
        ({"scan.snapshot-id": 1}, 1.0),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}, 1.0),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}, 1.0),
        ({"scan.tag-name": "first"}, 1.0),
        ({"scan.version": "first"}, 1.0),
        ({"scan.version": "1"}, 1.0),
        ({"scan.mode": "latest-full"}, 2.0),
        ({"scan.mode": "compacted-full"}, 2.0),
        ({"branch": "main"}, 2.0),
        ({"source.split.target-size": "1 kb", "source.split.open-file-cost": "1 b"}, 2.0),
        ({"incremental-between": "0,1"}, 1.0),
        ({"scan.mode": "incremental", "incremental-between": "1,3"}, 2.0),
    ],
    ids=str,
)
def test_an_option_chooses_what_is_read(thrice: Table, options: dict[str, Any], delay: float):
    assert delays(thrice, options=options) == {(FIRST, 0): delay}


def test_times_may_be_options(thrice: Table):
    first, second = (moment.as_py().replace(tzinfo=UTC) for moment in thrice.snapshots()["commit_time"][:2])
    assert first < second

    local = first.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")
    assert delays(thrice, options={"scan.timestamp": local}) == {(FIRST, 0): 1.0}
    millis = int(first.timestamp() * 1000)
    assert delays(thrice, options={"scan.timestamp-millis": millis}) == {(FIRST, 0): 1.0}


def test_files_may_be_chosen_by_when_they_were_made(departures: Table):
    departures.write(rows(FIRST, 1.0))
    departures.write(rows(FIRST, None, 2.0))
    newest = max(departures.files()["creation_time"].to_pylist())
    later = round(newest.astimezone().timestamp() * 1000)

    assert delays(departures, options={"scan.file-creation-time-millis": 0}) == delays(departures)
    assert delays(departures, options={"scan.file-creation-time-millis": later + 1}) == {}
    found = delays(
        departures, options={"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": later}
    )
    assert found
    assert found.items() <= delays(departures).items()


def test_filters_may_be_expressions_everywhere(catalog: Catalog, thrice: Table):
    assert delays(thrice, where=(col("flight") == 0) & (col("delay") > 1)) == {(FIRST, 0): 2.0}
    assert thrice.to_batches(where=col("delay") < 1).read_all().num_rows == 0
    assert catalog.table("flights.departures$snapshots").to_arrow(where=col("snapshot_id").is_in([1, 2])).num_rows == 2
    assert catalog.table("flights.departures$audit_log").to_arrow(where=col("rowkind") == "+I").num_rows == 1
    with pytest.raises(InvalidArgumentError, match="partition columns only"):
        thrice.compact(where=col("delay") > 1)
    with pytest.raises(InvalidArgumentError, match="'late' does not fit column 'delay'"):
        thrice.to_arrow(where=col("delay") > "late")


def test_options_of_the_table_choose_unless_the_read_does(catalog: Catalog, thrice: Table):
    table = catalog.table("flights.departures", {"scan.snapshot-id": "1"})

    assert delays(table) == {(FIRST, 0): 1.0}
    assert delays(table, snapshot=2) == delays(table, options={"scan.mode": "full"}) == {(FIRST, 0): 2.0}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("merge-engine", "partial-update"),
        ("merge-engine", "deduplicate"),
        ("bucket", "3"),
        ("bucket-key", "flight"),
        ("primary-key", "day"),
        ("partition", "day"),
        ("sequence.field", "delay"),
        ("rowkind.field", "delay"),
        ("ignore-delete", "true"),
        ("path", "/elsewhere"),
        ("type", "format-table"),
    ],
)
def test_options_that_say_what_files_mean_cannot_be_chosen_on_opening(
    catalog: Catalog, thrice: Table, option: str, value: str
):
    for opened in (
        lambda: catalog.table("flights.departures", {option: value}),
        lambda: open_table(thrice.path, options={option: value}),
    ):
        with pytest.raises(InvalidArgumentError, match=f"'{option}' = '{value}' cannot be chosen .* leave it out"):
            opened()

    assert delays(open_table(thrice.path, options={"bucket": "2"})) == delays(thrice)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"options": {"scan.bounded.watermark": "7"}}, UnsupportedError, "'scan.bounded.watermark' is not honoured"),
        ({"options": {"scan.mode": "from-creation-timestamp"}}, InvalidArgumentError, "scan.creation-time-millis"),
        (
            {"options": {"incremental-to-auto-tag": "first"}},
            InvalidArgumentError,
            "'first' is not a name.*'1970-01-01'",
        ),
        ({"options": {"scan.mode": "from-file-creation-time"}}, InvalidArgumentError, "file-creation-time-millis"),
        ({"options": {"scan.mode": "newest"}}, InvalidArgumentError, "choose one of default, latest-full"),
        ({"options": {"scan.mode": "full", "scan.snapshot-id": "1"}}, InvalidArgumentError, "does not go with"),
        (
            {"options": {"scan.mode": "from-timestamp"}},
            InvalidArgumentError,
            "needs one of 'scan|scan.timestamp-millis",
        ),
        ({"options": {"scan.snapshot-id": "one"}}, InvalidArgumentError, "not an integer"),
        ({"options": {"scan.timestamp": "noon"}}, InvalidArgumentError, "'noon' is not a time"),
        ({"options": {"scan.version": "nope"}}, NotFoundError, "'nope' is not a tag"),
        ({"options": {"scan.watermark": "5"}}, NotFoundError, "reached the watermark 5"),
        ({"options": {"incremental-between": "1"}}, InvalidArgumentError, "write FROM,TO"),
        ({"options": {"incremental-between-scan-mode": "delta"}}, InvalidArgumentError, "add incremental="),
        ({"snapshot": 1, "options": {"scan.tag-name": "first"}}, InvalidArgumentError, "not several"),
        ({"snapshot": 1, "options": {"scan.snapshot-id": "2"}}, InvalidArgumentError, "given twice"),
        ({"snapshot": 1, "incremental": (1, 2)}, InvalidArgumentError, "not several"),
        ({"branch": "b", "options": {"branch": "c"}}, InvalidArgumentError, "give one"),
        ({"branch": "b"}, NotFoundError, "no branch 'b'"),
        ({"where": "rowkind = '+I'"}, InvalidArgumentError, "rowkind"),
        ({"columns": []}, InvalidArgumentError, r"columns=\[\]: name at least one column"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(thrice: Table, how: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        thrice.to_arrow(**how)


def test_row_kinds_may_be_all_that_is_read(thrice: Table):
    kinds = thrice.to_arrow([], with_row_kinds=True)
    assert kinds.schema.names == ["rowkind"]
    assert kinds.num_rows == thrice.to_arrow().num_rows


def test_a_branch_is_read_like_a_table():
    table = open_table(str(case("branches").table))
    branch = open_table(f"{case('branches').table}$branch_dev")

    rows_of_branch = table.to_arrow(branch="dev").sort_by("k")
    assert rows_of_branch.num_rows == 14
    assert rows_of_branch.schema.names == ["k", "a", "s", "extra"]
    assert branch.to_arrow().sort_by("k").equals(rows_of_branch)
    assert table.to_arrow(options={"branch": "dev"}).sort_by("k").equals(rows_of_branch)
    assert open_table(table.path, options={"branch": "dev"}).to_arrow().sort_by("k").equals(rows_of_branch)
    first = branch.snapshots()["snapshot_id"][0].as_py()
    assert table.to_arrow(branch="dev", snapshot=first).num_rows == branch.to_arrow(snapshot=first).num_rows


# ── system tables ───────────────────────────────────────────────────────────────────────────────


def test_a_system_table_is_read_like_a_table(catalog: Catalog, thrice: Table):
    snapshots = catalog.table("flights.departures$snapshots")

    assert snapshots.to_arrow().equals(thrice.snapshots())
    assert catalog.table("flights.departures$SNAPSHOTS").to_arrow().equals(thrice.snapshots()), "as Java takes it"
    found = snapshots.to_arrow(["commit_kind"], "snapshot_id > 1", limit=1)
    assert found.to_pylist() == [{"commit_kind": "APPEND"}]
    assert snapshots.to_batches().read_all().num_rows == 3
    assert snapshots.arrow_schema == thrice.snapshots().schema
    assert repr(snapshots).endswith("departures$snapshots')")
    assert open_table(f"{thrice.path}$tags").to_arrow().num_rows == 1


def test_tables_of_files_travel_in_time(catalog: Catalog, thrice: Table):
    files = catalog.table("flights.departures$files")

    assert files.to_arrow(["level"])["level"].to_pylist() == [5]
    assert files.to_arrow(["level"], tag="first")["level"].to_pylist() == [0]
    assert files.to_arrow(snapshot=2).num_rows == 2
    with pytest.raises(InvalidArgumentError, match="leave incremental out"):
        files.to_arrow(incremental=(1, 2))
    for how in ({"snapshot": 1}, {"incremental": (1, 2)}, {"options": {"scan.mode": "full"}}):
        with pytest.raises(InvalidArgumentError, match="the complete branch"):
            catalog.table("flights.departures$schemas").to_arrow(**how)


def test_the_read_optimized_table_shows_what_is_compacted(catalog: Catalog, thrice: Table):
    optimized = catalog.table("flights.departures$ro")
    thrice.write(rows(FIRST, 3.0))

    assert delays(optimized) == {(FIRST, 0): 2.0}
    assert delays(optimized, snapshot=2) == {}
    assert optimized.arrow_schema == thrice.arrow_schema


def test_the_audit_log_and_the_binlog_show_row_kinds(catalog: Catalog, departures: Table):
    departures.write(rows(FIRST, 1.0, 2.0), row_kinds=["+I", "-D"])

    log = catalog.table("flights.departures$audit_log")
    assert sorted(log.to_arrow()["rowkind"].to_pylist()) == ["+I", "-D"]
    assert log.to_arrow(["delay", "rowkind"], "flight = 1").to_pylist() == [{"delay": 2.0, "rowkind": "-D"}]
    binlog = catalog.table("flights.departures$binlog").to_arrow(where="flight = 0")
    assert binlog.to_pylist() == [{"rowkind": "+I", "day": [FIRST], "flight": [0], "delay": [1.0]}]
    assert departures.to_arrow(["flight"], with_row_kinds=True).to_pylist() == [{"rowkind": "+I", "flight": 0}]


@pytest.mark.parametrize("name", ["files", "audit_log", "snapshots"])
def test_a_system_table_is_read_with_a_column_at_least(catalog: Catalog, thrice: Table, name: str):
    """Rows without columns were left out, so that it seemed empty."""
    with pytest.raises(InvalidArgumentError, match="at least one column"):
        catalog.table(f"flights.departures${name}").to_arrow([])


def test_a_system_table_that_does_not_exist_is_named_with_those_that_do(catalog: Catalog, departures: Table):
    with pytest.raises(
        NotFoundError, match="system table 'nope' does not exist; these exist: aggregation_fields, audit_log, .*tags"
    ):
        catalog.table("flights.departures$nope")
    with pytest.raises(NotFoundError, match="there is no table"):
        catalog.table("flights.arrivals$files")


@pytest.mark.parametrize(
    "verb",
    [lambda t: t.write(rows(FIRST, 1.0)), lambda t: t.compact(), lambda t: t.create_tag("t"), lambda t: t.files()],
)
def test_a_system_table_can_only_be_read(catalog: Catalog, departures: Table, verb: Callable[[Table], Any]):
    with pytest.raises(UnsupportedError, match=r"\$files is a system table"):
        verb(catalog.table("flights.departures$files"))
