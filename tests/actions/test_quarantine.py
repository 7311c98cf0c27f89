"""Quarantines in every action that deletes: what is moved, where it is stored, and how it is restored."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from paimon_engine.actions.branches import DeleteBranch, FastForward, RenameBranch
from paimon_engine.actions.create_due_tags import CreateDueTags
from paimon_engine.actions.expire_tags import ExpireTags
from paimon_engine.actions.purge_files import PurgeFiles
from paimon_engine.actions.restore import (
    EmptyQuarantine,
    Restore,
    RestoreResult,
    list_quarantines,
)
from paimon_engine.errors import ConflictError, InvalidArgumentError, StorageError, UnsupportedError
from paimon_engine.executor import LocalExecutor
from paimon_engine.meta.schema import schema_to_json
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.removal import file_removal as disposal
from paimon_engine.table.removal.file_removal import Disposal, cut, paced
from paimon_engine.table.state.snapshots import snapshot_ids, tag_names
from paimon_engine.units import DAY_MS
from tests.support.world.made_up import ROOT, History, everything


def bring_back(history: History, quarantine: str | None, **fields: Any) -> RestoreResult:
    assert quarantine is not None
    return history.run(Restore(quarantine=quarantine, **fields))


@pytest.fixture
def history() -> History:
    """Six snapshots: three writes, a compaction with tag `old` before it, two writes; and a branch with a commit."""
    history = History({"snapshot.num-retained.min": "1"}).write("a").write("b").write("c")
    history.tag("old", 3)
    history.tag("fork", 2)
    history.branch("dev", "fork")
    history.write("on-dev", branch="dev")
    return history.compact("d").write("e").overwrite("f")


def _expire(history: History) -> Any:
    return history.expire(retain_max=1, quarantine=True)


def _delete_tag(history: History) -> Any:
    history.expire(retain_max=1)
    return history.delete_tag("old", quarantine=True)


def _expire_tags(history: History) -> Any:
    history.expire(retain_max=1)
    spec = ExpireTags(older_than=history.long_after(), quarantine=True)
    return history.run(spec)


def _rollback(history: History) -> Any:
    return history.rollback(snapshot=3, quarantine=True)


def _delete_branch(history: History) -> Any:
    return history.run(DeleteBranch("dev", quarantine=True))


@pytest.mark.parametrize("action", [_expire, _delete_tag, _expire_tags, _rollback, _delete_branch])
def test_what_was_moved_aside_is_restored_unchanged(history: History, action: Callable[[History], Any]) -> None:
    if action in (_delete_tag, _expire_tags):
        history.expire(retain_max=1)
    before, roots = everything(history), history.reachable()

    done = action(history)

    assert done.files_deleted > 0
    assert all(path not in everything(history) for path in (file.path for file in done.deleted))
    history.assert_sound()
    assert bring_back(history, done.quarantine, dry_run=True).status == "dry_run"
    back = bring_back(history, done.quarantine)
    assert (back.status, back.missing) == ("restored", ())
    assert everything(history) == before
    assert history.reachable() == roots
    history.assert_sound()
    assert list_quarantines(history.handle) == []


def test_a_repeated_restore_finds_that_it_is_done(history: History) -> None:
    """A retry whose answer was lost has failed with the error that there is no such quarantine."""
    done = _rollback(history)
    back = bring_back(history, done.quarantine)
    before = everything(history)

    again = bring_back(history, done.quarantine)
    planned = bring_back(history, done.quarantine, dry_run=True)

    assert again.status == planned.status == "already_done"
    assert (again.action, again.files, again.snapshots) == ("rollback", back.files, back.snapshots)
    assert again.files > 0
    assert everything(history) == before


def test_that_a_quarantine_was_restored_is_known_for_a_month(history: History) -> None:
    done = _rollback(history)
    bring_back(history, done.quarantine)

    history.long_after()
    history.now_ms += 29 * DAY_MS
    history.run(EmptyQuarantine())
    assert bring_back(history, done.quarantine).status == "already_done"
    history.now_ms += 2 * DAY_MS
    history.run(EmptyQuarantine(dry_run=True))
    assert bring_back(history, done.quarantine).status == "already_done"
    history.run(EmptyQuarantine())
    with pytest.raises(InvalidArgumentError, match="no quarantine"):
        bring_back(history, done.quarantine)
    assert not [info.path for info in history.storage.walk(ROOT) if "/quarantine/" in info.path]


def test_a_dry_run_names_just_what_is_then_moved_aside(history: History) -> None:
    planned = history.expire(retain_max=1, dry_run=True, quarantine=True)
    before = everything(history)
    done = history.expire(retain_max=1, quarantine=True)

    assert planned.quarantine is None
    assert planned.deleted == done.deleted
    for file in done.deleted:
        aside = f"{ROOT}/quarantine/{done.quarantine}/{file.path.removeprefix(ROOT + '/')}"
        assert history.storage.read(aside) == before[file.path]
    (listed,) = list_quarantines(history.handle)
    assert (listed["quarantine"], listed["action"], listed["files"]) == (
        done.quarantine,
        "expire_snapshots",
        len(done.deleted),
    )


def test_an_earlier_expiry_is_restored_after_the_later_one(history: History) -> None:
    before = everything(history)
    first = history.expire(retain_max=4, quarantine=True)
    second = history.expire(retain_max=1, quarantine=True)

    with pytest.raises(ConflictError, match="restore newer quarantines first"):
        bring_back(history, first.quarantine)
    assert bring_back(history, second.quarantine).status == "restored"
    assert bring_back(history, first.quarantine).snapshots == first.expired_snapshots
    assert everything(history) == before


def test_snapshots_whose_numbers_others_have_are_restored_as_tags(history: History) -> None:
    gone = history.rollback(snapshot=3, quarantine=True)
    history.write("other")

    with pytest.raises(ConflictError, match="snapshot-4 exists with other content"):
        bring_back(history, gone.quarantine)
    back = bring_back(history, gone.quarantine, as_tags=True)

    assert back.tags == ("restored-4", "restored-5", "restored-6")
    assert snapshot_ids(history.handle) == [1, 2, 3, 4]
    history.assert_sound()
    assert history.reachable() <= history.stored()


def test_a_replaced_tag_is_restored_under_another_name(history: History) -> None:
    history.expire(retain_max=1)
    moved = history.tag("old", if_exists="replace", quarantine=True)
    assert moved.files_deleted > 0

    with pytest.raises(ConflictError, match="tag-old exists with other content"):
        bring_back(history, moved.quarantine)
    bring_back(history, moved.quarantine, as_tags=True)

    assert "restored-old" in tag_names(history.handle)
    history.assert_sound()


def test_a_version_whose_files_are_not_visible_is_restored_once_they_are() -> None:
    history = History({"snapshot.num-retained.min": "1"}).write("a").write("b").overwrite("c")
    gone = history.expire(retain_max=1, quarantine=True).quarantine
    (path,) = (info.path for info in history.storage.walk(f"{ROOT}/quarantine") if info.path.endswith("/b.orc"))
    data = history.storage.read(path)
    history.storage.delete([path])

    first = bring_back(history, gone, as_tags=True)
    history.storage.overwrite(path, data)
    second = bring_back(history, gone, as_tags=True)

    assert (first.status, first.tags, len(first.left)) == ("restored", ("restored-1",), 1)
    assert (second.status, second.tags, second.left) == ("restored", ("restored-2",), ())
    assert list_quarantines(history.handle) == []
    history.assert_sound()


@pytest.mark.parametrize("gone", [RenameBranch("dev", "other"), DeleteBranch("dev")], ids=["renamed", "deleted"])
@pytest.mark.parametrize("as_tags", [False, True])
def test_nothing_is_restored_to_a_branch_that_is_gone(history: History, gone: Any, as_tags: bool) -> None:
    history.write("more", branch="dev")
    moved = history.expire("dev", retain_max=1, quarantine=True)
    assert moved.files_deleted > 0
    history.run(gone)

    with pytest.raises(ConflictError, match="branch 'dev' does not exist any more, or has another name"):
        bring_back(history, moved.quarantine, as_tags=as_tags)

    assert not [info.path for info in history.storage.walk(f"{ROOT}/branch/branch-dev")]
    history.assert_sound()


def test_what_main_was_before_a_fast_forward_is_restored_as_tags(history: History) -> None:
    spec = FastForward("dev", quarantine=True)
    done = history.run(spec)

    back = bring_back(history, done.quarantine, as_tags=True)

    assert back.tags == ("restored-3", "restored-4", "restored-5", "restored-6", "restored-old")
    history.assert_sound()


def test_a_fast_forward_that_replaces_schemas_moves_nothing_aside(history: History) -> None:
    other = schema_to_json(history.handle.schema).replace('"comment" : ""', '"comment" : "x"').encode()
    history.storage.overwrite(history.handle.paths.schema(1), other.replace(b'"id" : 0', b'"id" : 1', 1))

    with pytest.raises(UnsupportedError, match="schemas would replace"):
        history.run(FastForward("dev", quarantine=True))


def test_a_quarantine_can_be_emptied_by_name_and_by_age(history: History) -> None:
    first = history.expire(retain_max=4, quarantine=True)
    history.now_ms += 31 * DAY_MS
    second = history.expire(retain_max=1, quarantine=True)

    planned = history.run(EmptyQuarantine(dry_run=True))
    by_age = history.run(EmptyQuarantine())

    assert [item["quarantine"] for item in planned.quarantines] == [first.quarantine]
    assert (by_age.status, by_age.files_deleted) == ("deleted", first.files_deleted)
    with pytest.raises(InvalidArgumentError, match="no quarantine"):
        bring_back(history, first.quarantine)
    assert history.run(EmptyQuarantine(second.quarantine)).status == "deleted"
    assert not [path for path in everything(history) if "/quarantine/" in path]


# ── interrupted ───────────────────────────────────────────────────────────────────────────────────


class Dying(MemoryStorage):
    """A store that refuses every deletion or move after so many."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 1)
        self.left: int | None = None

    def delete(self, paths: Any) -> None:
        for path in paths:
            if self.left == 0:
                raise StorageError("the process has died")
            self.left = self.left if self.left is None else self.left - 1
            super().delete([path])


