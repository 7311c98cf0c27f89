"""Files under names that others may choose too."""

from __future__ import annotations

import pytest

from paimon_engine.errors import OutcomeUnknownError
from paimon_engine.storage import MemoryStorage, Storage
from paimon_engine.storage.fenced import FencedStorage
from paimon_engine.storage.fsspec_storage import FsspecStorage
from paimon_engine.storage.leased import Lease, LeasedStorage
from paimon_engine.storage.locked import LockedStorage
from paimon_engine.storage.publication import create_own, shows_incomplete
from tests.support.faulty_storage import FaultyStorage

PATH = "memory:/t/name"


@pytest.fixture
def inner() -> MemoryStorage:
    return MemoryStorage()


@pytest.mark.parametrize("way", [None, "no reply, done", "repeated"])
def test_a_file_that_was_created_is_ours_whatever_the_reply(inner: MemoryStorage, way: str | None):
    storage = FaultyStorage(inner)
    storage.arm(None if way is None else 0, way or "")

    assert create_own(storage, PATH, b"ours")
    assert inner.read(PATH) == b"ours"


@pytest.mark.parametrize("way", [None, "no reply, not done"])
def test_a_file_of_others_stays(inner: MemoryStorage, way: str | None):
    inner.create(PATH, b"theirs")
    storage = FaultyStorage(inner)
    storage.arm(None if way is None else 0, way or "")

    assert not create_own(storage, PATH, b"ours")
    assert inner.read(PATH) == b"theirs"


def test_a_file_that_may_still_appear_is_in_doubt(inner: MemoryStorage):
    storage = FaultyStorage(inner)
    storage.arm(0, "no reply, not done")

    with pytest.raises(OutcomeUnknownError):
        create_own(storage, PATH, b"ours")


def test_a_file_that_others_delete_meanwhile_is_not_ours(inner: MemoryStorage):
    inner.create(PATH, b"theirs")
    storage = FaultyStorage(inner)
    storage.arm(1, act=lambda verb, path: inner.delete([path]))

    assert not create_own(storage, PATH, b"ours")


@pytest.mark.parametrize("inner", [MemoryStorage(), FsspecStorage(None, "s3"), FsspecStorage(None, "local")])
def test_a_store_around_another_shows_files_as_that_one_does(inner: Storage):
    around = (
        LockedStorage(inner, lambda: None),
        LeasedStorage(lambda: Lease(inner), lambda: 0),
        FencedStorage(inner, "/t"),
    )

    assert [shows_incomplete(store) for store in around] == [shows_incomplete(inner)] * 3
