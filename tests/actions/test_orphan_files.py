"""Orphan files: what nothing names is deleted, everything else stays, and in doubt nothing is deleted.

`named` finds by simple code which files in the store some snapshot, tag or changelog of any branch names.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.actions.remove_orphan_files import (
    RemoveOrphanFiles,
    RemoveOrphanFilesResult,
)
from paimon_engine.actions.restore import Restore
from paimon_engine.errors import InvalidArgumentError, StorageError
from paimon_engine.meta.paths import TablePaths
from paimon_engine.meta.snapshot import Snapshot, parse_snapshot
from paimon_engine.storage.base import FileInfo
from paimon_engine.table.reach.clean_up_plan import is_fence
from paimon_engine.table.state.manifests import read_manifest, read_manifest_list
from paimon_engine.table.state.snapshots import branches
from paimon_engine.units import DAY_MS
from tests.actions.random_life import RandomLife
from tests.support.clocked_storage import ClockedStorage
from tests.support.world import HOUR_MS
from tests.support.world.made_up import ROOT, History


class Hooked(ClockedStorage):
    """A store in which something happens just before a path is read or listed for the n-th time."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[[], Any]] = {}
        self.refused: set[str] = set()

    def read(self, path: str) -> bytes:
        self._hook(path)
        return super().read(path)

    def list(self, prefix: str) -> list[FileInfo]:
        self._hook(prefix)
        return super().list(prefix)

    def delete(self, paths: Any) -> None:
        for path in paths:
            if path in self.refused:
                raise StorageError(f"{path}: refused")
            super().delete([path])

    def _hook(self, path: str) -> None:
        if (action := self.before.pop(path, None)) is not None:
            action()


@pytest.fixture
def history() -> History:
    return History({"snapshot.num-retained.min": "1"}, storage=Hooked()).write("a").write("b").compact("c")


def remove(history: History, *, age_ms: int = 0, **fields: Any) -> RemoveOrphanFilesResult:
    if isinstance(history.storage, Hooked):
        history.storage.now = lambda: history.now_ms
    return history.run(RemoveOrphanFiles(older_than=history.now_ms - age_ms, **fields))


def litter(history: History) -> set[str]:
    """Files that writers, commits and compactions that died leave behind; of each kind one."""
    paths = history.handle.paths
    found = {
        history.path("data-dead-0.orc"),
        history.path("data-dead-0.orc.index"),
        history.path("changelog-dead-0.orc"),
        paths.bucket_dir("", 7) + "/data-dead-1.orc",
        paths.manifest("manifest-dead-0"),
        paths.manifest("manifest-list-dead-0"),
        paths.manifest("index-manifest-dead-0"),
        paths.index("index-dead-0"),
        paths.statistics("stats-dead-0"),
        f"{paths.snapshot_dir}/.snapshot-9.dead.tmp",
        f"{paths.changelog_dir}/.changelog-9.dead.tmp",
        f"{ROOT}/deletion/.1.json.e493b675-3531-4c3e-adf9-df0afc3397e2.tmp",
        f"{ROOT}/pending-notifications/.1.json.e493b675-3531-4c3e-adf9-df0afc3397e2.tmp",
        f"{ROOT}/untold/.1.json.e493b675-3531-4c3e-adf9-df0afc3397e2.tmp",
    }
    found |= {f"{TablePaths(ROOT, name).snapshot_dir}/.snapshot-9.dead.tmp" for name in branches(history.handle)}
    for path in found:
        history.storage.overwrite(path, b"dead")
    return found


def everything(history: History) -> set[str]:
    return {info.path for info in history.storage.walk(ROOT)}


def after_clean_up(history: History, before: set[str]) -> set[str]:
    """Everything but plans and what fences brought: these name nothing else than what was named before."""
    brought = everything(history) - before
    metadata = {path for path in brought if "/manifest/" in path}
    assert metadata <= history.reachable()
    fences = {path for path in brought - metadata if "/snapshot/" in path}
    assert all(path.endswith(("LATEST", "EARLIEST")) or is_fence(snapshot_in(history, path)) for path in fences)
    plans = {path for path in brought if "/deletion/orphans/" in path}
    notes = {path for path in brought if path.endswith(".restored.json")}
    return everything(history) - metadata - fences - plans - notes


def snapshot_in(history: History, path: str) -> Snapshot:
    return parse_snapshot(history.storage.read(path), path)


