"""A kill at each change of the store while a quarantine is written, emptied or restored: nothing is lost, everything
works.

The process dies just before the n-th change, or in the middle of it: a file on a local disk is then there in part,
under its name or next to it. Afterwards every verb must work, listing ones included, and everything that
was to be quarantined still somewhere.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_engine.actions.branches import DeleteBranch, FastForward
from paimon_engine.actions.consumers import ClearConsumers, ResetConsumer
from paimon_engine.actions.expire_tags import ExpireTags
from paimon_engine.actions.purge_files import PurgeFiles
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.actions.restore import EmptyQuarantine, Restore, list_quarantines
from paimon_engine.errors import ConflictError, CorruptTableError, InvalidArgumentError, StorageError
from paimon_engine.storage import LocalStorage
from paimon_engine.table.removal.quarantine_state import QuarantineState
from paimon_engine.table.state.snapshots import branches
from paimon_engine.units import DAY_MS
from tests.support.clocked_storage import ClockedStorage
from tests.support.killed_storage import Killed, KilledStorage
from tests.support.world.made_up import ROOT, History

LATE_MS = 1 << 45
SHORT = os.environ.get("PAIMON_TEST_EXPLORE") != "1"
ALONE: dict[str, Any] = {"quarantine": True, "parallelism": 1}
"""One worker, so that the n-th change is the same in every run."""
State = dict[str, bytes]


def begin() -> History:
    """Five snapshots, a tag that an expired one is kept by, a branch, a consumer and orphans."""
    store = ClockedStorage()
    history = History({"snapshot.num-retained.min": "1"}, storage=KilledStorage(store))
    store.now = lambda: history.now_ms
    history.write("a").write("b")
    history.tag("old", 2)
    history.tag("fork", 1)
    history.branch("dev", "fork")
    history.write("on-dev", branch="dev").compact("c").write("d").overwrite("e")
    history.run(ResetConsumer("reader", 5))
    history.file("orphan")
    return history


def copy(history: History, now_ms: int, first_id: int) -> History:
    """Another process on a copy of the store."""
    storage = ClockedStorage()
    storage.load(history.storage.inner.dump())
    found = History(history.options, storage=KilledStorage(storage), now_ms=now_ms)
    found.numbers = itertools.count(first_id)
    storage.now = lambda: found.now_ms
    return found


def later(history: History) -> History:
    """Another process on a copy of the store, long after."""
    return copy(history, LATE_MS + DAY_MS, 1000)


def stored(history: History) -> State:
    """Every file of the table, without hints and records of deletions, which no reader needs."""
    found = (info.path for info in history.storage.walk(ROOT))
    wanted = (path for path in found if "/deletion/" not in path and not path.endswith(("/LATEST", "/EARLIEST")))
    return {path: history.storage.read(path) for path in wanted}


# ── what moves files aside ──────────────────────────────────────────────────────────────────────


def _orphans(history: History) -> Any:
    history.now_ms = LATE_MS
    return history.run(RemoveOrphanFiles(LATE_MS, confirm_latest_snapshot=history.latest() or 0, **ALONE))


def _expire(history: History) -> Any:
    return history.expire(retain_max=1, **ALONE)


def _delete_tag(history: History) -> Any:
    return history.delete_tag("old", **ALONE)


def _expire_tags(history: History) -> Any:
    return history.run(ExpireTags(older_than=history.now_ms, **ALONE))


def _rollback(history: History) -> Any:
    return history.rollback(snapshot=2, **ALONE)


def _delete_branch(history: History) -> Any:
    return history.run(DeleteBranch("dev", **ALONE))


def _fast_forward(history: History) -> Any:
    return history.run(FastForward("dev", **ALONE))


def _purge(history: History) -> Any:
    return history.run(PurgeFiles(**ALONE), "me")


def _clear_consumers(history: History) -> Any:
    return history.run(ClearConsumers(quarantine=True))


ACTIONS = (
    *(_orphans, _expire, _delete_tag, _expire_tags, _rollback),
    *(_delete_branch, _fast_forward, _purge, _clear_consumers),
)
NOT_UNDONE = (_fast_forward, _purge)
"""These commit, or leave other roots under the names of those that they hide; `as_tags` restores these."""


NUMBER_TAKEN = (_rollback, _delete_branch)
"""Where these were interrupted, the fence of the orphan clean-up may take the number of a snapshot that they hid."""


def kills(begun: History, act: Callable[[History], Any], *, some: bool = False) -> Iterator[History]:
    """The store after a kill at each change that `act` makes; with `some` at the first, the last and some between.

    PAIMON_TEST_EXPLORE=1 takes all of them.
    """
    whole = copy(begun, begun.now_ms, 500)
    whole.storage.arm(None)
    act(whole)
    assert whole.storage.changes > 1
    count = whole.storage.changes
    trials = [(number, False) for number in range(count)] + [(number, True) for number in whole.storage.torn_changes]
    for number, torn in trials:
        if some and SHORT and 8 < number < count - 4 and number % 6 != torn:
            continue
        history = copy(begun, begun.now_ms, 500)
        history.storage.arm(number, torn=torn)
        with pytest.raises(Killed):
            act(history)
        history.storage.arm(None)
        yield history


def prepared(act: Callable[[History], Any]) -> History:
    history = begin()
    if act in (_delete_tag, _expire_tags, _fast_forward):
        history.run(ResetConsumer("reader", 5))
        history.expire(retain_max=1)
    return history


# ── what must hold ──────────────────────────────────────────────────────────────────────────────


def lists(history: History) -> list[Any]:
    """What the lists of all quarantines say."""
    found = (path for path in stored(history) if path.endswith("/moved.json"))
    return [json.loads(history.storage.read(path)) for path in found]


def lost(history: History, before: State) -> set[str]:
    """Earlier files that are neither at their original paths, nor in a quarantine, nor as text in a list."""
    now = stored(history)
    held = {path: data for path, data in now.items() if path.startswith(f"{ROOT}/quarantine/")}
    aside = {(path.split("/", 7)[7], data) for path, data in held.items() if ".restored.json" not in path}
    aside |= {(name, text.encode()) for listed in lists(history) for name, text in listed["roots"].items()}
    return {
        path
        for path, data in before.items()
        if now.get(path) != data and (path.removeprefix(f"{ROOT}/"), data) not in aside
    }


def assert_listed(history: History) -> list[str]:
    """Names of the quarantines, newest first; each is listed with its state."""
    found = list_quarantines(history.handle)
    assert all(QuarantineState(item["state"]) is not QuarantineState.UNREADABLE_LIST for item in found)
    return [item["quarantine"] for item in reversed(found)]


def assert_all_can_come_back(history: History, before: State, *, as_tags: bool) -> None:
    """An orphan clean-up of all ages deletes nothing that must be kept, and then everything can be restored."""
    assert_listed(history)
    promised = {f"{ROOT}/{name}" for held in lists(history) for name in held["files"]}
    kept = {path: data for path, data in before.items() if path in promised or "/orphan.orc" not in path}
    cleaned = history.run(RemoveOrphanFiles(LATE_MS + 1, confirm_latest_snapshot=history.latest() or 0))
    assert cleaned.stopped == ()
    assert lost(history, kept) == set()
    for name in assert_listed(history):
        back = history.run(Restore(quarantine=name, as_tags=as_tags))
        assert (back.status, back.stopped) == ("restored", ())
    assert assert_listed(history) == []
    history.assert_sound()
    if not as_tags:
        assert kept.items() <= stored(history).items()


def assert_all_can_be_emptied(history: History) -> None:
    names = assert_listed(history)
    planned = history.run(EmptyQuarantine(older_than=LATE_MS + 1, dry_run=True))
    assert {item["quarantine"] for item in planned.quarantines} == set(names)
    for name in names[:1]:
        assert history.run(EmptyQuarantine(name)).status == "deleted"
    emptied = history.run(EmptyQuarantine(older_than=LATE_MS + 1))
    assert (emptied.stopped, assert_listed(history)) == ((), [])
    assert not [path for path in stored(history) if "/quarantine/" in path]


def assert_upkeep_works(history: History) -> None:
    """Other verbs do their work, say nothing of what was interrupted, and leave what is needed and nothing else."""
    history.run(ClearConsumers())
    assert history.expire(retain_max=3).stopped == ()
    assert history.run(ExpireTags()).stopped == ()
    history.write("after")
    assert history.run(RemoveOrphanFiles(LATE_MS + 1, confirm_latest_snapshot=history.latest() or 0)).stopped == ()
    history.assert_exact()
    assert not list(history.storage.walk(f"{ROOT}/deletion"))


@pytest.mark.parametrize("act", ACTIONS, ids=lambda act: act.__name__.strip("_"))
def test_a_kill_while_files_are_moved_aside_loses_nothing_and_blocks_nothing(act: Callable[[History], Any]) -> None:
    begun = prepared(act)
    before = stored(begun)

    for history in kills(begun, act, some=True):
        assert lost(history, before) == set()
        if act in NOT_UNDONE:
            act(history)
            assert lost(history, before) == set()
        assert_all_can_come_back(later(history), before, as_tags=act in (*NOT_UNDONE, *NUMBER_TAKEN))
        emptied = later(history)
        assert_all_can_be_emptied(emptied)
        if act is _delete_branch and branches(emptied.handle):
            emptied.run(DeleteBranch("dev"))
        assert_upkeep_works(emptied)


def aside(history: History) -> str:
    """Moves old snapshots aside; the quarantine's name."""
    name = _expire(history).quarantine
    assert name is not None
    return name


