"""Days without a tag get theirs, on what the table held when they ended; what cannot be is reported with the reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.actions.create_day_tags import CreateDayTags, DayTagsResult, create_day_tags
from paimon_engine.errors import CorruptTableError, InvalidArgumentError
from paimon_engine.table.state.snapshots import read_snapshot, read_tag
from tests.support.world import HOUR_MS
from tests.support.world.made_up import History

FOUR_DAYS = {"2013-01-01": 2, "2013-01-02": 2, "2013-01-03": 4, "2013-01-04": 5}


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def commit_at(history: History, text: str) -> History:
    history.now_ms = at(text) - HOUR_MS
    return history.write()


def fill(history: History, **fields: Any) -> DayTagsResult:
    return create_day_tags(Context(history.handle, history.executor), CreateDayTags(**fields))


@pytest.fixture
def history() -> History:
    """Snapshots 1 and 2 of the first, 3 and 4 of the third, 5 of the fourth of January 2013; today is the fifth."""
    history = History()
    for time in ("01T10:00", "01T23:59", "03T00:00", "03T20:00", "04T12:00"):
        commit_at(history, f"2013-01-{time}")
    history.now_ms = at("2013-01-05T08:00")
    return history


def test_each_day_gets_what_the_table_held_when_it_ended(history: History):
    planned = fill(history, dry_run=True)
    assert (planned.status, history.tags()) == ("dry_run", [])

    result = fill(history)

    assert (result.status, result.created, result.missing, result.days) == ("created", FOUR_DAYS, {}, 4)
    assert (result.tag, result.snapshot_id) == ("2013-01-04", 5)
    assert planned.created == result.created
    assert {name: read_tag(history.handle, name).snapshot.id for name in history.tags()} == FOUR_DAYS
    assert fill(history).status == "noop"
    history.assert_exact()


def test_only_gaps_are_filled(history: History):
    history.tag("2013-01-02", snapshot=1)
    history.tag("release")

    assert fill(history).created == {"2013-01-03": 4, "2013-01-04": 5}
    assert fill(history, since="2013-01-01").created == {"2013-01-01": 2}
    assert read_tag(history.handle, "2013-01-02").snapshot.id == 1


def test_what_has_expired_is_reported_and_the_others_are_made(history: History):
    history.tag("2013-01-01", snapshot=2)
    history.expire(retain_max=1)

    result = fill(history)

    assert result.created == {"2013-01-04": 5}
    assert list(result.missing) == ["2013-01-02 to 2013-01-03"]
    assert "has expired: snapshot 5 is the oldest" in result.missing["2013-01-02 to 2013-01-03"]
    assert fill(history, since="2012-12-31", until="2012-12-31").missing.keys() == {"2012-12-31"}


def test_a_day_ends_by_the_clocks_of_its_zone(history: History):
    # In Berlin 23:59 UTC of the first is 00:59 of the second.
    assert fill(history, timezone="Europe/Berlin", until="2013-01-02").created == {"2013-01-01": 1, "2013-01-02": 2}


def test_a_part_of_the_days(history: History):
    assert fill(history, since="2013-01-02", until="2013-01-03").created == {"2013-01-02": 2, "2013-01-03": 4}
    assert fill(history, since="2013-02-01").days == 0


def test_tags_are_kept_as_long_as_is_said(history: History):
    fill(history, until="2013-01-01", time_retained=24 * HOUR_MS)

    assert read_tag(history.handle, "2013-01-01").time_retained.days == 1


def test_a_table_without_a_commit_has_no_days():
    assert (fill(History()).status, fill(History()).days) == ("noop", 0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"since": "yesterday"}, "since='yesterday' is not a day"),
        ({"since": "20130101"}, "is not a day"),
        ({"until": "2013-01-05"}, "has not ended in UTC.*2013-01-04"),
        ({"until": "2013-01-04", "timezone": "Nowhere"}, "timezone='Nowhere'"),
        ({"since": "2013-01-04", "until": "2013-01-03"}, "is after"),
        ({"since": "0001-01-01"}, "more than"),
    ],
)
def test_wrong_days_are_refused(history: History, fields: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        fill(history, **fields)
    assert history.tags() == []


def test_west_of_utc_the_day_ends_later(history: History):
    history.now_ms = at("2013-01-05T03:00")

    assert list(fill(history, timezone="America/New_York").created)[-1] == "2013-01-03"


@pytest.mark.parametrize("damage", ["gone", "half"])
def test_a_list_that_cannot_be_read_is_an_error_that_names_it(history: History, damage: str):
    """A day whose snapshot is there and damaged is none that cannot be tagged: it would stay so in silence."""
    handle = history.handle
    path = f"{handle.paths.root}/manifest/{read_snapshot(handle, 4).base_manifest_list}"
    storage = handle.env.storage
    whole = storage.read(path)
    storage.delete([path])
    if damage == "half":
        storage.create(path, whole[: len(whole) // 2])

    with pytest.raises(CorruptTableError, match=path.rpartition("/")[2]):
        fill(history)

    assert "2013-01-03" not in history.tags()
    storage.overwrite(path, whole)
    assert fill(history).missing == {}
    assert {name: read_tag(history.handle, name).snapshot.id for name in history.tags()} == FOUR_DAYS