def named(history: History) -> set[str]:
    """Names that any snapshot or tag of any branch uses, by reading all of them; entries added and removed alike."""
    names: set[str] = set()
    for info in history.storage.walk(ROOT):
        location = info.path.rsplit("/", 2)[1]
        name = info.path.rpartition("/")[2]
        if location not in ("snapshot", "tag", "changelog") or name in ("LATEST", "EARLIEST") or name.startswith("."):
            continue
        snapshot = parse_snapshot(history.storage.read(info.path), info.path)
        for list_name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            names.add(list_name)
            for manifest in read_manifest_list(history.handle, list_name):
                names.add(manifest.name)
                for entry in read_manifest(history.handle, manifest.name):
                    names.update((entry.file.name, *entry.file.extra_files))
    return names


# ── what goes ───────────────────────────────────────────────────────────────────────────────────


def test_what_nothing_names_is_deleted_and_everything_else_stays(history: History) -> None:
    history.tag("keep", 1)
    history.branch("dev", "keep")
    history.write("d", branch="dev")
    before = everything(history)
    dead = litter(history)
    history.now_ms += DAY_MS

    planned = remove(history, dry_run=True)
    assert everything(history) == before | dead
    done = remove(history)

    assert {file.path for file in done.deleted} == dead
    assert (planned.status, done.status) == ("dry_run", "deleted")
    assert planned.deleted == done.deleted
    assert (done.files_deleted, done.bytes_deleted) == (len(dead), 4 * len(dead))
    assert after_clean_up(history, before) == before
    history.assert_sound()
    assert remove(history).status == "noop"


def test_files_that_a_running_writer_has_not_committed_yet_stay(history: History) -> None:
    storage = history.storage
    assert isinstance(storage, Hooked)
    storage.now = lambda: history.now_ms
    history.now_ms = 10 * DAY_MS
    written = history.file("in-flight")
    history.now_ms += DAY_MS

    assert history.run(RemoveOrphanFiles()).deleted == ()

    assert storage.exists(history.path(written.name))
    history.now_ms += 1
    # Newer than the newest commit: that commit may be not visible.
    stopped = history.run(RemoveOrphanFiles())
    assert stopped.status == "stopped"
    assert "newer than snapshot 3" in stopped.stopped[0]
    history.write("next")
    gone = history.run(RemoveOrphanFiles()).deleted
    assert {file.path for file in gone} == {history.path(name) for name in (written.name, *written.extra_files)}


def test_foreign_files_and_directories_are_left(history: History) -> None:
    mine = {f"{ROOT}/notes.txt", f"{ROOT}/other/bucket-0/x", f"{ROOT}/bucket-0/deep/x", f"{ROOT}/tag/README"}
    for path in mine:
        history.storage.overwrite(path, b"mine")

    assert remove(history).deleted == ()
    assert mine <= everything(history)


def test_partitioned_tables_are_walked_as_deep_as_they_have_partition_columns(tmp_path: Any) -> None:
    schema = pa.schema([("k", pa.int64()), ("day", pa.string()), ("hour", pa.int32())])
    table = Catalog(str(tmp_path / "lake")).create_table(
        "db.t", schema=schema, partition_keys=["day", "hour"], options={"bucket": "-1"}
    )
    rows = pa.table({"k": [1, 2], "day": ["a/b", "c"], "hour": [1, 2]}, schema=schema)
    table.write(rows)
    orphan = tmp_path / "lake/db.db/t/day=c/hour=2/bucket-0/data-dead.parquet"
    too_deep = tmp_path / "lake/db.db/t/day=c/bucket-0/data-dead.parquet"
    for path in (orphan, too_deep):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"dead")

        os.utime(path, (1, 1))

    done = table.remove_orphan_files()

    assert [file.path for file in done.deleted] == [str(orphan)]
    assert not orphan.exists()
    assert too_deep.exists()
    assert table.to_arrow().sort_by("k").equals(rows)


# ── in doubt nothing goes ───────────────────────────────────────────────────────────────────────


def _gap(history: History) -> None:
    history.storage.delete([history.handle.paths.snapshot(2)])


def _broken_tag(history: History) -> None:
    history.storage.overwrite(history.handle.paths.tag("keep"), b"{")


def _broken_manifest(history: History) -> None:
    snapshot = parse_snapshot(history.storage.read(history.handle.paths.snapshot(2)), "")
    manifest = read_manifest_list(history.handle, snapshot.delta_manifest_list)[0]
    history.storage.overwrite(history.handle.paths.manifest(manifest.name), b"0")


def _missing_list(history: History) -> None:
    snapshot = parse_snapshot(history.storage.read(history.handle.paths.snapshot(1)), "")
    history.storage.delete([history.handle.paths.manifest(snapshot.delta_manifest_list)])


