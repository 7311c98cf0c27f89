"""A commit that loses against others: how long it is retried, and how few requests each further try needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import tenacity

from paimon_engine.errors import ConflictError, OutcomeUnknownError
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.options import TableOptions
from paimon_engine.table.commit import patience
from paimon_engine.table.commit.commit import CommitRequest, Committed, Conflict, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.counting import CountingStorage
from tests.support.storage_events import EventStorage
from tests.support.world.made_up import History

MORE_THAN_JAVA_ENDURES = 40
QUICK = {"commit.min-retry-wait": "0 ms", "commit.max-retry-wait": "0 ms"}


class Race:
    """A table whose next snapshot others take first, as often as `times` says."""

    def __init__(self, options: dict[str, str] | None = None, files: int = 3) -> None:
        self.events = EventStorage()
        self.counting = CountingStorage(self.events)
        self.history = History(options or {}, storage=self.counting)
        for number in range(files):
            self.history.write(f"old-{number}")
        self.calls: list[Counter[str]] = []

    def let_others_win(self, times: int, act: Callable[[], Any] | None = None) -> None:
        def before(event: tuple[str, str]) -> None:
            nonlocal times
            if event[0] == "create" and "/snapshot/snapshot-" in event[1] and times:
                times -= 1
                self.calls.append(Counter(verb for verb, _ in self.counting.take()))
                now_ms = self.history.now_ms
                (act or self.history.write)()
                self.history.now_ms = now_ms  # the others commit within a moment, not an hour later
                self.counting.take()

        self.counting.take()
        self.events.before = before

    def compaction(self, *names: str) -> CommitRequest:
        live = {
            entry.file.name.removesuffix(".orc"): entry.file for entry in live_entries(self.history.handle, self.latest)
        }
        made: DataFile = self.history.file("compacted", level=5)
        message = CommitMessage(
            EMPTY_ROW, 0, 1, compact_before=tuple(live[name] for name in names), compact_after=(made,)
        )
        return CommitRequest([message], CommitKind.COMPACT, "compactor")

    @property
    def latest(self) -> Any:
        return latest_snapshot(self.history.handle)

    def live(self) -> set[str]:
        return {entry.file.name.removesuffix(".orc") for entry in live_entries(self.history.handle, self.latest)}


@pytest.mark.parametrize("merged_from", ["3", "1000"], ids=["manifests merged often", "never"])
def test_finished_work_is_retried_until_it_is_committed(merged_from: str):
    race = Race({"manifest.merge-min-count": merged_from})
    request = race.compaction("old-0", "old-1")
    race.let_others_win(MORE_THAN_JAVA_ENDURES)

    outcome = commit(race.history.handle, request)

    assert isinstance(outcome, Committed)
    assert outcome.lost_races == MORE_THAN_JAVA_ENDURES
    assert {"compacted", "old-2"} <= race.live()
    assert not {"old-0", "old-1"} & race.live()
    assert race.latest.total_record_count == 3 - 2 + 1 + MORE_THAN_JAVA_ENDURES
    race.history.assert_exact()


@pytest.mark.parametrize("files", [3, 60])
def test_a_further_try_needs_few_requests_however_many_files_there_are(files: int):
    race = Race({"manifest.merge-min-count": "1000"}, files)
    request = race.compaction("old-0", "old-1")
    race.let_others_win(5)

    assert isinstance(commit(race.history.handle, request), Committed)

    # Whose the next snapshot is, and that none follows it; its two lists, and the manifest that it adds: 5 reads.
    # One list to write, and the snapshot to create.
    assert race.calls[1:] == [Counter(read=5, writer=1, create=1)] * 4


def test_a_further_try_of_an_append_reads_no_manifest():
    race = Race({"manifest.merge-min-count": "1000"})
    race.let_others_win(5)

    race.history.write("new")

    assert race.calls[1:] == [Counter(read=4, writer=1, create=1)] * 4
    race.history.assert_exact()


def test_what_others_have_replaced_meanwhile_is_a_conflict_in_any_try():
    race = Race({"manifest.merge-min-count": "1000"})
    request = race.compaction("old-0", "old-1")
    turns = iter([race.history.write, race.history.write, race.history.compact, race.history.write])
    race.let_others_win(4, lambda: next(turns)())

    outcome = commit(race.history.handle, request)

    assert isinstance(outcome, Conflict)
    assert "compacted" not in race.live()
    race.counting.delete([race.history.path("compacted.orc"), race.history.path("compacted.orc.index")])
    race.history.assert_exact()


@pytest.mark.parametrize("lost_before", [0, 3])
def test_another_attempt_of_the_same_job_that_commits_first_is_found(lost_before: int):
    race = Race()
    handle = race.history.handle
    ours, theirs = (
        CommitRequest([CommitMessage(EMPTY_ROW, 0, 1, new_files=(race.history.file(name),))], CommitKind.APPEND, "job")
        for name in ("ours", "theirs")
    )
    turns = iter([*[race.history.write] * lost_before, lambda: commit(handle, theirs)])
    race.let_others_win(lost_before + 1, lambda: next(turns)())

    outcome = commit(handle, ours)

    assert isinstance(outcome, Committed)
    assert outcome.by_other_attempt
    assert "theirs" in race.live()
    assert "ours" not in race.live()


def test_an_overwrite_removes_what_came_while_it_lost_races():
    race = Race()
    race.let_others_win(6)

    race.history.overwrite("new")

    assert race.live() == {"new"}
    race.history.assert_exact()


# ── options of a table ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "tries"),
    [
        ({"commit.max-retries": "4"}, 5),
        ({"commit.timeout": "0 ms"}, 1),
        ({"commit.max-retries": "4", "commit.timeout": "0 ms"}, 1),
        ({"commit.max-retries": "4", "commit.timeout": "1 h"}, 5),
    ],
)
def test_limits_that_a_table_sets_apply(options: dict[str, str], tries: int):
    race = Race({**QUICK, **options})
    race.let_others_win(100)

    with pytest.raises(ConflictError, match=rf"in {tries} tries; raise 'commit\."):
        race.history.write("new")

    race.events.before = None
    assert "new" not in race.live()


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 600),
        ({"commit.timeout": "3 s"}, 3),
        ({"commit.max-retries": "3"}, None),
        ({"commit.max-retries": "3", "commit.timeout": "3 s"}, 3),
    ],
)
def test_how_long_a_commit_is_retried(options: dict[str, str], seconds: float | None):
    assert patience.Patience(TableOptions(options)).seconds == seconds


def waits(options: dict[str, str], tries: int, last_try_s: float = 0.25) -> list[float]:
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    found = []
    for number in range(1, tries + 1):
        state.attempt_number = number
        found.append(patience.wait_s(TableOptions(options), state, last_try_s))
    return found


def test_waits_that_a_table_sets_grow_as_in_java():
    for options, least, most in [
        ({"commit.min-retry-wait": "20 ms"}, 0.02, 10),
        ({"commit.max-retry-wait": "40 ms"}, 0.01, 0.04),
        ({"commit.min-retry-wait": "1 s", "commit.max-retry-wait": "3 s"}, 1, 3),
    ]:
        for number, wait in enumerate(waits(options, 12)):
            expected = min(least * 2**number, most)
            assert expected <= wait <= expected * 1.2


def test_a_writer_that_has_lost_more_often_waits_no_longer_than_a_try_takes():
    bounds = [4.0, 2.0, 4 / 3, *[1.0] * 97]
    for wait, bound in zip(waits({}, 100), bounds, strict=True):
        assert 0 <= wait <= 0.25 * bound
    assert max(waits({}, 100, last_try_s=60)) <= 2


# ── a store that does not answer ────────────────────────────────────────────────────────────────


def test_a_store_that_never_answers_is_reported_after_some_tries():
    tries = []

    def lost(event: tuple[str, str]) -> None:
        if event[0] == "create":
            tries.append(event)
            raise OutcomeUnknownError(f"{event[1]}: no reply")

    race = Race(QUICK)
    race.events.before = lost

    with pytest.raises(OutcomeUnknownError, match="never confirmed"):
        race.history.write("new")

    assert len(tries) == 11
