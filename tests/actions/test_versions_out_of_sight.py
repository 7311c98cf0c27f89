"""A clean-up deletes nothing of a table whose snapshots, tags or branches it cannot see, and says what to do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.errors import PaimonError, StorageError
from tests.support.faulty_storage import DOWN, FaultyStorage
from tests.support.lying_storage import LyingStorage
from tests.support.world import HOUR_MS, ROOT, World
from tests.support.world.reach import unreached
from tests.support.world.scenarios import keyed

DAY_MS = 24 * HOUR_MS


def _table() -> World:
    """Six snapshots, the last of which replaces all files; two of the older ones are tagged; a branch of one tag."""
    world = World()
    keyed(world)
    table = world.table()
    table.compact(full=True)
    table.create_tag("old", snapshot=3)
    table.create_branch("b", tag="middle")
    world.write({1: 100}, branch="b")
    world.table("b").compact(full=True)
    table.expire_snapshots(retain_max=3, retain_min=3, older_than=world.now_ms)
    world.now_ms += 30 * DAY_MS
    return world


def _everything(world: World) -> dict[str, bytes]:
    return {info.path: world.inner.read(info.path) for info in world.inner.walk(ROOT)}


def _hide(world: World, part: str) -> None:
    world.inner.delete([info.path for info in world.inner.walk(ROOT) if f"/{part}" in info.path])


HIDDEN = {
    "all snapshots but the hints": ("snapshot/snapshot-", "LATEST"),
    "the snapshots' directory": ("snapshot/", "no snapshot is listed"),
    "the newest snapshot": ("snapshot/snapshot-6", "LATEST names snapshot 6, but the newest one listed is 5"),
    "the newest snapshots": ("snapshot/snapshot-[56]", "LATEST names snapshot 6, but the newest one listed is 4"),
    "the oldest snapshot": ("snapshot/snapshot-4", "EARLIEST names snapshot 4, but the first one listed is 5"),
    "the tags": ("t/tag/", "manifest list"),
    "a tag": ("t/tag/tag-old", "manifest list"),
    "the branches": ("branch/", "manifest list"),
    "a branch's schema and snapshots": ("branch/branch-b/s", "branch 'b' has no schema"),
    "a branch's snapshots": ("branch/branch-b/snapshot/", "no snapshot is listed"),
    "data files": ("p=a/", "are not in the listing"),
}


@pytest.mark.parametrize("part", ["branch", "branch/branch-b", "branch/branch-b/snapshot", "tag", "tag/tag-old"])
@pytest.mark.parametrize("name", ["expire_snapshots", "remove_orphan_files", "delete_tag", "rollback"])
def test_a_link_to_a_disk_that_is_not_mounted_hides_no_version(tmp_path: Path, name: str, part: str) -> None:
    catalog = Catalog(str(tmp_path / "lake"))
    table = catalog.create_table("db.t", schema={"k": "BIGINT NOT NULL"}, primary_keys=["k"], options={"bucket": 1})
    for number in range(4):
        table.write(pa.table({"k": [number]}))
        if number == 1:
            table.create_branch("b", snapshot=2)
            table.create_tag("old")
            table.create_tag("late", snapshot=1)
    table.compact(full=True)
    disk, link = tmp_path / "disk", Path(table.path, part)
    disk.mkdir()
    shutil.move(link, disk / "moved")
    link.symlink_to(disk / "moved")
    disk.rename(tmp_path / "unmounted")
    before = sorted(tmp_path.rglob("*"))

    actions = {
        "expire_snapshots": lambda: table.expire_snapshots(retain_max=1, retain_min=1),
        "remove_orphan_files": lambda: table.remove_orphan_files(older_than="0 s", confirm_latest_snapshot=5),
        "delete_tag": lambda: table.delete_tag("late"),
        "rollback": lambda: table.rollback(snapshot=1),
    }
    with pytest.raises(StorageError, match=f"{link} is a link to {disk / 'moved'}, .* mount it, or remove the link"):
        actions[name]()

    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "unmounted").rename(disk)
    for read in (catalog.table("db.t$branch_b").to_arrow(), table.to_arrow(tag="old")):
        assert sorted(read["k"].to_pylist()) == [0, 1]


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("how", ["missing", "not listed"])
def test_nothing_is_deleted_while_versions_are_not_visible(name: str, how: str) -> None:
    world = _table()
    part, why = HIDDEN[name]
    pattern = part.replace("[56]", "(5|6)")
    if how == "missing":
        for one in ("5", "6") if "[" in part else ("",):
            _hide(world, part.replace("[56]", one).removeprefix("t/"))
    else:
        world.through(_Unlisted(world.inner, pattern))
    if name == "data files":
        # Without any orphan there would be nothing to decide.
        world.inner.overwrite(f"{ROOT}/p=b/bucket-0/data-dead-0.parquet", b"dead")
        world.now_ms += DAY_MS
    before = _everything(world)

    for dry_run in (True, False):
        result = world.table().remove_orphan_files(world.now_ms, dry_run=dry_run)

        assert (result.status, result.deleted) == ("stopped", ())
        assert how == "not listed" or any(why in reason for reason in result.stopped), result.stopped
        assert all(reason.startswith("nothing is deleted: ") for reason in result.stopped)
    assert _everything(world) == before


class _Unlisted(LyingStorage):
    """Listings lack what matches a pattern; files are found by their names."""

    def __init__(self, inner: Any, pattern: str) -> None:
        super().__init__(inner)
        self._pattern = re.compile(f"/{pattern}")

    def list(self, prefix: str) -> Any:
        found = super().list(prefix)
        return [info for info in found if not self._pattern.search(info.path + ("/" if info.is_dir else ""))]

    def walk(self, prefix: str) -> Any:
        return (info for info in super().walk(prefix) if not self._pattern.search(info.path))


def test_a_tag_that_shares_all_its_files_cannot_be_missed_and_the_expiry_is_undone() -> None:
    """The limit that docs/incomplete-tables.md states, and the way back that it names."""
    world = World()
    keyed(world)
    path = world.handle.paths.tag("middle")
    tag, rows = world.inner.read(path), world.table().to_arrow(tag="middle")
    world.table().compact(full=True)
    world.inner.delete([path])

    gone = world.table().expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms, quarantine=True)
    world.inner.overwrite(path, tag)

    assert gone.stopped == ()
    with pytest.raises(PaimonError):
        world.table().to_arrow(tag="middle")
    for name in reversed(gone.quarantines):
        world.table().restore(name)
    assert world.table().to_arrow(tag="middle").sort_by("k") == rows.sort_by("k")
    assert unreached(world.inner, ROOT) == set()


def test_the_user_can_confirm_the_latest_snapshot() -> None:
    """As after a rollback by a release that leaves the files, while a writer wrote the hint late."""
    world = _table()
    _hide(world, "snapshot/snapshot-6")

    stopped = world.table().remove_orphan_files(world.now_ms)
    wrong = world.table().remove_orphan_files(world.now_ms, confirm_latest_snapshot=6)
    done = world.table().remove_orphan_files(world.now_ms, confirm_latest_snapshot=5)

    assert all("confirm_latest_snapshot=5" in reason for reason in stopped.stopped)
    assert wrong.status == "stopped"
    assert "the latest snapshot listed is 5, but 6 is confirmed" in wrong.stopped[0]
    assert done.status == "deleted"
    assert unreached(world.inner, ROOT) == set()
    # The hint does not stop the next run.
    assert world.table().remove_orphan_files(world.now_ms).status == "noop"


def test_a_snapshot_that_exists_by_name_cannot_be_denied() -> None:
    world = _table()
    world.through(_Unlisted(world.inner, "snapshot/snapshot-6"))
    before = _everything(world)

    result = world.table().remove_orphan_files(world.now_ms, confirm_latest_snapshot=5)

    assert result.status == "stopped"
    assert "snapshot 6 exists, but the listing of its directory lacks it" in result.stopped[0]
    assert _everything(world) == before


def test_a_table_whose_first_commit_failed_is_cleaned_when_somebody_says_so() -> None:
    world = World()
    world.create(keys=("p", "k"), bucket=1)
    world.through(store := FaultyStorage(world.inner))
    store.arm(_call_of(world, lambda verb, path: verb == "create" and "/snapshot-1" in path), DOWN)
    with pytest.raises(StorageError):
        world.write({1: 1})
    world.through(world.inner).now_ms += DAY_MS

    stopped = world.table().remove_orphan_files(world.now_ms)
    assert stopped.status == "stopped"
    assert "but no snapshot" in stopped.stopped[0]
    assert world.table().remove_orphan_files(world.now_ms, confirm_latest_snapshot=0).status == "deleted"

    assert unreached(world.inner, ROOT) == set()
    world.write({1: 1})
    assert world.table().to_arrow().num_rows == 1


def _call_of(world: World, chosen: Callable[[str, str], bool]) -> int:
    """Number of the first such call of a write to an equal table."""
    copy = World(now_ms=world.now_ms)
    copy.inner.load(world.inner.dump())
    copy.numbers = iter(range(1 << 20, 1 << 21))  # type: ignore[assignment]
    copy.through(store := FaultyStorage(copy.inner))
    store.arm(None)
    copy.write({1: 1})
    return next(number for number, call in enumerate(store.calls) if chosen(*call))


@pytest.mark.parametrize("where", ["/manifest/manifest-list-", "/snapshot/snapshot-7"])
def test_what_a_writer_left_that_died_in_its_commit_is_deleted_after_the_next_commit(where: str) -> None:
    world = _table()
    world.through(store := FaultyStorage(world.inner))
    store.arm(_call_of(world, lambda verb, path: verb in ("writer", "create") and where in path), DOWN)
    with pytest.raises(StorageError):
        world.write({1: 1})
    world.through(world.inner).now_ms += DAY_MS
    assert unreached(world.inner, ROOT) != set()
    assert world.table().remove_orphan_files(world.now_ms).status == "stopped"

    world.write({1: 1})
    result = world.table().remove_orphan_files(world.now_ms)

    assert (result.status, result.stopped) == ("deleted", ())
    assert unreached(world.inner, ROOT) == set()


def test_what_an_expiry_left_that_died_is_deleted() -> None:
    world = World()
    keyed(world)
    world.table().compact(full=True)
    world.write({1: 9})
    counted = FaultyStorage(World(now_ms=world.now_ms).inner)
    counted.inner.load(world.inner.dump())
    other = World(now_ms=world.now_ms).through(counted)
    counted.arm(None)
    other.table().expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms)
    # All snapshots are hidden, and no file is deleted yet.
    first = next(n for n, (verb, path) in enumerate(counted.calls) if verb == "delete" and "/bucket-" in path)
    world.through(store := FaultyStorage(world.inner))
    store.arm(first, DOWN)
    with pytest.raises(StorageError):
        world.table().expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms)
    world.through(world.inner).now_ms += DAY_MS

    result = world.table().remove_orphan_files(world.now_ms)

    assert (result.status, result.stopped) == ("deleted", ())
    assert unreached(world.inner, ROOT) == {path for path in unreached(world.inner, ROOT) if "deletion/" in path}


def test_a_branch_beside_a_main_without_snapshots_keeps_its_files_until_main_has_one() -> None:
    """Main may just not be visible: its first commit, or its copy, tells."""
    world = World()
    world.create(keys=("k",), by=(), bucket=1)
    world.table().create_branch("b")
    for number in range(3):
        world.write({1: number}, branch="b")
    world.table("b").compact(full=True)
    world.now_ms += 30 * DAY_MS

    def expire() -> Any:
        return world.table("b").expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms)

    stopped = expire()
    assert stopped.files_deleted == 0
    assert "main has no snapshot, but branch b has" in stopped.stopped[0]
    assert world.table("b").snapshots().num_rows == 4

    world.write({9: 9})
    world.write({1: 7}, branch="b")
    world.now_ms += 30 * DAY_MS

    assert expire().status == "expired"
    assert unreached(world.inner, ROOT) == set()