def _broken_changelog(history: History) -> None:
    history.storage.overwrite(f"{history.handle.paths.changelog_dir}/changelog-1", b"{}")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (_gap, "snapshot 3 follows snapshot 1"),
        (_broken_tag, "tag-keep"),
        (_broken_manifest, "manifest-"),
        (_missing_list, "snapshot 1 cannot be read"),
        (_broken_changelog, "changelog-1"),
    ],
)
def test_nothing_is_deleted_where_something_cannot_be_read(
    history: History, damage: Callable[[History], None], why: str
) -> None:
    history.tag("keep", 3)
    damage(history)
    dead = litter(history)
    before = everything(history)

    for dry_run in (True, False):
        result = remove(history, dry_run=dry_run)
        assert (result.status, result.deleted) == ("stopped", ())
        assert why in result.stopped[0]
    assert dead <= before == everything(history)


@pytest.mark.parametrize("kind", ["read", "list"])
def test_only_orphans_are_deleted_when_a_snapshot_vanishes_while_it_is_read(history: History, kind: str) -> None:
    storage, paths = history.storage, history.handle.paths
    assert isinstance(storage, Hooked)
    dead = litter(history)
    first = parse_snapshot(storage.read(paths.snapshot(1)), "")
    # Either its file is deleted after it was listed, or what it names is deleted after it was read.
    at = paths.snapshot(1) if kind == "read" else paths.manifest(first.delta_manifest_list)
    storage.before[at] = lambda: history.expire(retain_max=1)

    result = remove(history)

    # The doubt that this raises passes with the next search.
    assert (result.status, {file.path for file in result.deleted}) == ("deleted", dead)
    history.assert_sound()


def test_what_a_tag_and_a_commit_made_meanwhile_need_stays(history: History) -> None:
    storage, paths = history.storage, history.handle.paths
    assert isinstance(storage, Hooked)
    waiting = history.file("late")  # old already when its commit comes
    storage.before[paths.tag_dir] = lambda: history.write("late").tag("now")

    remove(history)

    assert storage.exists(history.path(waiting.name))
    history.assert_sound()


def test_a_file_that_cannot_be_deleted_is_reported_and_the_next_run_deletes_it(history: History) -> None:
    storage = history.storage
    assert isinstance(storage, Hooked)
    storage.refused = {history.path("data-dead-0.orc")}
    dead = litter(history)

    result = remove(history)

    assert result.status == "stopped"
    assert "refused" in result.stopped[0]
    storage.refused.clear()
    assert remove(history).status == "deleted"
    assert not dead & everything(history)


def test_a_time_to_come_is_refused(history: History) -> None:
    with pytest.raises(InvalidArgumentError, match="in the future"):
        remove(history, age_ms=-1)


# ── moving aside ────────────────────────────────────────────────────────────────────────────────


def test_a_quarantine_can_be_undone(history: History) -> None:
    dead = litter(history)
    before = everything(history)

    aside = remove(history, quarantine=True)

    assert (aside.status, aside.files_deleted) == ("quarantined", len(dead))
    assert not dead & everything(history)
    assert remove(history).status == "noop"
    assert aside.quarantine is not None
    back = history.run(Restore(quarantine=aside.quarantine))
    assert back.status == "restored"
    assert after_clean_up(history, before) == before
    assert history.storage.read(history.path("data-dead-0.orc")) == b"dead"
    assert history.run(Restore(quarantine=aside.quarantine)).status == "already_done"


def test_a_quarantine_of_a_run_that_died_half_way_can_be_undone(history: History) -> None:
    dead = sorted(litter(history))
    before = everything(history)
    storage = history.storage
    assert isinstance(storage, Hooked)
    storage.refused = {dead[0]}
    aside = remove(history, quarantine=True)
    assert aside.status == "stopped"
    half = f"{ROOT}/quarantine/{aside.quarantine}/{dead[0].removeprefix(ROOT + '/')}"
    storage.overwrite(half, b"de")  # and this one was not yet whole

    back = history.run(Restore(quarantine=str(aside.quarantine)))

    assert back.status == "restored"
    assert after_clean_up(history, before) == before
    assert storage.read(dead[0]) == b"dead"


