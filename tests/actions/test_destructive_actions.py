"""What every action that deletes promises: hide first, one plan for dry run and run, reasons, and no guessing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from paimon_engine.actions.branches import DeleteBranch, FastForward
from paimon_engine.actions.expire_changelogs import ExpireChangelogs
from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.actions.expire_tags import ExpireTags
from paimon_engine.actions.rollback import Rollback
from paimon_engine.actions.tags import DeleteTag
from paimon_engine.errors import CorruptTableError, StorageError
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.changelogs import changelog_ids, read_changelog
from paimon_engine.table.state.snapshots import HELD_PREFIX, read_snapshot
from tests.support.storage_events import Event, EventStorage
from tests.support.world.made_up import ROOT, History

Act = Callable[[History, bool], Any]


@dataclass(frozen=True)
class Deed:
    """An action, and a file of made-up data that it deletes."""

    act: Act
    goes: str


DEEDS = {
    "expire_snapshots": Deed(
        lambda h, dry: h.run(ExpireSnapshots(retain_max=1, dry_run=dry)),
        "late",
    ),
    "expire_changelogs": Deed(
        lambda h, dry: h.run(ExpireChangelogs(delete_all=True, dry_run=dry)),
        "zero",
    ),
    "delete_tag": Deed(lambda h, dry: h.run(DeleteTag("mid", dry_run=dry)), "two"),
    "expire_tags": Deed(lambda h, dry: h.run(ExpireTags(h.long_after(), dry_run=dry)), "two"),
    "rollback": Deed(lambda h, dry: h.run(Rollback(tag="mid", dry_run=dry)), "last"),
    "delete_branch": Deed(lambda h, dry: h.run(DeleteBranch("dev", dry)), "dev"),
    "fast_forward": Deed(lambda h, dry: h.run(FastForward("dev", dry)), "last"),
}
OPTIONS = {"changelog.num-retained.min": "6", "snapshot.num-retained.min": "1", "changelog-producer": "input"}


def busy(storage: EventStorage) -> History:
    """A history in which every action finds something to delete, with changelogs, tags and a branch."""
    history = History(OPTIONS, storage=storage).write("zero").write("one")
    history.tag("base")
    for name in ("dev", "spare"):
        history.branch(name, "base").write(name, branch=name)
    history.write("two")
    history.tag("mid")
    history.compact("both").write("three")
    history.expire(retain_max=1)
    return history.compact("late").write("last").compact("all").write("end")


def everything(history: History) -> dict[str, bytes]:
    return {info.path: history.storage.read(info.path) for info in history.storage.walk(ROOT)}


def lists_of_changelogs(history: History) -> set[str]:
    """Paths of the lists of files that changelogs name and do without."""
    handle = history.handle
    snapshots = [read_changelog(handle, number) for number in changelog_ids(handle)]
    names = {name for one in snapshots for name in (one.base_manifest_list, one.delta_manifest_list)}
    return {handle.paths.manifest(name) for name in names}


def assert_whole(history: History, *, may_have_a_gap: bool = False) -> None:
    problems = [problem.what for problem in check_table(history.handle, footers=False)]
    assert [what for what in problems if not (may_have_a_gap and what.endswith("those between are missing"))] == []
    assert history.reachable() <= history.stored()


@pytest.mark.parametrize("name", DEEDS)
def test_a_dry_run_reports_what_the_run_then_does_and_why(name: str) -> None:
    history, deed = busy(EventStorage()), DEEDS[name]
    before = everything(history)

    planned = deed.act(history, True)
    assert everything(history) == before
    done = deed.act(history, False)

    assert planned.status == "dry_run"
    assert planned.deleted == done.deleted != ()
    assert all(file.why for file in done.deleted)
    assert (done.files_deleted, done.bytes_deleted) == (
        len(done.deleted),
        sum(file.size_bytes for file in done.deleted),
    )
    assert {file.path for file in done.deleted} <= before.keys() - everything(history).keys()
    assert any(deed.goes in file.path for file in done.deleted)
    assert done.to_dict()["deleted"][0].keys() == {"path", "size_bytes", "why"}
    assert_whole(history)


@pytest.mark.parametrize("name", DEEDS)
def test_files_are_deleted_after_everything_that_leads_readers_to_them(name: str) -> None:
    storage = EventStorage()
    history = busy(storage)
    before = lists_of_changelogs(history)
    events: list[Event] = []
    storage.before = events.append

    DEEDS[name].act(history, False)
    storage.before = None
    unneeded = lists_of_changelogs(history)

    # The record of the files to delete is written before anything else, and removed at the end.
    events = [(kind, path) for kind, path in events if not path.startswith(f"{ROOT}/deletion")]
    is_file = [kind == "delete" and ("/bucket-" in path or "/manifest/" in path) for kind, path in events]
    assert is_file == sorted(is_file)
    files = [path for (_, path), file in zip(events, is_file, strict=True) if file]
    order = ["/manifest/" in path for path in files if path not in unneeded | before]
    assert order == sorted(order)
    # Java would delete with a changelog what these name.
    assert (unneeded | before).issuperset(files[: len(unneeded.intersection(files))])


@pytest.mark.parametrize("name", DEEDS)
def test_killed_anywhere_it_leaves_a_complete_table_and_the_next_run_finishes(name: str) -> None:
    aim = busy(EventStorage())
    DEEDS[name].act(aim, False)
    number, ended = 0, False
    while not ended:
        storage = EventStorage()
        history = busy(storage)
        storage.crash_at(number)
        try:
            ended = DEEDS[name].act(history, False).stopped == ()
        except StorageError:
            ended = False
        finally:
            storage.before = None

        # An expired snapshot that becomes the latest again is there before the newer ones are deleted.
        assert_whole(history, may_have_a_gap=name in ("rollback", "fast_forward"))
        DEEDS[name].act(history, False)
        assert_whole(history)
        # One that kept a version for a job that died expires after a day.
        tags = [name for name in history.tags() if not name.startswith(HELD_PREFIX)]
        assert (history.ids(), tags, changelog_ids(history.handle)) == (
            aim.ids(),
            aim.tags(),
            changelog_ids(aim.handle),
        )
        number += 5 if number > 4 else 1
    assert number > 2


@pytest.mark.parametrize("name", DEEDS)
def test_what_something_unreadable_may_need_stays_and_is_reported(name: str) -> None:
    history = busy(EventStorage())
    held = history.names()
    spare = history.on("spare")
    path = spare.paths.manifest(read_snapshot(spare, history.ids("spare")[-1]).base_manifest_list)
    history.storage.overwrite(path, b"no Avro")

    planned = DEEDS[name].act(history, True)
    done = DEEDS[name].act(history, False)

    assert done.status not in ("noop", "dry_run")
    assert any("branch 'spare' cannot be read" in reason for reason in done.stopped)
    assert planned.deleted == done.deleted == ()
    assert history.names() == held


@pytest.mark.parametrize("name", [name for name in DEEDS if name != "fast_forward"])
def test_an_unreadable_root_keeps_what_it_may_need_and_is_reported(name: str) -> None:
    history = busy(EventStorage())
    held = history.names()
    history.storage.overwrite(history.on("spare").paths.tag("base"), b"{")

    planned = DEEDS[name].act(history, True)
    done = DEEDS[name].act(history, False)

    assert done.status not in ("noop", "dry_run")
    assert any("branch-spare/tag/tag-base" in reason and "delete_tag" in reason for reason in done.stopped)
    assert planned.stopped == done.stopped
    assert planned.deleted == done.deleted == ()
    assert history.names() == held


def test_nothing_is_forwarded_over_an_unreadable_root() -> None:
    history = busy(EventStorage())
    history.storage.overwrite(history.handle.paths.tag("mid"), b"{")

    with pytest.raises(CorruptTableError, match="tag-mid"):
        DEEDS["fast_forward"].act(history, False)


def test_a_rollback_works_from_an_unreadable_latest_snapshot() -> None:
    history = History().write("a").compact("b").write("c").write("d")
    history.storage.overwrite(history.handle.paths.snapshot(4), b"{")

    planned = history.rollback(snapshot=2, dry_run=True)
    done = history.rollback(snapshot=2)

    assert planned.removed_snapshots == done.removed_snapshots == (3, 4)
    assert (planned.deleted, planned.stopped) == (done.deleted, done.stopped)
    assert any("snapshot-4" in reason for reason in done.stopped)
    assert history.ids() == [1, 2]
    assert_whole(history)
    history.remove_orphans()
    history.assert_exact()


def test_a_branch_with_an_unreadable_snapshot_can_be_deleted() -> None:
    history = busy(EventStorage())
    history.storage.overwrite(history.on("dev").paths.snapshot(history.ids("dev")[-1]), b"{")

    planned = DEEDS["delete_branch"].act(history, True)
    done = DEEDS["delete_branch"].act(history, False)

    assert (planned.deleted, planned.stopped) == (done.deleted, done.stopped)
    assert any("files that only it names are left" in reason for reason in done.stopped)
    assert "dev.orc" in " ".join(history.stored())
    history.remove_orphans()
    history.assert_exact()
