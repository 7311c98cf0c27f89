"""One tag per day: which day does a DAG run belong to, and when does that day end?

In this order:

1. The partition key of the run, if it is a date. Schedules such as `timetables.daily` name the day of the data
   themselves; backfills of such DAGs use the same dates, and manual runs take the key that they are started with.
2. Its partition date, where the key is written in another way.
3. The day on which the run's data interval begins, if that is more than an instant.
4. Else the day that had ended at the run's logical date: the one before it. So it is with Airflow 3's plain cron
   schedules (`@daily`): the run of the 21st at 02:00 belongs to the 20th.

Days are those of the time zone of the schedule, else of the DAG. `{{ ds }}` is never used: it is UTC in every time
zone, names the day that has just begun, and does not exist in partitioned runs. Runs more often than daily share the
tag of their day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from paimon_engine.errors import InvalidArgumentError

_DATE_KEY: Final = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(T00:00(:00(\.0+)?)?(Z|[+-]\d{2}:?\d{2})?)?")
_TAG: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY: Final = timedelta(days=1)


def tag_of(context: Mapping[str, Any]) -> str:
    """Name of the tag for the day that the run of this task context belongs to, such as `2013-01-05`.

    Raises: InvalidArgumentError if the run belongs to no day.
    """
    run, zone = context.get("dag_run"), zone_of(context)

    def in_zone(name: str) -> datetime | None:
        moment = getattr(run, name, None) or context.get(name)
        return moment.astimezone(zone) if isinstance(moment, datetime) else None

    key = getattr(run, "partition_key", None) or context.get("partition_key")
    begin, end = in_zone("data_interval_start"), in_zone("data_interval_end")
    fires = in_zone("logical_date") or end or begin
    day = (
        _day_of_key(key)
        or _date(in_zone("partition_date"))
        or _date(begin if begin is not None and end is not None and begin < end else None)
        or (None if fires is None else fires.date() - _DAY)
    )
    if day is None:
        key = f"its partition key {key!r} is not a date" if key else "it has no partition key"
        raise InvalidArgumentError(
            f"This run belongs to no day: {key}, and it has no logical date. Give tag=..., start the run with a "
            'partition key or a logical date, or schedule the DAG by daily("02:00", "UTC")'
        )
    return day.isoformat()


def zone_of(context: Mapping[str, Any]) -> tzinfo:
    """The time zone in which days begin and end: that of the schedule, else of the DAG, else UTC.

    Raises: InvalidArgumentError if the schedule names an unknown one.
    """
    dag = context.get("dag")
    names = ("timezone", "_timezone")
    places = (*_schedules(getattr(dag, "timetable", None)), dag)
    found = (getattr(place, name, None) for place in places for name in names)
    return next((_zone(zone) for zone in found if isinstance(zone, tzinfo | str)), UTC)


def _schedules(timetable: Any) -> Iterator[Any]:
    """A timetable and those of which it is made, as an `AssetOrTimeSchedule` or one of several crons is."""
    if timetable is None:
        return
    yield timetable
    inner = getattr(timetable, "timetable", None)
    several = getattr(timetable, "timetables", None) or getattr(timetable, "_timetables", None) or ()
    for one in (inner, *several):
        yield from _schedules(one)


def _zone(zone: tzinfo | str) -> tzinfo:
    """A time zone as DAGs have it, or the name that timetables of Airflow's SDK keep."""
    if isinstance(zone, tzinfo):
        return zone
    try:
        # As Airflow reads it: `utc` in any case, too.
        return UTC if zone.lower() == "utc" else ZoneInfo(zone)
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise unknown_zone(zone) from error


def day_of_tag(tag: str) -> date | None:
    """The day that a tag names by its date; None for other names."""
    return _day_of_key(tag) if _TAG.fullmatch(tag) else None


def end_of_day(day: date, zone: tzinfo) -> datetime:
    """The instant at which the next day begins there."""
    return datetime.combine(day + _DAY, time(), tzinfo=zone).astimezone(UTC)


def unknown_zone(name: object) -> InvalidArgumentError:
    """The error for a name of no time zone."""
    return InvalidArgumentError(f"timezone={name!r} is not known; give a name such as 'Europe/Berlin'")


def _date(moment: datetime | None) -> date | None:
    return None if moment is None else moment.date()


def _day_of_key(key: str | None) -> date | None:
    """Day of a partition key: a date, or the midnight that begins it."""
    match = _DATE_KEY.fullmatch(key or "")
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None
