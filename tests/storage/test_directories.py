"""Making and renaming directories, on every kind of storage; leases and locks of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_engine.errors import NotFoundError, OutcomeUnknownError, StorageError, UnsupportedError
from paimon_engine.storage import LocalStorage, MemoryStorage, Storage
from paimon_engine.storage.leased import Lease, LeasedStorage
from paimon_engine.storage.locked import LockedStorage

HOUR_MS = 3_600_000


def has_directories(place) -> bool:
    return not place.root.startswith(("memory:", "s3:"))


def test_a_directory_is_made_where_there_are_any(place):
    place.storage.make_dir(place.path("a/b"))
    place.storage.make_dir(place.path("a/b"))

    assert place.storage.exists(place.path("a/b")) == has_directories(place)


def test_a_directory_is_renamed_with_all_that_is_in_it(place):
    place.storage.create(place.path("old/deep/f"), b"1")
    place.storage.create(place.path("older"), b"2")
    if place.root.startswith("s3:"):
        with pytest.raises(UnsupportedError, match="has no directories"):
            place.storage.rename_dir(place.path("old"), place.path("new"))
        return
    place.storage.rename_dir(place.path("old"), place.path("new/er"))

    assert sorted(info.path for info in place.storage.walk(place.root)) == [
        place.path("new/er/deep/f"),
        place.path("older"),
    ]
    assert not place.storage.exists(place.path("old"))


def test_a_directory_never_replaces_another(place):
    for name in ("a/f", "b/f"):
        place.storage.create(place.path(name), name.encode())
    if place.root.startswith("s3:"):
        pytest.skip("object stores rename nothing")
    with pytest.raises(StorageError, match="the name is taken"):
        place.storage.rename_dir(place.path("a"), place.path("b"))
    with pytest.raises(NotFoundError):
        place.storage.rename_dir(place.path("c"), place.path("d"))

    assert place.storage.read(place.path("b/f")) == b"b/f"


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
