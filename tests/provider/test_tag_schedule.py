from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow import sdk
from airflow.timetables.trigger import MultipleCronTriggerTimetable

from airflow_provider_paimon.tag_schedule import day_of_tag, end_of_day, tag_of, zone_of
from airflow_provider_paimon.timetables import daily
from paimon_engine import InvalidArgumentError

MIDNIGHT = datetime(2013, 1, 6, tzinfo=UTC)
NEXT = datetime(2013, 1, 7, tzinfo=UTC)
EVENING = datetime(2013, 1, 5, 23, 0, tzinfo=UTC)

CASES = [
    # the run's properties, tag
    ({"partition_key": "2013-01-05"}, "2013-01-05"),
    ({"partition_key": "20130105"}, "2013-01-05"),
    ({"partition_key": "2013-01-05T00:00:00"}, "2013-01-05"),
    ({"partition_key": "2013-01-05T00:00:00+00:00"}, "2013-01-05"),
    ({"partition_key": "2013-01-05", "logical_date": MIDNIGHT, "data_interval_start": MIDNIGHT}, "2013-01-05"),
    ({"partition_key": "5.1.2013", "partition_date": MIDNIGHT, "logical_date": EVENING}, "2013-01-06"),
    # A plain cron schedule or a manual run: the day that had ended.
    ({"partition_key": "europe", "logical_date": MIDNIGHT}, "2013-01-05"),
    ({"partition_key": "2013-01-05T07:00:00", "logical_date": MIDNIGHT}, "2013-01-05"),
    ({"partition_key": "", "logical_date": MIDNIGHT}, "2013-01-05"),
    ({"logical_date": MIDNIGHT}, "2013-01-05"),
    ({"logical_date": EVENING}, "2013-01-04"),
    ({"logical_date": MIDNIGHT, "data_interval_start": MIDNIGHT, "data_interval_end": MIDNIGHT}, "2013-01-05"),
    # A data interval says itself which day it is.
    ({"logical_date": MIDNIGHT, "data_interval_start": MIDNIGHT, "data_interval_end": NEXT}, "2013-01-06"),
    ({"data_interval_start": EVENING, "data_interval_end": MIDNIGHT}, "2013-01-05"),
]


@pytest.mark.parametrize(("run", "tag"), CASES)
def test_the_tag_is_the_day_of_the_run(run, tag):
    assert tag_of({"dag_run": SimpleNamespace(**run)}) == tag
    assert tag_of(run) == tag


@pytest.mark.parametrize("key", [None, "", "europe", "2013-13-45", "2013-01", "2013-01-05T07:00:00", "x2013-01-05"])
def test_a_run_without_a_day_is_refused_with_a_remedy(key):
    with pytest.raises(InvalidArgumentError, match=r"Give tag=.*daily\("):
        tag_of({"dag_run": SimpleNamespace(partition_key=key)})


def test_the_day_is_that_of_the_schedules_time_zone_or_else_of_the_dags():
    run = SimpleNamespace(partition_key=None, logical_date=EVENING, data_interval_start=EVENING)
    berlin = SimpleNamespace(timezone=ZoneInfo("Europe/Berlin"))
    in_berlin = SimpleNamespace(timezone=UTC, timetable=daily("02:00", "Europe/Berlin"))

    assert tag_of({"dag_run": run, "dag": berlin}) == "2013-01-05"
    assert tag_of({"dag_run": run, "dag": in_berlin}) == "2013-01-05"
    assert tag_of({"dag_run": run}) == "2013-01-04"


CRON, BERLIN = "0 0 * * *", "Europe/Berlin"
IN_BERLIN: dict[str, Any] = {
    "cron": sdk.CronTriggerTimetable(CRON, timezone=BERLIN),
    "its time zone": sdk.CronTriggerTimetable(CRON, timezone=pendulum.timezone(BERLIN)),
    "intervals": sdk.CronDataIntervalTimetable(CRON, timezone=BERLIN),
    "partitions": sdk.CronPartitionTimetable(CRON, timezone=BERLIN),
    "several": sdk.MultipleCronTriggerTimetable(CRON, "0 12 * * *", timezone=BERLIN),
    "assets or cron": sdk.AssetOrTimeSchedule(
        timetable=sdk.CronTriggerTimetable(CRON, timezone=BERLIN), assets=[sdk.Asset("a")]
    ),
    "assets or daily": sdk.AssetOrTimeSchedule(timetable=daily("02:00", BERLIN), assets=[sdk.Asset("a")]),
    "the scheduler's several": MultipleCronTriggerTimetable(CRON, "0 12 * * *", timezone=BERLIN),
}


@pytest.mark.parametrize("schedule", IN_BERLIN.values(), ids=IN_BERLIN.keys())
def test_all_schedules_of_airflow_have_days_of_their_time_zone(schedule: Any):
    dag = sdk.DAG("d", schedule=schedule, start_date=datetime(2013, 1, 1, tzinfo=UTC))
    run = SimpleNamespace(partition_key=None, logical_date=EVENING)

    assert tag_of({"dag_run": run, "dag": dag}) == "2013-01-05"
    assert end_of_day(date(2013, 1, 5), zone_of({"dag": dag})) == EVENING


def test_utc_is_written_as_airflow_reads_it():
    dag = sdk.DAG(
        "d", schedule=sdk.CronTriggerTimetable(CRON, timezone="utc"), start_date=datetime(2013, 1, 1, tzinfo=UTC)
    )

    assert zone_of({"dag": dag}) is UTC


def test_a_schedule_without_a_time_zone_has_that_of_the_dag():
    dag = sdk.DAG("d", schedule=timedelta(days=1), start_date=datetime(2013, 1, 1, tzinfo=ZoneInfo(BERLIN)))

    assert end_of_day(date(2013, 1, 5), zone_of({"dag": dag})) == EVENING


def test_a_manual_run_of_a_daily_schedule_belongs_to_the_day_that_has_ended():
    schedule = daily("02:00", "Europe/Berlin")
    interval = schedule.infer_manual_data_interval(run_after=datetime(2013, 1, 6, 15, tzinfo=UTC))
    run = SimpleNamespace(partition_key=None, data_interval_start=interval.start, data_interval_end=interval.end)

    assert tag_of({"dag_run": run, "dag": SimpleNamespace(timezone=UTC, timetable=schedule)}) == "2013-01-05"


def test_days_end_when_the_next_begins():
    berlin = ZoneInfo("Europe/Berlin")

    assert end_of_day(date(2024, 3, 31), berlin) == datetime(2024, 3, 31, 22, tzinfo=UTC)
    assert end_of_day(date(2024, 10, 27), berlin) == datetime(2024, 10, 27, 23, tzinfo=UTC)


@pytest.mark.parametrize("tag", ["2013-01-05x", "20130105", "release-1", "2013-02-30", ""])
def test_other_names_mean_no_day(tag):
    assert day_of_tag(tag) is None
    assert day_of_tag("2013-01-05") == date(2013, 1, 5)


def test_ds_is_never_used():
    with pytest.raises(InvalidArgumentError):
        tag_of({"dag_run": SimpleNamespace(partition_key=None), "ds": "2013-01-05"})
