"""What only stores behind fsspec can get wrong: lost answers, stale listings, unfinished uploads, option names."""

from __future__ import annotations

import errno
import io
import uuid
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from paimon_engine import Catalog
from paimon_engine.errors import (
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedError,
)
from paimon_engine.storage import storage_for
from paimon_engine.storage.fsspec_storage import FsspecStorage, _arguments
from tests.support.file_system import file_system_of


class Scripted(MemoryFileSystem):
    """A file system whose `create` has one result after another: an error to raise, or "lost" for a lost answer."""

    protocol = ("scripted",)
    cachable = False

    def __init__(self, *script: Exception | str) -> None:
        super().__init__()
        self.store = {}
        self.pseudo_dirs = [""]
        self.script = list(script)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        super().pipe_file(path, value, mode=mode, **kwargs)
        if step == "lost and repeated":
            raise FileExistsError(path)
        if step == "lost":
            raise ConnectionResetError("reset by peer")


RACE = OSError("An error occurred (ConditionalRequestConflict) when calling the PutObject operation")


def test_a_repeated_request_that_finds_its_own_file_has_created_it():
    storage = FsspecStorage(Scripted("lost and repeated"), "s3", decides_races=False)

    assert storage.create("/lake/snapshot-1", b"ours") is True
    assert storage.create("/lake/snapshot-1", b"theirs") is False


def test_a_lost_answer_is_an_unknown_outcome():
    storage = FsspecStorage(Scripted("lost"), "s3", decides_races=False)

    with pytest.raises(OutcomeUnknownError, match="snapshot-1"):
        storage.create("/lake/snapshot-1", b"ours")


def test_a_refused_request_is_a_plain_failure():
    storage = FsspecStorage(Scripted(PermissionError("denied")), "s3", decides_races=False)

    with pytest.raises(StorageError, match="denied") as caught:
        storage.create("/lake/snapshot-1", b"ours")
    assert not isinstance(caught.value, OutcomeUnknownError)


def test_a_race_that_the_store_did_not_decide_is_tried_again():
    assert FsspecStorage(Scripted(RACE, RACE), "s3", decides_races=False).create("/lake/a", b"1") is True

    with pytest.raises(StorageError, match="others keep creating"):
        FsspecStorage(Scripted(*[RACE] * 10), "s3", decides_races=False).create("/lake/a", b"1")


def test_an_answer_that_is_lost_while_the_store_is_tested_says_nothing_of_the_file():
    storage = FsspecStorage(Scripted("lost", "lost"), "s3")
    assert storage.create("/lake/snapshot-1", b"ours") is True

    silent = FsspecStorage(Scripted(*["lost"] * 3), "s3")
    with pytest.raises(StorageError, match="did not answer") as caught:
        silent.create("/lake/snapshot-1", b"ours")
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert not silent.exists("/lake/snapshot-1")
    assert silent.create("/lake/snapshot-1", b"ours") is True


def test_a_store_without_conditional_requests_is_read_only():
    storage = FsspecStorage(Scripted(), "hdfs")

    for act in (storage.create, storage.overwrite):
        with pytest.raises(UnsupportedError, match=r"hdfs.*create-if-absent"):
            act("/lake/a", b"1")
    with pytest.raises(UnsupportedError, match="hdfs"):
        storage.writer("/lake/a")


def test_an_unknown_scheme_is_unsupported():
    with pytest.raises(UnsupportedError, match="nosuch://"):
        storage_for("nosuch://bucket/table", {})


def test_options_take_paimons_names_and_the_file_systems_own():
    assert _arguments(
        "s3",
        {
            "s3.endpoint": "http://here",
            "s3.access-key": "123",
            "s3.path.style.access": "true",
            "s3.region": "eu-central-1",
            "client_kwargs": '{"verify": false}',
            "anon": "false",
            "token": "abc",
        },
    ) == {
        "endpoint_url": "http://here",
        "key": "123",
        "config_kwargs": {"max_pool_connections": 32, "s3": {"addressing_style": "path"}},
        "client_kwargs": {"region_name": "eu-central-1", "verify": False},
        "anon": False,
        "token": "abc",
    }
    with pytest.raises(InvalidArgumentError, match=r"s3\.acces-key; known are s3\.endpoint"):
        _arguments("s3", {"s3.acces-key": "typo"})
    fewer = {"config_kwargs": '{"max_pool_connections": 4}'}
    assert _arguments("s3a", fewer) == {"config_kwargs": {"max_pool_connections": 4}}
    assert _arguments("gs", {}) == {}


@pytest.mark.s3
def test_listings_see_what_other_clients_did(s3_options):
    ours = storage_for("s3://lake", s3_options)
    theirs = storage_for("s3a://lake", s3_options)
    root = f"s3://lake/{uuid.uuid4()}"
    assert ours.list(root) == []

    theirs.create(f"{root.replace('s3:', 's3a:')}/a", b"1")
    assert [info.path for info in ours.list(root)] == [f"{root}/a"]

    theirs.delete([f"{root.replace('s3:', 's3a:')}/a"])
    assert ours.list(root) == []
    assert not ours.exists(f"{root}/a")


@pytest.mark.s3
def test_a_failed_upload_in_parts_leaves_nothing(s3_options):
    storage = storage_for("s3://lake", s3_options)
    path = f"s3://lake/{uuid.uuid4()}/data"

    with pytest.raises(ValueError, match="late"), storage.writer(path) as file:
        for _ in range(3):
            file.write(b"x" * (30 << 20))
        raise ValueError("late")

    assert not storage.exists(path)
    assert file_system_of(storage).call_s3("list_multipart_uploads", Bucket="lake").get("Uploads", []) == []