@pytest.mark.parametrize("dry_run", [True, False])
def test_files_that_are_also_in_a_quarantine_are_named_with_a_remedy(history: History, dry_run: bool) -> None:
    dead = sorted(litter(history))
    aside = remove(history, quarantine=True)
    for path in dead[:2]:  # as a restore leaves them that died between copy and deletion
        copy = f"{ROOT}/quarantine/{aside.quarantine}/{path.removeprefix(ROOT + '/')}"
        history.storage.overwrite(path, history.storage.read(copy))
    history.now_ms += HOUR_MS

    result = remove(history, dry_run=dry_run)

    assert (result.status, result.files_deleted) == ("noop", 0)
    assert result.notes == (
        f"2 files stay, since quarantine {aside.quarantine} holds them too: restore it or empty it",
    )
    assert set(dead[:2]) <= everything(history)


@pytest.mark.parametrize("name", ["", "..", "../tag", "a/b"])
def test_a_quarantine_is_named_by_its_directory_alone(history: History, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a quarantine's name"):
        history.run(Restore(quarantine=name))


# ── clocks ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ahead_ms", [3 * HOUR_MS, 2 * DAY_MS])
def test_a_clock_ahead_of_the_store_makes_no_file_of_a_running_job_old(history: History, ahead_ms: int) -> None:
    storage = history.storage
    assert isinstance(storage, Hooked)
    storage.now = lambda: history.now_ms
    history.now_ms += 30 * DAY_MS
    old = litter(history)
    history.now_ms += 2 * DAY_MS
    written = history.file("in-flight")
    history.write("by another job")  # a file that is newer than the newest commit would stop the clean-up
    real_ms = history.now_ms
    storage.now = lambda: real_ms
    history.now_ms += ahead_ms

    done = history.run(RemoveOrphanFiles(older_than=history.now_ms - 2 * HOUR_MS))

    assert (done.status, {file.path for file in done.deleted}) == ("deleted", old)
    (note,) = done.notes
    assert note.startswith("2 files stay, which are too young by the store's clock: this machine's is ")
    assert f" is {'3 h' if ahead_ms < DAY_MS else '2 d'} ahead" in note
    assert storage.exists(history.path(written.name))
    assert history.run(RemoveOrphanFiles(older_than=history.now_ms - 2 * HOUR_MS)).status == "noop"
    assert not list(storage.walk(f"{ROOT}/deletion/orphans"))
    history.assert_sound()


# ── beside others ───────────────────────────────────────────────────────────────────────────────


def test_a_writer_an_expiry_and_a_clean_up_may_run_at_the_same_time() -> None:
    """A commit takes less than an hour of the history's clock, and files younger than two hours stay."""
    storage = Hooked()
    history = History({"snapshot.num-retained.min": "1"}, storage=storage, now_ms=HOUR_MS)
    storage.now = lambda: history.now_ms
    litter(history)
    history.write().write().write()
    ended = threading.Event()

    def until_ended(action: Callable[[], object]) -> None:
        action()
        while not ended.is_set():
            action()

    with ThreadPoolExecutor(2) as pool:
        expiry = pool.submit(until_ended, lambda: history.expire(retain_max=3))
        clean_up = pool.submit(until_ended, lambda: remove(history, age_ms=2 * HOUR_MS))
        try:
            for number in range(25):
                history.write()
                if number % 3 == 0:
                    history.compact()
                if number % 7 == 0:
                    history.tag(f"t{number}")
        finally:
            ended.set()
        expiry.result()
        clean_up.result()

    history.assert_sound()
    assert remove(history).status in ("deleted", "noop")
    assert not {path for path in everything(history) if "dead" in path}
    assert history.reachable() <= history.stored()
    history.assert_sound()


# ── any history ─────────────────────────────────────────────────────────────────────────────────


class LitteredLife(RandomLife):
    """A life in which snapshots are also forgotten by hand: what only they needed is left."""

    def check(self) -> None:
        self.history.assert_sound()
        assert self.history.reachable() <= self.history.stored()


@pytest.mark.parametrize("seed", range(12))
def test_after_any_history_exactly_what_is_named_stays(seed: int) -> None:
    chance = random.Random(seed)
    life = LitteredLife(seed)
    history = life.history
    history.now_ms = 10**14  # the store's clock shows the time of day
    for _ in range(12):
        for _ in range(4):
            life.step()
        dead = litter(history)
        # A snapshot forgotten by hand at the old end leaves all that only it named.
        if chance.random() < 0.3 and len(history.ids()) > 1:
            history.storage.delete([history.handle.paths.snapshot(history.ids()[0])])
        needed = history.reachable()

        done = remove(history, confirm_latest_snapshot=history.latest() or 0)
        names = named(history)

        assert done.stopped == ()
        assert needed <= everything(history)
        assert not dead & everything(history)
        assert {path.rpartition("/")[2] for path in history.stored()} <= names
        history.assert_sound()
