"""Making and renaming directories, on every kind of storage; leases and locks of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_engine.errors import NotFoundError, OutcomeUnknownError, StorageError, UnsupportedError
from paimon_engine.storage import LocalStorage, MemoryStorage, Storage
from paimon_engine.storage.leased import Lease, LeasedStorage
from paimon_engine.storage.locked import LockedStorage

HOUR_MS = 3_600_000


OBJECT_STORES = ("s3:", "oss:", "cosn:")


def has_directories(location) -> bool:
    return not location.root.startswith(("memory:", *OBJECT_STORES))


def test_a_directory_is_made_where_there_are_any(location):
    location.storage.make_dir(location.path("a/b"))
    location.storage.make_dir(location.path("a/b"))

    assert location.storage.exists(location.path("a/b")) == has_directories(location)


def test_a_directory_is_renamed_with_all_that_is_in_it(location):
    location.storage.create(location.path("old/deep/f"), b"1")
    location.storage.create(location.path("older"), b"2")
    if location.root.startswith(OBJECT_STORES):
        with pytest.raises(UnsupportedError, match="has no directories"):
            location.storage.rename_dir(location.path("old"), location.path("new"))
        return
    location.storage.rename_dir(location.path("old"), location.path("new/er"))

    assert sorted(info.path for info in location.storage.walk(location.root)) == [
        location.path("new/er/deep/f"),
        location.path("older"),
    ]
    assert not location.storage.exists(location.path("old"))


def test_a_directory_never_replaces_another(location):
    for name in ("a/f", "b/f"):
        location.storage.create(location.path(name), name.encode())
    if location.root.startswith(OBJECT_STORES):
        pytest.skip("object stores rename nothing")
    with pytest.raises(StorageError, match="the name is taken"):
        location.storage.rename_dir(location.path("a"), location.path("b"))
    with pytest.raises(NotFoundError):
        location.storage.rename_dir(location.path("c"), location.path("d"))

    assert location.storage.read(location.path("b/f")) == b"b/f"


@pytest.mark.parametrize("elsewhere", ["s3://bucket/new", "hdfs://other:8020/new"])
def test_a_directory_stays_in_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: str):
    monkeypatch.chdir(tmp_path)
    storage = LocalStorage()
    storage.create(f"{tmp_path}/old/f", b"1")

    with pytest.raises(UnsupportedError, match="different stores"):
        storage.rename_dir(f"{tmp_path}/old", elsewhere)

    assert [info.path for info in storage.walk(str(tmp_path))] == [f"{tmp_path}/old/f"]


class Leases:
    """Stores lent one after another, each for two hours."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.lent: list[Storage] = []

    def renew(self) -> Lease:
        self.lent.append(MemoryStorage())
        return Lease(self.lent[-1], self.now_ms + 2 * HOUR_MS)


@pytest.mark.parametrize(("at_ms", "leases"), [(0, 1), (HOUR_MS - 1, 1), (HOUR_MS, 2), (3 * HOUR_MS, 2)])
def test_a_lease_is_renewed_an_hour_before_it_ends(at_ms: int, leases: int):
    source = Leases()
    storage = LeasedStorage(source.renew, lambda: source.now_ms)
    storage.overwrite("/f", b"1")
    source.now_ms = at_ms
    storage.overwrite("/f", b"2")

    assert len(source.lent) == leases
    assert source.lent[-1].read("/f") == b"2"


@pytest.mark.parametrize(("at_ms", "is_over"), [(HOUR_MS, False), (2 * HOUR_MS - 1, False), (2 * HOUR_MS, True)])
def test_a_lease_serves_until_its_end_while_the_server_fails(at_ms: int, is_over: bool):
    source, fails, asked = Leases(), False, 0

    def renew() -> Lease:
        nonlocal asked
        asked += 1
        if fails:
            raise StorageError("status 503")
        return source.renew()

    storage = LeasedStorage(renew, lambda: source.now_ms)
    storage.overwrite("/f", b"1")
    source.now_ms, fails = at_ms, True

    if is_over:
        with pytest.raises(StorageError, match="status 503"):
            storage.read("/f")
    else:
        assert [storage.read("/f") for _ in range(9)] == [b"1"] * 9
    assert asked == 2

    source.now_ms, fails = 2 * HOUR_MS, False
    storage.overwrite("/f", b"2")
    assert source.lent[-1].read("/f") == b"2"


class LostLock:
    """A lock that another took before it was given back."""

    def acquire(self) -> None:
        """Ours."""

    def release(self) -> bool:
        return False


class StuckLock(LostLock):
    """A lock whose owner died."""

    def release(self) -> bool:
        raise StorageError("no connection")


@pytest.mark.parametrize("lock", [LostLock, StuckLock])
def test_a_file_made_under_a_lock_that_was_lost_is_in_doubt(tmp_path: Path, lock: type[LostLock]):
    storage = LockedStorage(LocalStorage(), lock)
    path = f"{tmp_path}/snapshot-1"

    with pytest.raises(OutcomeUnknownError, match="the lock was lost"):
        storage.create(path, b"1")
    assert not storage.create(path, b"2")
    assert storage.read(path) == b"1"