@pytest.mark.s3
def test_a_large_file_is_uploaded_in_parts_and_reads_back(s3_options):
    storage = storage_for("s3://lake", s3_options)
    path = f"s3://lake/{uuid.uuid4()}/data"

    with storage.writer(path) as file:
        for number in range(6):
            file.write(bytes([number]) * (10 << 20))

    assert storage.stat(path).size_bytes == 60 << 20
    with storage.open(path) as file:
        file.seek(-1, 2)
        assert file.read() == b"\x05"
        file.seek(10 << 20)
        assert file.read(2) == b"\x01\x01"


@pytest.mark.s3
def test_a_missing_bucket_and_wrong_paths_are_our_errors(s3_options):
    storage = storage_for("s3://lake", s3_options)

    for act in (storage.read, storage.stat, storage.list, lambda path: list(storage.walk(path))):
        with pytest.raises(StorageError, match="bucket does not exist") as caught:
            act("s3://no-such-bucket/a")
        assert not isinstance(caught.value, NotFoundError)
    with pytest.raises(StorageError):
        storage.create("s3://no-such-bucket/a", b"1")
    with pytest.raises(StorageError, match="bucket does not exist"):
        Catalog("s3://no-such-bucket/lake", storage_options=s3_options).list_databases()
    storage.delete([f"s3://lake/{uuid.uuid4()}" for _ in range(30)])


class Unsteady(LocalFileSystem):
    """The local disk as a server that does not answer about some paths."""

    protocol = ("unsteady",)
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.disk = LocalFileSystem()
        self.silent = ""
        self.error: OSError = ConnectionResetError("reset by peer")

    def info(self, path, **kwargs):
        self._answer(path)
        return self.disk.info(path, **kwargs)

    def ls(self, path, detail=False, **kwargs):
        self._answer(path)
        return self.disk.ls(path, detail=detail, **kwargs)

    def open(self, path, mode="rb", **kwargs):
        file = super().open(path, mode, **kwargs)
        return BrokenFile(file, self) if mode == "rb" else file

    def _answer(self, path: str) -> None:
        if self.silent and self.silent in str(path):
            raise self.error


class BrokenFile(io.RawIOBase):
    """Fails where its file system does not answer any more."""

    def __init__(self, file: Any, system: Unsteady) -> None:
        self.file, self.system = file, system

    def seek(self, offset, whence=0):
        return self.file.seek(offset, whence)

    def tell(self):
        return self.file.tell()

    def read(self, size=-1):
        self.system._answer(self.file.path)
        return self.file.read(size)


@pytest.fixture
def unsteady(tmp_path) -> tuple[FsspecStorage, Unsteady, str]:
    system = Unsteady()
    storage = FsspecStorage(system, "unsteady", is_locked=True)
    for name in ("snapshot/snapshot-1", "snapshot/deep/snapshot-2", "LATEST"):
        storage.overwrite(f"unsteady://{tmp_path}/{name}", b"theirs")
    return storage, system, f"unsteady://{tmp_path}"


def test_a_server_that_does_not_answer_is_not_taken_for_an_absent_file(unsteady):
    storage, system, root = unsteady
    system.silent = "snapshot-1"

    for act in (storage.exists, storage.stat, lambda path: storage.create(path, b"ours")):
        with pytest.raises(StorageError, match=r"snapshot-1: ConnectionResetError: reset by peer"):
            act(f"{root}/snapshot/snapshot-1")
    system.silent = ""
    assert storage.read(f"{root}/snapshot/snapshot-1") == b"theirs"
    assert storage.exists(f"{root}/snapshot/snapshot-1")
    assert not storage.exists(f"{root}/snapshot/snapshot-3")


@pytest.mark.parametrize("silent", ["snapshot", "deep"])
def test_a_directory_that_cannot_be_listed_is_not_taken_for_an_empty_one(unsteady, silent: str):
    storage, system, root = unsteady
    system.silent = silent

    for act in (storage.walk, storage.delete_tree):
        with pytest.raises(StorageError, match=f"{silent}: ConnectionResetError"):
            list(act(root) or ())
    system.silent = ""
    assert [info.path.removeprefix(root) for info in sorted(storage.walk(root), key=lambda info: info.path)] == [
        "/LATEST", "/snapshot/deep/snapshot-2", "/snapshot/snapshot-1",
    ]  # fmt: skip
    storage.delete_tree(root)
    assert not storage.exists(root)


def test_absence_by_its_number_is_absence(unsteady):
    storage, system, root = unsteady
    system.silent, system.error = "deep", type("ClientError", (OSError,), {})(errno.ENOENT, "gone")

    assert not storage.exists(f"{root}/snapshot/deep")
    assert [info.path for info in storage.walk(f"{root}/snapshot")] == [f"{root}/snapshot/snapshot-1"]
    with pytest.raises(NotFoundError, match="deep"):
        storage.stat(f"{root}/snapshot/deep")


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ConnectionResetError("reset by peer"), StorageError), (FileNotFoundError("gone"), NotFoundError)],
)
def test_what_a_stream_raises_is_our_error(unsteady, error: OSError, kind: type[Exception]):
    storage, system, root = unsteady

    with storage.open(f"{root}/LATEST") as file:
        assert (file.read(2), file.tell(), file.seek(0), file.readable(), file.seekable()) == (b"th", 2, 0, True, True)
        assert file.read() == b"theirs"
        system.silent, system.error = "LATEST", error
        with pytest.raises(kind, match=f"{root}/LATEST"):
            file.read(1)