def test_a_kill_while_a_quarantine_is_emptied_leaves_one_that_can_be_emptied() -> None:
    begun = begin()
    before = stored(begun)
    name, other = aside(begun), begun.delete_tag("old", **ALONE).quarantine
    live = {path: data for path, data in stored(begun).items() if f"/quarantine/{name}/" not in path}

    for history in kills(begun, lambda history: history.run(EmptyQuarantine(name))):
        assert live.items() <= stored(history).items()
        emptied = later(history)
        assert_all_can_be_emptied(emptied)
        assert_upkeep_works(emptied)
        # The other one does not depend on this one.
        back = history.run(Restore(quarantine=other, as_tags=True))
        assert back.status == "restored"
        # What is left of this one is either restored, or the result says why not.
        if name in assert_listed(history):
            try:
                done = history.run(Restore(quarantine=name))
            except ConflictError as error:
                assert "lacks" in str(error) or "cannot be read any more" in str(error)
            else:
                assert done.status == "restored"
        history.assert_sound()
        assert lost(history, {path: before[path] for path in before if path in live}) == set()


def test_a_kill_while_a_quarantine_is_brought_back_loses_nothing_and_can_be_repeated() -> None:
    begun = begin()
    before = stored(begun)
    name = aside(begun)

    def bring_back(history: History) -> Any:
        return history.run(Restore(quarantine=name, parallelism=1))

    for history in kills(begun, bring_back, some=True):
        assert lost(history, before) == set()
        kept = {path: data for path, data in before.items() if "/orphan.orc" not in path}
        assert_all_can_come_back(later(history), kept, as_tags=False)
        # Until then the deletion might still be running.
        history.now_ms += DAY_MS
        if name in assert_listed(history):
            assert history.run(Restore(quarantine=name)).status == "restored"
        assert history.run(Restore(quarantine=name)).status == "already_done"
        assert before.items() <= stored(history).items()
        assert_upkeep_works(later(history))


