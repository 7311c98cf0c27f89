"""Expiry in rounds: it deletes all that may expire, however much that is, and says what is left and why.

A round is small here, so that few snapshots make many rounds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.actions import expire_changelogs as expire_changelogs_module
from paimon_engine.actions import expire_snapshots as expire_snapshots_module
from paimon_engine.actions.consumers import ResetConsumer
from paimon_engine.actions.expire_snapshots import ExpireSnapshots, expire_snapshots
from paimon_engine.actions.restore import Restore
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest, rollback_to_as_latest
from paimon_engine.errors import InvalidArgumentError, StorageError
from paimon_engine.progress import Progress
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.removal import expiry
from tests.support.killed_storage import Killed, KilledStorage
from tests.support.metering import Metered
from tests.support.world.made_up import History

KEEP_ONE = {"snapshot.num-retained.min": "1"}
PER_ROUND = 3


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (expiry, expire_snapshots_module, expire_changelogs_module):
        monkeypatch.setattr(module, "ROUND_SNAPSHOTS", PER_ROUND)


def of_length(count: int, storage: Any = None, **options: str) -> History:
    history = History({**KEEP_ONE, **options}, storage=storage or MemoryStorage())
    for number in range(count):
        history.compact() if number % 4 == 3 else history.write()
    return history


def copied(history: History) -> History:
    """The same table in a store of its own."""
    storage = MemoryStorage()
    inner = getattr(history.storage, "inner", history.storage)
    storage.load(inner.dump())
    found = History(history.options, storage=storage, now_ms=history.now_ms)
    found.numbers = itertools.count(1000)
    return found


def test_all_that_may_expire_expires_though_it_is_more_than_java_deletes_at_once() -> None:
    history = of_length(70)

    done = history.expire(retain_max=2)

    assert done.expired_snapshots == tuple(range(1, 69))
    assert (done.status, done.remaining, done.remaining_because) == ("expired", 0, ())
    history.assert_exact()


def test_a_limit_is_that_of_the_caller_or_of_the_table_and_says_what_is_left() -> None:
    history = of_length(12, **{"snapshot.expire.limit": "2"})

    by_option = history.expire(retain_max=1)
    by_caller = history.expire(retain_max=1, limit=5)

    assert (by_option.expired_snapshots, by_option.remaining) == ((1, 2), 9)
    assert "limit of 2" in by_option.remaining_because[0]
    assert (by_caller.expired_snapshots, by_caller.remaining) == ((3, 4, 5, 6, 7), 4)
    assert by_caller.remaining_because == by_caller.stopped
    history.assert_exact()


@pytest.mark.usefixtures("small_rounds")
def test_a_limit_applies_to_all_rounds_together() -> None:
    history = of_length(12)

    done = history.expire(retain_max=1, limit=7)

    assert (done.expired_snapshots, done.remaining, done.rounds) == (tuple(range(1, 8)), 4, 3)
    assert done.remaining_because == (
        "the limit of 7 ('limit' or 'snapshot.expire.limit') is reached; run again for the rest",
    )
    history.assert_exact()


@pytest.mark.usefixtures("small_rounds")
def test_no_round_begins_after_the_time_is_over() -> None:
    history = of_length(12)

    done = history.expire(retain_max=1, max_seconds=1e-9)

    assert (done.expired_snapshots, done.rounds, done.remaining) == ((1, 2, 3), 1, 8)
    assert done.remaining_because == ("max_seconds=1e-09 were over",)
    history.assert_exact()


@pytest.mark.parametrize("fields", [{"limit": 0}, {"max_seconds": 0}, {"max_seconds": float("nan")}])
def test_limits_that_let_nothing_expire_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        of_length(3).expire(**fields)


@pytest.mark.usefixtures("small_rounds")
def test_what_a_consumer_still_reads_remains() -> None:
    history = of_length(12)
    history.run(ResetConsumer("slow", 6))

    done = history.expire(retain_max=1)

    assert (done.expired_snapshots, done.remaining) == ((1, 2, 3, 4, 5), 6)
    assert done.remaining_because == ("consumer 'slow' will read snapshot 6 next",)


@pytest.mark.usefixtures("small_rounds")
def test_progress_is_reported_after_every_round() -> None:
    reports: list[Progress] = []
    history = of_length(8)

    expire_snapshots(
        Context(history.handle, history.executor, on_progress=reports.append), ExpireSnapshots(retain_max=1)
    )

    assert [(item.stage, item.done, item.total) for item in reports] == [("expire", done, 7) for done in (0, 3, 6, 7)]


def grown(seed: int) -> History:
    """A random history with everything that keeps or restores files."""
    chance = random.Random(seed)
    history = History({**KEEP_ONE, "changelog-producer": chance.choice(["none", "input"])}).write("first")
    history.tag("t0")
    history.branch("dev", "t0")
    for number in range(chance.randint(12, 24)):
        match chance.choices(["write", "compact", "overwrite", "tag", "back", "branch"], [5, 5, 1, 2, 1, 1])[0]:
            case "write":
                history.write()
            case "compact":
                history.compact()
            case "overwrite":
                history.overwrite()
            case "tag":
                history.tag(f"t{number + 1}", chance.choice(history.ids()))
            case "back":
                spec = RollbackToAsLatest(snapshot=chance.choice(history.ids()))
                rollback_to_as_latest(Context(history.handle, commit_user=f"back-{number}"), spec)
            case _:
                history.write(branch="dev")
    return history


@pytest.mark.parametrize("seed", range(12))
def test_rounds_delete_what_one_round_deletes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history = grown(seed)
    whole = copied(history)
    expected = whole.expire(retain_max=1 + seed % 3)
    monkeypatch.setattr(expiry, "ROUND_SNAPSHOTS", PER_ROUND)

    planned = history.expire(retain_max=1 + seed % 3, dry_run=True)
    done = history.expire(retain_max=1 + seed % 3)

    assert done.rounds > expected.rounds
    assert done.expired_snapshots == expected.expired_snapshots == planned.expired_snapshots
    paths = [{file.path for file in item.deleted} for item in (expected, planned, done)]
    assert paths[0] == paths[1] == paths[2]
    assert done.kept_by_tags == expected.kept_by_tags
    assert history.stored() == whole.stored()
    history.assert_exact()


def killed(history: History, **fields: Any) -> Iterator[History]:
    """The table after a kill at each change that an expiry makes."""
    files, now_ms = history.storage.dump(), history.now_ms

    def fresh() -> History:
        inner = MemoryStorage()
        inner.load(files)
        found = History(history.options, storage=KilledStorage(inner), now_ms=now_ms)
        found.numbers = itertools.count(1000)
        return found

    whole = fresh()
    whole.storage.arm(None)
    whole.expire(parallelism=1, **fields)
    for number in range(whole.storage.changes):
        found = fresh()
        found.storage.arm(number)
        with pytest.raises(Killed):
            found.expire(parallelism=1, **fields)
        found.storage.arm(None)
        yield found


@pytest.mark.usefixtures("small_rounds")
def test_a_kill_between_or_inside_rounds_loses_nothing_and_the_next_run_finishes() -> None:
    history = History(KEEP_ONE).write("a").write("b").compact("c").write("d").compact("e")
    # Deleted files are restored, first in the middle of what expires, then in what stays.
    history.run(RollbackToAsLatest(snapshot=2), "once")
    history.compact("f").write("g").overwrite("h")
    history.run(RollbackToAsLatest(snapshot=4), "twice")

    for found in killed(history, retain_max=1):
        found.assert_sound()
        assert found.reachable() <= found.stored()
        found.expire(retain_max=1)
        found.assert_exact()
        assert found.ids() == [10]
        assert not found.storage.list(f"{found.root}/deletion")


@pytest.mark.usefixtures("small_rounds")
def test_what_several_rounds_moved_aside_is_restored_in_the_reported_order() -> None:
    history = of_length(10)
    before = history.stored()

    done = history.expire(retain_max=1, quarantine=True)
    for name in done.quarantines:
        assert history.run(Restore(quarantine=name)).status == "restored"

    assert len(done.quarantines) == done.rounds == 3
    assert done.quarantine == done.quarantines[0]
    assert history.ids() == list(range(1, 11))
    assert history.stored() == before


class Failing(MemoryStorage):
    """Fails to list snapshots from a point on."""

    left: int | None = None

    def list(self, prefix: str) -> Any:
        if self.left is not None and prefix.endswith("/snapshot"):
            self.left -= 1
            if self.left < 0:
                raise StorageError(f"{prefix}: the store is busy")
        return super().list(prefix)


@pytest.mark.usefixtures("small_rounds")
def test_a_failure_after_the_first_round_reports_what_was_done() -> None:
    storage = Failing()
    history = of_length(12, storage)
    storage.left = 2

    done = history.expire(retain_max=1)

    assert (done.status, done.expired_snapshots, done.remaining) == ("expired", (1, 2, 3), 8)
    assert "the store is busy" in done.remaining_because[-1]
    storage.left = None
    assert history.expire(retain_max=1).remaining == 0
    history.assert_exact()


@pytest.mark.usefixtures("small_rounds")
def test_the_newest_readable_snapshot_stays_in_whichever_round_it_would_expire() -> None:
    history = of_length(10)
    for number in (8, 9, 10):
        snapshot = history.handle.paths.snapshot(number)
        history.storage.overwrite(
            snapshot, history.storage.read(snapshot).replace(b"manifest-list-", b"manifest-lost-")
        )

    done = history.expire(retain_max=1)

    assert history.ids()[0] == 7
    assert done.remaining > 0
    assert any("snapshot 7 stays" in reason for reason in done.stopped)


def test_rounds_read_about_as_much_for_each_snapshot_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "ROUND_SNAPSHOTS", 20)
    calls = {}
    for count in (40, 120):
        storage = Metered()
        history = of_length(count, storage, **{"manifest.merge-min-count": "10"})
        storage.reset()
        history.expire(retain_max=1)
        calls[count] = storage.calls["read"]

    # Small files of snapshots are read again in each round; what they name is not.
    assert calls[120] < calls[40] * 3 * 2


@pytest.mark.usefixtures("small_rounds")
@pytest.mark.parametrize("producer", ["none", "input"])
def test_changelogs_expire_in_rounds_too(producer: str) -> None:
    options = {**KEEP_ONE, "changelog-producer": producer, "changelog.time-retained": "100 d"}
    options |= {"changelog.num-retained.max": "100"}
    history = of_length(14, **{**options, "snapshot.num-retained.max": "1"})
    assert history.expire(retain_max=1).kept_changelogs == tuple(range(1, 14))
    rest = copied(history)

    planned = history.expire_changelogs(retain_max=2, retain_min=1, dry_run=True)
    done = history.expire_changelogs(retain_max=2, retain_min=1)
    some = rest.expire_changelogs(retain_max=2, retain_min=1, limit=5)

    assert done.expired_changelogs == planned.expired_changelogs == tuple(range(1, 13))
    assert {file.path for file in done.deleted} == {file.path for file in planned.deleted}
    assert (done.remaining, some.remaining, len(some.expired_changelogs)) == (0, 7, 5)
    history.assert_exact()
    assert rest.reachable() <= rest.stored()


@pytest.mark.usefixtures("small_rounds")
def test_expiry_takes_snapshots_and_changelogs_in_rounds_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"changelog-producer": "input", "changelog.num-retained.max": "4", "snapshot.num-retained.max": "2"}
    history = of_length(13, **options)
    whole = copied(history)
    done = history.expire()
    monkeypatch.undo()

    expected = whole.expire()

    assert done.expired_snapshots == expected.expired_snapshots == tuple(range(1, 12))
    assert history.stored() == whole.stored()
    assert (done.earliest_snapshot_id, done.latest_snapshot_id) == (12, 13)
    history.assert_exact()
