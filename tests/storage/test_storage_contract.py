"""The contract in the docstring of `Storage`, held by every implementation."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import NotFoundError, StorageError
from tests.support.large_files import check_large_file

AWKWARD = "dt=2013-01-01 %2F+ü'/bucket-0/data [1]*.parquet"


def test_a_created_file_reads_back(location):
    created = location.storage.create(location.path(AWKWARD), b"abc")

    assert created is True
    assert location.storage.read(location.path(AWKWARD)) == b"abc"
    assert location.storage.exists(location.path(AWKWARD))


def test_create_leaves_an_existing_file_as_it_is(location):
    location.storage.create(location.path("snapshot-1"), b"first")

    assert location.storage.create(location.path("snapshot-1"), b"second") is False
    assert location.storage.read(location.path("snapshot-1")) == b"first"
    assert [info.path for info in location.storage.list(location.root)] == [location.path("snapshot-1")]


def test_create_of_an_empty_file(location):
    assert location.storage.create(location.path("_SUCCESS"), b"") is True
    assert location.storage.create(location.path("_SUCCESS"), b"more") is False
    assert location.storage.read(location.path("_SUCCESS")) == b""


def test_of_many_threads_exactly_one_creates(location):
    start = threading.Barrier(8)
    won: list[int] = []

    def race(number: int) -> None:
        for snapshot in range(5):
            start.wait()
            if location.storage.create(location.path(f"snapshot-{snapshot}"), b"%d" % number):
                won.append(snapshot)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(won) == [0, 1, 2, 3, 4]
    assert len(location.storage.list(location.root)) == 5


def test_overwrite_replaces(location):
    location.storage.overwrite(location.path("LATEST"), b"1")
    location.storage.overwrite(location.path("LATEST"), b"22")

    assert location.storage.read(location.path("LATEST")) == b"22"
    assert location.storage.stat(location.path("LATEST")).size_bytes == 2


def test_what_is_absent_is_not_found(location):
    path = location.path("no/such")

    assert not location.storage.exists(path)
    assert location.storage.list(path) == []
    assert list(location.storage.walk(path)) == []
    for ask in (location.storage.read, location.storage.open, location.storage.stat):
        with pytest.raises(NotFoundError, match="no/such"):
            ask(path)


def test_a_file_is_no_directory(location):
    location.storage.create(location.path("a"), b"1")

    assert location.storage.list(location.path("a")) == []
    with pytest.raises(NotFoundError):
        location.storage.read(location.path("a/b"))


def test_a_reader_seeks(location):
    location.storage.create(location.path("data"), b"0123456789")

    with location.storage.open(location.path("data")) as file:
        file.seek(-3, 2)
        tail = file.read()
        file.seek(2)

        assert (tail, file.read(3), file.tell()) == (b"789", b"234", 5)


def test_a_large_parquet_file_reads_back(location):
    check_large_file(location.storage, location.path("data.parquet"))


def test_a_file_that_goes_while_it_is_read_is_not_found(location):
    path = location.path("data.parquet")
    with location.storage.writer(path) as file:
        file.write(bytes(12 << 20))

    with location.storage.open(path) as file:
        assert file.read(10) == bytes(10)
        location.storage.delete([path])
        file.seek(11 << 20)
        try:
            # Local disks, and some servers, keep a file that is open.
            assert file.read(10) == bytes(10)
        except NotFoundError as error:
            assert path in str(error)


def test_a_writer_makes_the_file(location):
    with location.storage.writer(location.path("deep/er/data")) as file:
        file.write(b"ab")
        file.write(memoryview(b"cd"))
        assert file.tell() == 4

    assert location.storage.read(location.path("deep/er/data")) == b"abcd"


def test_a_failed_writer_leaves_nothing(location):
    with pytest.raises(ValueError, match="bad row"), location.storage.writer(location.path("data")) as file:
        file.write(b"half")
        raise ValueError("bad row")

    assert not location.storage.exists(location.path("data"))
    assert list(location.storage.walk(location.root)) == []


def test_a_writer_that_was_closed_and_then_failed_leaves_nothing(location):
    with pytest.raises(ValueError, match="late"), location.storage.writer(location.path("data")) as file:
        file.write(b"all")
        file.close()
        raise ValueError("late")

    assert not location.storage.exists(location.path("data"))


def test_parquet_round_trip_through_writer_and_reader(location):
    table = pa.table({"k": range(1000), "v": ["x"] * 1000})

    with location.storage.writer(location.path("data.parquet")) as sink, pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table, row_group_size=300)
    with location.storage.open(location.path("data.parquet")) as source:
        read = pq.ParquetFile(source).read()

    assert read == table


def test_list_gives_children_sorted_with_the_prefix_of_the_call(location):
    for name in ("t/b", "t/a", "t/c/x", "t/c/y/z", "tt/other"):
        location.storage.create(location.path(name), name.encode())

    found = location.storage.list(location.path("t"))

    assert [(info.path, info.is_dir) for info in found] == [
        (location.path("t/a"), False),
        (location.path("t/b"), False),
        (location.path("t/c"), True),
    ]
    assert [info.size_bytes for info in found] == [3, 3, 0]
    assert found == location.storage.list(location.path("t/"))


def test_walk_gives_all_files_below(location):
    for name in ("t/a", "t/c/x", "t/c/y/z", "tt/other"):
        location.storage.create(location.path(name), b"1")

    assert sorted(info.path for info in location.storage.walk(location.path("t"))) == [
        location.path("t/a"),
        location.path("t/c/x"),
        location.path("t/c/y/z"),
    ]


def test_a_listing_sees_what_was_just_written_and_deleted(location):
    location.storage.create(location.path("d/1"), b"1")
    assert len(location.storage.list(location.path("d"))) == 1

    location.storage.create(location.path("d/2"), b"1")
    assert len(location.storage.list(location.path("d"))) == 2

    with location.storage.writer(location.path("d/3")) as file:
        file.write(b"1")
    assert len(location.storage.list(location.path("d"))) == 3

    location.storage.delete([location.path("d/1"), location.path("d/2")])
    assert [info.path for info in location.storage.list(location.path("d"))] == [location.path("d/3")]


def test_times_are_epoch_milliseconds(location):
    before_ms = time.time_ns() // 1_000_000
    location.storage.create(location.path("a"), b"1")

    info = location.storage.stat(location.path("a"))

    # File systems and stores round: to a kernel tick or to whole seconds.
    assert before_ms - 2000 <= info.modified_ms <= time.time_ns() // 1_000_000 + 2000
    assert info == location.storage.list(location.root)[0]


def test_stat_of_a_directory(location):
    location.storage.create(location.path("d/a"), b"1")

    assert location.storage.stat(location.path("d")).is_dir
    assert location.storage.exists(location.path("d"))


def test_delete_may_be_repeated(location):
    location.storage.create(location.path("a"), b"1")

    location.storage.delete([location.path("a"), location.path("b"), location.path("a")])
    location.storage.delete([location.path("a")])
    location.storage.delete([])

    assert not location.storage.exists(location.path("a"))


def test_delete_dir_removes_only_what_is_empty(location):
    location.storage.create(location.path("d/a"), b"1")

    location.storage.delete_dir(location.path("d"))
    assert location.storage.read(location.path("d/a")) == b"1"

    location.storage.delete([location.path("d/a")])
    location.storage.delete_dir(location.path("d"))
    location.storage.delete_dir(location.path("d"))
    assert not location.storage.exists(location.path("d"))


def test_delete_tree_removes_one_directory_with_all_below(location):
    for name in ("t/a", "t/c/y/z", "tt/other"):
        location.storage.create(location.path(name), b"1")

    location.storage.delete_tree(location.path("t"))
    location.storage.delete_tree(location.path("t"))

    assert [info.path for info in location.storage.walk(location.root)] == [location.path("tt/other")]


def test_a_writer_refuses_a_name_in_use(location):
    if location.root.startswith(("s3:", "local:", "oss:", "cosn:")):
        pytest.skip("object stores and fsspec's file systems replace; names of data files are unique")
    location.storage.create(location.path("data"), b"old")

    with pytest.raises(StorageError, match="data"), location.storage.writer(location.path("data")) as file:
        file.write(b"new")

    assert location.storage.read(location.path("data")) == b"old"
