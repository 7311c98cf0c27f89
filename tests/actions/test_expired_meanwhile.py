"""What an action is about to read expires: it looks at the table again, unless something is really lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, NotFoundError, Table, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import read_at_latest
from tests.support.storage_events import EventStorage
from tests.support.world.made_up import History

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


class Interrupted(LocalExecutor):
    """Somebody acts after an action has planned, before its tasks run; once."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(1)
        self._acts = [act]

    def map(self, run: Any, tasks: Sequence[Any], **given: Any) -> Any:
        if self._acts:
            self._acts.pop()()
        return super().map(run, tasks, **given)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    for number in range(3):
        table.write(pa.table({"k": [number, 9], "v": [number, number]}))
    return table


def replace_and_expire(table: Table) -> None:
    table.compact(full=True)
    table.write(pa.table({"k": [10], "v": [10]}))
    table.expire_snapshots(retain_max=1, retain_min=1)


def test_a_plan_is_made_anew(table: Table) -> None:
    handle = load_table(table.path, EnvConfig(table.path))
    seen: list[Snapshot | None] = []

    def look(snapshot: Snapshot | None) -> int:
        seen.append(snapshot)
        if len(seen) == 1:
            replace_and_expire(table)
        return len(live_entries(handle, snapshot))

    assert read_at_latest(handle, look) == 2
    assert len(seen) == 2


def test_what_is_lost_is_not_looked_for_for_ever(table: Table) -> None:
    handle = load_table(table.path, EnvConfig(table.path))
    for path in Path(table.path, "manifest").glob("manifest-*-*"):
        path.unlink()

    with pytest.raises(NotFoundError, match="is missing"):
        read_at_latest(handle, lambda snapshot: live_entries(handle, snapshot))


def test_a_bucket_whose_files_others_have_replaced_and_expired_is_compacted_anew(table: Table) -> None:
    late = open_table(table.path, executor=Interrupted(lambda: replace_and_expire(table)))

    result = late.compact(full=True)

    assert (result.status, result.failed, result.conflicts) == ("committed", (), 0)
    assert sorted(table.to_arrow()["k"].to_pylist()) == [0, 1, 2, 9, 10]
    assert table.files().num_rows == 1


def test_a_lost_data_file_fails_the_compaction(table: Table) -> None:
    next(Path(table.path).rglob("data-*")).unlink()

    with pytest.raises(NotFoundError, match="data-"):
        table.compact(full=True)


def test_a_snapshot_that_vanishes_under_our_eyes_ends_the_run() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a").compact("b").write("c").write("d")
    storage.once("delete", "snapshot/snapshot-1", lambda: history.rollback(snapshot=2))

    with pytest.raises(ConflictError, match="snapshot 4 .* vanished"):
        history.expire(retain_max=1)

    assert history.ids() == [2]
    history.assert_sound()
    assert history.reachable() <= history.stored()


def test_a_rollback_while_the_latest_hint_is_mended_leaves_no_stale_one() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a").write("b").write("c").write("d")
    storage.overwrite(history.handle.paths.latest_hint, b"1")
    storage.once("overwrite", "snapshot/LATEST", lambda: history.rollback(snapshot=2))

    with pytest.raises(ConflictError, match="snapshot 4 .* vanished"):
        history.expire(retain_max=1)

    assert history.ids() == [1, 2]
    assert storage.read(history.handle.paths.latest_hint) == b"2"
    history.assert_sound()


def test_two_expiries_at_once_take_each_other_for_no_rollback() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a").compact("b").write("c").write("d")
    storage.once("delete", "snapshot/snapshot-1", lambda: history.compact("e").expire(retain_max=1))

    result = history.expire(retain_max=1)

    assert result.expired_snapshots == (1, 2, 3)
    assert history.ids() == [5]
    history.assert_exact()
    assert storage.read(f"{history.handle.paths.snapshot_dir}/EARLIEST") == b"5"
