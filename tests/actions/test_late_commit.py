"""A committer that was paused while others committed and expired: the number that it wants is free again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.errors import NotFoundError, OutcomeUnknownError
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.snapshot import CommitKind, snapshot_to_json
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot, latest_snapshot_id, read_snapshot
from tests.support.storage_events import EventStorage
from tests.support.world.made_up import History


def request(history: History, name: str) -> CommitRequest:
    message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(history.file(name),))
    return CommitRequest([message], CommitKind.APPEND, f"user of {name}", checked_up_to=0)


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("others", [2, 3])
def test_a_commit_whose_number_has_expired_meanwhile_is_made_again(before: int, others: int) -> None:
    store = EventStorage()
    history = History({"snapshot.num-retained.min": "1", "commit.min-retry-wait": "0 ms"}, storage=store)
    for _ in range(before):
        history.write()

    def others_go_on() -> None:
        for _ in range(others):
            history.write()
        history.expire(retain_max=1)

    late = request(history, "late")
    store.once("create", f"snapshot-{before + 1}", others_go_on)
    outcome = commit(history.handle, late)

    assert isinstance(outcome, Committed)
    assert outcome.snapshot.id == before + others + 1
    assert history.ids() == [before + others, before + others + 1]
    assert "late" in history.names()
    history.assert_exact()


def test_a_late_commit_whose_reply_was_lost_is_made_again() -> None:
    store = EventStorage()
    history = History({"snapshot.num-retained.min": "1", "commit.min-retry-wait": "0 ms"}, storage=store).write()

    def others_go_on() -> None:
        history.write().write().write()
        history.expire(retain_max=1)

    late = request(history, "late")
    create = store._inner.create
    lost = []

    def loses_reply(path: str, data: bytes) -> bool:
        made = create(path, data)
        if path.endswith("/snapshot-2") and b"user of late" in data and not lost:
            lost.append(path)
            raise OutcomeUnknownError(f"{path}: no reply")
        return made

    store._inner.create = loses_reply  # type: ignore[method-assign]
    store.once("create", "snapshot-2", others_go_on)
    outcome = commit(history.handle, late)

    assert lost
    assert isinstance(outcome, Committed)
    assert history.ids() == [4, 5]
    history.assert_exact()


def test_a_job_that_died_after_a_late_commit_commits_when_it_is_repeated() -> None:
    store = EventStorage()
    history = History({"snapshot.num-retained.min": "1", "commit.min-retry-wait": "0 ms"}, storage=store).write()
    create = store._inner.create

    def dies_after(path: str, data: bytes) -> bool:
        create(path, data)
        raise KeyboardInterrupt

    def others_go_on() -> None:
        history.write().write().write()
        history.expire(retain_max=1)
        store._inner.create = dies_after  # type: ignore[method-assign]

    late = request(history, "late")
    store.once("create", "snapshot-2", others_go_on)
    with pytest.raises(KeyboardInterrupt):
        commit(history.handle, late)
    assert history.ids() == [2, 4]

    store._inner.create = create  # type: ignore[method-assign]
    outcome = commit(history.handle, request(history, "late"))

    assert isinstance(outcome, Committed)
    assert outcome.snapshot.id == 5
    # What came too late is deleted like any old snapshot.
    history.expire(retain_max=1)
    assert history.ids() == [5]


@pytest.mark.parametrize("late", [[2], [2, 3]])
def test_a_late_snapshot_of_another_engine_is_not_taken_for_the_latest(late: Sequence[int]) -> None:
    """Its commit was paused until others had expired the number. Java, and who follows its hint, goes on from it."""
    history = History({"snapshot.num-retained.min": "1"})
    for _ in range(6):
        history.write()
    paths, stale = history.handle.paths, {number: read_snapshot(history.handle, number) for number in late}
    history.expire(retain_max=2)
    for number, snapshot in stale.items():
        assert history.storage.create(paths.snapshot(number), snapshot_to_json(snapshot).encode())
        history.storage.overwrite(paths.latest_hint, str(number).encode())
    names = set(history.names())

    assert latest_snapshot_id(history.handle) == 6
    history.write("next")

    newest = latest_snapshot(history.handle)
    assert newest is not None
    assert newest.id == 7
    assert set(history.names()) == {*names, "next"}
    assert history.storage.read(paths.latest_hint) == b"7"
    history.expire(retain_max=1)
    assert history.ids() == [7]


REPLIES = pytest.mark.parametrize("reply", ["arrives", "is lost", "is that to a repeated request"])


def reply_so(store: EventStorage, reply: str, name: str) -> None:
    """How the store answers when a file of that name is created."""
    create = store._inner.create

    def create_and_reply(path: str, data: bytes) -> bool:
        made = create(path, data)
        if path.endswith(name):
            if reply == "is lost":
                raise OutcomeUnknownError(f"{path}: no reply")
            if reply == "is that to a repeated request":
                return create(path, data)
        return made

    store._inner.create = create_and_reply  # type: ignore[method-assign]


@REPLIES
@pytest.mark.parametrize("others_go_on", [False, True])
def test_a_commit_during_a_rollback_follows_the_current_snapshot(others_go_on: bool, reply: str) -> None:
    store = EventStorage()
    history = History({"commit.min-retry-wait": "0 ms"}, storage=store).write("a").write("b")

    def roll_back() -> None:
        history.rollback(snapshot=1)
        if others_go_on:
            history.write("c")

    ours = request(history, "ours")
    reply_so(store, reply, "/snapshot-3")
    store.once("create", "/snapshot/snapshot-3", roll_back)

    outcome = commit(history.handle, ours)

    assert isinstance(outcome, Committed)
    live = {entry.file.name for entry in live_entries(history.handle, outcome.snapshot)}
    assert live == {"a.orc", "ours.orc", *(["c.orc"] if others_go_on else [])}
    history.assert_exact()


@REPLIES
@pytest.mark.parametrize("others_go_on", [False, True])
def test_a_snapshot_of_metadata_during_a_rollback_follows_the_current_one(others_go_on: bool, reply: str) -> None:
    store = EventStorage()
    history = History({"commit.min-retry-wait": "0 ms"}, storage=store).write("a").write("b").write("c")
    history.tag("t", 1)

    def roll_back() -> None:
        history.rollback(snapshot=2)
        if others_go_on:
            history.write("d")

    reply_so(store, reply, "/snapshot-4")
    store.once("create", "/snapshot/snapshot-4", roll_back)

    done = history.run(RollbackToAsLatest(tag="t"))

    assert done.snapshot_id == (4 if others_go_on else 3)
    latest = latest_snapshot(history.handle)
    assert latest is not None
    assert {entry.file.name for entry in live_entries(history.handle, latest)} == {"a.orc"}
    history.assert_exact()


@pytest.mark.parametrize("commits", [0, 1], ids=["as created", "written to"])
def test_a_commit_to_a_branch_that_was_deleted_meanwhile_is_refused(commits: int) -> None:
    store = EventStorage()
    history = History({"commit.min-retry-wait": "0 ms"}, storage=store).write("a")
    history.tag("t")
    history.branch("b", "t")
    for _ in range(commits):
        history.write(branch="b")
    late, branch = request(history, "late"), history.on("b")

    store.once("create", "branch-b/snapshot/snapshot-", lambda: history.delete_branch("b"))
    with pytest.raises(NotFoundError, match=r"branch 'b' of .* was deleted during the commit"):
        commit(branch, late)

    assert not [info for info in store.walk(f"{history.root}/branch") if "/snapshot/" in info.path]
    assert check_table(history.handle, footers=False) == []
    history.remove_orphans()
    history.assert_exact()


def test_a_commit_to_a_table_that_was_dropped_meanwhile_is_refused() -> None:
    store = EventStorage()
    history = History({"commit.min-retry-wait": "0 ms"}, storage=store).write("a")

    store.once("create", "snapshot/snapshot-", lambda: store.delete_tree(history.root))
    with pytest.raises(NotFoundError, match="was deleted during the commit, which is not done"):
        commit(history.handle, request(history, "late"))

    assert not [info for info in store.walk(history.root) if "/snapshot/" in info.path]


def test_a_clean_up_goes_on_when_a_branch_is_deleted_before_its_fence() -> None:
    store = EventStorage()
    history = History({"commit.min-retry-wait": "0 ms"}, storage=store).write("a")
    history.tag("t")
    history.branch("b", "t")
    history.write(branch="b")
    history.file("orphan")

    store.once("create", "branch-b/snapshot/snapshot-", lambda: history.delete_branch("b"))
    result = history.remove_orphans()

    assert result.status == "deleted"
    assert history.path("orphan.orc") in {file.path for file in result.deleted}
    assert check_table(history.handle, footers=False) == []
    assert history.handle.paths.branch_dir not in {info.path for info in store.walk(history.root)}
