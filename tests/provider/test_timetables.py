"""The day that a run of `daily` belongs to, above all where clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import DagRunInfo, TimeRestriction

from airflow_provider_paimon import plugin
from airflow_provider_paimon.timetables import DailyTimetable, daily
from paimon_engine import InvalidArgumentError

pytestmark = pytest.mark.airflow

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def scheduled(timetable: DailyTimetable, start: datetime, runs: int) -> list[DagRunInfo]:
    """What the scheduler makes one after another, with catch-up."""
    import pendulum

    restriction = TimeRestriction(pendulum.instance(start.astimezone(UTC)), None, catchup=True)
    found: list[DagRunInfo] = []
    for _ in range(runs):
        last = found[-1] if found else None
        info = timetable.next_dagrun_info_v2(last_dagrun_info=last, restriction=restriction)
        assert info is not None
        found.append(info)
    return found


def local(info: DagRunInfo, zone: str = BERLIN) -> tuple[str, str]:
    return f"{info.run_after.astimezone(ZoneInfo(zone)):%m-%d %H:%M%z}", str(info.partition_key)


def test_a_run_belongs_to_the_day_that_ended():
    runs = scheduled(daily("02:00", BERLIN), at("2013-01-21T00:00", BERLIN), 2)

    assert [local(run) for run in runs] == [("01-21 02:00+0100", "2013-01-20"), ("01-22 02:00+0100", "2013-01-21")]
    assert runs[0].partition_date == at("2013-01-20T00:00", BERLIN)
    assert runs[0].data_interval is None


def test_clocks_that_skip_the_time_of_the_run():
    runs = scheduled(daily("02:00", BERLIN), at("2024-03-30T00:00", BERLIN), 4)

    assert [local(run) for run in runs] == [
        ("03-30 02:00+0100", "2024-03-29"),
        ("03-31 03:00+0200", "2024-03-30"),
        ("04-01 02:00+0200", "2024-03-31"),
        ("04-02 02:00+0200", "2024-04-01"),
    ]


def test_clocks_that_show_the_time_of_the_run_twice():
    runs = scheduled(daily("02:30", BERLIN), at("2024-10-26T00:00", BERLIN), 4)

    assert [local(run) for run in runs] == [
        ("10-26 02:30+0200", "2024-10-25"),
        ("10-27 02:30+0200", "2024-10-26"),
        ("10-28 02:30+0100", "2024-10-27"),
        ("10-29 02:30+0100", "2024-10-28"),
    ]


@pytest.mark.parametrize(
    "zone", ["UTC", BERLIN, "America/New_York", "America/Sao_Paulo", "Asia/Beirut", "Australia/Lord_Howe", "Asia/Tokyo"]
)
@pytest.mark.parametrize("time", ["00:00", "00:30", "01:45", "02:00", "02:30", "12:00", "23:59"])
def test_every_day_of_a_year_has_one_run_which_starts_after_it(zone: str, time: str):
    timetable = daily(time, zone)
    runs = scheduled(timetable, at("2017-01-02T00:00", zone), 366)

    first = date.fromisoformat(str(runs[0].partition_key))
    assert [run.partition_key for run in runs] == [str(first + timedelta(days=days)) for days in range(366)]
    for one, following in pairwise(runs):
        assert one.partition_date < following.partition_date <= one.run_after < following.run_after
    by_backfill = timetable.iter_partition_dagrun_infos(
        earliest=datetime.combine(first, datetime.min.time(), UTC),
        latest=datetime.combine(first + timedelta(days=365), datetime.min.time(), UTC),
    )
    assert list(by_backfill) == runs


def test_a_day_that_a_zone_never_had_has_no_run():
    runs = scheduled(daily("02:00", "Pacific/Apia"), at("2011-12-29T00:00", "Pacific/Apia"), 4)

    assert [run.partition_key for run in runs] == ["2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"]
    assert len({run.run_after for run in runs}) == 4


def test_a_backfill_takes_both_of_its_days():
    days = daily("02:00", BERLIN).iter_partition_dagrun_infos(earliest=at("2024-03-30"), latest=at("2024-04-01"))

    assert [run.partition_key for run in days] == ["2024-03-30", "2024-03-31", "2024-04-01"]


def test_a_manual_run_belongs_to_its_key_or_for_the_day_that_has_ended():
    timetable = daily("02:00", BERLIN)

    assert timetable.resolve_partition_date("2024-03-31") == at("2024-03-31T00:00", BERLIN)
    interval = timetable.infer_manual_data_interval(run_after=at("2024-04-01T15:00", BERLIN))
    assert (interval.start, interval.end) == (at("2024-03-31T00:00", BERLIN), at("2024-04-01T00:00", BERLIN))
    assert interval.end - interval.start == timedelta(hours=23)
    with pytest.raises(ValueError, match="nonsense"):
        timetable.resolve_partition_date("nonsense")


def test_airflow_stores_it_with_the_dag(monkeypatch: pytest.MonkeyPatch):
    from airflow import plugins_manager

    known = {f"{one.__module__}.{one.__name__}": one for one in plugin.PaimonPlugin.timetables}
    monkeypatch.setattr(plugins_manager, "get_timetables_plugins", lambda: known)

    again = decode_timetable(encode_timetable(daily("02:00", BERLIN)))

    assert isinstance(again, DailyTimetable)
    assert (again, again.at, again.summary) == (daily("2:00", BERLIN), daily("02:00", BERLIN).at, "daily 02:00")
    assert BERLIN in again.description


@pytest.mark.parametrize(
    ("time", "zone", "says"),
    [("2", "UTC", "'02:00'"), ("24:00", "UTC", "time of day"), ("02:00", "Middle/Earth", "Europe/Berlin")],
)
def test_what_is_no_time_or_no_zone_is_refused(time: str, zone: str, says: str):
    with pytest.raises(InvalidArgumentError, match=says):
        daily(time, zone)
