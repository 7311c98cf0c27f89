"""Schedules whose runs belong to days.

`daily("02:00", "Europe/Berlin")` runs every day at that time, and each run's partition key is the day that ended
before: the run of the 21st at 02:00 has the key of the 20th. Airflow's `CronPartitionTimetable(run_offset=-1)` does so
too, but takes one day twice and leaves out another where the clocks skip the time of the run.

1. Where the clocks skip the time, the run starts as much later; where they show it twice, it starts at the first.
2. A key means the complete day in the time zone, of 23, 24 or 25 hours.
3. A backfill from one day to another has one run for each of these days, both included.
4. A manual run takes the partition key it is given; without one, but with a logical date, it belongs to the day that
   had ended by then.

The plugin of this provider registers the class with the scheduler, so the provider is installed there too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval
from airflow.timetables.trigger import CronPartitionTimetable

from airflow_provider_paimon.tag_schedule import unknown_zone
from paimon_engine.errors import InvalidArgumentError

_TIME: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_KEY: Final = "%Y-%m-%d"
_DAY: Final = timedelta(days=1)


def daily(at: str, timezone: str) -> DailyTimetable:
    """A schedule with a run every day at a time such as `02:00`, for the day that ended before.

    Args:
        at: hour and minute, `HH:MM`, in the time zone.
        timezone: name of the time zone in which days begin and end, such as `Europe/Berlin`.

    Raises: InvalidArgumentError.
    """
    return DailyTimetable(at, timezone=timezone)


class DailyTimetable(CronPartitionTimetable):
    """What `daily` returns. The key of a day is its date, `2013-01-05`; its partition date the instant of its begin."""

    def __init__(self, at: str, *, timezone: str | tzinfo, run_immediately: bool | timedelta = False) -> None:
        match = _TIME.fullmatch(at) if isinstance(at, str) else None
        if match is None:
            raise InvalidArgumentError(f"at={at!r} is not a time of day; give hour and minute, such as '02:00'")
        self.at = time(int(match[1]), int(match[2]))
        cron = f"{self.at.minute} {self.at.hour} * * *"
        try:
            super().__init__(cron, timezone=timezone, run_offset=-1, run_immediately=run_immediately, key_format=_KEY)
        except (ValueError, KeyError) as error:
            raise unknown_zone(timezone) from error
        self.description = f"Daily at {self.at:%H:%M} ({self._timezone}), for the day that has ended"

    @property
    def timezone(self) -> tzinfo:
        """The time zone of its days."""
        zone: tzinfo = self._timezone
        return zone

    @property
    def summary(self) -> str:
        """What the UI shows as the schedule."""
        return f"daily {self.at:%H:%M}"

    # ── stored with the DAG ─────────────────────────────────────────────────────────────────────

    def serialize(self) -> dict[str, Any]:
        """What Airflow stores."""
        stored = super().serialize()
        kept = ("timezone", "run_immediately")
        return {"at": f"{self.at:%H:%M}", **{name: stored[name] for name in kept}}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DailyTimetable:
        """The timetable from what `serialize` returned."""
        as_cron = {"expression": "0 0 * * *", "run_offset": -1, "key_format": _KEY}
        decoded = CronPartitionTimetable.deserialize({**data, **as_cron})
        zone, at_once = decoded._timezone, decoded._run_immediately  # noqa: SLF001 - attributes of its base class
        return cls(data["at"], timezone=zone, run_immediately=at_once)

    # ── days and runs ───────────────────────────────────────────────────────────────────────────

    def begin_of(self, day: date) -> pendulum.DateTime:
        """The instant at which the day begins: where the clocks skip midnight, the next one that they show."""
        return self._instant(day, time())

    def run_of(self, day: date) -> pendulum.DateTime:
        """The instant at which the run for the day starts, on the day after."""
        return self._instant(day + _DAY, self.at)

    def day_at(self, instant: datetime) -> date:
        """The last day whose run starts at that instant or before."""
        return next(day for day in self._days(self._local(instant) + _DAY, -_DAY) if self.run_of(day) <= instant)

    def _instant(self, day: date, at: time) -> pendulum.DateTime:
        # fold=0: of a time that is shown twice the first; one that is skipped counts with the offset from before.
        return pendulum.instance(datetime.combine(day, at, tzinfo=self._timezone).astimezone(UTC))

    def _local(self, instant: datetime) -> date:
        return instant.astimezone(self._timezone).date()

    def _days(self, first: date, step: timedelta) -> Iterator[date]:
        """Days one after another, without those that a change of the date line has skipped."""
        day = first
        while True:
            if self.begin_of(day) < self.begin_of(day + _DAY):
                yield day
            day += step

    # ── interface for the scheduler ─────────────────────────────────────────────────────────────────

    def _get_next(self, current: datetime) -> pendulum.DateTime:
        first = self._local(current) - 2 * _DAY
        return next(run for run in map(self.run_of, self._days(first, _DAY)) if run > current)

    def _get_prev(self, current: datetime) -> pendulum.DateTime:
        last = self._local(current) + _DAY
        return next(run for run in map(self.run_of, self._days(last, -_DAY)) if run < current)

    def _get_partition_date(self, *, run_date: datetime) -> pendulum.DateTime:
        return self.begin_of(self.day_at(run_date))

    def _decode_partition_date(self, partition_key: str) -> datetime:
        super()._decode_partition_date(partition_key)  # raises what Airflow expects for a key that is not a date
        return self.begin_of(datetime.strptime(partition_key, _KEY).date())  # noqa: DTZ007 - only its date is used

    def localize_partition_datetime(self, dt: datetime) -> pendulum.DateTime:
        """The instant at which clocks of the time zone show what `dt` shows."""
        return self._instant(dt.date(), dt.time())

    def iter_partition_dagrun_infos(self, *, earliest: datetime, latest: datetime) -> Iterable[DagRunInfo]:
        """One run for each day that begins between the two, both included; they start when they do by schedule."""
        begin, end = self.localize_partition_datetime(earliest), self.localize_partition_datetime(latest)
        for day in self._days(self._local(begin), _DAY):
            partition_date = self.begin_of(day)
            if partition_date > end:
                return
            if partition_date >= begin:
                key = self._format_key(partition_date)
                yield DagRunInfo(self.run_of(day), None, partition_date, key)

    def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
        """The day that has ended by then."""
        day = next(self._days(self._local(run_after) - _DAY, -_DAY))
        return DataInterval(self.begin_of(day), self.begin_of(day + _DAY))
