"""A named commit happens once, also after its snapshot has expired; a rollback makes it possible again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import ConflictError, CorruptTableError, OutcomeUnknownError, Table
from paimon_engine.action_table import Action
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.delete_rows import DeleteRows
from paimon_engine.actions.drop_partition import DropPartition
from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.actions.purge_files import PurgeFiles
from paimon_engine.actions.rollback import Rollback
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.errors import StorageError
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit.records import CommitKey, read_record, record_path, write_record
from paimon_engine.table.state.snapshots import snapshot_ids
from paimon_engine.table.write.writer import write_batches, write_state
from tests.support.counting import CountingStorage
from tests.support.storage_events import EventStorage
from tests.support.world import HOUR_MS, World, rows_of
from tests.support.world.scenarios import appended, keyed

DAY_MS = 24 * HOUR_MS
KEY = CommitKey("job", CommitKind.APPEND, identifier_of(Maker.JOB))


class Died(BaseException):
    """The process has died: nothing catches that."""


@pytest.fixture
def world() -> World:
    """An append table of one commit in one partition."""
    world = World()
    world.create(bucket=-1)
    world.write({1: 1})
    return world


def write(world: World, user: str = "job", key: int = 7, **kwargs: Any) -> str:
    return world.table().write(rows_of({key: 7}), commit_user=user, **kwargs).status


def others(world: World, number: int = 3) -> None:
    for _ in range(number):
        world.write({0: 0})


def expire(world: World) -> None:
    world.now_ms += HOUR_MS
    world.run(ExpireSnapshots(retain_max=1, retain_min=1, older_than=world.now_ms))
    assert len(snapshot_ids(world.handle)) == 1


def expire_as_java(world: World) -> None:
    """Another engine's expiry, as far as others see it: old snapshots are deleted, and records are not updated."""
    handle = world.handle
    *old, latest = snapshot_ids(handle)
    world.inner.delete([handle.paths.snapshot(number) for number in old])
    world.inner.overwrite(handle.paths.earliest_hint, str(latest).encode())


def times(world: World, key: int = 7) -> int:
    return world.table().to_arrow()["k"].to_pylist().count(key)


def record(world: World, key: CommitKey = KEY) -> Any:
    return read_record(world.handle, key)


# ── after an expiry ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("forget", [expire, expire_as_java])
def test_a_repeated_write_is_done_after_its_snapshot_has_expired(world: World, forget: Callable[[World], None]):
    assert write(world) == "committed"
    others(world)
    forget(world)

    again = world.table().write(rows_of({7: 7}), commit_user="job")

    assert (again.status, again.snapshot_id) == ("already_done", 2)
    assert times(world) == 1


@pytest.mark.parametrize("forget", [expire, expire_as_java])
def test_counted_commits_are_done_after_their_snapshots_have_expired(world: World, forget: Callable[[World], None]):
    for number in (1, 2, 3):
        write(world, commit_identifier=number)
    others(world, 1)
    forget(world)

    assert [write(world, commit_identifier=number) for number in (2, 3, 4, 4)] == [
        *("already_done", "already_done"),
        *("committed", "already_done"),
    ]
    assert times(world) == 4


