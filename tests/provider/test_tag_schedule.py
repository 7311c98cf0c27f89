from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_paimon.tag_schedule import tag_for, tag_of
from paimon_engine import InvalidArgumentError

MIDNIGHT = datetime(2013, 1, 6, tzinfo=UTC)
EVENING = datetime(2013, 1, 5, 23, 0, tzinfo=UTC)

CASES = [
    # partition key, logical date, start of the data interval, tag
    ("2013-01-05", None, None, "2013-01-05"),
    ("20130105", None, None, "2013-01-05"),
    ("2013-01-05T00:00:00", None, None, "2013-01-05"),
    ("2013-01-05T00:00:00+00:00", None, None, "2013-01-05"),
    ("2013-01-05", MIDNIGHT, MIDNIGHT, "2013-01-05"),
    ("europe", MIDNIGHT, None, "2013-01-06"),
    ("2013-01-05T07:00:00", MIDNIGHT, None, "2013-01-06"),
    (None, MIDNIGHT, None, "2013-01-06"),
    # A manual run: the logical date is now, the data interval the last whole one.
    (None, MIDNIGHT, EVENING, "2013-01-05"),
    (None, None, EVENING, "2013-01-05"),
    ("", MIDNIGHT, None, "2013-01-06"),
]


@pytest.mark.parametrize(("key", "logical_date", "start", "tag"), CASES)
def test_the_tag_is_the_day_of_the_run(key, logical_date, start, tag):
    assert tag_for(key, logical_date, start) == tag


@pytest.mark.parametrize("key", [None, "", "europe", "2013-13-45", "2013-01", "2013-01-05T07:00:00", "x2013-01-05"])
def test_a_run_without_a_day_is_refused_with_the_way_out(key):
    with pytest.raises(InvalidArgumentError, match=r"Give tag=.*CronPartitionTimetable"):
        tag_for(key, None, None)


def test_the_day_is_that_of_the_dags_time_zone():
    run = SimpleNamespace(partition_key=None, logical_date=EVENING, data_interval_start=EVENING)
    berlin = SimpleNamespace(timezone=ZoneInfo("Europe/Berlin"))

    assert tag_of({"dag_run": run, "dag": berlin}) == "2013-01-06"
    assert tag_of({"dag_run": run}) == "2013-01-05"


def test_ds_is_never_used():
    with pytest.raises(InvalidArgumentError):
        tag_of({"dag_run": SimpleNamespace(partition_key=None), "ds": "2013-01-05"})
