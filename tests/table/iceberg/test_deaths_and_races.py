"""Iceberg metadata after a death at any change, or of two actions at once: what it shows exists, and gets complete."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

import fastavro
import pytest

from paimon_engine.errors import PaimonError
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.iceberg.files import is_shown
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.killed_storage import Killed, KilledStorage
from tests.support.world import HOUR_MS, ROOT, World

ACTIONS: dict[str, Callable[[World], Any]] = {
    "write": lambda w: w.write({1: 9, 7: 7}),
    "compact": lambda w: w.table().compact(full=True),
    "drop a partition": lambda w: w.table().drop_partition({"p": "a"}),
    "expire": lambda w: w.table().expire_snapshots(retain_max=1, retain_min=1, older_than=w.now_ms, parallelism=1),
    "roll back": lambda w: w.table().rollback(snapshot=3, parallelism=1),
    "roll back to as latest": lambda w: w.table().rollback_to_as_latest(snapshot=3),
    "create a tag": lambda w: w.table().create_tag("more"),
    "delete a tag": lambda w: w.table().delete_tag("kept", parallelism=1),
    "purge": lambda w: w.table().purge_files(older_than=w.now_ms, parallelism=1),
    "fast-forward": lambda w: w.table().fast_forward("b", parallelism=1),
    "merge manifests": lambda w: w.table().compact_manifests(),
    "remove orphans": lambda w: w.table().remove_orphan_files(
        w.now_ms - 1, confirm_latest_snapshot=w.table().latest_snapshot_id(), parallelism=1
    ),
}


@cache
def made(keys: tuple[str, ...]) -> tuple[dict[str, Any], int]:
    """Files of a table with a history, and the time after it."""
    world = World()
    options = {"metadata__iceberg__storage": "table-location", "bucket": 1 if keys else -1}
    world.create(keys=keys, **options)
    for step in range(3):
        world.write({1: step, 2 + step: step})
        world.table().compact(full=True)
    world.table().create_tag("kept", snapshot=2)
    world.table().create_branch("b", snapshot=4)
    world.write({8: 8}, branch="b")
    world.table("b").compact(full=True)
    world.write({5: 5})
    world.table().compact(full=True)
    world.write({6: 6})
    world.inner.overwrite(f"{ROOT}/p=a/bucket-0/data-00000000-0000-4000-8000-00000000ffff-0.parquet", b"orphan")
    return world.inner.dump(), world.now_ms + 48 * HOUR_MS


def read(store: MemoryStorage, path: str) -> list[dict[str, Any]]:
    return _records(store.read(path))


@lru_cache(1_000)
def _records(data: bytes) -> list[dict[str, Any]]:
    """Kept, as most files are the same after each death."""
    return [dict(record) for record in fastavro.reader(io.BytesIO(data))]


def shown(store: MemoryStorage, snapshot: dict[str, Any]) -> set[str]:
    """Data files of one of Iceberg's snapshots."""
    manifests = read(store, snapshot["manifest-list"])
    entries = [entry for one in manifests for entry in read(store, one["manifest_path"])]
    return {entry["data_file"]["file_path"] for entry in entries if entry["status"] != 2}


def check_shown_files_exist(store: MemoryStorage) -> tuple[int, set[str]]:
    """Of all snapshots that the newest metadata has. Returns: the current one and its files."""
    version = int(store.read(f"{ROOT}/metadata/version-hint.text"))
    document = json.loads(store.read(f"{ROOT}/metadata/v{version}.metadata.json"))
    for snapshot in document["snapshots"]:
        for path in shown(store, snapshot):
            assert store.exists(path), f"snapshot {snapshot['snapshot-id']} shows {path}"
    (current,) = [one for one in document["snapshots"] if one["snapshot-id"] == document["current-snapshot-id"]]
    return current["snapshot-id"], shown(store, current)


def check_is_complete(world: World) -> None:
    """Iceberg shows the latest snapshot, with what it sees of it; without a compaction a part where it begins again."""
    world.table().compact(full=True)
    table = world.handle
    snapshot = latest_snapshot(table)
    assert snapshot is not None
    files = {entry.file.name for entry in live_entries(table, snapshot) if is_shown(table, entry.file)}
    number, paths = check_shown_files_exist(world.inner)
    assert (number, {path.rpartition("/")[2] for path in paths}) == (snapshot.id, files)