REPEATED: dict[str, tuple[Callable[..., None], Action]] = {
    "delete rows": (appended, DeleteRows("k = 1")),
    "drop a partition": (keyed, DropPartition([{"p": "b"}])),
    "go back as the latest": (keyed, RollbackToAsLatest(2)),
    "purge": (keyed, PurgeFiles(older_than=0)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_others_did_since_is_safe_from_a_repeated_job(name: str):
    """Rows that were added after a job had finished are not counted as its work."""
    prepare, spec = REPEATED[name]
    world = World()
    prepare(world, deletion_vectors__enabled="true") if prepare is appended else prepare(world)
    assert world.run(spec).status in ("committed", "purged")
    world.write({1: 100, 9: 100}, "b")
    world.write({1: 101}, "a")
    before = world.table().to_arrow()
    expire(world)

    assert world.run(spec).status == "already_done"
    assert world.table().to_arrow() == before


def test_a_merged_branch_is_merged_once(world: World):
    table = world.table()
    table.create_tag("base")
    table.create_branch("dev", tag="base")
    world.write({7: 7}, branch="dev")
    assert world.table().merge_branch("dev", commit_user="job").status == "committed"
    others(world)
    expire(world)

    assert world.table().merge_branch("dev", commit_user="job").status == "already_done"
    assert times(world) == 1


def test_prepared_changes_are_committed_once(world: World):
    handle = world.handle
    messages = write_batches(handle, write_state(handle), rows_of({7: 7}).to_batches())
    assert world.table().commit(messages, commit_user="job").status == "committed"
    others(world)
    expire(world)

    assert world.table().commit(messages, commit_user="job").status == "already_done"
    assert times(world) == 1


# ── attempts that died ──────────────────────────────────────────────────────────────────────────


def die(world: World, verb: str, part: str, *, after: bool = False, calls: int = 1) -> None:
    """The job is killed at such a call, the first one or a later one: before it, or right after it."""
    storage = _Killing(world.inner, verb, part, after=after, calls=calls)
    with pytest.raises(Died):
        write(world.through(storage))
    world.through(world.inner)


class _Killing:
    def __init__(self, inner: Any, verb: str, part: str, *, after: bool, calls: int) -> None:
        self._inner, self._verb, self._part, self._after = inner, verb, part, after
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self._verb:
            return found

        def call(path: str, data: bytes) -> Any:
            self._calls -= self._part in path
            dies = self._part in path and self._calls == 0
            if dies and not self._after:
                raise Died
            result = found(path, data)
            if dies:
                raise Died
            return result

        return call


PLACES = {
    "before the intent": ("overwrite", "/commits/", False, 1),
    "after the intent": ("overwrite", "/commits/", True, 1),
    "before the snapshot": ("create", "/snapshot-", False, 1),
    "after the snapshot": ("create", "/snapshot-", True, 1),
    "before the hint": ("overwrite", "/LATEST", False, 1),
    "before the completion": ("overwrite", "/commits/", False, 2),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("between", ["nothing", "others", "expiry", "several expiries", "expiry of Java"])
def test_a_killed_attempt_is_repeated_once_or_refused(world: World, place: str, between: str):
    verb, part, after, calls = PLACES[place]
    die(world, verb, part, after=after, calls=calls)
    was_made = place in ("after the snapshot", "before the hint", "before the completion")
    # What the process deletes while it ends is not what it has committed.
    assert times(world) == was_made
    if between != "nothing":
        others(world)
    if between == "expiry of Java":
        expire_as_java(world)
    for _ in range({"expiry": 1, "several expiries": 3}.get(between, 0)):
        expire(world)
        others(world, 2)

    if between == "expiry of Java" and place != "before the intent":
        with pytest.raises(
            OutcomeUnknownError, match=r"'job'.* 2 to [34] have expired; nothing was written"
        ) as refused:
            write(world)
        assert record_path(world.handle, KEY) in str(refused.value)
        assert times(world) == was_made
        assert write(world, user="another name") == "committed"
        return
    assert write(world) == ("already_done" if was_made else "committed")
    assert times(world) == 1


def test_a_tag_shows_what_another_engine_has_expired(world: World):
    die(world, "create", "/snapshot-", after=False)
    world.write({0: 0})
    world.table().create_tag("kept")
    world.write({0: 0})
    expire_as_java(world)

    assert write(world) == "committed"
    assert times(world) == 1


def test_two_attempts_of_one_job_at_the_same_time_commit_once(world: World):
    storage = EventStorage(world.inner)
    storage.once("create", "/snapshot-", lambda: write(world))

    assert write(world.through(storage)) == "already_done"
    assert times(world) == 1


@pytest.mark.parametrize("forget", [expire, expire_as_java])
def test_an_attempt_that_took_long_finds_what_a_faster_one_did(world: World, forget: Callable[[World], None]):
    """The faster one's snapshot has expired before the slow one commits."""

    def faster() -> None:
        write(world)
        others(world)
        forget(world)

    def rows() -> Any:
        yield from rows_of({7: 7}).to_batches()
        faster()

    reader = pa.RecordBatchReader.from_batches(rows_of({7: 7}).schema, rows())
    assert world.table().write(reader, commit_user="job").status == "already_done"
    assert times(world) == 1


def test_a_record_that_cannot_be_completed_fails_no_commit(world: World):
    storage = EventStorage(world.inner)
    seen: list[str] = []

    def before(event: tuple[str, str]) -> None:
        if event[0] == "overwrite" and "/commits/" in event[1]:
            seen.append(event[1])
            if len(seen) > 1:
                raise StorageError("the store is busy")

    storage.before = before

    assert write(world.through(storage)) == "committed"
    world.through(world.inner)
    assert record(world).snapshot is None
    others(world)
    expire(world)
    assert record(world).snapshot.id == 2
    assert write(world) == "already_done"


# ── after a rollback ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("later", ["at once", "others", "others and an expiry"])
def test_a_commit_that_was_rolled_back_is_made_again(world: World, later: str):
    write(world)
    world.run(Rollback(1))
    if later != "at once":
        others(world)
    if later == "others and an expiry":
        expire(world)

    assert write(world) == "committed"
    assert write(world) == "already_done"
    assert times(world) == 1


def test_a_rollback_beyond_what_has_expired_takes_back_too(world: World):
    world.table().create_tag("begin")
    write(world)
    others(world)
    expire(world)
    world.run(Rollback(tag="begin"))
    others(world)
    expire(world)

    assert write(world) == "committed"
    assert times(world) == 1


@pytest.mark.parametrize("others_came", [False, True])
def test_a_rollback_of_another_engine_takes_back_too(world: World, *, others_came: bool):
    write(world)
    world.inner.delete([world.handle.paths.snapshot(2)])
    world.inner.overwrite(world.handle.paths.latest_hint, b"1")
    if others_came:
        others(world)

    assert write(world) == "committed"
    assert times(world) == 1


def test_main_knows_what_was_done_on_the_branch_that_it_became(world: World):
    table = world.table()
    table.create_tag("begin")
    write(world)
    table.create_branch("dev", tag="begin")
    world.table("dev").write(rows_of({8: 8}), commit_user="job on dev")
    world.table().fast_forward("dev")
    others(world)
    expire(world)

    assert write(world) == "committed"
    assert write(world, user="job on dev", key=8) == "already_done"
    assert (times(world), times(world, 8)) == (1, 1)


def test_a_new_branch_knows_nothing_of_an_old_one_of_its_name(world: World):
    world.table().create_tag("begin")
    for _ in range(2):
        world.table().create_branch("dev", tag="begin")
        assert world.table("dev").write(rows_of({8: 8}), commit_user="job").status == "committed"
        world.table().delete_branch("dev")
    assert not list(world.inner.walk(f"{world.root}/branch"))


def test_a_table_without_its_snapshots_is_not_begun_anew(world: World):
    write(world)
    for info in list(world.inner.walk(f"{world.root}/snapshot")):
        world.inner.delete([info.path])

    with pytest.raises((CorruptTableError, OutcomeUnknownError), match="lists no snapshot"):
        write(world)


# ── the records themselves ──────────────────────────────────────────────────────────────────────


def test_writes_without_a_name_cost_nothing_more(world: World):
    counting = CountingStorage(world.inner)
    world.through(counting)
    world.table().write(rows_of({1: 1}))

    assert not [call for call in counting.calls if "/commits" in str(call)]
    assert not list(world.inner.walk(f"{world.root}/commits"))


def test_work_that_may_be_repeated_keeps_no_record():
    world = World()
    keyed(world)
    world.run(Compact(full=True))

    assert not list(world.inner.walk(f"{world.root}/commits"))


@pytest.mark.parametrize("clean", ["expire_snapshots", "remove_orphan_files"])
def test_records_are_forgotten_after_their_time(world: World, clean: str):
    write(world)
    world.table(**{"commit-record.time-retained": "400 d"}).write(rows_of({8: 8}), commit_user="kept for long")
    others(world)
    for days, left in ((29, 2), (2, 1)):
        world.now_ms += days * DAY_MS
        table: Table = world.table()
        _ = table.expire_snapshots(retain_max=1) if clean == "expire_snapshots" else table.remove_orphan_files()
        names = [info for info in world.inner.walk(f"{world.root}/commits") if info.path.endswith(".json")]
        assert len(names) == left

    assert write(world, user="kept for long", key=8) == "already_done"


def test_a_copied_record_is_kept_as_long_as_it_says(world: World):
    """Times of files are not those of commits: a copy may have kept them, or not."""
    write(world)
    path = record_path(world.handle, KEY)
    data = world.inner.read(path)
    now, world.now_ms = world.now_ms, 1000
    world.inner.overwrite(path, data)
    world.now_ms = now
    others(world)
    expire(world)

    assert write(world) == "already_done"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "user": 3}'])
def test_a_damaged_record_stops_the_job_and_no_other(world: World, data: bytes):
    write(world)
    world.inner.overwrite(record_path(world.handle, KEY), data)

    with pytest.raises(CorruptTableError, match=r"nothing was written.*'job'.*delete the file"):
        write(world)
    others(world)
    expire(world)
    others(world)
    world.run(Rollback(snapshot_ids(world.handle)[-2]))
    assert world.table().remove_orphan_files().status == "noop"
    assert write(world, user="somebody else") == "committed"


@pytest.mark.parametrize("user", ["../../x", "a/b", "x" * 3000, "ü\n", ""])
def test_any_user_makes_a_safe_file_name(world: World, user: str):
    key = CommitKey(user, CommitKind.APPEND, 1)

    write_record(world.handle, key, base=3, snapshot=None)

    found = [info.path for info in world.inner.walk(f"{world.root}/commits")]
    assert found == [record_path(world.handle, key)]
    assert len(found[0].rpartition("/")[2]) < 60
    assert record(world, key).key == key


def test_lost_races_leave_an_intent_that_does_no_harm(world: World):
    handle_options = {"commit.max-retries": "0"}
    storage = EventStorage(world.inner)
    world.through(storage)
    storage.once("create", "/snapshot-", lambda: world.write({0: 0}))
    with pytest.raises(ConflictError):
        world.table(**handle_options).write(rows_of({7: 7}), commit_user="job")

    assert write(world) == "committed"
    assert times(world) == 1
