"""Expired tags are deleted with what only they kept; so are automatic tags beyond a number."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.actions.create_due_tags import CreateDueTags, DueTagsResult, create_due_tags
from paimon_engine.actions.expire_tags import ExpireTags, ExpireTagsResult
from paimon_engine.env import EnvConfig
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, StorageError
from paimon_engine.executor import LocalExecutor
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import choose_snapshot, read_tag
from tests.support.storage_events import EventStorage
from tests.support.world import HOUR_MS
from tests.support.world.made_up import History

DAY_MS = 24 * HOUR_MS
DAILY = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"}


def expire(history: History, **fields: Any) -> ExpireTagsResult:
    return history.run(ExpireTags(**fields))


def due(history: History, **fields: Any) -> DueTagsResult:
    return history.run(CreateDueTags(**fields))


def only_in_its_tag(options: dict[str, str] | None = None, storage: Any = None) -> History:
    """File a lives in tag `t` alone, which is kept for a day; b in `stays`; c is the table."""
    history = History(options or {}, **({} if storage is None else {"storage": storage})).write("a")
    history.tag("t", time_retained=DAY_MS)
    history.compact("b")
    history.tag("stays")
    history.compact("c").write("d")
    history.expire(retain_max=1)
    return history


def test_a_tag_is_deleted_when_it_expires():
    history = only_in_its_tag()
    assert expire(history).status == "noop"
    history.now_ms += DAY_MS

    planned = expire(history, dry_run=True)
    assert history.tags() == ["stays", "t"]
    result = expire(history)

    assert (planned.status, result.status, list(result.expired)) == ("dry_run", "expired", ["t"])
    assert planned.deleted == result.deleted
    assert "kept for 1 day" in result.expired["t"]
    assert history.names() == {"b", "c", "d"}
    history.assert_exact()
    assert expire(history).status == "noop"


def test_a_table_may_leave_retentions_alone():
    history = only_in_its_tag({"tag.time-expire-enabled": "false"})
    history.now_ms += 2 * DAY_MS

    assert expire(history).expired == {}


def test_older_ones_are_deleted_by_the_time_of_their_creation_or_of_their_file():
    history = only_in_its_tag()
    made = history.storage.stat(history.handle.paths.tag("stays")).modified_ms

    # The clock of the history is in 1970, that of the store is now.
    result = expire(history, older_than=2 * HOUR_MS)
    assert list(result.expired) == ["t"]
    history.now_ms = made + 1
    assert list(expire(history, older_than=made).expired) == []
    assert list(expire(history, older_than=made + 1).expired) == ["stays"]
    history.assert_exact()


def test_tags_of_branches_stay_and_are_named():
    history = only_in_its_tag()
    history.branch("dev", "t")
    history.now_ms += 2 * DAY_MS

    result = expire(history)

    assert (result.status, dict(result.kept)) == ("noop", {"t": "branch 'dev' was made from it"})
    assert history.tags() == ["stays", "t"]


def test_several_tags_on_one_snapshot_are_deleted_with_their_files_once():
    history = History().write("a")
    history.tag("one", time_retained=DAY_MS)
    history.tag("two", time_retained=DAY_MS)
    history.compact("b").write("c")
    history.expire(retain_max=1)
    history.now_ms += 2 * DAY_MS

    result = expire(history)

    assert list(result.expired) == ["one", "two"]
    assert history.names() == {"b", "c"}
    history.assert_exact()


def test_a_crash_anywhere_while_tags_expire_leaves_complete_snapshots():
    for number in range(100):
        storage = EventStorage()
        history = only_in_its_tag(storage=storage)
        history.now_ms += 2 * DAY_MS
        storage.crash_at(number)
        try:
            result = expire(history)
        except StorageError:
            result = None
        storage.before = None

        history.assert_sound()
        assert history.reachable() <= history.stored()
        if result is not None and result.stopped == ():
            assert number > 0
            return
    raise AssertionError("never ended")


# ── tags that a table makes by itself ───────────────────────────────────────────────────────────


def days(history: History, *hours: int) -> History:
    """A commit at each of these hours since 1970."""
    for hour in hours:
        history.now_ms = (hour - 1) * HOUR_MS
        history.write(f"h{hour}")
    return history


def test_the_tags_that_are_due_are_made():
    history = days(History(DAILY), 10, 23, 24, 30, 49)

    planned = due(history, dry_run=True)
    assert history.tags() == []
    result = due(history)

    expected = {"1969-12-31": 1, "1970-01-01": 3, "1970-01-02": 5}
    assert (planned.status, planned.created) == ("dry_run", expected)
    assert (result.status, result.created, result.tag, result.snapshot_id) == ("created", expected, "1970-01-02", 5)
    assert due(history).status == "noop"
    assert due(days(history, 72)).created == {"1970-01-03": 6}


def test_automatic_tags_are_kept_for_the_default_time():
    history = days(History({**DAILY, "tag.default-time-retained": "2 d"}), 10)

    due(history)

    assert read_tag(history.handle, "1969-12-31").time_retained is not None


def test_of_too_many_automatic_tags_the_oldest_are_deleted():
    history = days(History({**DAILY, "tag.num-retained-max": "2"}), 10)
    history.tag("mine")
    days(history, 24).compact("c")
    days(history, 49, 73)
    due(history, dry_run=True)
    history.expire(retain_max=1)
    result = due(history)

    # Expiry left only the newest snapshot: the days that it took with it get no tag any more.
    assert result.created == {"1970-01-03": 5}
    days(history, 96, 120)
    result = due(history)
    assert result.deleted_tags == ("1970-01-03",)
    assert history.tags() == ["1970-01-04", "1970-01-05", "mine"]
    history.assert_exact()


def test_files_of_dropped_tags_are_deleted():
    history = days(History({**DAILY, "tag.num-retained-max": "1"}), 10)
    due(history)
    history.now_ms = 23 * HOUR_MS
    history.compact("c").write("d")
    history.expire(retain_max=1)

    result = due(history)

    assert (history.tags(), result.deleted_tags) == (["1970-01-01"], ("1969-12-31",))
    assert history.names() == {"c", "d"}
    history.assert_exact()


def test_numbers_are_names_of_automatic_tags_where_the_format_requires_them():
    history = days(History({**DAILY, "tag.period-formatter": "without_dashes"}), 10)

    assert due(history).created == {"19691231": 1}
    assert history.delete_tag("19691231").status == "deleted"


def test_after_a_batch_job_the_tag_of_the_day_moves():
    history = days(History({"tag.automatic-creation": "batch", "tag.num-retained-max": "1"}), 10)
    history.tag("mine")

    first = due(history).created
    second = due(days(history, 12)).created
    third = due(days(history, 34))

    assert (first, second) == ({"batch-write-1970-01-01": 1}, {"batch-write-1970-01-01": 2})
    assert third.deleted_tags == ("batch-write-1970-01-01",)
    assert history.tags() == ["batch-write-1970-01-02", "mine"]
    assert due(history).status == "noop"


@pytest.mark.parametrize(("name", "why"), [("../x", "plain file name"), (" ", "blank"), ("7", "is a number")])
def test_a_customized_batch_tag_is_checked_as_any_name(name: str, why: str):
    history = days(History({"tag.automatic-creation": "batch", "tag.batch.customized-name": name}), 10)

    with pytest.raises(InvalidArgumentError, match=why):
        due(history)
    assert history.tags() == []


def test_a_table_without_the_option_gets_none():
    assert due(days(History(), 10, 30)).to_dict()["status"] == "noop"


def test_success_files_are_made_and_deleted_with_their_tags():
    history = days(History({**DAILY, "tag.create-success-file": "true"}), 10)
    due(history)
    path = history.handle.paths.tag_success("1969-12-31")
    assert b'"creationTime" : 36000000' in history.storage.read(path)

    history.delete_tag("1969-12-31")

    assert not history.storage.exists(path)
    assert history.tags() == []


def test_a_due_tag_whose_snapshot_expires_meanwhile_is_taken_back():
    storage = EventStorage()
    history = days(History(DAILY, storage=storage), 10, 11)
    storage.once("create", "tag/tag-1969-12-31", lambda: history.expire(retain_max=1))

    with pytest.raises(ConflictError, match="expired"):
        due(history)

    assert history.tags() == []
    assert due(history).created == {"1969-12-31": 2}


# ── tags instead of snapshots ─ ─────────────────────────────────────────────────────────────────


def test_time_travel_falls_back_to_tags_when_snapshots_have_expired():
    history = days(History(DAILY), 10, 24, 49)
    due(history)
    history.expire(retain_max=1)

    def at(hour: int) -> int:
        found = choose_snapshot(history.handle, timestamp_ms=hour * HOUR_MS)
        assert found is not None
        return found.id

    assert [at(10), at(23), at(24), at(48), at(50)] == [1, 1, 2, 2, 3]
    with pytest.raises(NotFoundError, match="as old as"):
        at(9)


# ── Java makes the same tags ────────────────────────────────────────────────────────────────────

MODES: dict[str, dict[str, str]] = {
    "completed": {"tag.automatic-completion": "true"},
    "delayed": {"tag.creation-delay": "2 h", "tag.num-retained-max": "2"},
    "hourly": {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
    "two-hours": {"tag.creation-period": "two-hours"},
    # Java 0.9.0 never finds its tags without dashes again, so it would drop none of them.
    "numbered": {"tag.period-formatter": "without_dashes"},
    "behind": {"sink.watermark-time-zone": "America/New_York"},
}
WATERMARKS = (None, 5, 25, 26, 50, 130, 131, 132)
BY_WATERMARK = {"tag.automatic-creation": "watermark"}


def written_by_java(oracle: Any, warehouse: Path, options: dict[str, str]) -> Path:
    """A table with a commit of each watermark, hours after a day in 1971."""
    oracle.call("open", warehouse=str(warehouse))
    oracle.call("create_database", database="db")
    fields = {"fields": [["k", "BIGINT"]], "primary_keys": ["k"], "options": {"bucket": "1", **options}}
    oracle.call("create_table", table="db.t", **fields)
    for number, hours in enumerate(WATERMARKS):
        watermark = {} if hours is None else {"watermark": (400 * 24 + hours) * HOUR_MS}
        oracle.call("write", table="db.t", rows=[[number]], mode="stream", identifier=number, **watermark)
    return warehouse / "db.db" / "t"


@pytest.mark.parametrize("mode", MODES)
def test_java_makes_the_same_tags(mode: str, oracle: Any, tmp_path: Path):
    options = {**BY_WATERMARK, **MODES[mode]}
    theirs = written_by_java(oracle, tmp_path / "theirs", options)
    ours = tmp_path / "ours"
    shutil.copytree(theirs, ours)
    shutil.rmtree(ours / "tag")

    create_due_tags(Context(load_table(str(ours), EnvConfig(str(ours))), LocalExecutor()), CreateDueTags())

    names = sorted(path.name for path in (theirs / "tag").glob("tag-*"))
    assert sorted(path.name for path in (ours / "tag").glob("tag-*")) == names != []
    for name in names:
        assert (ours / "tag" / name).read_bytes() == (theirs / "tag" / name).read_bytes()
    assert oracle.read(ours, tag=names[0].removeprefix("tag-")) is not None
    oracle.assert_sound(ours)
