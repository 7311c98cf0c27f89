"""What only local disks can get wrong: races between processes, half files, leftovers."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paimon_engine import Catalog
from paimon_engine.actions.write import Write
from paimon_engine.errors import NotFoundError, StorageError
from paimon_engine.jobs import Job, TableRef, run
from paimon_engine.storage import LocalStorage
from paimon_engine.storage.create import publish_by_link, publish_by_rename

SNAPSHOTS = 20


def _race(directory: str, number: int, start, won) -> None:
    storage = LocalStorage()
    start.wait()
    for snapshot in range(SNAPSHOTS):
        if storage.create(f"{directory}/snapshot-{snapshot}", b"%d" % number * 1000):
            won.put(snapshot)


def test_of_two_processes_exactly_one_creates(tmp_path):
    context = multiprocessing.get_context("spawn")
    start, won = context.Barrier(2), context.Queue()
    racers = [context.Process(target=_race, args=(str(tmp_path), number, start, won)) for number in range(2)]
    for racer in racers:
        racer.start()

    winners = sorted(won.get(timeout=30) for _ in range(SNAPSHOTS))
    for racer in racers:
        racer.join(timeout=30)

    assert winners == list(range(SNAPSHOTS))
    assert won.empty()
    assert len(os.listdir(tmp_path)) == SNAPSHOTS


def _create_until_killed(directory: str, started) -> None:
    storage = LocalStorage()
    for number in itertools.count():
        storage.create(f"{directory}/snapshot-{number}", b"x" * 2_000_000)
        started.set()


def test_a_killed_process_leaves_only_complete_files(tmp_path):
    context = multiprocessing.get_context("spawn")
    for attempt in range(3):
        directory, started = tmp_path / str(attempt), context.Event()
        writer = context.Process(target=_create_until_killed, args=(str(directory), started))
        writer.start()
        assert started.wait(timeout=30)
        time.sleep(0.01 * attempt)

        writer.kill()
        writer.join(timeout=30)

        snapshots = [info for info in LocalStorage().list(str(directory)) if "/snapshot-" in info.path]
        assert snapshots
        assert {info.size_bytes for info in snapshots} == {2_000_000}


@pytest.mark.parametrize("publish", [publish_by_link, publish_by_rename])
def test_both_ways_to_publish_never_replace(tmp_path, publish):
    storage = LocalStorage(publish=publish)

    assert storage.create(str(tmp_path / "a"), b"first") is True
    assert storage.create(str(tmp_path / "a"), b"second") is False
    assert storage.read(str(tmp_path / "a")) == b"first"
    assert os.listdir(tmp_path) == ["a"]


def test_a_reader_never_sees_an_incomplete_file(tmp_path):
    storage, data = LocalStorage(), b"x" * 3_000_000
    seen: set[int] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            try:
                seen.add(len(storage.read(str(tmp_path / "hint"))))
            except NotFoundError:
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    storage.create(str(tmp_path / "hint"), data)
    for _ in range(10):
        storage.overwrite(str(tmp_path / "hint"), data)
    stop.set()
    watcher.join()

    assert seen <= {len(data)}


def test_a_failure_while_publishing_leaves_no_temporary_file(tmp_path):
    def broken(temporary: str, final: str) -> bool:
        raise OSError(errno.EIO, "disk on fire")

    with pytest.raises(StorageError, match="disk on fire"):
        LocalStorage(publish=broken).create(str(tmp_path / "a"), b"1")

    assert os.listdir(tmp_path) == []


def test_a_directory_in_the_way_is_a_storage_error(tmp_path):
    storage = LocalStorage()
    (tmp_path / "d").mkdir()

    for act in (storage.read, lambda path: storage.overwrite(path, b""), lambda path: storage.delete([path])):
        with pytest.raises(StorageError, match=str(tmp_path / "d")):
            act(str(tmp_path / "d"))
    assert storage.create(str(tmp_path / "d"), b"") is False


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_all_spellings_of_a_local_path_mean_the_same_file(tmp_path, prefix):
    (tmp_path / "a").write_bytes(b"1")

    assert LocalStorage().read(f"{prefix}{tmp_path}/a") == b"1"
    assert LocalStorage().list(f"{prefix}{tmp_path}")[0].path == f"{prefix}{tmp_path}/a"


@pytest.mark.parametrize("change", ["adds", "deletes"])
def test_a_directory_is_deleted_although_others_change_it_meanwhile(tmp_path, monkeypatch, change):
    storage = LocalStorage()
    for name in ("t/a/1", "t/a/2", "t/b/1"):
        storage.create(f"{tmp_path}/{name}", b"1")
    unlink, calls = os.unlink, itertools.count()

    def beside_others(path, **where):
        if next(calls) == 0:
            if change == "adds":
                for name in ("t/a/3", "t/b/3"):
                    storage.create(f"{tmp_path}/{name}", b"1")
            else:
                unlink(path, **where)
        unlink(path, **where)

    monkeypatch.setattr(os, "unlink", beside_others)
    storage.delete_tree(f"{tmp_path}/t")

    assert next(calls) > 1
    assert not storage.exists(f"{tmp_path}/t")
    assert os.listdir(tmp_path) == []


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, for whom no file is out of reach."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_what_may_not_be_looked_at_is_not_taken_for_absent(tmp_path):
    closed = tmp_path / "closed"
    (closed / "table").mkdir(parents=True)
    closed.chmod(0)

    with as_nobody(), pytest.raises(StorageError, match=f"{closed}/table: .*Permission denied"):
        LocalStorage().exists(str(closed / "table"))

    closed.chmod(0o700)


@pytest.mark.parametrize("name", ["absent", "file/below", "x" * 300])
def test_a_path_that_leads_nowhere_is_absent(tmp_path, name: str):
    (tmp_path / "file").write_bytes(b"")

    assert not LocalStorage().exists(str(tmp_path / name))


ON_A_LINK = {
    "read": lambda storage, path: storage.read(path),
    "open": lambda storage, path: storage.open(path),
    "stat": lambda storage, path: storage.stat(path),
    "exists": lambda storage, path: storage.exists(path),
    "list": lambda storage, path: storage.list(path),
    "walk": lambda storage, path: list(storage.walk(path)),
    "make_dir": lambda storage, path: storage.make_dir(path),
    "delete_tree": lambda storage, path: storage.delete_tree(path),
}
BELOW_A_LINK = {
    **ON_A_LINK,
    "create": lambda storage, path: storage.create(path, b""),
    "overwrite": lambda storage, path: storage.overwrite(path, b""),
    "writer": lambda storage, path: storage.writer(path),
    "delete": lambda storage, path: storage.delete([path]),
}


@pytest.mark.parametrize("target", ["unmounted/branch", "link"])
@pytest.mark.parametrize(
    ("act", "below"),
    [(act, "") for act in ON_A_LINK.values()] + [(act, "/a/b") for act in BELOW_A_LINK.values()],
    ids=[*ON_A_LINK, *(f"{name} below" for name in BELOW_A_LINK)],
)
def test_what_a_link_leads_to_is_not_taken_for_absent(tmp_path, target: str, act, below: str):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)

    with pytest.raises(StorageError, match=f"{link} is a link to {tmp_path / target}, .* mount it, or remove the link"):
        act(LocalStorage(), f"{link}{below}")

    assert os.listdir(tmp_path) == ["link"]


def test_a_listing_leaves_out_no_link_whose_target_is_missing(tmp_path):
    (tmp_path / "t" / "tag").mkdir(parents=True)
    (tmp_path / "t" / "tag" / "tag-a").symlink_to(tmp_path / "unmounted")

    for look in (lambda: LocalStorage().list(f"{tmp_path}/t/tag"), lambda: list(LocalStorage().walk(f"{tmp_path}/t"))):
        with pytest.raises(StorageError, match="tag-a is a link to"):
            look()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_listing_leaves_out_what_is_deleted_meanwhile(tmp_path, monkeypatch, kind: str):
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "stays").write_bytes(b"")
    gone = tmp_path / "d" / "gone"
    gone.symlink_to(tmp_path / "target") if kind == "link" else gone.write_bytes(b"")
    scandir = os.scandir

    class Meanwhile:
        """The listing of a directory from which another process deletes a file just after it was read."""

        def __init__(self, path: str) -> None:
            with scandir(path) as entries:
                self._entries = list(entries)
            gone.unlink()

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self._entries)

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self._entries)

        def __exit__(self, *_: object) -> None:
            return

    monkeypatch.setattr(os, "scandir", Meanwhile)

    assert [info.path for info in LocalStorage().list(f"{tmp_path}/d")] == [f"{tmp_path}/d/stays"]


def test_deleting_a_link_needs_no_target(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "unmounted")

    LocalStorage().delete([f"{tmp_path}/link"])

    assert os.listdir(tmp_path) == []


def test_links_that_lead_nowhere_beside_tables_and_sources_do_no_harm(tmp_path):
    catalog = Catalog(str(tmp_path / "lake"))
    table = catalog.create_table("db.t", schema={"k": "INT"})
    for link in ("lake/old.db", "lake/db.db/old", "latest.csv", "lake/db.db/t/schema/.#schema-0"):
        (tmp_path / link).symlink_to(tmp_path / "missing")
    (tmp_path / "a1.csv").write_text("k\n1\n")

    assert (catalog.list_databases(), catalog.list_tables("db")) == (["db"], ["t"])
    run(Job(TableRef(path=table.path), Write(str(tmp_path / "a*.csv"), format="csv"), "me"))
    assert catalog.table("db.t").to_arrow()["k"].to_pylist() == [1]
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []
