"""One tag per day: which day does a DAG run stand for?

In this order:

1. The partition key of the run, if it is a date. Schedules such as `CronPartitionTimetable(run_offset=-1,
   key_format="%Y-%m-%d")` name the day of the data themselves; backfills of such DAGs use the same dates.
2. Its partition date, where the key is written in another way.
3. The start of the run's data interval, else its logical date, as a date in the DAG's time zone.
   With `CronDataIntervalTimetable` that is the day of the data. With Airflow 3's plain cron schedules (`@daily`)
   the interval is empty: that is the day on which the run fires, so a run at midnight, meant for the day before,
   carries the next day's date. Use 1. to name the day before.

`{{ ds }}` is never used: it is UTC whatever the DAG's time zone, and does not exist in partitioned or manual runs.
Runs more often than daily share the tag of their day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

from paimon_engine import InvalidArgumentError

_DATE_KEY: Final = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(T00:00(:00(\.0+)?)?(Z|[+-]\d{2}:?\d{2})?)?")


def tag_of(context: Mapping[str, Any]) -> str:
    """Name of the tag for the day that the run of this task context stands for, such as `2013-01-05`.

    Raises: InvalidArgumentError if the run stands for no day.
    """
    run = context.get("dag_run")
    zone = getattr(context.get("dag"), "timezone", None)

    def at_home(name: str) -> datetime | None:
        moment = getattr(run, name, None) or context.get(name)
        return moment.astimezone(zone) if isinstance(moment, datetime) and zone is not None else moment

    key = getattr(run, "partition_key", None) or context.get("partition_key")
    return tag_for(key, at_home("partition_date") or at_home("data_interval_start") or at_home("logical_date"))


def tag_for(partition_key: str | None, moment: datetime | None) -> str:
    """Name of the tag for a run with this key, or else with this date in the DAG's time zone.

    Raises: InvalidArgumentError if they tell no day.
    """
    day = _day_of_key(partition_key)
    if day is None:
        day = moment.date() if moment is not None else None
    if day is None:
        key = f"its partition key {partition_key!r} is no date" if partition_key else "it has no partition key"
        raise InvalidArgumentError(
            f"This run stands for no day: {key}, and it has no logical date. Give tag=..., start the run with a "
            'logical date, or schedule the DAG by CronPartitionTimetable(..., key_format="%Y-%m-%d")'
        )
    return day.isoformat()


def _day_of_key(key: str | None) -> date | None:
    """Day of a partition key: a date, or the midnight that begins it."""
    match = _DATE_KEY.fullmatch(key or "")
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None