@pytest.mark.parametrize("kind", ["bucket-0", "manifest"])
def test_an_incomplete_original_prevents_no_restore(kind: str) -> None:
    history = begin()
    before = stored(history)
    name = aside(history)
    for path in [path for path in stored(history) if f"/quarantine/{name}/{kind}/" in path]:
        data = history.storage.read(path)
        history.storage.overwrite(path.replace(f"/quarantine/{name}", ""), data[: len(data) // 2])

    assert history.run(Restore(quarantine=name)).status == "restored"
    assert before.items() <= stored(history).items()


# ── without a list ──────────────────────────────────────────────────────────────────────────────


def without_list(history: History) -> str:
    """What emptying left that deleted the list first, and died."""
    name = aside(history)
    history.storage.delete([f"{ROOT}/quarantine/{name}/moved.json"])
    return name


def test_a_quarantine_without_a_list_is_reported_and_restored() -> None:
    history = begin()
    name = without_list(history)
    inside = {path for path in stored(history) if "/quarantine/" in path}

    (described,) = list_quarantines(history.handle)
    planned = history.run(Restore(quarantine=name, dry_run=True))
    back = history.run(Restore(quarantine=name))

    assert (described["state"], described["action"], described["files"]) == ("without_list", None, len(inside))
    assert (planned.status, back.status, back.files) == ("dry_run", "restored", len(inside))
    assert "orphan clean-up" in back.left[0]
    assert {path.replace(f"/quarantine/{name}", "") for path in inside} <= stored(history).keys()
    assert list_quarantines(history.handle) == []
    history.assert_sound()
    assert_upkeep_works(later(history))


def test_a_file_that_is_there_with_another_size_is_never_replaced() -> None:
    history = begin()
    name = without_list(history)
    moved = min(path for path in stored(history) if f"/quarantine/{name}/bucket-0/" in path)
    location = moved.replace(f"/quarantine/{name}", "")
    history.storage.overwrite(location, b"the whole file")

    back = history.run(Restore(quarantine=name))

    assert back.status == "stopped"
    assert location in back.stopped[0]
    assert history.storage.read(location) == b"the whole file"
    assert history.storage.exists(moved)


def test_an_unreadable_list_blocks_no_other_quarantine() -> None:
    history = begin()
    name = aside(history)
    other = history.delete_tag("old", **ALONE).quarantine
    history.storage.overwrite(f"{ROOT}/quarantine/{name}/moved.json", b"{")

    states = {item["quarantine"]: item["state"] for item in list_quarantines(history.handle)}
    with pytest.raises(CorruptTableError, match="no JSON"):
        history.run(Restore(quarantine=name))
    assert history.run(Restore(quarantine=other, as_tags=True)).status == "restored"
    history.now_ms = LATE_MS
    by_age = history.run(EmptyQuarantine(older_than=LATE_MS))
    by_name = history.run(EmptyQuarantine(name))

    assert states == {name: "unreadable_list", other: "complete"}
    assert (by_age.status, by_age.files_deleted) == ("noop", 0)
    assert f"quarantine {name} is left" in by_age.stopped[0]
    assert (by_name.status, list_quarantines(history.handle)) == ("deleted", [])


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    history = begin()
    name = without_list(history)

    for act in (
        lambda: history.run(Restore(quarantine="nosuch")),
        lambda: history.run(EmptyQuarantine("nosuch")),
    ):
        with pytest.raises(InvalidArgumentError, match=f"no quarantine 'nosuch' in .*; there are: {name}"):
            act()


def test_an_orphan_clean_up_brings_files_to_the_quarantine_that_waits_for_them() -> None:
    history = begin()
    history.storage.arm(6)
    with pytest.raises(Killed):
        _expire(history)
    history = later(history)
    (described,) = list_quarantines(history.handle)

    done = history.run(RemoveOrphanFiles(LATE_MS, confirm_latest_snapshot=history.latest() or 0))

    assert described["state"] == "unfinished"
    assert described["files_there"] < described["files"]
    waited = [file for file in done.deleted if "waits for it" in file.why]
    assert len(waited) == described["files"] - described["files_there"]
    assert list_quarantines(history.handle)[0]["state"] == "complete"
    assert history.run(Restore(quarantine=described["quarantine"])).missing == ()


def test_a_file_that_a_quarantine_has_too_is_deleted_once_that_is_emptied() -> None:
    history = begin()
    _orphans(history)
    (described,) = list_quarantines(history.handle)
    aside = f"{ROOT}/quarantine/{described['quarantine']}/"
    copied = next(info.path for info in history.storage.walk(aside.rstrip("/")) if not info.path.endswith("moved.json"))
    old = f"{ROOT}/{copied.removeprefix(aside)}"
    history.storage.overwrite(old, history.storage.read(copied))
    spec = RemoveOrphanFiles(LATE_MS + 1, confirm_latest_snapshot=history.latest() or 0)
    history.now_ms = LATE_MS + 2

    while_held = history.run(spec)
    assert (while_held.status, history.storage.exists(old), history.storage.exists(copied)) == ("noop", True, True)
    # Until then the move might still be running.
    history.now_ms += 2 * DAY_MS
    history.run(EmptyQuarantine(described["quarantine"]))
    done = history.run(spec)

    assert [file.path for file in done.deleted] == [old]


def test_a_full_disk_leaves_no_quarantine_without_a_list(tmp_path: Path) -> None:
    class Full(LocalStorage):
        def overwrite(self, path: str, data: bytes) -> None:
            if path.endswith("moved.json"):
                os.makedirs(os.path.dirname(path))
                raise StorageError(f"{path}: No space left on device")
            super().overwrite(path, data)

    history = History({"snapshot.num-retained.min": "1"}, storage=Full(), root=f"{tmp_path}/db.db/t").write().write()

    with pytest.raises(StorageError, match="No space left"):
        history.expire(retain_max=1, quarantine=True)

    assert list_quarantines(history.handle) == []
    history.assert_exact()


def test_empty_directories_of_a_run_that_died_are_reported_and_deleted(tmp_path: Path) -> None:
    root = f"{tmp_path}/db.db/t"
    history = History({"snapshot.num-retained.min": "1"}, storage=LocalStorage(), root=root).write().write()
    os.makedirs(f"{root}/quarantine/first/bucket-0")
    os.makedirs(f"{root}/quarantine/second")
    Path(f"{root}/quarantine/second/.moved.json.6d9f.tmp").write_bytes(b"{")

    described = list_quarantines(history.handle)
    back = history.run(Restore(quarantine="first"))
    history.now_ms = LATE_MS
    gone = history.run(EmptyQuarantine(older_than=LATE_MS))

    assert sorted((item["quarantine"], item["state"], item["files"]) for item in described) == [
        ("first", "without_list", 0),
        ("second", "without_list", 0),
    ]
    assert (back.status, back.files) == ("restored", 0)
    assert (gone.status, gone.files_deleted) == ("deleted", 0)
    assert os.listdir(f"{root}/quarantine") == []
    history.assert_exact()
