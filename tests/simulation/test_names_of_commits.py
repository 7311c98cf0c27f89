"""Commits of one user: actions of the same kind do not take each other for done, and each happens once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paimon_engine.action_table import Action
from paimon_engine.actions.alter_table import AlterTable
from paimon_engine.actions.analyze import Analyze
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.compact_manifests import CompactManifests
from paimon_engine.actions.delete_rows import DeleteRows
from paimon_engine.actions.drop_partition import DropPartition, ExpirePartitions
from paimon_engine.actions.rescale import Rescale
from paimon_engine.actions.rewrite_file_index import RewriteFileIndex
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.commit_identifier import Maker, identifier_of, is_done_by
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.snapshots import latest_snapshot, snapshot_ids
from tests.support.faulty_storage import FaultyStorage
from tests.support.killed_storage import Killed
from tests.support.storage_events import EventStorage
from tests.support.world import World, rows_of
from tests.support.world.made_up import History
from tests.support.world.scenarios import appended, keyed

SET_INDEX = AlterTable([{"change": "set_option", "key": "file-index.bloom-filter.columns", "value": "k"}])
SET_BUCKETS = AlterTable([{"change": "set_option", "key": "bucket", "value": "2"}])


def test_several_compactions_of_one_job_are_all_done():
    world = World()
    appended(world, deletion_vectors__enabled="true")
    specs: list[Action] = [DeleteRows("k = 1"), CompactManifests(), SET_INDEX, RewriteFileIndex(), Compact(full=True)]

    first = [world.run(spec, "one job").status for spec in specs]
    again = [world.run(spec, "one job").status for spec in specs]

    assert first == ["committed", "committed", "altered", "committed", "committed"]
    assert again == ["already_done", "already_done", "noop", "already_done", "already_done"]


def test_several_overwrites_of_one_job_are_all_done():
    world = World()
    keyed(world)
    specs: list[Action] = [
        RollbackToAsLatest(2),
        SET_BUCKETS,
        Rescale(),
        DropPartition([{"p": "b"}]),
    ]

    world.table().write(rows_of({1: 0}, "b"), commit_user="one job", overwrite={"p": "b"})
    first = [world.run(spec, "one job").status for spec in specs]
    again = [world.run(spec, "one job").status for spec in specs]

    assert first == ["committed", "altered", "committed", "noop"]
    assert again == ["already_done", "noop", "already_done", "noop"]


def test_partitions_that_are_dropped_and_those_that_expire_are_two_jobs():
    world = World()
    world.create(keys=("p", "k"), bucket=1)
    for p in ("20200101", "20200102", "20990101"):
        world.write({1: 1}, p)
    expiry = ExpirePartitions("1 d", timestamp_formatter="yyyyMMdd")

    first = [world.run(spec, "one job").status for spec in (DropPartition([{"p": "20200101"}]), expiry)]

    assert first == ["committed", "committed"]
    assert world.table().to_arrow()["p"].to_pylist() == ["20990101"]


def test_numbered_commits_of_one_user_are_distinguished_and_late_ones_are_known_as_done():
    world = World()
    keyed(world)

    def write(number: int) -> str:
        return world.table().write(rows_of({number: number}), commit_user="stream", commit_identifier=number).status

    assert [write(number) for number in (1, 2, 2, 1, 3)] == [
        "committed",
        "committed",
        "already_done",
        "already_done",
        "committed",
    ]


def test_makers_and_their_parts_never_share_an_identifier():
    every = [identifier_of(maker, part) for maker in Maker for part in (0, 1, (1 << 32) - 1)]

    assert len(set(every)) == len(every)
    assert identifier_of(Maker.JOB) == BATCH_COMMIT_IDENTIFIER
    assert not any(is_done_by(asked, found) for asked in every for found in every if asked != found)


WAYS = ("error", "no reply, not done", "no reply, done", "repeated")
COMMITS: dict[str, Callable[[World], Any]] = {
    "append": lambda world: world.table().write(rows_of({1: 9, 8: 9}), commit_user="job"),
    "static overwrite": lambda world: world.table().write(
        rows_of({1: 9}, "b"), commit_user="job", overwrite={"p": "b"}
    ),
    "dynamic overwrite": lambda world: world.table().write(rows_of({1: 9}), commit_user="job", overwrite={}),
    "compact": lambda world: world.run(Compact(full=True)),
    "analyze": lambda world: world.run(Analyze()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", COMMITS)
def test_a_job_whose_reply_is_lost_commits_once_while_others_commit(name: str, way: str):
    world = World()
    keyed(world)
    faulty = FaultyStorage(world.inner)
    before = len(snapshot_ids(world.handle))

    def rival(verb: str, path: str) -> None:
        """Somebody else commits just before; then the call fails."""
        world.through(world.inner).table().write(rows_of({100: 1}, "c"), commit_user="rival")

    COMMITS[name](_count(world, faulty))
    number = next(n for n, (verb, path) in enumerate(faulty.calls) if verb == "create" and "/snapshot-" in path)
    world = World()
    keyed(world)
    faulty = FaultyStorage(world.inner)
    faulty.arm(number, way)
    for attempt in range(3):
        try:
            COMMITS[name](world.through(faulty))
        except Exception:  # noqa: BLE001 - the job is repeated whatever it was
            assert attempt < 2
    rival("", "")

    snapshots = world.through(world.inner).table().snapshots().to_pylist()
    assert sum(item["commit_user"] == "job" for item in snapshots) == 1
    assert len(snapshots) == before + 2


def _count(world: World, faulty: FaultyStorage) -> World:
    faulty.arm(None)
    return world.through(faulty)


# ── ids that others have taken and expiry has removed ───────────────────────────────────────────


def _late_commit(history: History, storage: EventStorage, others: Callable[[], Any]) -> Any:
    """A commit during which others act, just before it creates its snapshot."""
    storage.once("create", "/snapshot-", others)
    return commit(
        history.handle, CommitRequest([_message(history)], CommitKind.APPEND, "late", checked_up_to=history.latest())
    )


def _message(history: History) -> CommitMessage:
    return CommitMessage(EMPTY_ROW, 0, 1, new_files=(history.file("late"),))


@pytest.mark.parametrize("later", [1, 2, 5])
def test_an_id_that_was_taken_and_has_expired_is_not_taken_again(later: int):
    storage = EventStorage()
    history = History(storage=storage).write("a").write("b")

    def others() -> None:
        for number in range(later):
            history.write(f"other{number}")
        history.write("last")
        history.expire(retain_max=1, retain_min=1, older_than=history.now_ms)

    outcome = _late_commit(history, storage, others)

    assert isinstance(outcome, Committed)
    assert outcome.snapshot.id == history.latest() == 2 + later + 2
    assert "late" in history.names()
    history.assert_exact()


def test_a_snapshot_without_successor_is_not_taken_for_a_commit():
    storage = EventStorage()
    history = History(storage=storage).write("a").write("b")
    with pytest.raises(Killed):
        _die_after_create(history, storage)

    again = commit(history.handle, CommitRequest([_message(history)], CommitKind.APPEND, "late", checked_up_to=2))

    assert isinstance(again, Committed)
    assert again.snapshot == latest_snapshot(history.handle)
    assert again.snapshot.commit_user == "late"


def _die_after_create(history: History, storage: EventStorage) -> None:
    """Leaves what a commit leaves that dies right after it has created the file of an id that had expired."""
    base = latest_snapshot(history.handle)
    assert base is not None
    path = history.handle.paths.snapshot(base.id + 1)

    def others() -> None:
        history.write("other").write("last")
        history.expire(retain_max=1, retain_min=1, older_than=history.now_ms)

    def keep(event: tuple[str, str]) -> None:
        if event == ("delete", path):
            raise Killed

    def before(event: tuple[str, str]) -> None:
        if event == ("create", path):
            storage.before = None
            others()
            storage.before = keep

    storage.before = before
    try:
        commit(history.handle, CommitRequest([_message(history)], CommitKind.APPEND, "late", checked_up_to=base.id))
    finally:
        storage.before = None