@pytest.mark.parametrize("keys", [(), ("p", "k")], ids=["append", "keyed"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_death_at_any_change(action: str, keys: tuple[str, ...]) -> None:
    files, now_ms = made(keys)
    kill_at = 0
    while True:
        world = World(now_ms=now_ms, first_id=1 << 20)
        world.inner.load(files)
        store = KilledStorage(world.inner)
        store.arm(kill_at)
        try:
            ACTIONS[action](world.through(store))
        except Killed:
            pass
        else:
            break
        finally:
            world.through(world.inner)
        check_shown_files_exist(world.inner)
        world.write({99: kill_at})
        check_shown_files_exist(world.inner)
        check_is_complete(world)
        kill_at += 1
    assert kill_at
    check_is_complete(world)


class Repeating:
    """Sends each request to create a file twice, as clients do whose first answer was lost; `after` follows deletions."""

    def __init__(self, inner: MemoryStorage, after: Callable[[], Any]) -> None:
        self.inner, self.after = inner, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create(self, path: str, data: bytes) -> bool:
        self.inner.create(path, data)
        return self.inner.create(path, data)

    def delete(self, paths: Sequence[str]) -> None:
        self.inner.delete(paths)
        self.after()


@pytest.mark.parametrize("keys", [(), ("p", "k")], ids=["append", "keyed"])
@pytest.mark.parametrize("action", ["write", "compact", "drop a partition", "roll back to as latest"])
def test_a_repeated_request_deletes_nothing_of_the_newest_version(action: str, keys: tuple[str, ...]) -> None:
    files, now_ms = made(keys)
    world = World(now_ms=now_ms, first_id=1 << 20)
    world.inner.load(files)

    def check() -> None:
        directory = f"{ROOT}/metadata/"
        versions = [
            info.path for info in world.inner.list(directory[:-1]) if re.search(r"/v\d+\.metadata\.json$", info.path)
        ]
        newest = max(versions, key=lambda path: int(path.rpartition("/v")[2].partition(".")[0]))
        for snapshot in json.loads(world.inner.read(newest))["snapshots"]:
            shown(world.inner, snapshot)

    ACTIONS[action](world.through(Repeating(world.inner, check)))

    check()
    check_shown_files_exist(world.inner)


class Held:
    """Hands everything on to `inner`; before the call `at`, from 1, it carries out `meanwhile`."""

    def __init__(self, inner: Any, at: int, meanwhile: Callable[[], Any]) -> None:
        self.inner, self.at, self.meanwhile, self.calls = inner, at, meanwhile, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                self.meanwhile()
            return found(*args, **kwargs)

        return call


PAIRS = [
    *(("create a tag", other) for other in ("write", "compact", "expire")),
    *(("delete a tag", other) for other in ("expire", "write")),
    *(("expire", other) for other in ("purge", "write", "delete a tag")),
    *(("fast-forward", other) for other in ("write", "drop a partition")),
    *(("roll back", other) for other in ("compact", "write")),
    *(("write", other) for other in ("write", "expire", "roll back", "purge")),
]


@pytest.mark.parametrize("keys", [(), ("p", "k")], ids=["append", "keyed"])
@pytest.mark.parametrize(("action", "other"), PAIRS)
def test_two_at_once(action: str, other: str, keys: tuple[str, ...]) -> None:
    """The second one runs from begin to end before a call of the first one."""
    files, now_ms = made(keys)
    at, calls = 1, 2
    while at < calls:
        first, second = World(now_ms=now_ms, first_id=1 << 20), World(now_ms=now_ms, first_id=1 << 25)
        first.inner.load(files)
        second.inner = first.inner
        second.through(first.inner)

        def meanwhile(world: World = second) -> None:
            with suppress(PaimonError):
                ACTIONS[other](world)

        store = Held(first.inner, at, meanwhile)
        with suppress(PaimonError):
            ACTIONS[action](first.through(store))
        check_shown_files_exist(first.inner)
        second.now_ms += HOUR_MS
        second.write({99: at})
        check_shown_files_exist(first.inner)
        check_is_complete(second)
        calls, at = store.calls, at + max(1, store.calls // 8)