@pytest.mark.parametrize("quarantine", [False, True])
@pytest.mark.parametrize("left", [0, 1, 2, 4, 6, 8, 12, 16])
def test_the_next_run_finishes_what_was_interrupted(left: int, quarantine: bool) -> None:
    storage = Dying()
    history = History({"snapshot.num-retained.min": "1"}, storage=storage).write("a").write("b").compact("c").write("d")
    history.tag("keep", 2)
    storage.left = left
    with suppress(StorageError):
        history.expire(retain_max=1, quarantine=quarantine)
    storage.left = None

    history.expire(retain_max=1, quarantine=quarantine)
    history.expire(retain_max=1, quarantine=quarantine)

    history.assert_sound()
    rest = {path for path in history.stored() if "/quarantine/" not in path}
    assert rest == history.reachable()
    assert not history.storage.list(f"{ROOT}/deletion")


def _purge(history: History) -> Any:
    return history.run(PurgeFiles(), "me")


def _roll_back(history: History) -> Any:
    return history.rollback(snapshot=3)


def _delete(history: History) -> Any:
    return history.run(DeleteBranch("dev"))


def _untag(history: History) -> Any:
    return history.delete_tag("old")


@pytest.mark.parametrize("left", [0, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("action", [_purge, _roll_back, _delete, _untag])
def test_every_repeated_deletion_finishes_what_was_interrupted(action: Callable[[History], Any], left: int) -> None:
    storage = Dying()
    history = History({"snapshot.num-retained.min": "1"}, storage=storage).write("a").write("b").write("c")
    history.tag("old", 3)
    history.tag("fork", 2)
    history.branch("dev", "fork")
    history.write("on-dev", branch="dev").compact("d").write("e")
    if action is _untag:
        history.expire(retain_max=1)
    storage.left = left
    with suppress(StorageError):
        action(history)
    storage.left = None

    action(history)

    history.assert_exact()
    assert not history.storage.list(f"{ROOT}/deletion")


def test_a_record_is_not_believed(history: History) -> None:
    live = history.path("f.orc")
    history.storage.overwrite(
        f"{ROOT}/deletion/lie.json",
        b'{"data": {"bucket-0/f.orc": "f.orc"}, "metadata": [], "roots": [], "quarantine": false}',
    )
    lies = {"out": "../x", "schema": "schema/schema-0", "tag": "tag/tag-old", "snapshot": "snapshot/snapshot-6"}
    for name, path in lies.items():
        value = {"data": {}, "metadata": [path], "roots": [], "quarantine": False}
        history.storage.overwrite(f"{ROOT}/deletion/{name}.json", json.dumps(value).encode())

    done = history.expire(retain_max=1)

    assert history.storage.exists(live)
    assert history.storage.exists(history.handle.paths.schema(0))
    assert history.tags() == ["fork", "old"]
    for name in lies:
        assert any(f"{name}.json" in reason for reason in done.stopped)


def test_an_unreadable_tag_is_restored_byte_by_byte(history: History) -> None:
    path = history.handle.paths.tag("old")
    history.storage.overwrite(path, b"{\xff\x00")

    done = history.delete_tag("old", quarantine=True)
    assert not history.storage.exists(path)
    bring_back(history, done.quarantine)

    assert history.storage.read(path) == b"{\xff\x00"


def test_a_batch_tag_that_moves_leaves_what_it_kept_in_a_quarantine() -> None:
    options = {
        "tag.automatic-creation": "batch",
        "tag.batch.customized-name": "daily",
        "snapshot.num-retained.min": "1",
    }
    history = History(options).write("a")
    history.run(CreateDueTags())
    history.overwrite("b").expire(retain_max=1)

    planned = history.run(CreateDueTags(dry_run=True))
    done = history.run(CreateDueTags(quarantine=True))

    assert planned.deleted == done.deleted != ()
    assert not history.storage.exists(history.path("a.orc"))
    bring_back(history, done.quarantine, as_tags=True)
    assert history.tags() == ["daily", "restored-daily"]
    history.assert_sound()


# ── pace and shares ─────────────────────────────────────────────────────────────────────────────


def test_a_share_keeps_to_its_rate() -> None:
    assert [(len(chunk), pause) for chunk, pause in paced(range(1200), None)] == [(500, 0), (500, 0), (200, 0)]
    assert [(len(chunk), pause) for chunk, pause in paced(range(250), 100)] == [(100, 1), (100, 1), (50, 0)]
    assert [(len(chunk), pause) for chunk, pause in paced(range(3), 0.5)] == [(1, 2), (1, 2), (1, 0)]
    assert list(paced([], 5)) == []


def test_shares_have_everything_once_and_are_no_more_than_requested() -> None:
    items = list(range(2300))
    for how, workers, most in ((Disposal(), 8, 5), (Disposal(parallelism=2), 8, 2), (Disposal(), 1, 1)):
        shares = cut(items, how, workers)
        assert len(shares) == most
        assert [item for share in shares for item in share.items] == items
    rates = [share.files_per_second for share in cut(items, Disposal(files_per_second=100), 4)]
    assert rates == [25, 25, 25, 25]
    assert cut([], Disposal(), 4) == []
    assert [len(share.items) for share in cut(items[:10], Disposal(), 4, at_least=1)] == [2, 3, 2, 3]


@pytest.mark.parametrize("fields", [{"files_per_second": 0}, {"files_per_second": -1.5}, {"parallelism": 0}])
def test_limits_that_let_nothing_through_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="greater than 0|at least 1"):
        Disposal(**fields)


class Counting(LocalExecutor):
    """Counts the tasks that are handed to it."""

    tasks = 0

    def map(self, run: Any, tasks: Any, **more: Any) -> Any:
        self.tasks += len(tasks)
        return super().map(run, tasks, **more)


@pytest.mark.parametrize("quarantine", [False, True])
def test_many_files_are_handed_to_the_executor(
    history: History, monkeypatch: pytest.MonkeyPatch, quarantine: bool
) -> None:
    monkeypatch.setattr(disposal, "LOCAL_FILES_MAX", 3)
    monkeypatch.setattr(disposal, "FILES_PER_REQUEST", 1)
    before = everything(history)
    history.executor = Counting(3, env=history.handle.env)

    done = history.expire(retain_max=1, quarantine=quarantine, files_per_second=1e6)

    assert history.executor.tasks == 6  # data files and metadata, in three shares each
    assert {file.path for file in done.deleted} == before.keys() - everything(history).keys() - {
        history.handle.paths.snapshot(number) for number in done.expired_snapshots
    }
