"""An earlier snapshot as a new one: its rows are back, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paimon_engine import Table
from paimon_engine.action import Context
from paimon_engine.actions.rollback_to_as_latest import (
    RollbackToAsLatest,
    RollbackToAsLatestResult,
    rollback_to_as_latest,
)
from paimon_engine.env import EnvConfig
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, OutcomeUnknownError, StorageError
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import delta_entries, live_entries
from paimon_engine.table.state.snapshots import HELD_PREFIX, latest_snapshot, read_snapshot
from tests.reports.replay import histories
from tests.support.corpus import Case, corpus_cases
from tests.support.storage_events import EventStorage
from tests.support.world import HOUR_MS, World
from tests.support.world.check import assert_sound, rows
from tests.support.world.made_up import History


def restore(history: History, user: str = "user", **fields: Any) -> RollbackToAsLatestResult:
    return history.run(RollbackToAsLatest(**fields), user)


def live(history: History) -> set[str]:
    found = live_entries(history.handle, latest_snapshot(history.handle))
    return {entry.file.name.removesuffix(".orc") for entry in found}


def test_the_files_of_then_are_those_of_now_and_all_snapshots_stay():
    history = History().write("a").write("b").compact("c").write("d")

    result = restore(history, snapshot=2)

    assert (result.status, result.snapshot_id, result.restored_snapshot, result.previous_snapshot) == (
        *("committed", 5, 2),
        4,
    )
    assert (result.files_added, result.files_removed) == (2, 2)
    assert (history.ids(), live(history)) == ([1, 2, 3, 4, 5], {"a", "b"})
    made = read_snapshot(history.handle, 5)
    assert (made.commit_kind, made.total_record_count, made.delta_record_count) == (CommitKind.OVERWRITE, 2, -1)
    assert len(delta_entries(history.handle, made)) == 4
    history.assert_exact()


def test_restored_files_survive_the_expiry_of_the_snapshots_that_removed_them():
    history = History().write("a").compact("b").write("c")
    restore(history, snapshot=1)
    history.write("d").expire(retain_max=1)

    assert live(history) == {"a", "d"}
    assert len(history.tags()) == 1
    history.delete_tag(history.tags()[0])
    assert history.names() == {"a", "d"}
    history.assert_exact()


def test_a_snapshot_that_has_expired_is_restored_from_its_tag():
    history = History().write("a")
    history.tag("t")
    history.compact("b").write("c").expire(retain_max=1)

    assert restore(history, tag="t").tag == "t"

    assert (history.ids(), live(history), history.tags()) == ([3, 4], {"a"}, ["t"])
    assert restore(history, "other", snapshot=1).restored_snapshot == 1
    history.assert_exact()


def test_a_moment_chooses_as_a_rollback_does():
    history = History().write("a", watermark=10).write("b").write("c", watermark=20)

    assert restore(history, "one", timestamp=HOUR_MS + 1).restored_snapshot == 1
    # The new snapshot has the watermark of the one that it holds.
    assert restore(history, "two", watermark=19).restored_snapshot in (2, 4)


@pytest.mark.parametrize("fields", [{}, {"snapshot": 1, "tag": "t"}])
def test_exactly_one_target(fields: dict[str, Any]):
    with pytest.raises(InvalidArgumentError, match="in one way"):
        restore(History().write(), **fields)


def test_the_target_must_exist():
    with pytest.raises(NotFoundError, match="no snapshot 9"):
        restore(History().write(), snapshot=9)


def test_a_repeated_job_finds_its_own_snapshot():
    history = History().write("a").write("b")
    first = restore(history, snapshot=1)
    history.write("c")

    again = restore(history, snapshot=1)

    assert (again.status, again.snapshot_id) == ("already_done", first.snapshot_id)
    assert len(history.tags()) == 1


def test_commits_of_others_meanwhile_are_taken_into_account():
    storage = EventStorage()
    history = History(storage=storage).write("a").write("b")
    storage.once("create", "snapshot/snapshot-3", lambda: history.write("c"))

    result = restore(history, snapshot=1)

    assert (result.snapshot_id, result.previous_snapshot, live(history)) == (4, 3, {"a"})
    history.assert_exact()


def test_a_commit_that_always_loses_gives_up():
    storage = EventStorage()
    history = History({"commit.max-retries": "2"}, storage=storage).write("a").write("b")

    def others(event: tuple[str, str]) -> None:
        if event[0] == "create" and "/snapshot/snapshot-" in event[1]:
            history.write()

    storage.before = others
    with pytest.raises(ConflictError, match="3 tries"):
        restore(history, snapshot=1)
    storage.before = None
    history.assert_exact()


class LosesReplies(EventStorage):
    """Makes snapshots, but the answer is lost."""

    losing = False

    def create(self, path: str, data: bytes) -> bool:
        created = super().create(path, data)
        if self.losing and "/snapshot/" in path:
            raise OutcomeUnknownError(f"{path}: no reply")
        return created


def test_a_lost_reply_is_looked_up():
    storage = LosesReplies()
    history = History(storage=storage).write("a").write("b")
    storage.losing = True

    assert restore(history, snapshot=1).status == "committed"
    assert history.ids() == [1, 2, 3]


def test_a_crash_anywhere_leaves_a_complete_table_and_the_job_can_be_repeated():
    for number in range(60):
        storage = EventStorage()
        history = History(storage=storage).write("a").compact("b").write("c")
        storage.crash_at(number)
        try:
            restore(history, snapshot=1)
        except StorageError:
            cut_short = True
        else:
            cut_short = False
        storage.before = None

        history.assert_sound()
        restore(history, snapshot=1)
        kept = [name for name in history.tags() if not name.startswith(HELD_PREFIX)]
        assert (history.ids(), live(history), len(kept)) == ([1, 2, 3, 4], {"a"}, 1)
        if not cut_short:
            return
    raise AssertionError("never ended")


OTHERS: dict[str, Callable[[Table], Any]] = {
    "deleted": lambda table: table.delete_tag("then"),
    "moved": lambda table: table.create_tag("then", if_exists="replace"),
}


@pytest.mark.parametrize("how", OTHERS)
def test_a_tag_that_others_take_away_meanwhile_does_not_take_its_files_along(how: str):
    def prepare() -> World:
        world = World()
        world.create(keys=("p", "k"), bucket=1, snapshot__num_retained__min=1)
        world.write({1: 1})
        world.table().create_tag("then")
        world.write({1: 2})
        world.table().compact(full=True)
        world.table().expire_snapshots(1, 1)
        return world

    def job(table: Table) -> str:
        try:
            return str(table.rollback_to_as_latest(tag="then").tag)
        except (ConflictError, NotFoundError):
            return "nothing"

    outcomes = set()
    for world, tag in histories(prepare, job, OTHERS[how]):
        assert_sound(world.handle)
        outcomes.add(tag == "then" or tag.split("-")[0])
        names = world.table().tags()["tag_name"].to_pylist()
        assert not [name for name in names if name.startswith(HELD_PREFIX)]
        if tag in names:
            assert rows(world.table()) == rows(world.table(), tag=tag)
        if tag.startswith("rollback"):
            assert rows(world.table(), tag=tag) == (("a", 1, 1),)
    assert {True, "rollback"} <= outcomes


def test_the_tag_that_lasts_as_long_as_the_work_is_no_event_for_those_who_watch_tags():
    def prepare() -> World:
        world = World()
        world.create(keys=("p", "k"), bucket=1)
        world.write({1: 1})
        world.table().create_tag("then")
        return world

    listed, shown = set[str](), set[str]()

    def look(table: Table) -> None:
        listed.update(table.tag_names())
        shown.update(table.tags()["tag_name"].to_pylist())

    for _ in histories(prepare, lambda table: table.rollback_to_as_latest(tag="then"), look):
        pass

    assert listed == {"then"}
    assert {name[: len(HELD_PREFIX)] for name in shown - listed} == {HELD_PREFIX}


WITH_HISTORY = ("rollback_snapshot", "changelog_lookup", "dv_parquet")


@pytest.mark.parametrize("one", [item for item in corpus_cases() if item.id in WITH_HISTORY])
def test_java_reads_it_and_continues(one: Case, oracle: Any, tmp_path: Any):
    ours = one.copy_to(tmp_path)
    table = load_table(str(ours), EnvConfig(str(ours)))
    target = min(int(path.name.split("-")[1]) for path in (ours / "snapshot").glob("snapshot-*")) + 1
    rows = oracle.read(ours, snapshot=target)

    rollback_to_as_latest(Context(table, commit_user="us"), RollbackToAsLatest(snapshot=target))

    assert oracle.read(ours) == rows
    oracle.assert_sound(ours)
    assert check_table(table) == []
    oracle.call("compact", table=str(ours))
    oracle.call("expire", table=str(ours), retain_max=1)
    assert oracle.read(ours) == rows
    oracle.assert_sound(ours)
