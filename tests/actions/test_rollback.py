"""Rollback: an earlier snapshot or tag is the latest again, and only what came after it is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.actions.rollback import Rollback, rollback
from paimon_engine.env import EnvConfig
from paimon_engine.errors import ConflictError, CorruptTableError, InvalidArgumentError, NotFoundError, StorageError
from paimon_engine.executor import LocalExecutor
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.hints import hint_of
from tests.support.corpus import Case, case, corpus_cases
from tests.support.storage_events import Event, EventStorage
from tests.support.world import HOUR_MS
from tests.support.world.made_up import ROOT, History


def test_newer_snapshots_tags_and_files_are_deleted() -> None:
    history = History().write("a").write("b")
    history.tag("stays")
    history.compact("c").write("d")
    history.tag("goes")

    result = history.rollback(snapshot=2)

    assert result.status == "rolled_back"
    assert (result.removed_snapshots, result.removed_tags) == ((3, 4), ("goes",))
    assert (history.ids(), history.latest(), history.tags()) == ([1, 2], 2, ["stays"])
    assert history.names() == {"a", "b"}
    history.assert_exact()


def test_the_table_continues_after_a_rollback() -> None:
    history = History().write("a").write("b")

    history.rollback(snapshot=1)
    history.write("c")

    assert history.ids() == [1, 2]
    assert history.names() == {"a", "c"}
    history.assert_exact()


def test_a_file_that_only_moved_up_stays() -> None:
    history = History().write("a").compact()

    history.rollback(snapshot=1)

    assert history.names() == {"a"}
    history.assert_exact()


def test_an_expired_snapshot_is_restored_from_its_tag() -> None:
    history = History().write("a")
    history.tag("t")
    history.write("b").compact("c").write("d").write("e")
    history.expire(retain_max=2)

    result = history.rollback(tag="t")

    assert (result.snapshot_id, history.ids(), history.latest()) == (1, [1], 1)
    assert history.storage.read(history.handle.paths.earliest_hint) == b"1"
    # c was added by a snapshot that had expired, and lived on in those that were removed.
    assert history.names() == {"a"}
    history.assert_exact()


def test_the_latest_snapshot_needs_no_rollback() -> None:
    history = History().write().write()

    assert history.rollback(snapshot=2).status == "noop"


@pytest.mark.parametrize("fields", [{}, {"snapshot": 1, "tag": "t"}], ids=["none", "both"])
def test_exactly_one_target(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        History().write().rollback(**fields)


def test_the_target_must_exist() -> None:
    history = History().write()

    with pytest.raises(NotFoundError):
        history.rollback(snapshot=7)
    with pytest.raises(NotFoundError):
        history.rollback(tag="none")


def test_a_branch_keeps_its_files_and_its_tag() -> None:
    history = History().write("a").write("b")
    history.tag("base")
    history.branch("dev", "base").write("c", branch="dev")

    with pytest.raises(InvalidArgumentError, match="branch 'dev'"):
        history.rollback(snapshot=1)
    history.write("d").rollback(snapshot=2)

    assert history.names() == {"a", "b", "c"}
    history.assert_exact()


def test_a_branch_rolls_back_alone() -> None:
    history = History().write("a")
    history.tag("base")
    history.branch("dev", "base").write("b", branch="dev").compact("c", branch="dev").write("d")

    history.rollback("dev", snapshot=1)

    assert (history.ids("dev"), history.ids()) == ([1], [1, 2])
    assert history.names() == {"a", "d"}
    history.assert_exact()


def test_a_tag_of_another_history_is_refused() -> None:
    history = History().write("a").write("b")
    history.tag("t")
    tag = history.storage.read(history.handle.paths.tag("t"))
    history.rollback(snapshot=1)
    history.write("c")
    # Other tools leave tags behind.
    history.storage.overwrite(history.handle.paths.tag("t"), tag)

    with pytest.raises(ConflictError, match="another history"):
        history.rollback(tag="t")


def test_consumers_ahead_are_named() -> None:
    history = History().write().write().write()
    history.storage.overwrite(f"{ROOT}/consumer/consumer-job", b'{"nextSnapshot": 4}')

    assert history.rollback(snapshot=1).consumers_ahead == ("job",)


def test_a_commit_meanwhile_is_removed_too() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a").write("b")
    storage.once("delete", "snapshot/snapshot-2", lambda: history.write("c"))

    history.rollback(snapshot=1)

    assert history.ids() == [1]
    history.assert_sound()


def test_a_crash_anywhere_leaves_complete_snapshots_and_can_be_repeated() -> None:
    for number in range(100):
        storage = EventStorage()
        history = History(storage=storage).write("a").write("b")
        history.tag("t")
        history.compact("c").write("d").compact("e").write("f")
        history.tag("new")
        storage.crash_at(number)
        try:
            result = history.rollback(tag="t")
        except StorageError:
            result = None
        storage.before = None

        history.assert_sound()
        assert history.reachable() <= history.stored()
        history.rollback(tag="t")
        assert (history.ids(), history.latest(), history.tags()) == ([1, 2], 2, ["t"])
        history.assert_sound()
        if result is not None and result.stopped == ():
            assert number > 0
            return
    raise AssertionError("never ended")


# ── to a moment ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("hours", "left"), [(1, 1), (2.5, 2), (3, 3), (9, 3)])
def test_the_newest_snapshot_of_a_time_is_the_latest_again(hours: float, left: int) -> None:
    history = History().write("a").write("b").write("c")

    assert history.rollback(timestamp=int(hours * HOUR_MS)).snapshot_id == left

    assert history.latest() == left
    history.assert_exact()


@pytest.mark.parametrize("moment", [{"timestamp": 2 * HOUR_MS}, {"watermark": 20}], ids=["time", "watermark"])
def test_a_moment_whose_snapshot_may_be_out_of_sight_is_refused(moment: dict[str, Any]) -> None:
    history = History().write("a", watermark=10).write("b", watermark=20).write("c", watermark=30)
    history.storage.delete([history.handle.paths.snapshot(2)])

    with pytest.raises(CorruptTableError, match=r"rollback\(snapshot=1\)"):
        history.rollback(**moment)

    assert history.ids() == [1, 3]


def test_only_a_named_snapshot_becomes_the_latest_in_spite_of_the_hint() -> None:
    history = History().write("a").write("b").write("c")
    history.storage.delete([history.handle.paths.snapshot(3)])

    with pytest.raises(CorruptTableError, match=r"LATEST names snapshot 3.*rollback\(snapshot=2\)"):
        history.rollback(timestamp=9 * HOUR_MS)
    assert hint_of(history.handle, history.handle.paths.latest_hint) == 3

    history.rollback(snapshot=2)
    assert hint_of(history.handle, history.handle.paths.latest_hint) == 2


def test_a_time_of_which_only_a_tag_is_left_brings_the_tag_back() -> None:
    history = History().write("a")
    history.tag("t")
    history.compact("b").write("c").expire(retain_max=1)

    result = history.rollback(timestamp=2 * HOUR_MS)

    assert (result.snapshot_id, history.ids(), history.names()) == (1, [1], {"a"})
    history.assert_exact()


@pytest.mark.parametrize(("watermark", "left"), [(10, 3), (19, 3), (20, 4), (99, 4)])
def test_the_newest_snapshot_up_to_a_watermark_is_the_latest_again(watermark: int, left: int) -> None:
    history = History().write("a").write("b", watermark=10).write("c").write("d", watermark=20)

    assert history.rollback(watermark=watermark).snapshot_id == left
    history.assert_exact()


def test_a_moment_before_all_snapshots_is_an_error() -> None:
    history = History().write("a").write("b", watermark=10)

    with pytest.raises(NotFoundError, match="as old as"):
        history.rollback(timestamp=5)
    with pytest.raises(NotFoundError, match="watermark up to 9"):
        history.rollback(watermark=9)


# ── tables written by Java ──────────────────────────────────────────────────────────────────────

WITH_HISTORY = ("expire_with_tags", "tags_basic", "rollback_snapshot", "changelog_lookup", "dv_parquet")


@pytest.mark.parametrize("one", [item for item in corpus_cases() if item.id in WITH_HISTORY])
def test_java_rolls_back_to_the_same_files_and_writes_on(one: Case, oracle: Any, tmp_path: Any) -> None:
    ours, theirs = one.copy_to(tmp_path / "ours"), one.copy_to(tmp_path / "theirs")
    table = load_table(str(ours), EnvConfig(str(ours)))
    target = min(int(path.name.split("-")[1]) for path in (ours / "snapshot").glob("snapshot-*")) + 1
    rows = oracle.read(ours, snapshot=target)

    rollback(Context(table, LocalExecutor()), Rollback(snapshot=target))

    oracle.call("rollback", table=str(theirs), snapshot=target)
    assert _files(ours) == _files(theirs)
    assert oracle.read(ours) == rows
    oracle.assert_sound(ours)
    assert check_table(table) == []


def test_java_reads_a_snapshot_that_was_restored_from_its_tag(oracle: Any, tmp_path: Any) -> None:
    ours = case("expire_with_tags").copy_to(tmp_path)
    table = load_table(str(ours), EnvConfig(str(ours)))
    rows = oracle.read(ours, tag="t-mid")

    rollback(Context(table, LocalExecutor()), Rollback(tag="t-mid"))

    assert oracle.read(ours) == rows
    oracle.assert_sound(ours)
    oracle.call("write", table=str(ours), rows=[[99, 1]])
    assert [99, 1] in oracle.read(ours)
    oracle.assert_sound(ours)


def _files(folder: Any) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if not path.name.startswith(".")}


def test_a_target_that_expires_meanwhile_leaves_the_last_snapshot() -> None:
    """Without it the table would have none."""
    storage = EventStorage()
    history = History({"snapshot.num-retained.min": "1"}, storage=storage)
    history.write("a").write("b").write("c")

    def expire(event: Event) -> None:
        if event == ("delete", history.handle.paths.snapshot(3)):
            storage.before = None
            history.expire(retain_max=1)

    storage.before = expire
    with pytest.raises(ConflictError, match="snapshot 2 .* expired while it was rolled back to; 3 is the latest now"):
        history.rollback(snapshot=2)

    assert history.ids() == [3]
    assert history.latest() == 3
    history.assert_sound()
