"""Purging a table: all its rows and versions are deleted, the table itself stays, and a quarantine undoes it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.actions.purge_files import PurgeFiles, PurgeFilesResult
from paimon_engine.actions.restore import Restore
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import branches, latest_snapshot, snapshot_ids, tag_names
from paimon_engine.units import DAY_MS
from tests.support.clocked_storage import ClockedStorage
from tests.support.oracle import JavaPaimon
from tests.support.world import HOUR_MS
from tests.support.world.made_up import ROOT, History, everything


@pytest.fixture
def history() -> History:
    storage = ClockedStorage()
    history = History({"snapshot.num-retained.min": "1"}, storage=storage)
    storage.now = lambda: history.now_ms
    history.write("a").write("b").compact("c").write("d")
    history.tag("keep", 2)
    history.branch("dev", "keep")
    history.write("on-dev", branch="dev")
    history.storage.overwrite(f"{ROOT}/consumer/consumer-job", b'{"nextSnapshot": 2}')
    history.expire(retain_max=3)
    return history


def purge(history: History, user: str | None = None, **fields: object) -> PurgeFilesResult:
    return history.run(PurgeFiles(**fields), user)  # type: ignore[arg-type]


def test_an_empty_table_is_all_that_is_left(history: History) -> None:
    planned = purge(history, dry_run=True)
    history.storage.overwrite(
        f"{ROOT}/branch/branch-empty/schema/schema-0", history.storage.read(history.handle.paths.schema(0))
    )
    done = purge(history)

    assert (planned.status, done.status) == ("dry_run", "purged")
    assert {file.path for file in planned.deleted} <= {file.path for file in done.deleted}
    assert (done.removed_tags, done.removed_branches, done.removed_consumers) == (("keep",), ("dev", "empty"), ("job",))
    assert snapshot_ids(history.handle) == [done.snapshot_id] == [6]
    assert live_entries(history.handle, latest_snapshot(history.handle)) == []
    assert (tag_names(history.handle), branches(history.handle)) == ([], [])
    assert not [path for path in everything(history) if "/bucket-" in path or "/consumer" in path]
    history.assert_exact()
    nothing = purge(history)
    assert (nothing.status, nothing.deleted, nothing.removed_snapshots) == ("noop", (), ())
    history.write("after").assert_exact()


def test_a_dry_run_changes_nothing(history: History) -> None:
    before = everything(history)

    purge(history, dry_run=True)

    assert everything(history) == before


@pytest.mark.parametrize(("fields", "tags", "kept"), [
    ({"keep_branches": True, "keep_tags": True}, ["keep"], {"a", "b", "on-dev"}),
    ({"keep_tags": True}, ["keep"], {"a", "b"}),
])  # fmt: skip
def test_what_is_to_be_kept_stays_with_its_files(
    history: History, fields: dict[str, bool], tags: list[str], kept: set[str]
) -> None:
    purge(history, **fields)

    assert tag_names(history.handle) == tags
    assert history.names() == kept
    history.assert_exact()


def test_a_tag_that_a_kept_branch_was_made_from_cannot_be_deleted(history: History) -> None:
    before = everything(history)

    with pytest.raises(InvalidArgumentError, match="branch 'dev' was made from tag 'keep'"):
        purge(history, keep_branches=True)
    assert everything(history) == before


def test_a_purge_is_restored_from_its_quarantine(history: History) -> None:
    before, files = everything(history), history.reachable()

    done = purge(history, quarantine=True)
    assert done.quarantine is not None
    back = history.run(Restore(quarantine=done.quarantine))

    assert (back.status, back.tags, back.branches) == ("restored", ("keep",), ("dev",))
    assert before.keys() <= everything(history).keys()
    assert files <= history.reachable()
    history.assert_sound()
    history.rollback(snapshot=4)
    history.assert_exact()
    assert history.names() >= {"c", "d"}


def test_a_repeated_job_purges_once(history: History) -> None:
    first = purge(history, "me")
    history.write("after")

    again = purge(history, "me")

    assert (again.status, again.snapshot_id) == ("already_done", first.snapshot_id)
    assert (again.removed_snapshots, again.deleted) == ((), ())
    assert history.names() == {"after"}


class DiesBeforeDeletion(MemoryStorage):
    """The process ends when the record of a deletion is to be written, until `lives`."""

    lives = False

    def overwrite(self, path: str, data: bytes) -> None:
        if "/deletion/" in path and not self.lives:
            raise KeyboardInterrupt
        super().overwrite(path, data)


def test_a_run_that_was_interrupted_after_the_commit_is_finished() -> None:
    storage = DiesBeforeDeletion()
    history = History(storage=storage).write().write()
    before = history.latest()
    with pytest.raises(KeyboardInterrupt):
        purge(history, "me")
    assert history.latest() != before
    storage.lives = True

    assert purge(history, "me").status == "purged"
    assert history.names() == set()
    history.assert_exact()


def test_old_files_that_nothing_names_are_deleted_too(history: History) -> None:
    orphan = history.path("data-dead-0.orc")
    history.storage.overwrite(orphan, b"dead")

    assert history.storage.exists(orphan)
    history.now_ms += HOUR_MS
    assert orphan in {file.path for file in purge(history, older_than=history.now_ms).deleted}
    with pytest.raises(InvalidArgumentError, match="in the future"):
        purge(history, older_than=history.now_ms + 1)


def test_files_that_only_a_clock_ahead_of_the_store_makes_old_are_left(history: History) -> None:
    storage = history.storage
    assert isinstance(storage, ClockedStorage)
    written = history.path("data-in-flight-0.orc")
    storage.overwrite(written, b"rows")
    history.write("by another job").write("on-dev, too", branch="dev")
    real_ms = history.now_ms
    storage.now = lambda: real_ms
    history.now_ms += 2 * DAY_MS

    done = purge(history)

    assert done.status == "purged"
    assert "1 file stays, which is too young by the store's clock: this machine's is 2 d ahead" in done.stopped[0]
    assert storage.exists(written)


def test_a_table_without_snapshots_is_left_as_it_is() -> None:
    history = History()

    assert purge(history).status == "noop"
    assert snapshot_ids(history.handle) == []


def test_java_reads_a_purged_table_and_a_restored_one(tmp_path: Path, oracle: JavaPaimon) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    table = Catalog(str(tmp_path / "lake")).create_table(
        "db.t", schema=schema, primary_keys=["k"], options={"bucket": 1}
    )
    for number in (1, 2, 3):
        table.write(pa.table({"k": [number], "v": ["x"]}, schema))
    table.create_tag("keep", 2)

    purged = table.purge_files(quarantine=True)
    assert oracle.read(table.path) == []
    oracle.assert_sound(table.path)
    assert purged.quarantine is not None
    table.restore(purged.quarantine)

    assert oracle.read(table.path) == []
    assert [row[0] for row in oracle.read(table.path, snapshot=3)] == [1, 2, 3]
    assert [row[0] for row in oracle.read(table.path, tag="keep")] == [1, 2]
    oracle.assert_sound(table.path)
    table.rollback(snapshot=3)
    assert [row[0] for row in oracle.read(table.path)] == [1, 2, 3]
    oracle.assert_sound(table.path)
