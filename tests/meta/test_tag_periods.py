"""Which tags a table makes by itself: periods, names, clocks, delays and gaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.meta.tag import Tag
from paimon_engine.meta.tag_periods import (
    TagPeriods,
    automatic_tags,
    batch_tag_name,
    batch_tags,
    due_tags,
    tag_periods,
    zone_of,
)
from paimon_engine.options import TableOptions

MODE, UTC_CLOCK = {"tag.automatic-creation": "process-time"}, {"sink.process-time-zone": "UTC"}


def periods(**options: str) -> TagPeriods:
    given = {key.replace("_", "-"): value for key, value in options.items()}
    found = tag_periods(TableOptions({**MODE, **UTC_CLOCK, **{f"tag.{key}": value for key, value in given.items()}}))
    assert found is not None
    return found


def at(snapshot_id: int, moment: str, watermark: str | None = None) -> Snapshot:
    return Snapshot(
        *(snapshot_id, 0, "base", f"delta-{snapshot_id}", "user", 1, CommitKind.APPEND),
        time_ms=_ms(moment),
        watermark=None if watermark is None else _ms(watermark),
    )


def _ms(moment: str) -> int:
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() * 1000)


def due(wanted: TagPeriods, *snapshots: Snapshot, tags: tuple[Tag, ...] = ()) -> list[tuple[str, int]]:
    return [(tag.name, tag.snapshot.id) for tag in due_tags(wanted, tags, snapshots).tags]


def test_the_first_snapshot_after_a_day_is_the_tag_of_that_day():
    days = (at(1, "2013-01-01 10:00"), at(2, "2013-01-01 23:00"), at(3, "2013-01-02 00:00"), at(4, "2013-01-02 09:00"))

    # The very first snapshot is tagged for the day before it, since there is no earlier one.
    assert due(periods(), *days) == [("2012-12-31", 1), ("2013-01-01", 3)]


def test_a_delay_leaves_late_rows_their_time():
    days = (at(1, "2013-01-01 10:00"), at(2, "2013-01-02 00:59"), at(3, "2013-01-02 01:00"))

    assert due(periods(creation_delay="1 h"), *days) == [("2012-12-31", 1), ("2013-01-01", 3)]


def test_days_without_a_commit_get_no_tag():
    assert due(periods(), at(1, "2013-01-01 10:00"), at(2, "2013-01-05 10:00")) == [
        ("2012-12-31", 1),
        ("2013-01-04", 2),
    ]


def test_missed_days_are_completed_one_per_snapshot():
    days = (at(1, "2013-01-01 10:00"), *(at(number, f"2013-01-05 1{number}:00") for number in range(2, 8)))

    found = due(periods(automatic_completion="true"), *days)

    assert found == [("2012-12-31", 1), ("2013-01-01", 2), ("2013-01-02", 3), ("2013-01-03", 4), ("2013-01-04", 5)]


def test_what_has_its_tag_gets_no_other():
    there = Tag("2013-01-01", at(2, "2013-01-02 00:10"))
    other = Tag("before-the-release", at(3, "2013-01-02 11:00"))
    snapshots = (at(2, "2013-01-02 00:10"), at(3, "2013-01-02 11:00"), at(4, "2013-01-03 00:00"))

    assert due(periods(), *snapshots, tags=(there, other)) == [("2013-01-02", 4)]


# Period, formatter, and what the tag of 2013-01-02 03:00 to its end is called.
NAMES = """
daily      with_dashes                2013-01-02
daily      without_dashes             20130102
daily      without_dashes_and_spaces  20130102
hourly     with_dashes                2013-01-02_03
hourly     without_dashes             20130102_03
hourly     without_dashes_and_spaces  2013010203
two-hours  without_dashes             2013-01-02_02
PT30M      with_dashes                201301020330
"""


@pytest.mark.parametrize("line", NAMES.strip().splitlines())
def test_names(line: str):
    period, formatter, name = line.split()
    key = "creation_period_duration" if period.startswith("PT") else "creation_period"
    wanted = periods(**{key: period, "period_formatter": formatter})
    name = name.replace("_", " ")
    end = {"daily": "2013-01-03 00:00", "two-hours": "2013-01-02 04:00"}.get(period, "2013-01-02 04:00")

    (found,) = due(wanted, at(1, end))

    assert found == (name, 1)
    time = wanted.time_of(name)
    assert time is not None
    assert wanted.name_of(time) == name
    assert wanted.last_complete(datetime.fromisoformat(end)) == time


@pytest.mark.parametrize("name", ["2013-1-2", "2013-02-30", "t", "", "20130102", "x2013-01-02", "2013-01-02x"])
def test_other_names_are_no_automatic_tags(name: str):
    assert periods().time_of(name) is None


def test_a_day_with_more_after_a_blank_counts_as_in_java():
    assert periods().time_of("2013-01-02 late") == datetime(2013, 1, 2)


def test_by_watermark_snapshots_without_one_are_passed_over():
    options = {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "GMT-08:00"}
    wanted = tag_periods(TableOptions(options))
    assert wanted is not None
    none = at(1, "2013-01-09 00:00")
    early, late = at(2, "2013-01-09 01:00", "2013-01-03 07:00"), at(3, "2013-01-09 02:00", "2013-01-03 08:00")

    # Eight hours behind, the third begins at 08:00.
    assert due(wanted, none, early, late) == [("2013-01-01", 2), ("2013-01-02", 3)]


def test_a_watermark_beyond_the_calendar_is_reported_and_ignored():
    wanted = tag_periods(TableOptions({"tag.automatic-creation": "watermark"}))
    assert wanted is not None
    end = Snapshot(1, 0, "base", "delta", "user", 1, CommitKind.APPEND, 0, watermark=(1 << 63) - 1)

    found = due_tags(wanted, [], [end, at(2, "2013-01-09 00:00", "2013-01-03 00:00")])

    assert [tag.name for tag in found.tags] == ["2013-01-02"]
    assert "snapshot 1 gets no tag" in found.skipped[0]


def test_the_delay_must_be_shorter_than_the_period():
    with pytest.raises(InvalidArgumentError, match=r"tag\.creation-delay"):
        periods(creation_delay="1 d")


@pytest.mark.parametrize("mode", ["none", "batch"])
def test_other_modes_know_no_periods(mode: str):
    assert tag_periods(TableOptions({"tag.automatic-creation": mode})) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tag.automatic-creation": "sometimes"}, "choose one of none, process-time"),
        ({**MODE, "tag.creation-period": "weekly"}, "choose one of daily"),
        ({**MODE, "tag.period-formatter": "roman"}, "choose one of with_dashes"),
        ({**MODE, "sink.process-time-zone": "Mars/Base"}, "Europe/Berlin"),
        ({**MODE, "sink.process-time-zone": "../etc"}, "Europe/Berlin"),
        ({**MODE, "tag.creation-period-duration": "0 s"}, "longer than nothing"),
    ],
)
def test_options_that_cannot_be_understood_are_named(options: dict[str, str], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        tag_periods(TableOptions(options))


def test_zones():
    moment = datetime(2013, 7, 1)

    assert zone_of("z", None) is None
    offsets = [zone_of("z", name) for name in ("Z", "UTC", "GMT-08:00", "+0530", "Europe/Berlin")]
    hours = [zone.utcoffset(moment) / timedelta(hours=1) for zone in offsets if zone is not None]  # type: ignore[operator]
    assert hours == [0, 0, -8, 5.5, 2]


def test_tags_after_batch_jobs_are_named_for_the_day_or_as_requested():
    snapshot = at(1, "2013-01-02 23:30")

    assert batch_tag_name(TableOptions(UTC_CLOCK), snapshot) == "batch-write-2013-01-02"
    assert batch_tag_name(TableOptions({"sink.process-time-zone": "+01:00"}), snapshot) == "batch-write-2013-01-03"
    customized = TableOptions({"tag.batch.customized-name": "nightly"})
    assert batch_tag_name(customized, snapshot) == "nightly"
    tags = [Tag(name, snapshot) for name in ("nightly", "mine", "batch-write-2013-01-02")]
    assert [tag.name for tag in batch_tags(customized, tags)] == ["batch-write-2013-01-02", "nightly"]


def test_automatic_tags_are_ordered_by_snapshot_and_time():
    one, two = at(1, "2013-01-02 00:00"), at(2, "2013-01-03 00:00")
    tags = [Tag("2013-01-02", two), Tag("x", one), Tag("2013-01-01", one), Tag("2012-12-31", one)]

    assert [tag.name for tag in automatic_tags(periods(), tags)] == ["2012-12-31", "2013-01-01", "2013-01-02"]
