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
    # the run's properties, tag
    ({"partition_key": "2013-01-05"}, "2013-01-05"),
    ({"partition_key": "20130105"}, "2013-01-05"),
    ({"partition_key": "2013-01-05T00:00:00"}, "2013-01-05"),
    ({"partition_key": "2013-01-05T00:00:00+00:00"}, "2013-01-05"),
    ({"partition_key": "2013-01-05", "logical_date": MIDNIGHT, "data_interval_start": MIDNIGHT}, "2013-01-05"),
    ({"partition_key": "5.1.2013", "partition_date": MIDNIGHT, "logical_date": EVENING}, "2013-01-06"),
    ({"partition_key": "europe", "logical_date": MIDNIGHT}, "2013-01-06"),
    ({"partition_key": "2013-01-05T07:00:00", "logical_date": MIDNIGHT}, "2013-01-06"),
    ({"partition_key": "", "logical_date": MIDNIGHT}, "2013-01-06"),
    ({"logical_date": MIDNIGHT}, "2013-01-06"),
    # A manual run: the logical date is now, the data interval the last whole one.
    ({"logical_date": MIDNIGHT, "data_interval_start": EVENING}, "2013-01-05"),
    ({"data_interval_start": EVENING}, "2013-01-05"),
]


@pytest.mark.parametrize(("run", "tag"), CASES)
def test_the_tag_is_the_day_of_the_run(run, tag):
    assert tag_of({"dag_run": SimpleNamespace(**run)}) == tag
    assert tag_of(run) == tag


@pytest.mark.parametrize("key", [None, "", "europe", "2013-13-45", "2013-01", "2013-01-05T07:00:00", "x2013-01-05"])
def test_a_run_without_a_day_is_refused_with_the_way_out(key):
    with pytest.raises(InvalidArgumentError, match=r"Give tag=.*CronPartitionTimetable"):
        tag_for(key, None)


def test_the_day_is_that_of_the_dags_time_zone():
    run = SimpleNamespace(partition_key=None, logical_date=EVENING, data_interval_start=EVENING)
    berlin = SimpleNamespace(timezone=ZoneInfo("Europe/Berlin"))

    assert tag_of({"dag_run": run, "dag": berlin}) == "2013-01-06"
    assert tag_of({"dag_run": run}) == "2013-01-05"


def test_ds_is_never_used():
    with pytest.raises(InvalidArgumentError):
        tag_of({"dag_run": SimpleNamespace(partition_key=None), "ds": "2013-01-05"})
