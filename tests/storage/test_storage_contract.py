"""The contract in the docstring of `Storage`, held by every implementation."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.errors import NotFoundError, StorageError

AWKWARD = "dt=2013-01-01 %2F+ü'/bucket-0/data [1]*.parquet"


def test_a_created_file_reads_back(place):
    created = place.storage.create(place.path(AWKWARD), b"abc")

    assert created is True
    assert place.storage.read(place.path(AWKWARD)) == b"abc"
    assert place.storage.exists(place.path(AWKWARD))


def test_create_leaves_an_existing_file_as_it_is(place):
    place.storage.create(place.path("snapshot-1"), b"first")

    assert place.storage.create(place.path("snapshot-1"), b"second") is False
    assert place.storage.read(place.path("snapshot-1")) == b"first"
    assert [info.path for info in place.storage.list(place.root)] == [place.path("snapshot-1")]


def test_create_of_an_empty_file(place):
    assert place.storage.create(place.path("_SUCCESS"), b"") is True
    assert place.storage.create(place.path("_SUCCESS"), b"more") is False
    assert place.storage.read(place.path("_SUCCESS")) == b""


def test_of_many_threads_exactly_one_creates(place):
    start = threading.Barrier(8)
    won: list[int] = []

    def race(number: int) -> None:
        for snapshot in range(5):
            start.wait()
            if place.storage.create(place.path(f"snapshot-{snapshot}"), b"%d" % number):
                won.append(snapshot)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(won) == [0, 1, 2, 3, 4]
    assert len(place.storage.list(place.root)) == 5


def test_overwrite_replaces(place):
    place.storage.overwrite(place.path("LATEST"), b"1")
    place.storage.overwrite(place.path("LATEST"), b"22")

    assert place.storage.read(place.path("LATEST")) == b"22"
    assert place.storage.stat(place.path("LATEST")).size_bytes == 2


def test_what_is_absent_is_not_found(place):
    path = place.path("no/such")

    assert not place.storage.exists(path)
    assert place.storage.list(path) == []
    assert list(place.storage.walk(path)) == []
    for ask in (place.storage.read, place.storage.open, place.storage.stat):
        with pytest.raises(NotFoundError, match="no/such"):
            ask(path)


def test_a_file_is_no_directory(place):
    place.storage.create(place.path("a"), b"1")

    assert place.storage.list(place.path("a")) == []
    with pytest.raises(NotFoundError):
        place.storage.read(place.path("a/b"))


def test_a_reader_seeks(place):
    place.storage.create(place.path("data"), b"0123456789")

    with place.storage.open(place.path("data")) as file:
        file.seek(-3, 2)
        tail = file.read()
        file.seek(2)

        assert (tail, file.read(3), file.tell()) == (b"789", b"234", 5)


def test_a_writer_makes_the_file(place):
    with place.storage.writer(place.path("deep/er/data")) as file:
        file.write(b"ab")
        file.write(memoryview(b"cd"))
        assert file.tell() == 4

    assert place.storage.read(place.path("deep/er/data")) == b"abcd"


def test_a_failed_writer_leaves_nothing(place):
    with pytest.raises(ValueError, match="bad row"), place.storage.writer(place.path("data")) as file:
        file.write(b"half")
        raise ValueError("bad row")

    assert not place.storage.exists(place.path("data"))
    assert list(place.storage.walk(place.root)) == []


def test_a_writer_that_was_closed_and_then_failed_leaves_nothing(place):
    with pytest.raises(ValueError, match="late"), place.storage.writer(place.path("data")) as file:
        file.write(b"all")
        file.close()
        raise ValueError("late")

    assert not place.storage.exists(place.path("data"))


def test_parquet_round_trip_through_writer_and_reader(place):
    table = pa.table({"k": range(1000), "v": ["x"] * 1000})

    with place.storage.writer(place.path("data.parquet")) as sink, pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table, row_group_size=300)
    with place.storage.open(place.path("data.parquet")) as source:
        read = pq.ParquetFile(source).read()

    assert read == table


def test_list_gives_children_sorted_with_the_prefix_of_the_call(place):
    for name in ("t/b", "t/a", "t/c/x", "t/c/y/z", "tt/other"):
        place.storage.create(place.path(name), name.encode())

    found = place.storage.list(place.path("t"))

    assert [(info.path, info.is_dir) for info in found] == [
        (place.path("t/a"), False),
        (place.path("t/b"), False),
        (place.path("t/c"), True),
    ]
    assert [info.size_bytes for info in found] == [3, 3, 0]
    assert found == place.storage.list(place.path("t/"))


def test_walk_gives_all_files_below(place):
    for name in ("t/a", "t/c/x", "t/c/y/z", "tt/other"):
        place.storage.create(place.path(name), b"1")

    assert sorted(info.path for info in place.storage.walk(place.path("t"))) == [
        place.path("t/a"),
        place.path("t/c/x"),
        place.path("t/c/y/z"),
    ]


def test_a_listing_sees_what_was_just_written_and_deleted(place):
    place.storage.create(place.path("d/1"), b"1")
    assert len(place.storage.list(place.path("d"))) == 1

    place.storage.create(place.path("d/2"), b"1")
    assert len(place.storage.list(place.path("d"))) == 2

    with place.storage.writer(place.path("d/3")) as file:
        file.write(b"1")
    assert len(place.storage.list(place.path("d"))) == 3

    place.storage.delete([place.path("d/1"), place.path("d/2")])
    assert [info.path for info in place.storage.list(place.path("d"))] == [place.path("d/3")]


def test_times_are_epoch_milliseconds(place):
    before_ms = time.time_ns() // 1_000_000
    place.storage.create(place.path("a"), b"1")

    info = place.storage.stat(place.path("a"))

    # File systems and stores round: to a kernel tick or to whole seconds.
    assert before_ms - 2000 <= info.modified_ms <= time.time_ns() // 1_000_000 + 2000
    assert info == place.storage.list(place.root)[0]


def test_stat_of_a_directory(place):
    place.storage.create(place.path("d/a"), b"1")

    assert place.storage.stat(place.path("d")).is_dir
    assert place.storage.exists(place.path("d"))


def test_delete_may_be_repeated(place):
    place.storage.create(place.path("a"), b"1")

    place.storage.delete([place.path("a"), place.path("b"), place.path("a")])
    place.storage.delete([place.path("a")])
    place.storage.delete([])

    assert not place.storage.exists(place.path("a"))


def test_delete_dir_removes_only_what_is_empty(place):
    place.storage.create(place.path("d/a"), b"1")

    place.storage.delete_dir(place.path("d"))
    assert place.storage.read(place.path("d/a")) == b"1"

    place.storage.delete([place.path("d/a")])
    place.storage.delete_dir(place.path("d"))
    place.storage.delete_dir(place.path("d"))
    assert not place.storage.exists(place.path("d"))


def test_delete_tree_removes_one_directory_with_all_below(place):
    for name in ("t/a", "t/c/y/z", "tt/other"):
        place.storage.create(place.path(name), b"1")

    place.storage.delete_tree(place.path("t"))
    place.storage.delete_tree(place.path("t"))

    assert [info.path for info in place.storage.walk(place.root)] == [place.path("tt/other")]


def test_a_writer_refuses_a_name_in_use(place):
    if place.root.startswith(("s3:", "local:")):
        pytest.skip("fsspec's file systems replace; names of data files are unique")
    place.storage.create(place.path("data"), b"old")

    with pytest.raises(StorageError, match="data"), place.storage.writer(place.path("data")) as file:
        file.write(b"new")

    assert place.storage.read(place.path("data")) == b"old"
