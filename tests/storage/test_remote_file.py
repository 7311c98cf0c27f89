"""Files of slow stores give the bytes that they have, in few requests, and fetch no byte twice for a Parquet reader."""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paimon_engine import CorruptTableError, NotFoundError, StorageError
from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_batches, read_matching
from paimon_engine.predicate import parse_where
from paimon_engine.storage.fsspec_storage import FsspecStorage
from paimon_engine.storage.remote_file import LOOK_BYTES, READ_AHEAD_BYTES, Range, RemoteFile
from tests.support.seeds import seeds


class Store:
    """A file whose requests are counted; `begins` and `ends` are of what was fetched."""

    def __init__(self, data: bytes, *, answers: int = 1 << 60, seconds: float = 0) -> None:
        self.data = data
        self.answers = answers
        self.seconds = seconds
        self.requests: list[Range] = []
        self.under_way = self.most_under_way = 0
        self._lock = threading.Lock()

    def read_range(self, begin: int, count: int) -> bytes:
        """At most `answers` bytes, since stores may answer with fewer than requested."""
        with self._lock:
            self.requests.append((begin, begin + count))
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        time.sleep(self.seconds)
        with self._lock:
            self.under_way -= 1
        return self.data[begin : begin + min(count, self.answers)]

    def file(self, **how: Any) -> RemoteFile:
        return RemoteFile("s3://b/f", len(self.data), self.read_range, **how)

    @property
    def fetched_bytes(self) -> int:
        return sum(end - begin for begin, end in self.requests)


def wait_for_requests(store: Store, count: int) -> None:
    """Threads make them: those of a busy machine may not have begun when the first piece is there."""
    until = time.monotonic() + 10
    while time.monotonic() < until and len(store.requests) < count:
        time.sleep(0.01)


def groups_of(random: Random, size: int) -> list[list[Range]]:
    """Ranges one behind the other, some with gaps between them, in groups of as many."""
    ends = sorted(random.sample(range(size), 2 * random.randint(1, 12)))
    ranges = list(zip(ends[::2], ends[1::2], strict=True)) if random.random() < 0.4 else list(pairwise(ends))
    width = random.randint(1, len(ranges))
    return [ranges[begin : begin + width] for begin in range(0, len(ranges), width)]


@pytest.mark.parametrize("from_threads", [False, True])
@pytest.mark.parametrize("seed", seeds(40))
def test_reads_give_the_bytes_of_the_file(seed: int, *, from_threads: bool):
    random = Random(seed)
    data = random.randbytes(random.choice([1, 50_000, 700_000]))
    store = Store(data, answers=random.choice([1 << 60, 10_000]))
    file = store.file(from_threads=from_threads)
    like = io.BytesIO(data)
    for _ in range(60):
        drawn = random.random()
        if drawn < 0.05 and len(data) > 30:
            file.expect(groups_of(random, len(data)), random.choice([1, 100_000, 1 << 25]))
        elif drawn < 0.1:
            random.choice([file.look, file.hold_end])()
        elif drawn < 0.5:
            at = random.randrange(len(data) + 5)
            assert file.seek(at) == like.seek(at)
        size = random.choice([0, 1, 1_000, 70_000, -1])
        assert file.read(size) == like.read(size)
        assert file.tell() == like.tell()


def test_all_columns_are_fetched_so_far_that_a_batch_ends_within():
    lengths = [4_000_000, 400_000, 800_000]
    begins = [0, 5_000_000, 6_000_000]
    store = Store(bytes(8_000_000))
    file = store.file()
    file.expect([[(begin, begin + length) for begin, length in zip(begins, lengths, strict=True)]], sum(lengths))

    file.seek(0)
    assert file.read(10) == bytes(10)

    def fetched(begin: int, length: int) -> int:
        return sum(last - first for first, last in store.requests if begin <= first < begin + length)

    # Two thirds of each column, whatever its size, and a third more of the one that is read.
    expected = [4_000_000, 2 * 400_000 // 3, 2 * 800_000 // 3]
    wait_for_requests(store, 7)
    found = [fetched(begin, length) for begin, length in zip(begins, lengths, strict=True)]
    assert found == pytest.approx(expected, rel=0.01)


def test_what_a_held_end_has_is_no_request():
    data = Random(2).randbytes(3 * LOOK_BYTES)
    store = Store(data)
    file = store.file()

    file.hold_end()

    file.seek(-8, io.SEEK_END)
    assert file.read() == data[-8:]
    file.seek(len(data) - LOOK_BYTES)
    assert file.read(1_000) == data[len(data) - LOOK_BYTES :][:1_000]
    assert store.requests == [(len(data) - LOOK_BYTES, len(data))]


def in_turns(file: RemoteFile, groups: list[list[Range]], step: int) -> list[bytes]:
    """What a reader of columns gets: of each range of a group some bytes, one range after another."""
    found = []
    for group in groups:
        read = [b""] * len(group)
        while any(len(part) < end - begin for part, (begin, end) in zip(read, group, strict=True)):
            for number, (begin, end) in enumerate(group):
                at = begin + len(read[number])
                file.seek(at)
                read[number] += file.read(min(step, end - at))
        found += read
    return found


@pytest.mark.parametrize("from_threads", [False, True])
@pytest.mark.parametrize("seed", seeds(20))
def test_ranges_that_are_expected_are_fetched_once(seed: int, *, from_threads: bool):
    random = Random(seed)
    data = random.randbytes(900_000)
    store, groups = Store(data), groups_of(random, len(data))
    file = store.file(from_threads=from_threads)
    file.expect(groups, random.choice([1, 500_000, 1 << 25]))

    found = in_turns(file, groups, random.choice([1_000, 65_536]))

    ranges = [one for group in groups for one in group]
    assert found == [data[begin:end] for begin, end in ranges]
    fetched = np.zeros(len(data), np.int8)
    for begin, end in store.requests:
        fetched[begin:end] += 1
    # No byte twice, all that were read, and of the others only those in small gaps.
    assert fetched.max() == 1
    assert all(fetched[begin:end].all() for begin, end in ranges)
    assert fetched.sum() <= sum(end - begin for begin, end in ranges) + 4_096 * len(ranges)


def test_two_readers_of_the_same_ranges_do_not_fetch_them_with_each_read():
    """Columns of INT96 are decoded twice, some rows by one reader, then the same ones by the other."""
    data = Random(3).randbytes(8 << 20)
    store = Store(data)
    file = store.file(from_threads=False)
    ranges = [(0, 3 << 20), (3 << 20, 8 << 20)]
    file.expect([ranges], 32 << 20)

    for at in range(0, 5 << 20, 1 << 19):
        for begin, end in ranges:
            for _ in range(2):
                for position in range(begin + at, min(begin + at + (1 << 19), end), 1 << 16):
                    file.seek(position)
                    size = min(1 << 16, end - position)
                    assert file.read(size) == data[position : position + size]

    assert store.fetched_bytes <= 3 * len(data)


def test_what_is_held_keeps_to_the_size_that_was_given():
    store = Store(bytes(40 << 20))
    file = store.file(from_threads=False)
    ranges = [
        [(number << 20, number + 2 << 20) for number in range(begin, begin + 8, 2)] for begin in (0, 8, 16, 24, 32)
    ]
    file.expect(ranges, 4 << 20)
    held = 0
    for _ in in_turns(file, ranges, 1 << 16):
        held = max(held, sum(len(lane._piece) for lane in file._lanes))

    assert max(end - begin for begin, end in store.requests) <= (4 << 20) // 8
    assert held <= 4 << 20


def test_the_first_pieces_of_a_group_are_under_way_together():
    store = Store(bytes(8 << 20), seconds=0.05)
    file = store.file()
    # Not neighbours, which would be joined.
    file.expect([[((number << 20) + 5_000, (number + 1) << 20) for number in range(8)]], 16 << 20)

    file.seek(5_000)
    file.read(10)

    wait_for_requests(store, 8)
    assert len(store.requests) == 8
    assert store.most_under_way >= 4


def test_a_group_that_fits_is_fetched_in_few_requests():
    """Of many columns each has few bytes."""
    store = Store(bytes(20 << 20))
    file = store.file()
    width = (10 << 20) // 500
    groups = [
        [(begin + number * width, begin + (number + 1) * width) for number in range(500)] for begin in (0, 10 << 20)
    ]
    file.expect(groups, 40 << 20)

    in_turns(file, groups, 5_000)

    assert len(store.requests) == 6
    assert store.fetched_bytes <= 20 << 20


def test_without_expectations_some_megabytes_are_fetched_at_once():
    store = Store(bytes(3 * READ_AHEAD_BYTES))
    file = store.file()

    while file.read(1 << 16):
        pass

    assert [end - begin for begin, end in store.requests] == [READ_AHEAD_BYTES] * 3


def test_a_look_fetches_little():
    store = Store(bytes(3 * READ_AHEAD_BYTES))
    file = store.file()
    file.look()

    file.read(100)
    file.seek(2 * READ_AHEAD_BYTES)
    file.read(100)

    assert [end - begin for begin, end in store.requests] == [LOOK_BYTES] * 2


def test_an_error_of_the_store_comes_where_its_bytes_are_read():
    def failing(begin: int, count: int) -> bytes:
        if begin >= 500_000:
            raise StorageError("the store is away")
        return bytes(count)

    file = RemoteFile("s3://b/f", 1_000_000, failing)
    file.expect([[(0, 400_000), (500_000, 1_000_000)]], 1)

    assert len(file.read(1_000)) == 1_000
    file.seek(500_000)
    with pytest.raises(StorageError, match="the store is away"):
        file.read(1)


def test_a_file_that_became_shorter_ends_the_read():
    store = Store(bytes(1_000_000))
    file = store.file()
    store.data = store.data[:600_000]
    file.expect([[(0, 500_000), (500_000, 1_000_000)]], 1)

    assert len(file.read()) == 600_000


# ── Parquet files ───────────────────────────────────────────────────────────────────────────────


class CountingFileSystem(MemoryFileSystem):
    """A file system of fsspec that counts the bytes of its answers."""

    cachable = False
    store: dict[str, Any] = {}  # noqa: RUF012 - as in fsspec
    fetched_bytes = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("s3://").strip("/")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data: bytes = super().cat_file(path, start=start, end=end)
        self.fetched_bytes += len(data)
        return data


ROWS = 400_000


def parquet_file() -> bytes:
    """Four row groups of eight columns, 13 MB; some with dictionaries."""
    random = np.random.default_rng(2)
    columns = {f"n{number}": random.integers(0, 1 << 40, ROWS) for number in range(4)}
    columns |= {f"s{number}": random.integers(0, 300, ROWS).astype(str) for number in range(4)}
    sink = io.BytesIO()
    pq.write_table(pa.table({"k": np.arange(ROWS), **columns}), sink, row_group_size=ROWS // 4, compression="zstd")
    return sink.getvalue()


@pytest.fixture(scope="module")
def parquet() -> bytes:
    return parquet_file()


@pytest.fixture
def remote(parquet: bytes) -> tuple[CountingFileSystem, FsspecStorage]:
    system = CountingFileSystem()
    system.pipe_file("/b/f.parquet", parquet)
    return system, FsspecStorage(system, "s3", decides_races=False)


@pytest.mark.parametrize("size_bytes", [1 << 18, 1 << 25])
@pytest.mark.parametrize("batch_rows", [10_000, 65_536])
def test_a_parquet_file_is_fetched_about_once(
    parquet: bytes, remote: tuple[CountingFileSystem, FsspecStorage], batch_rows: int, size_bytes: int
):
    system, storage = remote
    table = pq.read_table(io.BytesIO(parquet))
    with storage.open("s3://b/f.parquet", size_bytes=len(parquet)) as source:
        batches = read_batches(source, table.schema, path="f", limit=BatchLimit(batch_rows, size_bytes))
        assert pa.Table.from_batches(batches).equals(table)

    assert len(parquet) > 2 * READ_AHEAD_BYTES
    # What is looked at first, to find long texts in dictionaries, comes again.
    assert system.fetched_bytes < 1.35 * len(parquet)


def test_rows_that_match_are_found(parquet: bytes, remote: tuple[CountingFileSystem, FsspecStorage]):
    _, storage = remote
    schema = pq.read_schema(io.BytesIO(parquet))
    with storage.open("s3://b/f.parquet", size_bytes=len(parquet)) as source:
        where = parse_where("k >= 150000 and k < 150010")
        found = [rows for _, rows in read_matching(source, schema, where, path="f")]

    keys = pa.Table.from_batches(found)["k"].to_pylist()
    assert set(range(150_000, 150_010)) <= {*keys}


def test_several_threads_read_files_of_their_own(parquet: bytes, remote: tuple[CountingFileSystem, FsspecStorage]):
    _, storage = remote
    table = pq.read_table(io.BytesIO(parquet))

    def read(_: int) -> bool:
        with storage.open("s3://b/f.parquet", size_bytes=len(parquet)) as source:
            return pa.Table.from_batches(read_batches(source, table.schema, path="f")).equals(table)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(8)))


def test_a_file_that_is_gone_says_so(remote: tuple[CountingFileSystem, FsspecStorage], parquet: bytes):
    system, storage = remote
    with storage.open("s3://b/f.parquet", size_bytes=len(parquet)) as source:
        batches = read_batches(source, pq.read_schema(io.BytesIO(parquet)), path="f")
        next(batches)
        system.rm("/b/f.parquet")
        with pytest.raises(NotFoundError, match="f.parquet"):
            list(batches)


def test_damage_is_damage(remote: tuple[CountingFileSystem, FsspecStorage], parquet: bytes):
    system, storage = remote
    begin = len(parquet) // 2
    system.pipe_file("/b/f.parquet", parquet[:begin] + bytes(1 << 16) + parquet[begin + (1 << 16) :])
    with storage.open("s3://b/f.parquet", size_bytes=len(parquet)) as source:
        schema = pq.read_schema(io.BytesIO(parquet))
        with pytest.raises(CorruptTableError):
            list(read_batches(source, schema, path="f"))
